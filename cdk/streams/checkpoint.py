"""Checkpoint readers: they plan slices, are told how far each got, and say what to remember.

A reader lives on one thread, the one that owns the state; the slices it hands out travel. All three speak the same
three verbs: `next`, `observe`, `get_checkpoint`.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from cdk.base.logs import logger
from cdk.base.values import Json
from cdk.state.ack import AckQueue, Ticket
from cdk.state.position import Checkpoint, Done, Edge, OpenSlice, Position, Resume, Start
from cdk.state.slice import WHOLE, Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.state.window import Window
from cdk.streams.cursor import Cursor


class CheckpointReader(ABC):
    """Plans the slices of a stream and keeps its state. Not thread-safe."""

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
        """Where the partition stands."""

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
        self._tickets: dict[Json, Ticket[_Opened]] = {}
        self._again: deque[_Opened] = deque()
        self._planned = False
        self._kept: dict[str, Json] = {}
        self._before: Json | None = None
        self._edge: Edge | None = None
        self._through: Json | None = None
        self._any_closed = False
        match position:
            case Checkpoint(cursor={cursor.field: value, **kept}, edge=edge, resume=resume):
                self._before, self._kept, self._edge = value, kept, edge or Edge(value)
            case Start():
                resume = None
            case _:
                resume = None
                logger.warning(
                    "%s: %s has no value of the cursor %r, so it is read from its start",
                    partition.key,
                    position,
                    cursor.field,
                )
        self._remembered = self._edge
        if resume is None:
            self._windows = cursor.windows(self._before, now)
        else:
            self._through, self._any_closed = resume.through, True
            self._windows = self._reopen(resume, now)

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
        if isinstance(item.position, Done):
            self._close(ticket)
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
        if self._again:
            item = self._again.popleft()
            slice = Slice(self.partition, item.window, edge=self._remembered)
            return self.resume(slice, item.position, item.edge)
        for window in self._windows:
            if self._through is None:
                self._through = window.start
            self._tickets[window.until] = self._queue.open(_Opened(window, Start()))
            return Slice(self.partition, window, edge=self._remembered)
        self._planned = True
        return None

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        assert slice.window is not None
        ticket = self._tickets[slice.window.until]
        ticket.item.position = position
        ticket.item.edge = self._merge(ticket.item.edge, edge)
        if isinstance(position, Done):
            self._close(ticket)

    def resume(self, slice: Slice, position: Position, edge: Edge | None = None) -> Slice:
        if self._cursor.ordered and isinstance(position, Checkpoint) and edge is not None and slice.window is not None:
            # A cursor that looks back meets records of earlier runs also behind the value reached.
            before = {} if slice.edge is None else slice.edge.keys
            ahead = {key: value for key, value in before.items() if self._cursor.repeats(value, edge.value)}
            window = replace(slice.window, start=edge.value)
            return replace(slice, window=window, start=Start(), edge=replace(edge, keys={**ahead, **edge.keys}))
        return replace(slice, start=position)

    def _close(self, ticket: Ticket[_Opened]) -> None:
        self._queue.close(ticket)
        for item in self._queue.take():
            del self._tickets[item.window.until]
            self._any_closed = True
            self._planned = self._planned or item.window.last
            self._through = item.window.until
            self._edge = self._merge(self._edge, item.edge)
            value = self._cursor.reached(item.window, self._edge.value if self._edge else None, self._before)
            if self._edge is None or self._edge.value != value:
                keys = {} if self._edge is None else self._edge.keys
                self._edge = Edge(value, {k: v for k, v in keys.items() if self._cursor.repeats(v, value)})

    def _merge(self, first: Edge | None, second: Edge | None) -> Edge | None:
        if first is None or second is None:
            return first or second
        greatest = self._cursor.greatest([first.value, second.value])
        keys = {k: v for edge in (first, second) for k, v in edge.keys.items() if self._cursor.repeats(v, greatest)}
        return Edge(greatest, keys)

    def _unfinished(self) -> Resume | None:
        """What this attempt has read; None when it has read nothing."""
        opened = [OpenSlice(t.item.window, t.item.position, t.item.edge) for t in self._queue]
        while opened and isinstance(opened[-1].position, Start):
            opened.pop()
        return Resume(self._through, tuple(opened)) if opened or self._any_closed else None


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
        self._readers: dict[Partition, PartitionReader] = {}
        self._seen: set[str] = set()
        self._moved: dict[Partition, PartitionReader] = {}
        self._current: PartitionReader | None = None
        self._queue: AckQueue[_Member] = AckQueue()
        self._tickets: dict[Partition, Ticket[_Member]] = {}
        self._newer: deque[Partition] = deque()
        self._changed = self._planned = False

    def next(self) -> Slice | None:
        while True:
            if self._current is not None:
                if (slice := self._current.next()) is not None:
                    return slice
                self._refresh(self._current)
                self._current = None
            item = next(self._partitions, None)
            if item is None and self._newer:
                self._open(self._newer.popleft())
            elif item is None:
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
        return replace(self._state, positions=dict(self._positions), parents=dict(self._parents))

    def _open(self, partition: Partition) -> None:
        self._seen.add(partition.key)
        if partition and partition not in self._positions and WHOLE in self._positions and len(self._seen) == 1:
            logger.warning(
                "the state keeps one cursor for all partitions (%s): each partition starts from it; "
                "reset the stream's state to read the whole history of every partition",
                self._positions[WHOLE],
            )
        position = self._positions.get(partition) or self._positions.get(WHOLE) or Start()
        self._current = self._readers[partition] = self._inner(partition, position)
        self._tickets[partition] = self._queue.open(_Member(partition))

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
        for member in self._queue.take():
            if member.parent is not None and self._parents.get(member.parent.name) != member.parent.state:
                self._parents[member.parent.name] = member.parent.state
                self._changed = True

    def _leave_shared_cursor(self) -> None:
        """Drop the cursor kept for all partitions once each has its own."""
        if self._planned and not self._readers and WHOLE in self._positions and self._seen - {WHOLE.key}:
            del self._positions[WHOLE]
            self._changed = True
