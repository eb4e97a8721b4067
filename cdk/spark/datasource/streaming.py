"""`spark.readStream.format("cdk")`: reads a stream continuously, with its state as the query's offset.

A batch reads from one state to another, and the later state is known before the batch is read (`micro_batch_reader`),
so a batch that is repeated after a restart requests the same windows. Spark stores offsets in the query's checkpoint.
An offset has the stream's state in its exact wire form, and what the state belongs to: `{"state": TEXT, "stream":
NAME}`, with `cursor`, the cursor's field, and `end`, the cursor's own end once a partition has been read up to it.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from math import inf

import pyarrow as pa
from msgspec import Struct
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

from cdk.base.errors import StateError
from cdk.base.run import RunScope
from cdk.base.values import canonical, from_json
from cdk.spark.datasource.micro_batches import check_streamable, find_bound, micro_batch_reader, slices_between
from cdk.spark.datasource.open_stream import OpenStream, masking
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.log.value_check import SecretCheck
from cdk.state.position import Done
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.state.wire import decode, encode
from cdk.streams.checkpoint.parent_state import without_states
from cdk.streams.checkpoint.reader import CheckpointReader
from cdk.streams.cursor import Side
from cdk.streams.page import ReadPage
from cdk.streams.stream import Stream

Offset = dict[str, str]


class Offsets(Struct, frozen=True):
    """Writes the offsets of a stream, and reads them. leaks: the secrets that no offset may contain."""

    stream: Stream
    leaks: SecretCheck

    def write(self, state: StreamState, end: str | None) -> Offset:
        """Return the offset of a state. end: the cursor's own end, if a partition was read up to it.

        Raises StateError: when the state contains a secret of the config.
        """
        stream = self.stream
        text = canonical(encode(state, incremental=stream.incremental, exact=True))
        self.leaks.refuse(text.encode(), self._path)
        belongs = {"stream": stream.name, "cursor": stream.cursor_field, "end": end}
        return {"state": text, **{name: value for name, value in belongs.items() if value is not None}}

    def read(self, offset: Mapping[str, str]) -> StreamState:
        """Return the state of an offset. Raises StateError: when it belongs to another stream, or another cursor."""
        stream = self.stream
        if (name := offset["stream"]) != stream.name:
            raise self._foreign(
                f"the stream {name!r}",
                f"{stream.name!r}",
                "give each stream a checkpoint folder of its own. If this one was renamed, start a query with another "
                "checkpoint folder, whose option state is the state in this offset",
            )
        if (field := offset.get("cursor")) != stream.cursor_field:
            raise self._foreign(
                f"the cursor {field!r}" if field else "a stream without a cursor",
                f"the cursor {stream.cursor_field!r}" if stream.cursor_field else "one without a cursor",
                "all of it would be read again. Have the source advance as before, or start a query with another "
                "checkpoint folder",
            )
        return decode(from_json(offset["state"]), path=self._path, cursor_field=stream.cursor_field)

    def check_end(self, offset: Mapping[str, str], end: str | None) -> None:
        """Raise StateError when partitions were read up to another end than `end`, that of today's cursor."""
        if (closed := offset.get("end")) not in {None, end}:
            raise self._foreign(
                f"a stream that was read up to its end at {closed}",
                f"one that {'ends at ' + end if end else 'has no end'}",
                "what follows would not be read. Have the cursor end there again, or start a query with another "
                "checkpoint folder, whose option state has that end as the cursor's value",
            )

    def changed(self, difference: str) -> StateError:
        """Return the error for a state from which the stream does not resume. difference: how the two differ."""
        return StateError(
            f"{difference}: all of it would be read again. Have the source name it as before, or start a query with "
            "another checkpoint folder",
            path=self._path,
            stream=self.stream.name,
        )

    def _foreign(self, actual: str, expected: str, do: str) -> StateError:
        text = f"found the offset of {actual} in the query's checkpoint, expected that of {expected}: {do}"
        return StateError(text, path=self._path, stream=self.stream.name)

    @property
    def _path(self) -> str:
        return f"offset of {self.stream.name}"


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
        self._offsets = Offsets(opened.stream, SecretCheck(opened.config_secrets))
        self._lag, self._slices = lag, slices
        self._end_time: datetime | None = None
        self._planner: _BatchPlanner | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, as those below
        """Return the offset of the state that the query starts from: the option `state`, or an empty state."""
        with masking(self._reading.secrets):
            state = self._reading.stream.starting_from(self._initial_state)
            # Parts that only other forms of the state need would not survive the round trip through an offset.
            return self._offsets.write(replace(state, extra={}, after=None), None)

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
                planner = self._planner = _BatchPlanner(self._offsets, start, now, self._lag, self._tokens.run())
            with planner.run.working():
                return planner.advance(_slice_limit(limit))

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the slices between two offsets; the same on every call."""
        stream, planner = self._reading.stream, self._planner
        with masking(self._reading.secrets), self._tokens.run().working():
            before, after = self._offsets.read(start), self._offsets.read(end)
            if "end" in end and stream.cursor is not None and (bound := find_bound(stream, stream.now(), self._lag)):
                self._offsets.check_end(end, bound.own_end)
            if planner is not None and planner.offset == end:
                partitions = planner.partitions
            else:
                # An earlier process has planned the batch.
                partitions = {partition.key: partition for partition in without_states(stream.listed(before))}
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
    """The slices from an offset onwards, and the offset reached so far.

    partitions: those seen, by key, with the fields of their parents. run: the run that these slices belong to.
    """

    def __init__(self, offsets: Offsets, start: Offset, now: datetime, lag: timedelta, run: RunScope) -> None:
        self.offset, self.run = start, run
        self.partitions: dict[str, Partition] = {}
        self._offsets, stream, state = offsets, offsets.stream, offsets.read(start)
        bound = None if stream.cursor is None else find_bound(stream, now, lag)
        self._end = None if bound is None else bound.own_end
        self._closed = start.get("end")
        self._reader: CheckpointReader | None = None
        self.ended = stream.cursor is not None and bound is None
        if not self.ended:
            offsets.check_end(start, self._end)
            self._reader = micro_batch_reader(stream, state, now, bound, closed=self._closed is not None)

    def advance(self, most: int | None) -> Offset:
        """Take at most `most` slices, and return the offset after them.

        Raises StateError: when a partition does not resume from the state that the source's state has for it.
        """
        if self._reader is None or self.ended:
            return self.offset
        self._reader.compare_fields()
        remaining = inf if most is None else most
        while remaining and not self.ended:
            slice = self._reader.next()
            if self._reader.mismatch:
                raise self._offsets.changed(self._reader.mismatch)
            if slice is None:
                self.ended = True
            else:
                self._add_to_batch(self._reader, slice)
                remaining -= 1
        if (state := self._reader.get_checkpoint()) is not None:
            self.offset = self._offsets.write(replace(state, after=None), self._closed)
        return self.offset

    def _add_to_batch(self, reader: CheckpointReader, slice: Slice) -> None:
        self.partitions[slice.partition.key] = slice.partition
        reader.observe(slice, Done())
        if slice.window is not None and slice.window.last:
            self._closed = self._end


def _slice_limit(limit: ReadLimit) -> int | None:
    match limit:
        case ReadMaxFiles(most):
            return most
        case ReadMaxRows() | ReadMaxBytes():
            return 1
        case _:
            return None
