import resource
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.spark import files
from cdk.spark.files import DataFile, TableWriter

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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_GROUP_ROWS", group)
        patch.setattr(files, "_GROUP_BYTES", group_bytes)
        patch.setattr(files, "_FILE_BYTES", most)
        writer = TableWriter(root, SCHEMA)
        for start, size in zip(starts, sizes, strict=True):
            writer.write([batch(start, size)])
        written = writer.close()

    assert ids(root, written) == list(range(sum(sizes)))
    assert [file.rows for file in written] == [pq.read_metadata(root / file.path).num_rows for file in written]
    assert {root / file.path for file in written} == set(root.iterdir())
    # A group is written as soon as it is large enough, and a file ends with the group that fills it.
    assert all(file.rows > 0 for file in written)


def test_small_pages_are_gathered_into_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_GROUP_ROWS", 10)
    writer = TableWriter(tmp_path, SCHEMA)
    for i in range(24):
        writer.write([batch(i, 1)])
    (file,) = writer.close()

    parquet = pq.ParquetFile(tmp_path / file.path)
    assert [parquet.metadata.row_group(n).num_rows for n in range(parquet.num_row_groups)] == [10, 10, 4]


def test_a_file_that_is_large_enough_gives_way_to_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_GROUP_ROWS", 10)
    monkeypatch.setattr(files, "_FILE_BYTES", 1)
    writer = TableWriter(tmp_path, SCHEMA)
    writer.write([batch(0, 10), batch(10, 10), batch(20, 5)])
    written = writer.close()

    assert [file.rows for file in written] == [10, 10, 5]
    assert len({file.path for file in written}) == 3


@pytest.mark.parametrize("closed", [False, True])
def test_what_is_discarded_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, closed: bool
) -> None:
    monkeypatch.setattr(files, "_GROUP_ROWS", 10)
    monkeypatch.setattr(files, "_FILE_BYTES", 700)
    writer = TableWriter(tmp_path, SCHEMA)
    for i in range(7):
        writer.write([batch(10 * i, 10)])
    writer.write([batch(70, 1)])
    if closed:
        writer.close()
    assert len(list(tmp_path.iterdir())) > 1

    writer.discard()

    assert list(tmp_path.iterdir()) == []


def test_nothing_to_discard_is_no_error(tmp_path: Path) -> None:
    TableWriter(tmp_path, SCHEMA).discard()


def test_a_disk_that_fills_up_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_GROUP_ROWS", 10)
    writer = TableWriter(tmp_path, SCHEMA)
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
