"""SliceCheckpointReader: plans the windows of a cursor, hands them out and closes them."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from cdk.base.values import JsonValue
from cdk.state.ack import AckQueue, Ticket
from cdk.state.position import Checkpoint, Done, Edge, OpenSlice, Position, Resume, Start
from cdk.state.slice import Partition, Slice
from cdk.state.window import Window
from cdk.streams.checkpoint.reader import PartitionReader
from cdk.streams.checkpoint.repeated_records import OpenedWindow, Undated, merged, moved
from cdk.streams.cursor import Cursor


class SliceCheckpointReader(PartitionReader):
    """Plans the windows of a cursor. They open in order and close in any order; the position follows the closed front.

    An interrupted attempt leaves a `Resume` in its checkpoint. The next reader hands out the windows that were open,
    fills the gaps between them, and continues the plan, unless the last window had already started: then the plan ends
    with that window, as it would have, and another reader covers newer records. The plan of a cursor with a lookback
    always ends where it would have ended, because the next plan must look back to the time of the first attempt. A
    finished attempt leaves only the cursor value.
    """

    def __init__(self, cursor: Cursor, partition: Partition, position: Position, now: datetime) -> None:
        super().__init__(partition, position)
        self._cursor = cursor
        self._queue: AckQueue[OpenedWindow] = AckQueue()
        self._tickets: dict[object, Ticket[OpenedWindow]] = {}
        self._reopened: deque[OpenedWindow] = deque()
        self._owing: list[Ticket[OpenedWindow]] = []
        self._owed: deque[Slice] = deque()
        self._planned = False
        self._other_fields: dict[str, JsonValue] = {}
        self._before: object = None
        self._edge: Edge | None = None
        self._through: object = None
        self._any_closed = False
        self._upto = cursor.plan_end(now)
        resume: Resume | None = None
        match position:
            case Checkpoint(cursor={cursor.field: value, **fields}, edge=edge, resume=resume):
                self._before, self._other_fields, self._edge = value, fields, edge or Edge(value)
                self.was_finished = resume is None
            case Checkpoint(cursor=known):
                self.mismatch = self._mismatch(", ".join(map(repr, known)))
            case Done():
                self.mismatch = self._mismatch("a completed read")
            case Start():
                pass
        self._undated = Undated(self._edge)
        if resume is None:
            self._windows = cursor.windows(self._before, now)
        else:
            self._through, self._any_closed = resume.through, True
            self._windows = self._reopen(resume, now)
            self._close_owing()

    def _mismatch(self, known: str) -> str:
        of_partition = f" of {self.partition.key}" if self.partition else ""
        return f"the state{of_partition} has {known}, but no value of the cursor {self._cursor.field!r}"

    def _reopen(self, resume: Resume, now: datetime) -> Iterator[Window]:
        """Queue the windows that an earlier attempt left open and the gaps between them; return those that follow."""
        after = resume.through
        for item in resume.open:
            if self._cursor.greatest([after, item.window.start]) != item.window.start:
                continue  # a range that overlaps the one before it, edited by hand or by another kit: read it again
            if item.window.start != after:
                for gap in self._cursor.windows(after, now, upto=item.window.start, again=False):
                    self._enqueue(OpenedWindow(gap, Start()))
            self._enqueue(OpenedWindow(item.window, item.position, item.edge))
            after = item.window.until
        # The last window also owns records that have appeared since, so nothing is planned after it.
        is_planned = bool(resume.open) and resume.open[-1].window.last
        if self._upto is None:
            self.ends_early = is_planned
            return iter(()) if is_planned else self._cursor.windows(after, now, again=False)
        self.ends_early, self._upto = True, resume.upto
        # A state of another kit lacks the end of its plan, which is no later than the windows it has started.
        is_planned = is_planned or resume.upto is None
        return iter(()) if is_planned else self._cursor.windows(after, now, upto=resume.upto, again=False)

    def _enqueue(self, item: OpenedWindow) -> None:
        ticket = self._tickets[item.window.until] = self._queue.open(item)
        self._undated.learn(item.edge)
        if item.position.done:
            self._end(ticket)
        else:
            self._reopened.append(item)

    @property
    def finished(self) -> bool:
        return self._planned and not len(self._queue)

    @property
    def position(self) -> Position:
        value = self._before if self._edge is None else self._edge.value
        resume = None if self.finished else self._unfinished()
        if value is None:
            # No window is closed yet: the position is the start of the first one, with the windows that are open.
            return Start() if resume is None else Checkpoint({self._cursor.field: resume.through}, None, resume)
        return Checkpoint({**self._other_fields, self._cursor.field: value}, self._edge, resume)

    def next(self) -> Slice | None:
        if self._owed:
            return self._owed.popleft()
        if self._reopened:
            item = self._reopened.popleft()
            return self.resume(self._slice_of(item), item.position, item.edge)
        for window in self._windows:
            if self._through is None:
                self._through = window.start
            opened = OpenedWindow(window, Start())
            self._tickets[window.until] = self._queue.open(opened)
            return self._slice_of(opened)
        self._planned = True
        return None

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        assert slice.window is not None
        ticket = self._tickets[slice.window.until]
        opened, again = ticket.item, slice.owed is not None
        if again and edge is not None:
            # The repeated read skips all records with a value, even those that are new since the window was read.
            edge = replace(edge, value=None)
        opened.edge = merged(self._cursor, (opened.edge, edge), () if slice.edge is None else slice.edge.keys)
        self._undated.learn(edge)
        if not again:
            opened.position = position
        if position.done:
            self._end(ticket, settled=again)
            self._close_owing()

    def resume(self, slice: Slice, position: Position, edge: Edge | None = None) -> Slice:
        window = slice.window
        if self._cursor.ordered and position != Start() and window is not None and edge is not None:
            # A cursor with a lookback also meets records of earlier runs beyond the value reached.
            known = merged(self._cursor, (slice.edge and moved(self._cursor, slice.edge, edge.value), edge))
            window = replace(window, start=self._cursor.window_value(edge.value))
            return replace(slice, window=window, start=Start(), edge=known, met=None)
        return replace(slice, start=position, met=edge)

    def _slice_of(self, opened: OpenedWindow) -> Slice:
        """The slice of a window, with the edge of the records that it will meet again."""
        holds = self._undated.holds(opened)
        return Slice(self.partition, opened.window, edge=self._undated.known(), holds=holds)

    def _end(self, ticket: Ticket[OpenedWindow], *, settled: bool = False) -> None:
        """Close a completed window, unless it holds back records that it may still have to emit."""
        opened = ticket.item
        if opened.edge is not None and opened.held:
            if not settled:
                self._owing.append(ticket)
                return
            opened.edge = replace(opened.edge, held={})
        self._close(ticket)

    def _close_owing(self) -> None:
        """Close the windows whose held records another one has emitted; queue the others to be read for these alone."""
        if self._undated.pending:
            return
        owing, self._owing = self._owing, []
        for ticket in owing:
            if owed := self._undated.claim(ticket.item.held):
                known = self._undated.known()
                self._owed.append(Slice(self.partition, ticket.item.window, edge=known, owed=owed))
            else:
                self._end(ticket, settled=True)

    def _close(self, ticket: Ticket[OpenedWindow]) -> None:
        self._queue.close(ticket)
        for item in self._queue.pop_closed():
            del self._tickets[item.window.until]
            self._any_closed = True
            self._planned = self._planned or item.window.last
            self._through = item.window.until
            self._edge = merged(self._cursor, (self._edge, item.edge))
            value = self._cursor.reached(item.window, self._edge.value if self._edge else None, self._before)
            if self._edge is None or self._edge.value != value:
                self._edge = moved(self._cursor, self._edge or Edge(value), value)
        if self.finished and self._edge is not None and self._edge.beyond is not None:
            self._edge = self._up_to_beyond(self._edge)

    def _up_to_beyond(self, edge: Edge) -> Edge:
        """The edge of a finished plan, at a value beyond the window that returned it if the plan reaches so far."""
        value, edge = edge.beyond, replace(edge, beyond=None)
        if not self._cursor.state_order.reaches(self._through, value):
            return edge
        return moved(self._cursor, edge, self._cursor.greatest([edge.value, value]))

    def _unfinished(self) -> Resume | None:
        """The progress of this attempt, for the next one; None if it has read nothing."""
        opened = [OpenSlice(t.item.window, t.item.position, t.item.edge) for t in self._queue]
        while opened and opened[-1].position == Start():
            opened.pop()
        return Resume(self._through, tuple(opened), self._upto) if opened or self._any_closed else None
