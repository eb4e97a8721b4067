"""`spark.readStream.format("cdk")`: reads a stream continuously, with its state as the query's offset.

An offset is `{"state": TEXT}`, the stream's state in its exact wire form. Spark stores it in the query's checkpoint. A
batch reads from one state to another, and the later state is known before the batch is read (`micro_batch_steps`), so a
batch that is repeated after a restart requests the same windows.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from math import inf

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from cdk.base.run import RunScope
from cdk.base.values import FieldValue, canonical, from_json
from cdk.spark.datasource.micro_batches import (
    Step,
    check_streamable,
    drop_shared_cursor,
    micro_batch_steps,
    slices_between,
    state_after,
)
from cdk.spark.datasource.open_stream import OpenStream, masking
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.state.wire import decode, encode
from cdk.streams.checkpoint.parent_state import without_states
from cdk.streams.cursor import Side
from cdk.streams.page import ReadPage
from cdk.streams.stream import Stream

Offset = dict[str, str]

_BEYOND = (Side.EDGE, Side.AFTER)
"""The sides of a window whose records the next batch reads."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in Spark's planner, one process for the life of a query, and reads them in tasks.

    lag: batches end this long before the present, for sources that show a record only some time after its timestamp.
    slices: the maximum number of slices of a batch; None: no limit. There is no limit of rows, because their number is
    known only after a slice was read.
    """

    def __init__(self, opened: OpenStream, reading: TaskReader, *, lag: timedelta, slices: int | None) -> None:
        with masking(opened.secrets):
            check_streamable(opened.stream, opened.state)
        self._initial_state, self._reading, self._tokens = opened.state, reading, opened.tokens
        self._lag, self._slices = lag, slices
        self._end_time: datetime | None = None
        self._planner: _BatchPlanner | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, as those below
        """Return the offset of the state that the query starts from: the option `state`, or an empty state."""
        # Parts that only other forms of the state need would not survive the round trip through an offset.
        return _offset(self._reading.stream, replace(self._initial_state, extra={}, after=None, ranges_from=None))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the option `slices_per_batch`, as a limit of files in Spark's terms."""
        return ReadAllAvailable() if self._slices is None else ReadMaxFiles(self._slices)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Make all batches of this run end at the same point in time, and list partitions only once."""
        self._end_time = self._reading.stream.now()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the offset after the next batch; `start` if there is nothing to read.

        limit: files mean slices. With a limit of rows or bytes, a batch has a single slice, the minimum.
        """
        with masking(self._reading.secrets):
            planner = self._planner
            if planner is None or planner.offset != start or (planner.ended and self._end_time is None):
                now = self._end_time or self._reading.stream.now()
                planner = _BatchPlanner(self._reading.stream, start, now, self._lag, self._tokens.run())
                self._planner = planner
            with planner.run.working():
                return planner.advance(_slice_limit(limit))

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the slices between two offsets; the same on every call."""
        stream, planner = self._reading.stream, self._planner
        with masking(self._reading.secrets), self._tokens.run().working():
            before, after = _state(stream, start), _state(stream, end)
            if planner is not None and planner.offset == end:
                partitions: Mapping[str, Partition] = planner.partitions
            else:
                partitions = _partitions_by_key(stream, before)
            return self._reading.distribute(list(slices_between(stream, before, after, partitions)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield those rows of a partition's slices that lie before the end of their window."""
        return self._reading.batches(partition, self._before_end)

    def _before_end(self, slice: Slice, page: ReadPage) -> ReadPage:
        """Return the page without records that the next batch reads, if the source decides what a window contains."""
        cursor, window = self._reading.stream.cursor, slice.window
        if cursor is None or not cursor.by_request or window is None or window.last:
            return page
        records = [record for record in page.records if cursor.side(window, record.get(cursor.field)) not in _BEYOND]
        return replace(page, records=records)


class _BatchPlanner:
    """The steps from an offset onwards, and the offset reached so far.

    partitions: those seen, by key, with the fields of their parents. run: the run that these steps belong to.
    """

    def __init__(self, stream: Stream, start: Offset, now: datetime, lag: timedelta, run: RunScope) -> None:
        self.offset, self.ended, self.run = start, False, run
        self.partitions: dict[str, Partition] = {}
        self._stream, self._state = stream, _state(stream, start)
        self._steps: Iterator[Step] = micro_batch_steps(stream, self._state, now, lag)

    def advance(self, most: int | None) -> Offset:
        """Take at most `most` slices, and return the offset after them."""
        if self.ended:
            return self.offset
        taken: list[Step] = []
        remaining = inf if most is None else most
        while remaining and (step := next(self._steps, None)) is not None:
            taken.append(step)
            if step.slice is not None:
                self.partitions[step.slice.partition.key] = step.slice.partition
                remaining -= 1
        self._state = state_after(self._state, taken)
        if remaining:
            self.ended = True
            self._state = drop_shared_cursor(self._state)
        if taken:
            self.offset = _offset(self._stream, self._state)
        return self.offset


def _partitions_by_key(stream: Stream, state: StreamState) -> Mapping[str, Partition]:
    """Return the current partitions by key, for a batch that an earlier process planned."""
    return {partition.key: partition for partition in without_states(stream.listed(state))}


def _slice_limit(limit: ReadLimit) -> int | None:
    match limit:
        case ReadMaxFiles(most):
            return most
        case ReadMaxRows() | ReadMaxBytes():
            return 1
        case _:
            return None


def _offset(stream: Stream, state: StreamState) -> Offset:
    blob = encode(state, incremental=stream.incremental, cursor_field=stream.cursor_field, exact=True)
    return {"state": canonical(blob)}


def _state(stream: Stream, offset: Mapping[str, FieldValue]) -> StreamState:
    return decode(from_json(offset["state"]), path=f"offset of {stream.name}", cursor_field=stream.cursor_field)
