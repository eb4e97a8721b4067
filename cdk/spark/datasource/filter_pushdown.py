"""Batch reads of a stream, and filter pushdown, which skips windows and partitions without matching rows.

Spark applies every filter again, so pushdown must only skip rows that the filters would drop anyway. That is possible
for timestamps and integers. A string column is compared as a string, which says nothing about time, so filters on it
skip nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql import datasource  # filters are accessed only where they are used: 4.0 has none
from pyspark.sql.datasource import DataSourceReader, InputPartition

from cdk.base.logs import FirstWarning
from cdk.base.values import FieldValue
from cdk.lake.arrow.columns import TIMESTAMP_UTC, ColumnType
from cdk.spark.datasource.open_stream import OpenStream, masking
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.position import Start
from cdk.state.slice import Partition, Slice
from cdk.streams.cursor import Cursor
from cdk.streams.stream import Stream

# A window whose start is moved starts this much earlier, or one number earlier: some sources leave out records at the
# requested start.
_MARGIN = timedelta(days=1)

Value: TypeAlias = datetime | int


class BatchReader(DataSourceReader):
    """Plans all slices of a stream, and reads them in tasks.

    They are planned once for each loaded DataFrame; each action on it reads the slices again.
    """

    def __init__(self, opened: OpenStream, reading: TaskReader) -> None:
        self._state, self._reading, self._tokens = opened.state, reading, opened.tokens

    def planned(self) -> Iterator[Slice]:
        """Return all slices of the stream since the state, in order."""
        stream, warning = self._reading.stream, FirstWarning()
        reader = stream.checkpoint_reader(self._state)
        for slice in iter(reader.next, None):
            warning(reader.mismatch and f"{stream.name}: {reader.mismatch}; it is read from its start")
            yield slice

    def partitions(self) -> list[InputPartition]:
        """Return the slices, distributed to tasks. Reads the parents of a substream."""
        with masking(self._reading.secrets), self._tokens.run().working():
            return self._reading.distribute(list(self.planned()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition's slices."""
        return self._reading.batches(partition)


class FilterPushdown:
    """Reduces the slices of a stream to those that the filters of a query need.

    partition_columns: columns in which every record has the value of its partition's field of that name.
    """

    def __init__(self, stream: Stream, declared: Mapping[str, ColumnType], partition_columns: Sequence[str]) -> None:
        self._partition_columns = frozenset(partition_columns)
        self._column = "" if stream.cursor is None else stream.cursor.field
        self._filter_type = _filter_type(stream.cursor, declared.get(self._column))
        self._lower: Value | None = None
        self._upper: Value | None = None
        self._partition_filters: list[tuple[str, Sequence[FieldValue]]] = []

    def add_filters(self, filters: "Iterable[datasource.Filter]") -> None:
        """Add filters; a row must pass all of them."""
        for item in filters:
            match item:
                case datasource.EqualTo((name,), value) | datasource.EqualNullSafe((name,), value):
                    self._limit_to_range(name, value, value)
                    self._limit_to_values(name, [value])
                case datasource.GreaterThan((name,), value) | datasource.GreaterThanOrEqual((name,), value):
                    self._limit_to_range(name, value, None)
                case datasource.LessThan((name,), value) | datasource.LessThanOrEqual((name,), value):
                    self._limit_to_range(name, None, value)
                case datasource.In((name,), values):
                    self._limit_to_values(name, values)
                case _:
                    pass

    def apply(self, stream: Stream, slices: Iterable[Slice]) -> Iterator[Slice]:
        """Yield the slices that may have matching rows, in order; an open window starts later if filters allow it."""
        for slice in slices:
            if (
                self._may_match(stream.restored(slice.partition))
                and (narrowed := self._narrowed(stream, slice)) is not None
            ):
                yield narrowed

    def _limit_to_range(self, name: str, lower: FieldValue, upper: FieldValue) -> None:
        if name == self._column and self._filter_type is not None:
            if _has_type(self._filter_type, lower):
                self._lower = lower if self._lower is None else max(self._lower, lower)
            if _has_type(self._filter_type, upper):
                self._upper = upper if self._upper is None else min(self._upper, upper)

    def _limit_to_values(self, name: str, values: Sequence[FieldValue]) -> None:
        if name in self._partition_columns:
            self._partition_filters.append((name, values))

    def _may_match(self, partition: Partition) -> bool:
        return all(
            name not in partition or any(_may_equal(partition[name], value) for value in values)
            for name, values in self._partition_filters
        )

    def _narrowed(self, stream: Stream, slice: Slice) -> Slice | None:
        cursor, window, lower, upper = stream.cursor, slice.window, self._lower, self._upper
        if cursor is None or window is None:
            return slice
        if isinstance(lower, datetime) and not window.last and not is_later(cursor, window.until, lower):
            return None
        if isinstance(upper, datetime) and is_later(cursor, window.start, upper):
            return None
        if not window.last or slice.start != Start():
            return slice
        if isinstance(lower, int):
            start: FieldValue = max(window.start, lower - 1)
        elif isinstance(lower, datetime) and not is_later(cursor, window.start, lower):
            start = _narrowed_start(cursor, lower, stream.now())
        else:
            start = None
        return slice if start is None or _is_at_or_after(cursor, window.start, start) else _starting_at(slice, start)


def is_later(cursor: Cursor, value: FieldValue, other: datetime) -> bool:
    """Whether a cursor value is a later timestamp than `other`. Every cursor of timestamps reads ISO 8601."""
    text, reaches = other.isoformat(), cursor.state_order.reaches
    return reaches(value, text) and not reaches(text, value)


def _starting_at(slice: Slice, start: FieldValue) -> Slice:
    assert slice.window is not None
    return replace(slice, window=replace(slice.window, start=start))


def _narrowed_start(cursor: Cursor, lower: datetime, now: datetime) -> FieldValue:
    """Return where the cursor would start to read what is newer than `lower`, in its spelling; None: not narrowed."""
    try:
        before = lower - _MARGIN
    except OverflowError:
        return None
    window = next(cursor.windows(before.isoformat(), now, again=False), None)
    # A cursor with monthly windows may start only with the next month.
    return None if window is None or is_later(cursor, window.start, lower) else window.start


def _is_at_or_after(cursor: Cursor, start: FieldValue, other: FieldValue) -> bool:
    """Whether a window that starts at `start` already starts at or after `other`."""
    return bool(start == other or cursor.greatest([other, start]) == start)


def _filter_type(cursor: Cursor | None, column: ColumnType | None) -> type[Value] | None:
    """Return the type to compare filters on the cursor's column as; None if its column's order is not the cursor's."""
    if cursor is not None and cursor.order.kind is int:
        return int if column == pa.int64() else None
    return datetime if cursor is not None and column == TIMESTAMP_UTC else None


def _has_type(kind: type[Value], value: FieldValue) -> bool:
    return (isinstance(value, datetime) and value.tzinfo is not None) if kind is datetime else type(value) is int


def _may_equal(partition_value: FieldValue, filter_value: FieldValue) -> bool:
    """Whether a column may show `partition_value` as `filter_value`. String columns show other values as JSON."""
    if isinstance(filter_value, str):
        return (
            str(partition_value) == filter_value
            if isinstance(partition_value, str) or type(partition_value) is int
            else True
        )
    if type(partition_value) is int and type(filter_value) is int:
        return partition_value == filter_value
    return True


class PushdownReader(BatchReader):
    """A batch reader that skips slices without rows that match the query.

    Spark plans a DataFrame with the filters of the first query on it, and reuses the plan for all others (4.1 and 4.3).
    So this reader is used only if a user requests it, who must then run only one query on each DataFrame.
    """

    def __init__(self, opened: OpenStream, reading: TaskReader, *, partition_columns: tuple[str, ...]) -> None:
        super().__init__(opened, reading)
        self._pushdown = FilterPushdown(reading.stream, reading.declared, partition_columns)

    def pushFilters(self, filters: "list[datasource.Filter]") -> "Iterable[datasource.Filter]":  # noqa: N802 - by Spark
        """Add the filters of the query. Returns all of them, so that Spark applies them to the rows."""
        self._pushdown.add_filters(filters)
        return filters

    def planned(self) -> Iterator[Slice]:
        return self._pushdown.apply(self._reading.stream, super().planned())
