"""Micro-batches of a streaming read: from one state to a later one that is known before anything is read.

Spark requests the end of a batch first and its rows afterwards, possibly again after a restart. So a batch reads
windows that end at a point in the past and own the records before it; the state after the batch is that point, whatever
records there were. A stream without a cursor advances partition by partition, each from `Start` to `Done`.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from cdk.base.errors import BadState, ConfigError
from cdk.base.values import FieldValue, canonical
from cdk.state.position import Checkpoint, Done, Edge, Position, Start
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.state.window import Window
from cdk.streams.checkpoint.parent_state import followed_until
from cdk.streams.checkpoint.partitioned import PartitionCheckpointReader
from cdk.streams.checkpoint.reader import CheckpointReader, PartitionReader
from cdk.streams.cursor import Cursor
from cdk.streams.stream import Stream

# A cursor whose last window ends at the same value now and this much later has an end of its own: no format is coarser
# than years.
_MUCH_LATER = timedelta(days=400)
_FAR = datetime(9998, 1, 1, tzinfo=UTC)
"""The present, as passed to a cursor for windows up to a value, or up to its own end."""


class Bound(Struct, frozen=True):
    """The value up to which a batch reads. closing: it is the cursor's own end, and nothing follows its last window."""

    until: FieldValue
    closing: bool = False

    @property
    def own_end(self) -> str | None:
        """The cursor's own end, as text; None if nothing ends there but the batch."""
        return canonical(self.until) if self.closing else None


def check_streamable(stream: Stream, state: StreamState) -> None:
    """Refuse streams and states that cannot be read batch by batch.

    Raises ConfigError: when the end of a batch of this stream is known only after it was read. BadState: when the state
    has open slices of an interrupted read.
    """
    reason = None
    if stream.chosen_by_state:
        reason = "its state chooses between two streams"
    elif stream.grouped:
        reason = "its partitions are groups, which change with their members"
    elif type(stream).slices is not Stream.slices or not _reader_of(stream).startswith("cdk."):
        reason = "it plans its slices itself"
    elif stream.cursor is not None and stream.cursor.open_ended:
        reason = f"the end of its cursor {stream.cursor.field!r} is known only once it was read"
    elif stream.cursor is None and stream.cursor_field is not None:
        reason = f"the end of its cursor {stream.cursor_field!r} is known only once it was read"
    elif stream.cursor is None and not stream.supports_checkpointing:
        reason = "it has neither a cursor nor pages to resume from"
    if reason is not None:
        why = f"cannot be read with readStream: {reason}; read it with spark.read or sync it into a table"
        raise ConfigError(why, stream=stream.name, path=stream.name)
    if any(at.resume is not None for at in state.positions.values()):
        raise BadState("option state", "the state of an interrupted read", "the state of a complete read")


def _reader_of(stream: Stream) -> str:
    """Return the module of the class that defines the stream's checkpoint reader."""
    return next(cls.__module__ for cls in type(stream).__mro__ if "checkpoint_reader" in vars(cls))


def find_bound(stream: Stream, now: datetime, lag: timedelta) -> Bound | None:
    """Return the value up to which a batch planned at `now` reads; None: the cursor starts later.

    That is `lag` before now, minus the cursor's lookback: records that a later read would read again are not final.

    Raises ConfigError: when the cursor's windows do not end there.
    """
    cursor, upper = stream.cursor, now - lag
    assert cursor is not None
    if cursor.by_request:
        until = _within(stream.name, cursor, upper)
    else:
        until = _end(cursor, upper)
        # The cursor's own end is final: records with that value, or newer ones, are read with the last window.
        if until is not None and until == _end(cursor, upper + _MUCH_LATER):
            return Bound(until, closing=True)
    if until is None:
        return None
    again = next(cursor.windows(until, upper), None)
    return Bound(until if again is None else again.start)


def micro_batch_reader(
    stream: Stream, state: StreamState, now: datetime, bound: Bound | None, *, closed: bool
) -> CheckpointReader:
    """Return the reader of what there is to read after `state`. A slice counts as read once it is handed out.

    bound: None without a cursor. closed: whether positions that are done were closed at the bound, the own end of the
    cursor.
    """
    end = None if bound is None or stream.cursor is None else stream.cursor.timestamp(bound.until)
    partitions = stream.listed(state)

    def inner(partition: Partition, position: Position) -> PartitionReader:
        reader = _BatchPartitionReader(stream.cursor, partition, position, bound)
        if not (closed and position.done):
            reader.mismatch = stream.slices(partition, position, now).mismatch
        return reader

    return PartitionCheckpointReader(partitions if end is None else followed_until(end, partitions), inner, state)


class _BatchPartitionReader(PartitionReader):
    """The slices of one partition up to the end of a batch. Its position is that after the last one handed out."""

    position: Position = Start()
    finished = False

    def __init__(self, cursor: Cursor | None, partition: Partition, position: Position, bound: Bound | None) -> None:
        super().__init__(partition, position)
        self.position, self.counts_pages = position, cursor is None
        self._slices = _partition(cursor, partition, position, bound)

    def next(self) -> Slice | None:
        slice, self.position = next(self._slices, (None, self.position))
        self.finished = slice is None
        return slice

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        """Do nothing: the position after a slice does not depend on its records."""


def slices_between(
    stream: Stream, start: StreamState, end: StreamState, known: Mapping[str, Partition]
) -> Iterator[Slice]:
    """Yield the slices that lead from one state to another, as `micro_batch_reader` planned them.

    known: partitions with the fields of their parents, by key.

    Raises BadState: when the stream's cursor no longer leads there, because its start or its steps were changed.
    """
    for bare, position in end.positions.items():
        before = start.of(bare)
        if position == before:
            continue
        partition = known.get(bare.key, bare)
        bound = None
        if stream.cursor is not None:
            value = _value(stream.cursor, position)
            # A position that is done was closed at the cursor's own end, which does not depend on the time.
            bound = Bound(_end(stream.cursor, _FAR), closing=True) if position.done else Bound(value)
        reached = before
        for slice, reached in _partition(stream.cursor, partition, before, bound):  # noqa: B007 - the last one counts
            yield slice
        if reached != position:
            text = f"{position}, as the query has saved it; change a stream's cursor only between two queries"
            raise BadState(f"the offset of {stream.name} {bare.key}", reached, text, stream=stream.name)


def _partition(
    cursor: Cursor | None, partition: Partition, position: Position, bound: Bound | None
) -> Iterator[tuple[Slice, Position]]:
    """Yield the slices of a partition, each with the partition's position after it."""
    if position.done:
        return
    if cursor is None or bound is None:
        yield Slice(partition, start=position), Done()
        return
    after, edge = _value(cursor, position), position.edge
    for window in _windows(cursor, after, bound):
        at: Position = Done() if window.last else Checkpoint({cursor.field: window.until})
        yield Slice(partition, window, edge=edge), at
        edge = None


def _windows(cursor: Cursor, after: FieldValue, bound: Bound) -> Iterator[Window]:
    """Yield the windows from a value to the bound, without lookback: records before the value were final."""
    if not bound.closing:
        yield from cursor.windows(after, _FAR, upto=bound.until, again=False)
        return
    windows = list(cursor.windows(after, _FAR, again=False))
    if not windows and cursor.greatest([after, bound.until]) == bound.until:
        # An earlier batch ended exactly at the cursor's end, and left out records with that value.
        windows = [Window(bound.until, bound.until, bound.until)]
    yield from windows


def _value(cursor: Cursor, position: Position) -> FieldValue:
    return None if position.cursor is None else position.cursor.get(cursor.field)


def _within(name: str, cursor: Cursor, upper: datetime) -> FieldValue:
    """Return `upper` as a manifest's cursor spells it; None before its start. Its own end may move with the clock."""
    until = cursor.window_value(upper.isoformat())
    reached = _end(cursor, upper, until)
    if reached is None:
        return None
    own = _end(cursor, upper)
    if cursor.window_value(reached) != until:
        reason = "its windows are aligned to days, weeks or months; read it with spark.read"
    elif own is None or cursor.greatest([own, until]) != cursor.window_value(own):
        reason = f"its cursor ends at {own!r}; set a larger lag if this end moves, else read it with spark.read"
    else:
        return until
    raise ConfigError(f"cannot be read with readStream: {reason}", path=name, stream=name)


def _end(cursor: Cursor, now: datetime, upto: FieldValue = None) -> FieldValue:
    """Return where the last window of a first read ends; None if there are no windows."""
    until = None
    for window in cursor.windows(None, now, upto=upto, again=False):
        until = window.until
    return until
