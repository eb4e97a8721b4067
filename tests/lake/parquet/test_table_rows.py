"""Rows of a table's files, whoever wrote them, are ones that can be filtered, compared and written again."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from cdk.lake.parquet.table_rows import read_rows
from cdk.lake.storage.folder import LocalFolder

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("home", pa.struct([("street", pa.string()), ("codes", pa.list_(pa.string()))])),
    ]
)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a", "tags": ["x", None], "home": {"street": "s", "codes": ["1"]}},
    {"id": 2, "name": None, "tags": None, "home": None},
]


def kept(batch: pa.RecordBatch) -> list[object]:
    return list(batch.filter(pa.array([True] * batch.num_rows)).to_pylist())


def test_a_file_that_delta_rs_has_written_anew_can_be_filtered(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.Table.from_pylist(ROWS, SCHEMA))
    table = DeltaTable(str(tmp_path))
    table.update(predicate="id = 3 or id = 1", updates={"id": "3"})

    (path,) = pa.table(table.get_add_actions())["path"].to_pylist()
    (batch,) = read_rows(LocalFolder(tmp_path), path, {}, SCHEMA)

    assert batch.schema.types == SCHEMA.types
    assert sorted(kept(batch), key=str) == sorted([{**ROWS[0], "id": 3}, ROWS[1]], key=str)


@pytest.mark.parametrize(
    "kind",
    [
        pa.string_view(),
        pa.large_string(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.list_(pa.string_view()),
        pa.large_list(pa.large_string()),
        pa.struct([("a", pa.string_view())]),
        pa.binary_view(),
        pa.large_binary(),
    ],
)
def test_types_that_cannot_be_filtered_are_read_as_plain_ones(tmp_path: Path, kind: pa.DataType) -> None:
    value: list[Any] = [["x"], None] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else ["x", None]
    if pa.types.is_struct(kind):
        value = [{"a": "x"}, None]
    if pa.types.is_dictionary(kind):
        table = pa.table({"v": pa.array(value).dictionary_encode()})
    else:
        table = pa.table({"v": pa.array(value, kind)})
    pq.write_table(table, tmp_path / "a b.parquet")

    (batch,) = read_rows(LocalFolder(tmp_path), "a%20b.parquet", {}, pa.schema([("v", pa.string())]))

    assert "view" not in str(batch.schema.types)
    assert "large" not in str(batch.schema.types)
    assert "dictionary" not in str(batch.schema.types)
    assert kept(batch) == table.to_pylist()


def test_columns_of_the_partition_are_there_whether_the_file_has_them_or_not(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    pq.write_table(pa.table({"id": pa.array([1])}), tmp_path / "a.parquet")

    (whole,) = read_rows(LocalFolder(tmp_path), "a.parquet", {"day": "2024-01-02"}, schema)
    (some,) = read_rows(LocalFolder(tmp_path), "a.parquet", {"day": "2024-01-02"}, schema, ["id", "gone"])

    assert whole.to_pylist() == [{"id": 1, "day": date(2024, 1, 2)}]
    assert some.to_pylist() == [{"id": 1}]


def test_a_column_is_not_taken_for_a_field_of_another_column(tmp_path: Path) -> None:
    rows = pa.table({"a": [{"b": 1001}], "a.b": [1]})
    pq.write_table(rows, tmp_path / "rows.parquet")

    batches = read_rows(LocalFolder(tmp_path), "rows.parquet", {}, rows.schema, ["a.b"])

    assert [batch.to_pylist() for batch in batches] == [[{"a.b": 1}]]
