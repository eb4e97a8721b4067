"""Checkpoint readers: they plan slices, are told how far each got, and say what to remember.

A reader lives on one thread, the one that owns the state; the slices it hands out travel. All three speak the same
three verbs: `next`, `observe`, `get_checkpoint`.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cdk.base.logs import logger
from cdk.base.values import FieldValue, canonical
from cdk.state.ack import AckQueue, Ticket
from cdk.state.position import Checkpoint, Done, Edge, OpenSlice, Position, Resume, Start
from cdk.state.slice import WHOLE, Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.state.window import Window
from cdk.streams.cursor import Cursor


class CheckpointReader(ABC):
    """Plans the slices of a stream and keeps its state. Not thread-safe.

    mismatch: why something that the state knows is planned from its start, in words, once it is; empty before.
    """

    mismatch: str = ""

    @abstractmethod
    def next(self) -> Slice | None:
        """The next slice to read, or None: nothing is left to plan until a slice that is out has ended."""

    @abstractmethod
    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        """Take note that everything before `position` of `slice` has been emitted.

        edge: the greatest cursor value met in this slice so far, where the stream has a cursor.
        """

    @abstractmethod
    def get_checkpoint(self) -> StreamState | None:
        """The state, or None when nothing is new since it was last asked for: so nothing is emitted twice."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether every slice has been planned and read to its end."""

    def resume(self, slice: Slice, position: Position, edge: Edge | None = None) -> Slice:  # noqa: ARG002
        """The rest of a slice that was cut at `position`."""
        return replace(slice, start=position)

    def forget_missing(self, now: datetime, after: timedelta) -> int:  # noqa: ARG002
        """Forget the partitions that the source's lists have lacked for `after`; return how many they were.

        For a reader that is finished. A partition that comes back later is read from its start.
        """
        return 0


class PartitionReader(CheckpointReader):
    """A reader of one partition.

    ends_early: its plan is the rest of an earlier one; what is newer takes another reader.
    """

    ends_early = False

    def __init__(self, partition: Partition, position: Position) -> None:
        self.partition = partition
        self._restored = self._taken = position

    @property
    @abstractmethod
    def position(self) -> Position:
        """How far the partition was read, as its state says."""

    def get_checkpoint(self) -> StreamState | None:
        if self.position == self._taken:
            return None
        self._taken = self.position
        return StreamState({self.partition: self._taken})


class PageCheckpointReader(PartitionReader):
    """One slice, begun where the last attempt stopped: full refresh, resumable or not.

    keeps_cursor: the author advances a cursor value by hand (`self.state = {"updated_at": ...}`). The end of the
    slice then leaves that value instead of `Done`, so that the next sync goes on from it.
    """

    def __init__(self, partition: Partition, position: Position, *, keeps_cursor: bool = False) -> None:
        super().__init__(partition, position)
        self._position = position
        self._keeps_cursor = keeps_cursor
        self._planned = isinstance(position, Done) and not keeps_cursor
        self._settled = self._planned

    @property
    def position(self) -> Position:
        return self._position

    @property
    def finished(self) -> bool:
        return self._settled

    def next(self) -> Slice | None:
        if self._planned:
            return None
        self._planned = True
        return Slice(self.partition, start=Start() if isinstance(self._position, Done) else self._position)

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:  # noqa: ARG002
        done = isinstance(position, Done)
        self._settled = done
        if not (done and self._keeps_cursor):
            self._position = position


@dataclass(slots=True)
class _Opened:
    """A window that was handed out, and what is known of it."""

    window: Window
    position: Position
    edge: Edge | None = None


class SliceCheckpointReader(PartitionReader):
    """The windows of a cursor. They open in order and close in any; the position follows the closed front.

    An attempt that was cut leaves `Resume` in its checkpoint: this reader then hands out the windows that were open,
    fills what lies between, and plans on, unless the last window had been begun: then the plan ends with it, as it
    would have, and another reader brings what is newer. A finished attempt leaves the cursor value alone.
    """

    def __init__(self, cursor: Cursor, partition: Partition, position: Position, now: datetime) -> None:
        super().__init__(partition, position)
        self._cursor = cursor
        self._queue: AckQueue[_Opened] = AckQueue()
        self._tickets: dict[FieldValue, Ticket[_Opened]] = {}
        self._again: deque[_Opened] = deque()
        self._giver: Ticket[_Opened] | None = None
        self._owing: list[Ticket[_Opened]] = []
        self._claimed: dict[str, int] = {}
        self._owed: deque[Slice] = deque()
        self._planned = False
        self._kept: dict[str, FieldValue] = {}
        self._before: FieldValue | None = None
        self._edge: Edge | None = None
        self._through: FieldValue | None = None
        self._any_closed = False
        match position:
            case Checkpoint(cursor={cursor.field: value, **kept}, edge=edge, resume=resume):
                self._before, self._kept, self._edge = value, kept, edge or Edge(value)
            case Start():
                resume = None
            case _:
                resume = None
                cursor_fields = ", ".join(map(repr, position.cursor)) if isinstance(position, Checkpoint) else "its end"
                of_partition = f" of {partition.key}" if partition else ""
                self.mismatch = (
                    f"the state{of_partition} knows {cursor_fields}, and no value of the cursor {cursor.field!r}"
                )
        self._remembered = self._edge
        self._undated = {} if self._edge is None else self._edge.undated
        if resume is None:
            self._windows = cursor.windows(self._before, now)
        else:
            self._through, self._any_closed = resume.through, True
            self._windows = self._reopen(resume, now)
            self._close_owing()

    def _reopen(self, resume: Resume, now: datetime) -> Iterator[Window]:
        """Queue what an earlier attempt left open, and the gaps between, at once; return the windows that follow."""
        after = resume.through
        for item in resume.open:
            if self._cursor.greatest([after, item.window.start]) != item.window.start:
                continue  # a range that a person or another kit wrote over the one before it: read once more
            if item.window.start != after:
                for gap in self._cursor.windows(after, now, upto=item.window.start, again=False):
                    self._enqueue(_Opened(gap, Start()))
            self._enqueue(_Opened(item.window, item.position, item.edge))
            after = item.window.until
        # The last window owns all that is newer, also what has come since: nothing is planned behind it.
        self.ends_early = bool(resume.open) and resume.open[-1].window.last
        return iter(()) if self.ends_early else self._cursor.windows(after, now, again=False)

    def _enqueue(self, item: _Opened) -> None:
        ticket = self._tickets[item.window.until] = self._queue.open(item)
        self._learn(item.edge)
        if isinstance(item.position, Done):
            self._end(ticket)
        else:
            self._again.append(item)

    @property
    def finished(self) -> bool:
        return self._planned and not len(self._queue)

    @property
    def position(self) -> Position:
        value = self._before if self._edge is None else self._edge.value
        resume = None if self.finished else self._unfinished()
        if value is None:
            # Nothing is closed yet. What is open still counts; the start of the first window is where it all begins.
            return Start() if resume is None else Checkpoint({self._cursor.field: resume.through}, None, resume)
        return Checkpoint({**self._kept, self._cursor.field: value}, self._edge, resume)

    def next(self) -> Slice | None:
        if self._owed:
            return self._owed.popleft()
        if self._again:
            item = self._again.popleft()
            return self.resume(self._slice_of(self._tickets[item.window.until]), item.position, item.edge)
        for window in self._windows:
            if self._through is None:
                self._through = window.start
            ticket = self._tickets[window.until] = self._queue.open(_Opened(window, Start()))
            return self._slice_of(ticket)
        self._planned = True
        return None

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        assert slice.window is not None
        ticket = self._tickets[slice.window.until]
        if slice.owed is not None and edge is not None:
            # It leaves out all records with a value, also those that have come since the window was read.
            edge = replace(edge, value=None)
        ticket.item.edge = self._merge(ticket.item.edge, edge, () if slice.edge is None else slice.edge.keys)
        self._learn(edge)
        if slice.owed is None:
            ticket.item.position = position
        if isinstance(position, Done):
            self._end(ticket, settled=slice.owed is not None)
            self._close_owing()

    def resume(self, slice: Slice, position: Position, edge: Edge | None = None) -> Slice:
        window = slice.window
        if self._cursor.ordered and isinstance(position, Checkpoint) and window is not None and edge is not None:
            # A cursor that looks back meets records of earlier runs also behind the value reached.
            known = self._merge(slice.edge and _at(slice.edge, edge.value, self._stays), edge)
            return replace(slice, window=replace(window, start=edge.value), start=Start(), edge=known, met=None)
        return replace(slice, start=position, met=edge)

    def _slice_of(self, ticket: Ticket[_Opened]) -> Slice:
        """The slice of a window, with what is known of the records that it will meet again.

        Windows that are read at once cannot tell whether another is giving a record without a cursor value. So the
        first that is handed out gives them, and the others hold back those that are not known to be given.
        """
        if self._giver is None and not self._claimed:
            self._giver = ticket
        return Slice(self.partition, ticket.item.window, edge=self._known(), holds=ticket is not self._giver)

    def _known(self) -> Edge | None:
        if not self._undated:
            return self._remembered
        remembered = self._remembered or Edge(None)
        keys = {**remembered.keys, **dict.fromkeys(self._undated)}
        counts = {digest: count for digest, count in self._undated.items() if count > 1}
        return Edge(remembered.value, keys, {**remembered.counts, **counts})

    def _learn(self, edge: Edge | None) -> None:
        """Take note of the records without a cursor value that a window has given."""
        for digest, count in ({} if edge is None else edge.undated).items():
            if digest in self._undated or len(self._undated) < Edge.MAX_KEYS:
                self._undated[digest] = max(count, self._undated.get(digest, 0))

    def _end(self, ticket: Ticket[_Opened], *, settled: bool = False) -> None:
        """Close a window that was read to its end, unless it may owe records that it held back."""
        edge = ticket.item.edge
        if edge is not None and edge.held:
            if not settled:
                self._owing.append(ticket)
                return
            ticket.item.edge = replace(edge, held={})
        self._close(ticket)

    def _close_owing(self) -> None:
        """Close the windows whose records another one has given; have the others read once more, for those alone."""
        if self._giver is not None and not isinstance(self._giver.item.position, Done):
            return
        owing, self._owing = self._owing, []
        for ticket in owing:
            held = {} if ticket.item.edge is None else ticket.item.edge.held
            delivered = {digest: max(self._undated.get(digest, 0), self._claimed.get(digest, 0)) for digest in held}
            if owed := {
                digest: count - delivered[digest] for digest, count in held.items() if count > delivered[digest]
            }:
                self._claimed.update({digest: held[digest] for digest in owed})
                self._owed.append(Slice(self.partition, ticket.item.window, edge=self._known(), owed=owed))
            else:
                self._end(ticket, settled=True)

    def _close(self, ticket: Ticket[_Opened]) -> None:
        self._queue.close(ticket)
        for item in self._queue.pop_closed():
            del self._tickets[item.window.until]
            self._any_closed = True
            self._planned = self._planned or item.window.last
            self._through = item.window.until
            self._edge = self._merge(self._edge, item.edge)
            value = self._cursor.reached(item.window, self._edge.value if self._edge else None, self._before)
            if self._edge is None or self._edge.value != value:
                self._edge = _at(self._edge or Edge(value), value, self._stays)

    def _merge(self, first: Edge | None, second: Edge | None, staying: Container[str] = ()) -> Edge | None:
        """What is remembered of two edges, at the greater value. kept: digests that stay wherever their records lie.

        Where both have met a record both have counted it: the greater number holds, not their sum.
        """
        if first is None or second is None:
            return first or second
        values = [edge.value for edge in (first, second) if edge.value is not None]
        greatest = self._cursor.greatest(values) if values else None
        keys = {
            digest: value
            for edge in (first, second)
            for digest, value in edge.keys.items()
            if digest in staying or self._stays(value, greatest)
        }
        counts = {d: max(first.count(d), second.count(d)) for d in {**first.counts, **second.counts} if d in keys}
        held = {d: max(first.held.get(d, 0), second.held.get(d, 0)) for d in {**first.held, **second.held}}
        return Edge(greatest, keys, counts, held)

    def _stays(self, value: FieldValue, reached: FieldValue) -> bool:
        """Whether a record is still to be remembered: those without a cursor value come with every window."""
        return value is None or self._cursor.repeats(value, reached)

    def _unfinished(self) -> Resume | None:
        """What this attempt has read; None when it has read nothing."""
        opened = [OpenSlice(t.item.window, t.item.position, t.item.edge) for t in self._queue]
        while opened and isinstance(opened[-1].position, Start):
            opened.pop()
        return Resume(self._through, tuple(opened)) if opened or self._any_closed else None


def _at(edge: Edge, value: FieldValue, stays: Callable[[FieldValue, FieldValue], bool]) -> Edge:
    """What is still remembered of an edge when the cursor stands at `value`."""
    keys = {digest: at for digest, at in edge.keys.items() if stays(at, value)}
    return replace(edge, value=value, keys=keys, counts={d: n for d, n in edge.counts.items() if d in keys})


def _words(position: Position) -> str:
    """Where a partition stands, as its state is written."""
    return canonical(dict(position.cursor)) if isinstance(position, Checkpoint) else "read to its end"


def _untyped(partition: Partition) -> str:
    """What identifies a partition, whether its ids are numbers or texts."""
    return partition.key.replace('"', "")


@dataclass(frozen=True, slots=True)
class ParentState:
    """Said among partitions: all partitions so far stem from what the parent had read when it stood at `state`."""

    name: str
    state: StreamState


@dataclass(slots=True)
class _Member:
    """A partition in planning order, or the progress of a parent that holds once all before it are settled."""

    partition: Partition | None
    parent: ParentState | None = None


class PartitionCheckpointReader(CheckpointReader):
    """Any reader, once per partition; the owner of the stream's state.

    partitions: in the order to read them, from a generator if there are many; one that comes twice is read once.
    inner: builds the reader of a partition from where it stands. A partition never met stands at `Start`, whatever
    the others say, so a new parent brings its whole history; unless the state keeps one cursor for all partitions.
    """

    def __init__(
        self,
        partitions: Iterable[Partition | ParentState],
        inner: Callable[[Partition, Position], PartitionReader],
        state: StreamState,
    ) -> None:
        self._partitions = iter(partitions)
        self._inner, self._state = inner, state
        self._positions = dict(state.positions)
        self._parents = dict(state.parents)
        self._missing = dict(state.missing)
        self._readers: dict[Partition, PartitionReader] = {}
        self._seen: set[str] = set()
        self._fields: set[frozenset[str]] = set()
        self._alike = {_untyped(partition): partition for partition in state.positions}
        self._moved: dict[Partition, PartitionReader] = {}
        self._current: PartitionReader | None = None
        self._queue: AckQueue[_Member] = AckQueue()
        self._tickets: dict[Partition, Ticket[_Member]] = {}
        self._newer: deque[Partition] = deque()
        self._asked_again: deque[PartitionReader] = deque()
        self._changed = self._planned = False

    def next(self) -> Slice | None:
        while True:
            if self._current is not None:
                if (slice := self._current.next()) is not None:
                    return slice
                self._refresh(self._current)
                self._current = None
            if self._asked_again:
                self._current = self._asked_again.popleft()
                continue
            item = next(self._partitions, None)
            if item is None and self._newer:
                self._open(self._newer.popleft())
            elif item is None:
                if not self._planned:
                    self._warn_of_fields()
                self._planned = True
                self._leave_shared_cursor()
                return None
            elif isinstance(item, ParentState):
                self._queue.close(self._queue.open(_Member(None, item)))
                self._advance_parents()
            elif item.key not in self._seen:
                self._open(item)

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        reader = self._readers[slice.partition]
        reader.observe(slice, position, edge)
        self._refresh(reader)
        if isinstance(position, Done) and reader is not self._current and not reader.finished:
            # It had planned all it could; what has ended may be a reason to read some of it once more.
            self._asked_again.append(reader)

    def resume(self, slice: Slice, position: Position, edge: Edge | None = None) -> Slice:
        return self._readers[slice.partition].resume(slice, position, edge)

    @property
    def finished(self) -> bool:
        return self._planned and not self._readers and not self._newer

    def get_checkpoint(self) -> StreamState | None:
        for reader in self._moved.values():
            self._take_over(reader)
        self._moved.clear()
        if not self._changed:
            return None
        self._changed = False
        positions, parents, missing = dict(self._positions), dict(self._parents), dict(self._missing)
        return replace(self._state, positions=positions, parents=parents, missing=missing)

    def forget_missing(self, now: datetime, after: timedelta) -> int:
        # Not every partition is listed where the progress of parents says which ones are; one that starts where all
        # others stand would not be read from its start; and a source that has none at all is more likely a fault.
        if not self.finished or self._parents or WHOLE in self._positions or not self._seen:
            return 0
        absent = [partition for partition in self._positions if partition.key not in self._seen]
        missing = {partition: self._missing.get(partition, now) for partition in absent}
        forgotten = [partition for partition, since in missing.items() if now - since >= after]
        for partition in forgotten:
            del self._positions[partition], missing[partition]
        self._changed = self._changed or bool(forgotten) or missing != self._missing
        self._missing = missing
        return len(forgotten)

    def _open(self, partition: Partition) -> None:
        self._seen.add(partition.key)
        self._fields.add(frozenset(partition.fields))
        if self._missing.pop(partition, None) is not None:
            self._changed = True
        if partition and partition not in self._positions and WHOLE in self._positions and len(self._seen) == 1:
            logger.warning(
                "the state keeps one cursor for all partitions (%s): each partition starts from it; "
                "reset the stream's state to read the whole history of every partition",
                _words(self._positions[WHOLE]),
            )
        alike = self._alike.get(_untyped(partition), partition)
        if partition not in self._positions and alike.key not in self._seen:
            self.mismatch = self.mismatch or (
                f"the state knows the partition {alike.key}, and today's is {partition.key}, of another type"
            )
        position = self._positions.get(partition) or self._positions.get(WHOLE) or Start()
        self._current = self._readers[partition] = self._inner(partition, position)
        self.mismatch = self.mismatch or self._current.mismatch
        self._tickets[partition] = self._queue.open(_Member(partition))

    def _warn_of_fields(self) -> None:
        """Say that the state is of no use: it knows partitions by other fields than today's, all of them."""
        known = {frozenset(partition.fields) for partition in self._state.positions if partition}
        if known and self._fields and known.isdisjoint(self._fields):
            old, today = (", ".join(map(repr, sorted(min(fields, key=sorted)))) for fields in (known, self._fields))
            logger.warning(
                "the state knows partitions by %s, and today's have %s: none goes on from the state, all are read from "
                "their start",
                old,
                today or "no fields",
            )

    def _refresh(self, reader: PartitionReader) -> None:
        """Note that a partition has moved, and forget its reader once nothing more can come from it.

        Where it stands is asked for with the next checkpoint: a reader of many windows looks at all that are open.
        """
        partition = reader.partition
        if self._readers.get(partition) is not reader:
            return
        self._moved[partition] = reader
        if reader.finished:
            self._take_over(self._moved.pop(partition))
            del self._readers[partition]
            self._queue.close(self._tickets.pop(partition))
            if reader.ends_early:
                self._newer.append(partition)
            self._advance_parents()
            self._leave_shared_cursor()

    def _take_over(self, reader: PartitionReader) -> None:
        position = reader.position
        if self._positions.get(reader.partition, Start()) != position:
            self._positions[reader.partition.bare] = position
            self._changed = True

    def _advance_parents(self) -> None:
        for member in self._queue.pop_closed():
            if member.parent is not None and self._parents.get(member.parent.name) != member.parent.state:
                self._parents[member.parent.name] = member.parent.state
                self._changed = True

    def _leave_shared_cursor(self) -> None:
        """Drop the cursor kept for all partitions once each has its own."""
        if self._planned and not self._readers and WHOLE in self._positions and self._seen - {WHOLE.key}:
            del self._positions[WHOLE]
            self._changed = True
