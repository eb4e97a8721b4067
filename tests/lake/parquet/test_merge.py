import random
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdk.base.task_map import run_inline
from cdk.lake.arrow.columns import DELETED_AT, TIMESTAMP_UTC
from cdk.lake.arrow.record_batches import RecordBatchBuilder
from cdk.lake.parquet.dedup import CursorColumn, Identity
from cdk.lake.parquet.merge import Merged, TableMerge
from cdk.lake.parquet.table_files import TableFile
from cdk.lake.parquet.table_rows import TableLayout
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import LocalFolder
from cdk.streams.order import CountOrder

COLUMNS: dict[str, Any] = {"id": pa.int64(), "v": pa.int64(), "name": pa.string()}
V = CursorColumn("v", "v", CountOrder())
BY_ID = Identity(("id",), V)


class Table:
    """A folder of Parquet files that stands for a table: what a commit would name."""

    def __init__(
        self,
        folder: Path,
        identity: Identity = BY_ID,
        columns: dict[str, Any] | None = None,
        partition_by: tuple[str, ...] = (),
    ) -> None:
        self.place, self.columns = LocalFolder(folder), columns or COLUMNS
        self.rows = RecordBatchBuilder(self.columns, generation=1)
        bounded = tuple(name for name in identity.keys if name not in partition_by)
        self.merge = TableMerge(TableLayout(self.place, self.rows.schema, bounded, partition_by), identity, run_inline)
        self.files: list[TableFile] = []

    def stage(self, records: Sequence[dict[str, Any]]) -> list[DataFile]:
        return self.merge.table.write([self.rows.batch(records)])

    def take(self, *pages: Sequence[dict[str, Any]]) -> Merged:
        merged = self.merge([file for page in pages for file in self.stage(page)], self.files)
        kept = [file for file in self.files if file not in merged.remove]
        self.files = [*kept, *(self.told(file) for file in merged.add)]
        return merged

    def told(self, file: DataFile) -> TableFile:
        """What the log says of a file."""
        stats, key = orjson.loads(file.stats), self.merge.identity.keys[0]
        low, high = (self.bound(stats[name].get(key)) for name in ("minValues", "maxValues"))
        nulls = sum(stats["nullCount"].get(name, 0) for name in self.merge.identity.keys)
        return TableFile(file.path, file.rows, low, high, file.partition, nulls=nulls)

    def bound(self, value: Any) -> Any:
        days = self.rows.schema.field(self.merge.identity.keys[0]).type == pa.date32()
        return date.fromisoformat(value) if days and value is not None else value

    def contents(self) -> list[dict[str, Any]]:
        tables = [pq.read_table(self.place.path / file.path, columns=list(self.columns)) for file in self.files]
        for table, file in zip(tables, self.files, strict=True):
            assert all({str(v) for v in table[name].to_pylist()} == {text} for name, text in file.partition.items())
        return sorted(
            (row for table in tables for row in table.to_pylist()), key=lambda row: (row["id"] or 0, row["v"])
        )


def row(id: int | None, v: int, name: str = "") -> dict[str, Any]:
    return {"id": id, "v": v, "name": name}


def test_rows_that_are_new_are_added_without_being_written_again(tmp_path: Path) -> None:
    table = Table(tmp_path)

    first = table.take([row(1, 1), row(2, 1)])
    second = table.take([row(3, 1)])

    assert (first.added, first.replaced, first.remove, first.orphans) == (2, 0, (), ())
    assert (second.added, second.compared, second.remove) == (1, 0, ())
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    assert table.contents() == [row(1, 1), row(2, 1), row(3, 1)]


def test_only_the_files_that_are_touched_are_written_anew(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.take([row(n, 1) for n in range(10)])
    table.take([row(n, 1) for n in range(10, 20)])
    table.take([row(n, 1) for n in range(15, 30, 20)])
    untouched = table.files[0]

    merged = table.take([row(12, 2, "new"), row(99, 1)])

    assert untouched in table.files
    assert (merged.added, merged.replaced, merged.compared, len(merged.remove)) == (2, 1, 1, 1)
    assert [r for r in table.contents() if r["id"] in (12, 99)] == [row(12, 2, "new"), row(99, 1)]
    assert len(table.contents()) == 21


def test_a_file_names_the_id_of_its_last_row_if_all_its_rows_were_just_read(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.take([row(1, 1), row(2, 1)])

    rewritten, read = table.take([row(2, 2), row(3, 1), row(3, 0)]).add

    assert rewritten.last_id == ""
    assert read.last_id == max(pq.read_table(tmp_path / read.path)["_airbyte_raw_id"].to_pylist())


def test_a_row_older_than_the_tables_is_left_out(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.take([row(1, 5), row(2, 5)])

    merged = table.take([row(1, 4, "old"), row(2, 5, "same age, read later")])

    assert (merged.added, merged.replaced, merged.stale) == (1, 1, 1)
    assert table.contents() == [row(1, 5), row(2, 5, "same age, read later")]
    assert len(merged.orphans) == 1


def test_repeats_in_what_was_read_become_one_row(tmp_path: Path) -> None:
    table = Table(tmp_path)

    merged = table.take([row(1, 1), row(1, 3, "last"), row(1, 2)], [row(1, 2), row(2, 0)])

    assert table.contents() == [row(1, 3, "last"), row(2, 0)]
    assert merged.added == 2


def test_deletes_are_soft_unless_asked_for(tmp_path: Path) -> None:
    columns = {**COLUMNS, DELETED_AT: TIMESTAMP_UTC}
    gone = {**row(1, 2), DELETED_AT: "2026-01-01T00:00:00Z"}
    soft, hard = (
        Table(tmp_path / "soft", columns=columns),
        Table(tmp_path / "hard", Identity(("id",), V, True), columns),
    )
    for table in (soft, hard):
        table.place.make()
        table.take([row(1, 1), row(2, 1)])
        table.take([gone])

    assert [(r["id"], r[DELETED_AT] is not None) for r in soft.contents()] == [(1, True), (2, False)]
    assert [r["id"] for r in hard.contents()] == [2]


@pytest.mark.parametrize(
    ("kind", "live", "deleted"),
    [
        (
            pa.string(),
            [None, "", " ", "false", "False", "0", "0.0", "null", "none"],
            ["true", "2024-01-01", "yes", "1"],
        ),
        (pa.bool_(), [None, False, 0, "", "no"], [True, 1, "yes", "2024-01-01"]),
        (pa.int64(), [None, 0, False, "", "null"], [1704067200, True, "2024-01-01"]),
        (pa.float64(), [None, 0.0, False, ""], [1704067200.5, "yesterday"]),
        (TIMESTAMP_UTC, [None, "", "0", 0, False], ["2024-01-01T00:00:00Z", "yesterday", 1704067200, True]),
    ],
    ids=str,
)
def test_a_mark_that_is_empty_or_false_deletes_nothing(
    tmp_path: Path, kind: pa.DataType, live: Sequence[Any], deleted: Sequence[Any]
) -> None:
    table = Table(tmp_path, Identity(("id",), V, True), {**COLUMNS, DELETED_AT: kind})
    table.place.make()
    marks = [*live, *deleted]
    table.take([row(number, 1) for number in range(len(marks))])

    changed = [{**row(number, 2), DELETED_AT: mark} for number, mark in enumerate(marks)]
    # What is noted of another field says nothing of this one.
    table.take([{**changed[0], "name": None, "v": "no number"}, *changed[1:]])

    assert [each["id"] for each in table.contents()] == [*range(len(live))]


def test_a_delete_that_is_older_than_the_row_deletes_nothing(tmp_path: Path) -> None:
    table = Table(tmp_path, Identity(("id",), V, True), {**COLUMNS, DELETED_AT: TIMESTAMP_UTC})
    table.take([row(1, 5)])

    table.take([{**row(1, 4), DELETED_AT: "2026-01-01T00:00:00Z"}])

    assert [r["v"] for r in table.contents()] == [5]


def test_files_from_before_a_column_was_added_are_merged_into(tmp_path: Path) -> None:
    old = Table(tmp_path, columns={"id": pa.int64(), "v": pa.int64()})
    old.take([{"id": 1, "v": 1}, {"id": 2, "v": 1}])
    table = Table(tmp_path)
    table.files = old.files

    table.take([row(2, 2, "new")])

    assert len(table.files) == 2
    assert pa.concat_tables(
        [pq.read_table(tmp_path / file.path, columns=["id", "name"]) for file in table.files]
    ).sort_by("id").to_pylist() == [{"id": 1, "name": None}, {"id": 2, "name": "new"}]


def test_a_file_that_loses_all_its_rows_is_removed_without_a_successor(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.take([row(1, 1)])

    merged = table.take([row(1, 2)])

    assert (len(merged.add), len(merged.remove)) == (1, 1)


def give_column(folder: Path, path: str) -> None:
    """Write a file again as another writer may: with a column that the table does not have, which readers ignore."""
    rows = pq.read_table(folder / path)
    pq.write_table(rows.add_column(0, "junk", pa.array(range(len(rows)))), folder / path)


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_of_merges_leaves_the_newest_row_of_each_key(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table = Table(tmp_path)
    expected: dict[int, int] = {}
    for _ in range(8):
        if table.files and chance.randrange(2):
            give_column(tmp_path, chance.choice(table.files).path)
        pages = [
            [row(chance.randrange(12), chance.randrange(20)) for _ in range(chance.randrange(1, 9))]
            for _ in range(chance.randrange(1, 4))
        ]
        merged = table.take(*pages)
        before = len(expected)
        for page in pages:
            for one in page:
                expected[one["id"]] = max(one["v"], expected.get(one["id"], -1))

        assert {r["id"]: r["v"] for r in table.contents()} == expected
        assert len(table.contents()) == len(expected) == before + merged.added - merged.replaced


def test_a_row_that_changes_may_leave_its_partition_for_another(tmp_path: Path) -> None:
    table = Table(tmp_path, partition_by=("name",))
    table.take([row(1, 1, "a"), row(2, 1, "a"), row(3, 1, "b")])

    merged = table.take([row(1, 2, "b"), row(3, 2, "b"), row(4, 2, "c")])

    assert table.contents() == [row(1, 2, "b"), row(2, 1, "a"), row(3, 2, "b"), row(4, 2, "c")]
    assert sorted(str(file.partition["name"]) for file in merged.add) == ["a", "b", "c"]
    assert (merged.added, merged.replaced) == (3, 2)


def test_a_file_without_its_partition_columns_is_merged_into(tmp_path: Path) -> None:
    by_both = Identity(("name", "id"), V)
    for identity in (BY_ID, by_both):
        folder = tmp_path / str(len(identity.keys))
        folder.mkdir()
        table = Table(folder, identity, partition_by=("name",))
        table.take([row(1, 1, "a"), row(2, 1, "a")])
        (file,) = table.files
        bare = pq.read_table(folder / file.path).drop_columns(["name"])
        (folder / "name=a").mkdir()
        pq.write_table(bare, folder / "name=a" / "0.parquet")
        table.files = [TableFile("name%3Da/0.parquet", 2, partition=file.partition)]

        table.take([row(1, 2, "a")])

        assert table.contents() == [row(1, 2, "a"), row(2, 1, "a")]


@pytest.mark.parametrize("seed", range(6))
def test_keys_that_move_between_partitions_stay_one_row_each(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table = Table(tmp_path, partition_by=("name",))
    expected: dict[int | None, tuple[int, str]] = {}
    for version in range(10):
        changed = chance.sample(range(12), chance.randrange(1, 8))
        page = [row(id, version, chance.choice("abc")) for id in changed]
        table.take(page)
        expected.update({one["id"]: (version, one["name"]) for one in page})

        assert {one["id"]: (one["v"], one["name"]) for one in table.contents()} == expected
        assert len(table.contents()) == len(expected)


def test_nothing_is_left_behind_but_files_that_a_commit_names(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.take([row(1, 1), row(2, 1)])

    merged = table.take([row(1, 2), row(1, 3)])

    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet")}
    assert left == {file.path for file in table.files} | {file.path for file in merged.remove} | set(merged.orphans)
