"""What the log tells of files is what a merge goes by."""

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction, RemoveAction
from msgspec.structs import replace

from cdk.lake.parquet.table_files import (
    LoggedFile,
    TableFile,
    bounded_columns,
    counted_rows,
    file_actions,
    files_of,
    logged_files,
)
from cdk.lake.parquet.writer import DataFile
from tests.spark.featured_table import FEATURES, delete_by_vector, give

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
ROWS = pa.table(
    {
        "id": [3, 1],
        "name": ["b", "a"],
        "at": pa.array([NOON, NOON], pa.timestamp("us", "UTC")),
        "empty": pa.array([None, None], pa.string()),
    }
)


@pytest.mark.parametrize(
    ("key", "low", "high"), [("id", 1, 3), ("name", "a", "b"), ("at", None, None), ("empty", None, None), (None,) * 3]
)
def test_a_file_has_the_bounds_of_the_key_unless_they_are_rounded_or_not_known(
    tmp_path: Path, key: str | None, low: object, high: object
) -> None:
    write_deltalake(str(tmp_path), ROWS)

    (file,) = files_of(DeltaTable(str(tmp_path)), *([] if key is None else [key]))

    assert (file.rows, file.low, file.high, file.partition) == (2, low, high, {})
    assert file.size == (tmp_path / file.path).stat().st_size


@pytest.mark.parametrize("names", [["a", "a.b"], ["a.b", "a"]])
def test_bounds_of_a_column_are_not_those_of_a_field_of_another_column(tmp_path: Path, names: list[str]) -> None:
    columns = pa.table({"a": [{"b": 1001}], "a.b": [1], "id": [3]})
    write_deltalake(str(tmp_path), columns.select([*names, "id"]))

    (file,) = files_of(DeltaTable(str(tmp_path)), "a.b")

    assert (file.rows, file.low, file.high, file.nulls) == (1, None, None, None)
    assert bounded_columns(DeltaTable(str(tmp_path))) == ("id",)


def test_a_partition_is_a_text_and_both_bounds_of_its_column(tmp_path: Path) -> None:
    days = pa.table({"id": [1, 2], "day": [date(2024, 1, 2), None]})
    write_deltalake(str(tmp_path), days, partition_by=["day"])

    with_day, without = sorted(
        files_of(DeltaTable(str(tmp_path)), "day"), key=lambda file: file.partition["day"] is None
    )

    assert (with_day.partition, with_day.low, with_day.high) == ({"day": "2024-01-02"}, *[date(2024, 1, 2)] * 2)
    assert (without.partition, without.low, without.high) == ({"day": None}, None, None)


def test_columns_are_bounded_whose_bounds_some_file_tells(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), ROWS.slice(0, 0))
    assert bounded_columns(DeltaTable(str(tmp_path))) == ()

    write_deltalake(str(tmp_path), ROWS, mode="append")
    assert bounded_columns(DeltaTable(str(tmp_path))) == ("id", "name", "at")


@pytest.mark.parametrize("rows_change", [True, False])
def test_a_commit_tells_of_files_that_come_before_those_that_go(*, rows_change: bool) -> None:
    told = DataFile("a.parquet", 1, 2, 3, partition={"day": "2024-01-02", "more": "x"})
    counted = DataFile("b.parquet", 4, 5, 6, stats='{"numRecords":4,"tightBounds":true}', partition={"day": None})

    actions = file_actions(
        [told, counted],
        [TableFile("c.parquet", 9, partition={"day": None}, size=7)],
        partition_by=["day"],
        now=NOON,
        rows_change=rows_change,
    )

    first, second, gone = actions
    assert isinstance(first, AddAction)
    assert isinstance(second, AddAction)
    assert isinstance(gone, RemoveAction)
    assert [first.path, second.path, gone.path] == ["a.parquet", "b.parquet", "c.parquet"]
    assert (gone.size, gone.partition_values) == (7, {"day": None})
    assert first.partition_values == {"day": "2024-01-02"}
    assert first.stats == '{"numRecords":2}'
    assert second.stats == counted.stats
    assert gone.deletion_timestamp == int(NOON.timestamp() * 1000)
    assert {first.data_change, second.data_change, gone.data_change} == {rows_change}


@pytest.mark.parametrize("partition_by", [None, ["day"]])
def test_rows_that_vectors_take_out_are_not_counted(tmp_path: Path, partition_by: list[str] | None) -> None:
    root = tmp_path / "a lake"
    for n in (1, 2):
        rows = pa.table({"id": [3, 4, 5], "day": [f"2024 {n}"] * 3})
        write_deltalake(str(root), rows, mode="append", partition_by=partition_by)
    give(root, FEATURES["deletion vectors"])
    first, second = (file.path for file in files_of(DeltaTable(str(root))))
    delete_by_vector(root, {first: [0, 2]})

    files = logged_files(DeltaTable(str(root)))

    assert [replace(files[path], modified=0) for path in (first, second)] == [LoggedFile(3, 2), LoggedFile(3)]
    assert counted_rows(files) == 4


def test_the_nulls_of_all_columns_of_a_key_are_counted_where_the_log_knows_them(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, None, None], "name": ["a", None, "b"], "day": [date(2024, 1, 2), None, None]})
    write_deltalake(str(tmp_path), rows, partition_by=["day"])
    table = DeltaTable(str(tmp_path))

    def nulls(*keys: str) -> list[int | None]:
        return sorted((one.nulls for one in files_of(table, *keys)), key=lambda count: count or 0)

    assert nulls("id", "name") == [0, 3]
    assert nulls("name", "id") == [0, 3]
    assert nulls("id", "day") == [0, 4]
    assert nulls("id", "other") == [None, None]
