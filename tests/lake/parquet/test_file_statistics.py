import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdk.lake.parquet.writer import COUNTED, stats_of


def told(tmp_path: Path, values: list[Any], kind: pa.DataType, **options: Any) -> dict[str, Any]:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"x": pa.array(values, kind), "other": values}), path, **options)
    stats: dict[str, Any] = json.loads(stats_of(pq.read_metadata(path), ["x"]))
    return stats


@pytest.mark.parametrize(
    ("values", "kind", "low", "high"),
    [
        ([3, None, -1], pa.int64(), -1, 3),
        (["b", "ü", "a"], pa.string(), "a", "ü"),
        ([date(2026, 1, 2), date(2025, 1, 1)], pa.date32(), "2025-01-01", "2026-01-02"),
    ],
)
def test_bounds_hold_over_all_row_groups(
    tmp_path: Path, values: list[Any], kind: pa.DataType, low: Any, high: Any
) -> None:
    stats = told(tmp_path, values, kind, row_group_size=1)

    assert (stats["minValues"], stats["maxValues"]) == ({"x": low}, {"x": high})
    assert stats["numRecords"] == len(values)
    assert stats["nullCount"] == {"x": values.count(None), "other": values.count(None)}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([None, None], pa.int64()),
        ([1.5, float("nan")], pa.float64()),
        ([True], pa.bool_()),
        (["a", "b" * 65], pa.string()),
        ([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    ],
)
def test_what_readers_may_understand_differently_has_no_bounds(
    tmp_path: Path, values: list[Any], kind: pa.DataType
) -> None:
    stats = told(tmp_path, values, kind)

    assert (stats["minValues"], stats["maxValues"]) == ({}, {})


def test_nulls_of_many_columns_are_not_counted_but_of_those_that_are_named(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    for count, counted in ((COUNTED, range(COUNTED)), (COUNTED + 1, [7])):
        pq.write_table(pa.table({f"c{n}": [n, None] for n in range(count)}), path)
        stats = json.loads(stats_of(pq.read_metadata(path), ["c7"]))
        assert stats["nullCount"] == {f"c{n}": 1 for n in counted}


@pytest.mark.parametrize("turned", [False, True])
def test_a_field_of_a_column_is_not_the_column_of_its_path(tmp_path: Path, *, turned: bool) -> None:
    columns = {"a.b": pa.array([5, None]), "a": pa.array([{"b": 1}, {"b": 9}])}
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table(dict(list(columns.items())[:: -1 if turned else 1])), path)
    stats = json.loads(stats_of(pq.read_metadata(path), ["a.b"]))

    assert stats == {"numRecords": 2, "minValues": {"a.b": 5}, "maxValues": {"a.b": 5}, "nullCount": {"a.b": 1}}


def test_without_statistics_in_the_file_only_the_rows_are_told(tmp_path: Path) -> None:
    assert told(tmp_path, [1, 2], pa.int64(), write_statistics=False) == {
        "numRecords": 2,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
    }
