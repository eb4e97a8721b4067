"""Bounds of a file's columns, as Delta's log has them: readers and merges skip files that cannot hold a value."""

from collections.abc import Collection
from datetime import date

import orjson
import pyarrow.parquet as pq

_LONGEST = 64
"""Longer strings have no bounds: they would be the largest part of the log."""


def stats_of(metadata: pq.FileMetaData, names: Collection[str]) -> str:
    """The statistics of a Parquet file, JSON: how many rows, and the bounds of those of its columns that are named.

    Integers, strings and dates have bounds. Delta: Per-file Statistics, of its protocol.
    """
    low: dict[str, object] = {}
    high: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for column in range(metadata.num_columns):
        path = metadata.schema.column(column).path
        if path not in names or not metadata.num_row_groups:
            continue
        groups = [metadata.row_group(n).column(column).statistics for n in range(metadata.num_row_groups)]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[path] = sum(group.null_count for group in groups)
        ranges = [(group.min, group.max) for group in groups if group.has_min_max]
        bounded = all(group.has_min_max or group.num_values == 0 for group in groups)
        if ranges and bounded and all(_is_comparable(value) for pair in ranges for value in pair):
            low[path], high[path] = min(pair[0] for pair in ranges), max(pair[1] for pair in ranges)
    return orjson.dumps(
        {"numRecords": metadata.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    ).decode()


def _is_comparable(value: object) -> bool:
    """Whether every reader understands a bound alike; a datetime is a date, and has its own rules."""
    return type(value) in (int, date) or (type(value) is str and len(value) <= _LONGEST)
