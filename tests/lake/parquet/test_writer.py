import resource
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk.base.values import Json
from cdk.lake.parquet.writer import DataFile, Limits, TableWriter
from cdk.lake.storage.folder import FileInfo, LocalFolder

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def batch(start: int, count: int) -> pa.RecordBatch:
    return pa.record_batch([range(start, start + count), [f"row {i}" for i in range(count)]], schema=SCHEMA)


def ids(root: Path, written: Sequence[DataFile]) -> list[int]:
    return [i for file in written for i in pq.read_table(root / file.path)["id"].to_pylist()]


def test_rows_come_back_in_order_from_one_file(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, SCHEMA)
    writer.write([batch(0, 2), batch(2, 0), batch(2, 3)])
    writer.write([])
    writer.write([batch(5, 1)])
    (file,) = writer.close()

    path = tmp_path / file.path
    assert ids(tmp_path, [file]) == [0, 1, 2, 3, 4, 5]
    assert (file.rows, file.size) == (6, path.stat().st_size)
    assert file.modified == int(path.stat().st_mtime * 1000)
    assert pq.read_schema(path) == SCHEMA
    assert pq.ParquetFile(path).num_row_groups == 1


@pytest.mark.parametrize("batches", [[], [batch(0, 0)]])
def test_nothing_written_leaves_no_file(tmp_path: Path, batches: list[pa.RecordBatch]) -> None:
    writer = TableWriter(tmp_path, SCHEMA)
    writer.write(batches)

    assert writer.close() == []
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.integers(0, 12), max_size=20), st.integers(1, 10), st.integers(1, 3000), st.integers(1, 3000))
@settings(max_examples=60, deadline=None)
def test_what_goes_in_comes_out_whatever_the_sizes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], group: int, group_bytes: int, most: int
) -> None:
    root = tmp_path_factory.mktemp("table")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    writer = TableWriter(root, SCHEMA, limits=Limits(group_rows=group, group_bytes=group_bytes, file_bytes=most))
    for start, size in zip(starts, sizes, strict=True):
        writer.write([batch(start, size)])
    written = writer.close()

    assert ids(root, written) == list(range(sum(sizes)))
    assert [file.rows for file in written] == [pq.read_metadata(root / file.path).num_rows for file in written]
    assert {root / file.path for file in written} == set(root.iterdir())
    # A group is written as soon as it is large enough, and a file ends with the group that fills it.
    assert all(file.rows > 0 for file in written)


def test_small_pages_are_gathered_into_row_groups(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, SCHEMA, limits=Limits(group_rows=10))
    for i in range(24):
        writer.write([batch(i, 1)])
    (file,) = writer.close()

    parquet = pq.ParquetFile(tmp_path / file.path)
    assert [parquet.metadata.row_group(n).num_rows for n in range(parquet.num_row_groups)] == [10, 10, 4]


def test_a_file_that_is_large_enough_gives_way_to_a_new_one(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, SCHEMA, limits=Limits(group_rows=10, file_bytes=1))
    writer.write([batch(0, 10), batch(10, 10), batch(20, 5)])
    written = writer.close()

    assert [file.rows for file in written] == [10, 10, 5]
    assert len({file.path for file in written}) == 3


@pytest.mark.parametrize("closed", [False, True])
def test_what_is_discarded_leaves_nothing_behind(tmp_path: Path, *, closed: bool) -> None:
    writer = TableWriter(tmp_path, SCHEMA, limits=Limits(group_rows=10, file_bytes=700))
    for i in range(7):
        writer.write([batch(10 * i, 10)])
    writer.write([batch(70, 1)])
    if closed:
        writer.close()
    assert len(list(tmp_path.iterdir())) > 1

    writer.discard()

    assert list(tmp_path.iterdir()) == []


PARTED = pa.schema([("id", pa.int64()), ("shelf", pa.int64())])


def on(shelves: Sequence[int], start: int = 0) -> pa.RecordBatch:
    return pa.record_batch([range(start, start + len(shelves)), list(shelves)], schema=PARTED)


@dataclass(frozen=True)
class Watched(LocalFolder):
    """A folder that counts its open files. counts: after each file that was opened or settled."""

    counts: list[int] = field(default_factory=lambda: [0])

    def open(self, name: str) -> pa.NativeFile:
        self.counts.append(self.counts[-1] + 1)
        return super().open(name)

    def make_durable(self, name: str) -> FileInfo:
        self.counts.append(self.counts[-1] - 1)
        return super().make_durable(name)


def test_each_partition_gets_files_of_its_own(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, PARTED, ("id", "shelf"), ("shelf",))
    writer.write([on([2, 1, 2]), on([1, 3], 3)])
    written = writer.close()

    assert {file.partition["shelf"]: ids(tmp_path, [file]) for file in written} == {"1": [1, 3], "2": [0, 2], "3": [4]}
    assert [file.rows for file in written] == [pq.read_metadata(tmp_path / file.path).num_rows for file in written]
    assert all(pq.read_schema(tmp_path / file.path) == PARTED for file in written)
    # Delta has no bounds of partition columns.
    assert {tuple(orjson.loads(file.stats)["minValues"]) for file in written} == {("id",)}


def test_the_partition_written_to_longest_ago_makes_room(tmp_path: Path) -> None:
    place = Watched(tmp_path)
    writer = TableWriter(place, PARTED, (), ("shelf",), limits=Limits(group_rows=1, open_files=2))
    writer.write([on([shelf], n) for n, shelf in enumerate([1, 2, 1, 3, 1, 2, 1])])
    written = writer.close()

    assert [(file.partition["shelf"], ids(tmp_path, [file])) for file in written] == [
        ("2", [1]),
        ("3", [3]),
        ("2", [5]),
        ("1", [0, 2, 4, 6]),
    ]
    assert (max(place.counts), place.counts[-1]) == (3, 0)


@given(st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=12), st.integers(1, 10), st.integers(1, 300))
@settings(max_examples=20, deadline=None)
def test_partitions_hold_what_came_whatever_the_sizes(
    tmp_path_factory: pytest.TempPathFactory, pages: list[list[int]], group: int, held: int
) -> None:
    root = tmp_path_factory.mktemp("table")
    limits = Limits(group_rows=group, partitions_bytes=held, open_files=3, partitions=7)
    writer = TableWriter(root, PARTED, (), ("shelf",), limits=limits)
    start = 0
    for page in pages:
        writer.write([on(page, start)])
        start += len(page)
    written = writer.close()

    shelves = [shelf for page in pages for shelf in page]
    assert sorted(ids(root, written)) == list(range(len(shelves)))
    for shelf in set(shelves):
        wanted = [n for n, one in enumerate(shelves) if one == shelf]
        assert ids(root, [file for file in written if file.partition["shelf"] == str(shelf)]) == wanted
    assert {root / file.path for file in written} == set(root.iterdir())


def test_partitions_that_only_wait_are_bounded_in_number(tmp_path: Path) -> None:
    place = Watched(tmp_path)
    writer = TableWriter(place, PARTED, (), ("shelf",), limits=Limits(partitions=3, group_rows=5))
    writer.write([on([4, 1, 2, 3, 2])])

    assert len(writer._parts) == 3
    # The one that had to go has its file, the others wait for more rows.
    assert place.counts == [0, 1, 0]
    assert sorted(ids(tmp_path, writer.close())) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("by", [[], ["text"]])
@pytest.mark.parametrize("begins", [1, 2])
def test_rows_whose_column_is_of_another_type_get_files_of_their_own(
    tmp_path: Path, by: Sequence[str], begins: int
) -> None:
    # The first batches may come before the column.
    other = pa.schema([SCHEMA.field("text"), ("size", pa.int64())])
    narrow = pa.record_batch([["a", "a"], [1, 2]], schema=other)
    wide = pa.record_batch([["a"], [0.5]], schema=other.set(1, pa.field("size", pa.float64())))
    writer = TableWriter(tmp_path, pa.schema(list(other)[:begins]), partition_by=by)
    for one in (narrow, wide, narrow):
        writer.write([one])
    files = writer.close()

    read = [pq.read_table(tmp_path / file.path, partitioning=None)["size"] for file in files]
    assert sorted(value for column in read for value in column.to_pylist()) == [0.5, 1, 1, 2, 2]
    assert [str(column.type) for column in read] == ["int64", "double", "int64"]


def test_what_partitions_hold_together_is_bounded(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, PARTED, (), ("shelf",), limits=Limits(group_bytes=1000, partitions_bytes=2000))
    for n in range(100):
        writer.write([on([*range(10), 3], 11 * n)])

        assert sum(part.buffered_bytes for part in writer._parts.values()) <= 2000
    # The fullest is written first, so that row groups are as large as may be.
    assert len(writer._parts) == 10
    written = writer.close()
    groups = {file.partition["shelf"]: pq.read_metadata(tmp_path / file.path).num_row_groups for file in written}
    assert groups["3"] == max(groups.values())


def test_partitions_that_write_for_want_of_room_close_their_files_too(tmp_path: Path) -> None:
    place = Watched(tmp_path)
    writer = TableWriter(place, PARTED, (), ("shelf",), limits=Limits(group_rows=8, partitions_bytes=0, open_files=2))
    writer.write([on(range(8))])

    assert (max(place.counts), place.counts[-1]) == (3, 2)
    assert sorted(ids(tmp_path, writer.close())) == list(range(8))


def test_a_column_that_comes_later_comes_to_every_partition(tmp_path: Path) -> None:
    wider = pa.schema([*PARTED, ("late", pa.string())])
    writer = TableWriter(tmp_path, PARTED, (), ("shelf",))
    writer.write([on([1, 2])])
    writer.write([pa.record_batch([[2], [1], ["x"]], schema=wider), on([2], 3)])
    written = writer.close()

    rows = [row for file in written for row in pq.read_table(tmp_path / file.path).to_pylist()]
    assert sorted((row["id"], row["shelf"], row.get("late")) for row in rows) == [
        (0, 1, None),
        (1, 2, None),
        (2, 1, "x"),
        (3, 2, None),
    ]


@pytest.mark.parametrize("closed", [False, True])
def test_partitions_that_are_discarded_leave_nothing_behind(tmp_path: Path, *, closed: bool) -> None:
    writer = TableWriter(tmp_path, PARTED, (), ("shelf",), limits=Limits(group_rows=1, open_files=2))
    writer.write([on([1, 2, 3, 4])])
    if closed:
        writer.close()
    assert len(list(tmp_path.iterdir())) > 2

    writer.discard()

    assert list(tmp_path.iterdir()) == []


def test_nothing_to_discard_is_no_error(tmp_path: Path) -> None:
    TableWriter(tmp_path, SCHEMA).discard()


def test_a_disk_that_fills_up_leaves_no_file_behind(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path, SCHEMA, limits=Limits(group_rows=10))
    writer.write([batch(0, 10)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (next(tmp_path.iterdir()).stat().st_size, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            writer.close()
        writer.discard()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Page:
    """A batch that goes to a writer: how many rows, of how many columns besides the first two, on which shelves."""

    rows: int
    columns: int
    shelves: int

    def batch(self, start: int) -> pa.RecordBatch:
        """The batch, whose rows have ids from `start`: each value tells its column and its row."""
        ids = range(start, start + self.rows)
        values: dict[str, list[Json]] = {"id": list(ids), "shelf": [n % self.shelves for n in ids]}
        values |= {f"late{c}": [None if n % 3 == c else f"{c}/{n}" for n in ids] for c in range(self.columns)}
        types = [*PARTED, *((f"late{c}", pa.string()) for c in range(self.columns))]
        return pa.record_batch(values, schema=pa.schema(types))


pages_of_any_width = st.lists(
    st.builds(Page, rows=st.integers(0, 4), columns=st.integers(0, 3), shelves=st.integers(1, 3)), max_size=12
)
limits_of_any_size = st.builds(
    Limits,
    group_rows=st.integers(1, 12),
    group_bytes=st.integers(1, 600),
    file_bytes=st.integers(1, 3000),
    partitions_bytes=st.integers(0, 600),
    partitions=st.integers(1, 4),
    open_files=st.integers(1, 3),
)


@given(pages_of_any_width, limits_of_any_size, st.sampled_from([(), ("shelf",)]))
@example([Page(1, 0, 1), Page(1, 1, 1), Page(1, 1, 1)], Limits(), ())
@example([Page(1, 0, 1), Page(1, 1, 1), Page(1, 1, 1)], Limits(group_rows=1), ("shelf",))
@settings(max_examples=150, deadline=None)
def test_the_rows_of_the_files_are_the_rows_that_went_in_whenever_columns_appear(
    tmp_path_factory: pytest.TempPathFactory, pages: list[Page], limits: Limits, by: tuple[str, ...]
) -> None:
    root = tmp_path_factory.mktemp("table")
    starts = [sum(page.rows for page in pages[:n]) for n in range(len(pages))]
    batches = [page.batch(start) for page, start in zip(pages, starts, strict=True)]
    writer = TableWriter(root, PARTED, (), by, limits)
    for one in batches:
        writer.write([one])
    written = writer.close()

    names = ["id", "shelf", "late0", "late1", "late2"]
    model = [{name: row.get(name) for name in names} for one in batches for row in one.to_pylist()]
    rows = [row for file in written for row in pq.read_table(root / file.path).to_pylist()]
    in_files = sorted(({name: row.get(name) for name in names} for row in rows), key=lambda row: int(row["id"]))
    assert in_files == model
    assert [file.rows for file in written] == [pq.read_metadata(root / file.path).num_rows for file in written]
    assert [orjson.loads(file.stats)["numRecords"] for file in written] == [file.rows for file in written]
    assert {root / file.path for file in written} == set(root.iterdir())
