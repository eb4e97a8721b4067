"""A restored table goes on from the rows it then has."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace

from cdk.base.errors import StateConflict, StateError
from cdk.base.values import Json
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin
from cdk.lake.delta.failed_commit import repeat_if_changed
from cdk.lake.storage.folder import LocalFolder
from tests.spark.users_table import ID, ids, opened, saved, state, wrote


def test_a_restored_table_has_the_state_of_its_rows(root: Path) -> None:
    table = opened(root)
    versions = []
    for i in range(4):
        table.commit(saved({"page": i}), wrote(root, i))
        versions.append(table.version)
    DeltaTable(str(root)).restore(versions[1])

    assert (ids(root), state(root)) == ([0, 1], {"page": 1})
    again = opened(root)
    again.commit(saved({"page": 2}), wrote(root, 20))
    assert (ids(root), state(root)) == ([0, 1, 20], {"page": 2})


def test_a_run_whose_rows_somebody_takes_away_commits_nothing_more(root: Path) -> None:
    table = opened(root)
    table.commit(saved({"page": 0}), wrote(root, 0))
    version = table.version
    table.commit(saved({"page": 1}), wrote(root, 1))
    DeltaTable(str(root)).restore(version)

    for _ in range(2):
        with pytest.raises(StateError, match="restored to an older version while this run was reading"):
            repeat_if_changed(table, lambda: table.commit(saved({"page": 2}), wrote(root, 2)))

    assert (ids(root), state(root)) == ([0], {"page": 0})


def test_a_run_beside_a_restore_to_a_version_that_left_the_log_commits_nothing_more(root: Path) -> None:
    table = opened(root)
    table.commit(saved({"page": 0}), wrote(root, 0))
    version = table.version
    table.commit(saved({"page": 1}), wrote(root, 1))
    DeltaTable(str(root)).restore(version)
    clean_log(root, version)

    with pytest.raises(StateError, match=f"the log no longer has version {version}, to which the table was restored"):
        repeat_if_changed(table, lambda: table.commit(saved({"page": 2}), wrote(root, 2)))

    assert ids(root) == [0]


def test_a_run_goes_on_beside_a_restore_that_takes_none_of_its_rows(root: Path) -> None:
    table = opened(root)
    table.commit(saved({"page": 0}), wrote(root, 0))
    version = table.version
    write_deltalake(str(root), pa.table({"id": [7]}), mode="append")
    DeltaTable(str(root)).restore(version)

    repeat_if_changed(table, lambda: table.commit(saved({"page": 1}), wrote(root, 1)))

    assert (ids(root), state(root)) == ([0, 1], {"page": 1})


def test_a_restore_can_be_restored_and_undone(root: Path) -> None:
    table = opened(root)
    versions = []
    for i in range(4):
        table.commit(saved({"page": i}), wrote(root, i))
        versions.append(table.version)
    for back, page in [(versions[2], 2), (versions[0], 0), (versions[3], 3), (versions[3] + 1, 2)]:
        DeltaTable(str(root)).restore(back)
        assert (ids(root), state(root)) == (list(range(page + 1)), {"page": page})


def test_a_restore_can_be_undone_after_more_commits(root: Path) -> None:
    table = opened(root)
    versions = []
    for i in range(4):
        table.commit(saved({"page": i}), wrote(root, i))
        versions.append(table.version)
    DeltaTable(str(root)).restore(versions[0])
    opened(root).commit(saved({"page": 10}), wrote(root, 10))
    opened(root).commit(saved({"page": 11}), wrote(root, 11))

    for page in (3, 2, 1, 0):
        DeltaTable(str(root)).restore(versions[page])
        assert (ids(root), state(root)) == (list(range(page + 1)), {"page": page})


def test_a_table_restored_to_before_its_first_commit_has_no_state(root: Path) -> None:
    table = opened(root)
    empty = table.version
    table.commit(saved({"page": 1}), wrote(root, 1))
    DeltaTable(str(root)).restore(empty)

    assert (ids(root), state(root)) == ([], None)


def test_a_run_that_began_before_a_restore_is_fenced_by_the_run_after_it(root: Path) -> None:
    table = opened(root)
    table.commit(saved(1), wrote(root, 1))
    version = table.version
    table.commit(saved(2), wrote(root, 2))
    DeltaTable(str(root)).restore(version)
    opened(root).commit(saved(3), wrote(root, 3))

    with pytest.raises(StateConflict):
        table.commit(saved(4), wrote(root, 4))

    assert (ids(root), state(root)) == ([1, 3], 3)


def replaced(root: Path) -> str:
    """Another program puts an empty table in the place of this one; its id."""
    DeltaTable.create(str(root), ID, mode="overwrite")
    return str(DeltaTable(str(root)).metadata().id)


def test_the_state_of_a_table_that_was_replaced_is_refused_until_a_person_decides(root: Path) -> None:
    table = opened(root)
    table.commit(saved({"page": 1}), wrote(root, 0, 1))
    one, admin = StreamLocation("users", LocalFolder(root)), Admin(LocalFolder(root.parent), "shop")
    version, expected = table.version, table.table_id
    found = replaced(root)
    neighbour_appends(root)

    with pytest.raises(StateError, match=f"found the id {found} .* expected {expected}.*spark-cdk state reset"):
        opened(root)
    assert ids(root) == [100]

    DeltaTable(str(root)).restore(version)
    assert (state(root), ids(root)) == ({"page": 1}, [0, 1])

    replaced(root)
    admin.rollback(one, 1)
    assert (state(root), ids(root)) == ({"page": 1}, [])

    found = replaced(root)
    admin.reset(one)
    opened(root).commit(saved({"page": 2}), wrote(root, 0, 1, 2))
    assert (state(root), ids(root), opened(root).table_id) == ({"page": 2}, [0, 1, 2], found)

    DeltaTable(str(root)).restore(version)
    assert (state(root), ids(root)) == ({"page": 1}, [0, 1])


def test_a_replaced_table_is_refused_though_the_log_was_cleaned_up_since(root: Path) -> None:
    opened(root).commit(saved(1), wrote(root, 0))
    replaced(root)
    neighbour_sets_a_property(root)
    clean_log(root, DeltaTable(str(root)).version() - 1)

    with pytest.raises(StateError, match="belongs to another table"):
        opened(root)


def test_a_run_whose_table_somebody_replaces_commits_nothing_more(root: Path) -> None:
    table = opened(root)
    table.commit(saved({"page": 0}), wrote(root, 0))
    replaced(root)

    for _ in range(2):
        with pytest.raises(StateError, match="belongs to another table"):
            repeat_if_changed(table, lambda: table.commit(saved({"page": 1}), wrote(root, 1)))

    assert ids(root) == []


def test_a_table_is_the_same_whatever_others_make_of_its_columns_and_rows(root: Path) -> None:
    opened(root).commit(saved(1), wrote(root, 0))
    write_deltalake(str(root), pa.table({"id": [1], "a": ["x"]}), mode="append", schema_mode="merge")
    assert state(root) == 1
    write_deltalake(str(root), pa.table({"id": [2], "b": ["x"]}), mode="overwrite", schema_mode="overwrite")
    assert state(root) == 1
    neighbour_sets_a_property(root)
    DeltaTable(str(root)).alter.add_constraint({"positive": "id >= 0"})
    table = opened(root)
    table.commit(saved(2), wrote(root, 3), overwrite=True, schema=pa.schema([*ID, ("c", pa.string())]))

    assert (state(root), ids(root)) == (2, [3])


@pytest.mark.parametrize(("parameters", "why"), [({}, "restore it to a version"), ({"version": "0"}, "no longer has")])
def test_a_restore_that_does_not_tell_its_state_is_an_error(root: Path, parameters: Json, why: str) -> None:
    table = opened(root)
    table.commit(saved(1), wrote(root, 1))
    log = root / "_delta_log"
    info = {"commitInfo": {"operation": "RESTORE", "operationParameters": parameters}}
    (log / f"{table.version + 1:020}.json").write_bytes(orjson.dumps(info))
    DeltaTable(str(root)).create_checkpoint()
    (log / f"{0:020}.json").unlink()

    with pytest.raises(StateError, match=rf"{why}.*`spark-cdk state rollback`"):
        opened(root)


def clean_log(root: Path, upto: int) -> None:
    """Leave of the log what comes after a version, and a checkpoint."""
    DeltaTable(str(root)).create_checkpoint()
    for version in range(upto + 1):
        (root / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)


def neighbour_appends(root: Path) -> None:
    write_deltalake(str(root), pa.table({"id": pa.array([100])}), mode="append")


def neighbour_sets_a_property(root: Path) -> None:
    DeltaTable(str(root)).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})


def two_commits(root: Path) -> int:
    """Rows 0, 1, 2 with state 1 and rows 3, 4, 5 with state 2; the version of the first."""
    table = opened(root)
    table.commit(saved({"page": 1}, records=3), wrote(root, 0, 1, 2))
    first = table.version
    table.commit(saved({"page": 2}, records=6), wrote(root, 3, 4, 5))
    return first


@pytest.mark.parametrize("neighbour", [neighbour_appends, neighbour_sets_a_property])
@pytest.mark.parametrize("more", [0, 1])
def test_a_restore_that_left_the_log_is_noticed_by_the_rows(
    root: Path, neighbour: Callable[[Path], None], more: int
) -> None:
    first = two_commits(root)
    DeltaTable(str(root)).restore(first)
    neighbour(root)
    last = DeltaTable(str(root)).version()
    for _ in range(more):
        neighbour_sets_a_property(root)
    clean_log(root, last - 1)

    with pytest.raises(StateError, match=r"with it, the table had 6 rows, and version \d+, .* has [34] rows") as caught:
        opened(root)
    assert "spark-cdk state rollback" in str(caught.value)

    # A person says which state the rows have; the sync goes on from there.
    one = StreamLocation("users", LocalFolder(root))
    Admin(LocalFolder(root.parent), "shop").rollback(one, 1)
    assert state(root) == {"page": 1}
    opened(root).commit(saved({"page": 2}), wrote(root, 3, 4, 5))
    assert [i for i in ids(root) if i < 100] == [0, 1, 2, 3, 4, 5]


def test_a_restore_to_as_many_rows_is_noticed_by_the_age_of_the_files(root: Path) -> None:
    table = opened(root)
    early, late = wrote(root, 0, 1, 2), wrote(root, 3, 4, 5)
    table.commit(saved({"page": 1}, records=3), [replace(file, modified=file.modified - 86_400_000) for file in early])
    first = table.version
    table.commit(saved({"page": 2}, records=3), late, overwrite=True)
    DeltaTable(str(root)).restore(first)
    neighbour_sets_a_property(root)
    clean_log(root, DeltaTable(str(root)).version() - 1)

    with pytest.raises(StateError, match=r"with it, the table had 3 rows, and version \d+, .* has 3 rows and no file"):
        opened(root)


def test_a_table_whose_newest_rows_were_deleted_with_their_files_was_not_restored(root: Path) -> None:
    table = opened(root)
    early, late = wrote(root, 0, 1, 2), wrote(root, 3, 4, 5)
    table.commit(saved({"page": 1}), [replace(file, modified=file.modified - 86_400_000) for file in early])
    table.commit(saved({"page": 2}), late)
    table.commit(saved({"page": 3}), remove=[file for file in table.files() if file.path == late[0].path])
    neighbour_sets_a_property(root)
    clean_log(root, DeltaTable(str(root)).version() - 1)

    assert state(root) == {"page": 3}


def test_the_newest_state_can_be_kept_though_the_rows_contradict_it(root: Path) -> None:
    first = two_commits(root)
    DeltaTable(str(root)).restore(first)
    neighbour_appends(root)
    clean_log(root, DeltaTable(str(root)).version() - 1)

    Admin(LocalFolder(root.parent), "shop").rollback(StreamLocation("users", LocalFolder(root)), 2)

    assert state(root) == {"page": 2}


@pytest.mark.parametrize("upto", [0, 2, 3, 4])
def test_a_log_that_was_cleaned_up_changes_nothing_where_nobody_restored(root: Path, upto: int) -> None:
    two_commits(root)
    DeltaTable(str(root)).optimize.compact()
    neighbour_sets_a_property(root)
    neighbour_sets_a_property(root)
    clean_log(root, upto)

    assert state(root) == {"page": 2}


def test_rows_that_others_add_and_delete_beside_ours_are_no_restore(root: Path) -> None:
    two_commits(root)
    neighbour_appends(root)
    DeltaTable(str(root)).delete("id = 0")
    neighbour_sets_a_property(root)
    clean_log(root, DeltaTable(str(root)).version() - 1)

    # The file of the newest commit is there.
    assert state(root) == {"page": 2}


def test_rows_that_another_pipeline_adds_and_joins_with_ours_are_no_restore(root: Path) -> None:
    two_commits(root)
    other = opened(root, pipeline="other")
    other.commit(saved({"page": 9}), wrote(root, 50, 51))
    DeltaTable(str(root)).optimize.compact()
    clean_log(root, DeltaTable(str(root)).version() - 1)

    assert state(root) == {"page": 2}


def optimized_twice(root: Path) -> int:
    """Two jobs join the same files at once; the version of the commit after which their rows are there twice."""
    one, other = DeltaTable(str(root)), DeltaTable(str(root))
    one.optimize.compact()
    other.optimize.compact()
    return int(DeltaTable(str(root)).version())


def test_files_that_two_others_have_joined_at_once_are_refused_with_both_counts(root: Path) -> None:
    opened(root).commit(saved(1), [*wrote(root, 1), *wrote(root, 2), *wrote(root, 3)])
    version = optimized_twice(root)
    write_deltalake(str(root), pa.table({"id": [9]}), mode="append", schema_mode="merge")
    assert ids(root) == [1, 1, 2, 2, 3, 3, 9]

    with pytest.raises(StateError, match=f"version {version}, OPTIMIZE, .* had 3 rows before it and 6 after") as caught:
        opened(root).check_row_moves()
    assert f"version {version - 1}, DeltaTable(path).restore({version - 1})" in str(caught.value)
    assert caught.value.path == str(root)

    DeltaTable(str(root)).restore(version - 1)
    again = opened(root)
    again.check_row_moves()
    again.commit(saved(2), wrote(root, 4))
    assert (ids(root), state(root)) == ([1, 2, 3, 4], 2)


def test_files_that_others_have_joined_one_after_the_other_are_not_refused(root: Path) -> None:
    table = opened(root)
    table.commit(saved(1), [*wrote(root, 1), *wrote(root, 2)])
    DeltaTable(str(root)).optimize.compact()
    write_deltalake(str(root), pa.table({"id": [9]}), mode="append", schema_mode="merge")
    DeltaTable(str(root)).optimize.compact()

    opened(root).check_row_moves()

    assert ids(root) == [1, 2, 9]


def test_rows_that_are_there_twice_are_known_until_the_state_is_set_again(root: Path) -> None:
    table = opened(root)
    table.commit(saved(1), [*wrote(root, 1), *wrote(root, 2)])
    optimized_twice(root)

    opened(root).commit(saved(2))

    opened(root).check_row_moves()
