"""Rows and state move together, or not at all."""

from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdk.base.errors import StateConflict, StateError
from cdk.lake.delta.pinned_table import TableChanged
from cdk.lake.parquet.writer import DataFile
from tests.spark.users_table import blobs, ids, opened, saved, state, wrote

WIDER = pa.schema([("id", pa.int64()), ("name", pa.string())])


def test_a_new_table_is_empty_and_has_no_state(root: Path) -> None:
    table = opened(root)

    assert table.saved is None
    assert ids(root) == []
    assert [field.name for field in DeltaTable(str(root)).schema().fields] == ["id"]


def test_rows_and_state_of_a_commit_are_found_by_the_next_run(root: Path) -> None:
    table = opened(root)
    first = saved({"page": 1}, sync="s1", generation=3, records=2)
    second = saved({"page": 2}, sync="s1", generation=3, complete=True, records=3, pending=(DataFile("x", 1, 2, 3),))
    table.commit(first, wrote(root, 1, 2))
    table.commit(second, wrote(root, 3))

    again = opened(root)
    assert table.saved == second
    assert again.saved == second
    assert ids(root) == [1, 2, 3]


def test_a_commit_is_one_version_and_people_see_its_state(root: Path) -> None:
    table = opened(root)
    before = table.version
    table.commit(saved({"page": 1}), [*wrote(root, 1), *wrote(root, 2)])

    assert table.version == before + 1
    assert DeltaTable(str(root)).history(1)[0]["spark-cdk.state"] == '{"page":1}'


def test_a_large_state_is_cut_for_people_and_kept_whole(root: Path) -> None:
    large = {"key": "x" * 10_000}
    opened(root).commit(saved(large))

    assert len(DeltaTable(str(root)).history(1)[0]["spark-cdk.state"]) < 5_000
    assert state(root) == large


def test_a_state_may_move_without_rows(root: Path) -> None:
    table = opened(root)
    table.commit(saved({"page": 1}), wrote(root, 1))
    table.commit(saved({"page": 2}))

    assert state(root) == {"page": 2}
    assert ids(root) == [1]


def test_an_overwrite_replaces_the_rows(root: Path) -> None:
    table = opened(root)
    table.commit(saved(1), wrote(root, 1, 2))
    table.commit(saved(2), wrote(root, 3), overwrite=True)
    replaced = ids(root)
    table.commit(saved(3), overwrite=True)

    assert replaced == [3]
    assert ids(root) == []
    assert state(root) == 3


def test_of_two_runs_from_one_version_the_second_is_refused_and_adds_nothing(root: Path) -> None:
    opened(root).commit(saved({"page": 1}), wrote(root, 1))
    first, second = opened(root), opened(root)
    first.commit(saved({"page": 2}), wrote(root, 2))

    with pytest.raises(StateConflict, match="another run moved this stream's state") as caught:
        second.commit(saved({"page": 9}), wrote(root, 9))

    assert (caught.value.path, caught.value.stream) == (str(root), "users")
    assert ids(root) == [1, 2]
    assert state(root) == {"page": 2}
    first.commit(saved({"page": 3}), wrote(root, 3))
    assert ids(root) == [1, 2, 3]


def test_of_two_first_runs_the_second_is_refused(root: Path) -> None:
    first, second = opened(root), opened(root)
    first.commit(saved(1), wrote(root, 1))

    with pytest.raises(StateConflict):
        second.commit(saved(2), wrote(root, 2))

    assert (ids(root), state(root)) == ([1], 1)


def test_a_refused_run_stays_refused(root: Path) -> None:
    first, second = opened(root), opened(root)
    first.commit(saved(1), wrote(root, 1))
    file = wrote(root, 2)
    for _ in range(2):
        with pytest.raises(StateError):
            second.commit(saved(2), file)

    assert (ids(root), state(root)) == ([1], 1)


def test_an_overwrite_of_a_stale_run_is_refused_too(root: Path) -> None:
    first, second = opened(root), opened(root)
    first.commit(saved(1), wrote(root, 1))

    with pytest.raises(StateConflict):
        second.commit(saved(2), wrote(root, 2), overwrite=True)

    assert ids(root) == [1]


def test_neighbours_do_not_disturb_a_run(root: Path) -> None:
    table = opened(root)
    table.commit(saved(1), wrote(root, 1))
    table.commit(saved(2), wrote(root, 2))
    other = opened(root, pipeline="other")
    DeltaTable(str(root)).optimize.compact()
    table.commit(saved(3), wrote(root, 3))
    write_deltalake(str(root), pa.table({"id": [4]}), mode="append")
    table.commit(saved(4), wrote(root, 5))
    other.commit(saved("other"), wrote(root, 6))

    assert ids(root) == [1, 2, 3, 4, 5, 6]
    assert (state(root), state(root, pipeline="other")) == (4, "other")


def test_the_state_outlives_the_log_and_a_vacuum(root: Path) -> None:
    opened(root)
    DeltaTable(str(root)).alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    table = opened(root)
    for i in range(4):
        table.commit(saved({"page": i}), wrote(root, i))
    fresh = DeltaTable(str(root))
    fresh.create_checkpoint()
    fresh.cleanup_metadata()
    fresh.vacuum(retention_hours=0, full=True, enforce_retention_duration=False, dry_run=False)

    assert len(list((root / "_delta_log").glob("*.json"))) <= 1
    assert state(root) == {"page": 3}
    opened(root).commit(saved({"page": 4}), wrote(root, 4))
    assert ids(root) == [0, 1, 2, 3, 4]


def test_a_state_that_was_written_and_never_committed_does_not_count_and_is_removed_later(root: Path) -> None:
    table = opened(root)
    table.commit(saved(1), wrote(root, 1))
    (real,) = blobs(root)
    crashed = real.with_stem(str(int(real.stem) + 1))
    newer = real.with_stem(str(int(real.stem) + (5 << 20)))
    for path in (crashed, crashed.with_suffix(".tmp"), newer):
        path.write_bytes(real.read_bytes().replace(b'"state":1', b'"state":9'))

    assert state(root) == 1
    opened(root).commit(saved(2), wrote(root, 2))

    assert state(root) == 2
    assert crashed not in blobs(root)
    assert crashed.with_suffix(".tmp") not in blobs(root)
    # It may belong to a run that is about to commit it.
    assert newer in blobs(root)


def test_a_run_that_was_overtaken_adds_no_commit_after_a_column(root: Path) -> None:
    late, quick = opened(root), opened(root)
    quick.commit(saved(1), wrote(root, 1))

    with pytest.raises(StateConflict):
        late.add([WIDER.field("name")])
    with pytest.raises(StateConflict):
        late.commit(saved(2), wrote(root, 2))

    assert (ids(root), state(root)) == ([1], 1)


def test_files_leave_the_table_in_the_commit_that_adds_their_successors(root: Path) -> None:
    table = opened(root)
    table.commit(saved(1), [*wrote(root, 1), *wrote(root, 2)])
    gone = table.files("id")[0]

    table.commit(saved(2), wrote(root, 3), remove=[gone])

    assert len(ids(root)) == 2
    assert 3 in ids(root)
    assert [file.path for file in opened(root).files("id")] != [gone.path]


def test_a_file_that_was_compacted_meanwhile_can_be_looked_for_again(root: Path) -> None:
    table = opened(root)
    table.commit(saved(1), [*wrote(root, 1), *wrote(root, 2)])
    gone = table.files("id")[0]
    DeltaTable(str(root)).optimize.compact()

    with pytest.raises(TableChanged, match="has changed the table"):
        table.commit(saved(2), wrote(root, 3), remove=[gone])
    assert (sorted(ids(root)), state(root)) == ([1, 2], 1)

    (whole,) = table.files("id")
    table.commit(saved(2), wrote(root, 3), remove=[whole])
    assert (ids(root), state(root)) == ([3], 2)


def test_the_states_of_the_last_twenty_commits_are_kept(root: Path) -> None:
    table = opened(root)
    for i in range(25):
        table.commit(saved(i))

    kept = [orjson.loads(path.read_bytes())["state"] for path in blobs(root)]
    assert sorted(kept) == list(range(5, 25))


def test_columns_are_added_and_older_rows_have_nothing_there(root: Path) -> None:
    opened(root).commit(saved(1), wrote(root, 1))
    table = opened(root)
    table.add([WIDER.field("name")])
    table.commit(saved(2), wrote(root, 2, schema=WIDER))

    assert [field.name for field in DeltaTable(str(root)).schema().fields] == ["id", "name"]
    assert ids(root) == [1, 2]
    # A schema that lost the column again leaves it in the table.
    opened(root).commit(saved(3), wrote(root, 3))
    assert [field.name for field in DeltaTable(str(root)).schema().fields] == ["id", "name"]
    assert state(root) == 3
