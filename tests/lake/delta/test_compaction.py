"""Joining small files changes neither rows nor state, and readers of changes see nothing."""

from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk.base.errors import ReceiptError, StateError
from cdk.lake.admin.table_audit import audit
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.table_rows import MANY
from cdk.lake.parquet.writer import DataFile, TableWriter
from cdk.lake.storage.folder import FileInfo, LocalFolder

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32())])
BUSY, QUIET = date(2024, 1, 1), None


def opened(root: Path, *by: str) -> StreamTable:
    return StreamTable(root, "shop", "visits", SCHEMA, partition_by=by or None)


def wrote(table: StreamTable, root: Path, day: date | None) -> list[DataFile]:
    writer = TableWriter(root, SCHEMA, ("id",), table.partition_by)
    writer.write([pa.RecordBatch.from_pylist([{"id": 7, "day": day}], SCHEMA)])
    return writer.close()


def filled(root: Path, files: int, *by: str) -> StreamTable:
    """A table with so many small files for a busy day, and one for another."""
    table = opened(root, *by)
    busy = [file for _ in range(files) for file in wrote(table, root, BUSY)]
    table.commit(TableState("incremental", "append", state={"page": 1}), [*busy, *wrote(table, root, QUIET)])
    return table


def days(root: Path) -> Counter[date | None]:
    found = DeltaTable(str(root)).to_pyarrow_table().to_pylist()
    assert {row["id"] for row in found} == {7}
    return Counter(row["day"] for row in found)


def changes(root: Path) -> set[bool]:
    """What the newest commit says of its files: whether rows came or went."""
    version = DeltaTable(str(root)).version()
    lines = (root / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return {one["dataChange"] for line in lines for one in orjson.loads(line).values() if "dataChange" in one}


@pytest.mark.parametrize(("by", "joined", "left"), [((), MANY + 1, 1), (("day",), MANY, 2)], ids=["plain", "parted"])
def test_many_small_files_become_one_with_the_same_rows_and_state(
    tmp_path: Path, by: tuple[str, ...], joined: int, left: int
) -> None:
    table = filled(tmp_path, MANY, *by)
    before = table.version

    assert table.compact() == joined

    assert table.version == before + 1
    assert len(DeltaTable(str(tmp_path)).file_uris()) == left
    assert days(tmp_path) == {BUSY: MANY, QUIET: 1}
    assert changes(tmp_path) == {False}
    found = audit(LocalFolder(tmp_path))
    assert (found.receipts, found.other_commits, found.contradictions, found.rows) == (2, [], [], MANY + 1)
    again = opened(tmp_path)
    assert (again.saved, again.state_version) == (table.saved, table.state_version)
    # The handle is at the version that it made: the run goes on.
    table.commit(TableState("incremental", "append", state={"page": 2}), wrote(table, tmp_path, QUIET))
    assert days(tmp_path) == {BUSY: MANY, QUIET: 2}


def test_a_column_that_only_a_file_has_is_left_out_of_the_file_that_takes_its_rows(tmp_path: Path) -> None:
    table = filled(tmp_path, MANY)
    path = tmp_path / table.files()[0].path
    pq.write_table(pq.read_table(path).add_column(0, "junk", pa.array(["x"])), path)

    assert table.compact() == MANY + 1

    (file,) = table.files()
    assert pq.read_schema(tmp_path / file.path).names == SCHEMA.names
    assert days(tmp_path) == {BUSY: MANY, QUIET: 1}


@pytest.mark.parametrize("by", [(), ("day",)], ids=["plain", "parted"])
def test_few_small_files_stay(tmp_path: Path, by: tuple[str, ...]) -> None:
    table = filled(tmp_path, MANY - 2, *by)
    before = table.version

    assert table.compact() == 0
    assert table.version == before


def test_files_of_different_partitions_do_not_count_together(tmp_path: Path) -> None:
    table = filled(tmp_path, MANY - 1, "day")

    assert len(table.files()) == MANY
    assert table.compact() == 0


@pytest.mark.parametrize("by", [(), ("day",)], ids=["plain", "parted"])
@pytest.mark.parametrize(
    "first", [lambda root: opened(root).compact(), lambda root: DeltaTable(str(root)).optimize.compact()]
)
def test_crowded_files_are_joined_once_whoever_begins(
    tmp_path: Path, by: tuple[str, ...], first: Callable[[Path], object]
) -> None:
    filled(tmp_path, MANY, *by)
    other = opened(tmp_path)

    first(tmp_path)
    with pytest.raises(StateError, match="the small files were not joined") as caught:
        other.compact()

    assert caught.value.path == str(tmp_path)
    assert days(tmp_path) == {BUSY: MANY, QUIET: 1}
    assert other.compact() == 0


def test_files_that_would_be_joined_into_other_rows_stay(tmp_path: Path) -> None:
    filled(tmp_path, MANY, "day")
    log = tmp_path / "_delta_log" / f"{DeltaTable(str(tmp_path)).version():020}.json"
    lines = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["stats"] = '{"numRecords": 2}'
    log.write_bytes(b"\n".join(map(orjson.dumps, lines)))

    with pytest.raises(ReceiptError, match=f"found 0 on the left and -{MANY} on the right of added - removed"):
        opened(tmp_path).compact()
    assert len(DeltaTable(str(tmp_path)).file_uris()) == MANY + 1


class Vacuumed(LocalFolder):
    """A folder whose new files are removed as soon as they are finished."""

    def make_durable(self, name: str) -> FileInfo:
        written = super().make_durable(name)
        self.delete(name)
        return written


def test_small_files_stay_where_the_file_that_takes_their_rows_is_gone(tmp_path: Path) -> None:
    filled(tmp_path, MANY, "day")

    with pytest.raises(StateError, match=r"the small files were not joined: part-\w+.parquet, .* is missing"):
        StreamTable(Vacuumed(tmp_path), "shop", "visits", SCHEMA).compact()
    assert days(tmp_path) == {BUSY: MANY, QUIET: 1}


def test_joined_files_keep_their_bounds_and_other_writers_find_the_partition_in_them(tmp_path: Path) -> None:
    table = filled(tmp_path, MANY, "day")
    table.compact()

    (joined,) = (file for file in table.files("id") if file.rows == MANY)
    assert (joined.low, joined.high) == (7, 7)
    # The column is in the file too, for readers that know nothing of partitions.
    assert pq.ParquetFile(tmp_path / joined.path).read()["day"].to_pylist() == [BUSY] * MANY
