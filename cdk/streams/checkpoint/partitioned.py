"""PartitionCheckpointReader: one reader per partition of a stream, and the state of all of them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain

from msgspec.structs import replace

from cdk.base.logs import logger
from cdk.base.values import canonical
from cdk.state.ack import AckQueue, Ticket
from cdk.state.position import Edge, Position, Start, without_tokens
from cdk.state.slice import WHOLE, Partition, Slice
from cdk.state.stored_positions import MovingPositions
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState
from cdk.streams.checkpoint.partition_fields import ComparedFields, other_types
from cdk.streams.checkpoint.reader import CheckpointReader, PartitionReader

_SEARCHED = 1_000
"""With followed parents, the most partitions to list before the first is read, since the run may end meanwhile."""


class PartitionCheckpointReader(CheckpointReader):
    """Runs one reader per partition, and owns the stream's state.

    partitions: in reading order, from a generator if there are many. A partition that is listed twice is read once,
    unless parents are followed: then it may have changed, and is read again once all others are planned. An interrupted
    read resumes after the partitions that it had completed; these come last, for new records, or are skipped.
    inner: builds the reader of a partition from its position. A new partition is at `Start` regardless of the others,
    so a new parent brings its whole history; unless the state has one cursor for all partitions.
    """

    def __init__(
        self,
        partitions: Iterable[Partition | ParentState],
        inner: Callable[[Partition, Position], PartitionReader],
        state: StreamState,
    ) -> None:
        self._partitions = iter(partitions) if state.after is None else self._resumed(state.after, partitions)
        self._inner, self._state = inner, state
        self._positions = MovingPositions(state.positions)
        self._parents = {name: ParentState(name, at) for name, at in state.parents.items()}
        self._readers: dict[Partition, PartitionReader] = {}
        self._opened_keys: set[str] = set()
        compares = bool(state.positions) and WHOLE not in state.positions
        self._compared = ComparedFields(state.positions) if compares else None
        """Compares the fields of today's partitions with the state's; None once a partition matches."""
        self._moved: dict[Partition, PartitionReader] = {}
        self._current: PartitionReader | None = None
        self._queue: AckQueue[ParentState | None] = AckQueue()
        """In planning order: partitions, as None, and parent states, which hold once all partitions before are read."""
        self._turns: AckQueue[Partition] = AckQueue()
        """Partitions in planning order, each until its first reader is finished."""
        self._tickets: dict[Partition, tuple[Ticket[ParentState | None], Ticket[Partition] | None]] = {}
        """The tickets of each open partition in `_queue` and `_turns`; no turn for one that is read again."""
        self._early_tickets: dict[Partition, Ticket[ParentState | None]] = {}
        """The tickets of partitions that an interrupted read had completed: they are listed before they are opened."""
        self._after = self._reported_after = state.after
        """The last partition up to which all turns are over; and its value in the last checkpoint."""
        self._has_cursor = False
        """Whether completed partitions have more to read in the next run."""
        self._ended_early: deque[Partition] = deque()
        """Partitions that need another reader, for records newer than the plan of an earlier run."""
        self._repeated: dict[Partition, Ticket[ParentState | None]] = {}
        """Partitions that were listed again, and the tickets for which later parent states wait."""
        self._reopened: deque[PartitionReader] = deque()
        """Readers that had nothing more to plan, until one of their slices ended."""
        self._changed = self._planned = self._follows = self._skips_finished = False
        self._skips_known = False
        """Whether the state belongs to the very read that is resumed, so its completed partitions are of that read."""
        self._takes_newer = True

    def skip_finished(self) -> None:
        self._skips_finished, self._skips_known = True, self._state.after is not None

    def end_with_plan(self) -> None:
        self._skips_finished, self._skips_known, self._takes_newer = True, True, False

    def next(self) -> Slice | None:
        while True:
            if self._current is not None:
                if (slice := self._current.next()) is not None:
                    return slice
                self._refresh(self._current)
                self._current = None
            if self._reopened:
                self._current = self._reopened.popleft()
                continue
            match next(self._partitions, None):
                case None:
                    self._end_repeats()
                    if not self._ended_early:
                        self._end_plan()
                        return None
                    self._open(self._ended_early.popleft())
                case ParentState() as parent:
                    self._follows = True
                    self._queue.close(self._queue.open(parent))
                    self._advance_parents()
                case partition if partition.key not in self._opened_keys:
                    self._open(partition)
                case partition:
                    self._repeat(partition)

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        reader = self._readers[slice.partition]
        reader.observe(slice, position, edge)
        self._refresh(reader)
        if position.done and reader is not self._current and not reader.finished:
            # A slice that ended may require the reader to read something again.
            self._reopened.append(reader)

    def resume(self, slice: Slice, position: Position, edge: Edge | None = None) -> Slice:
        return self._readers[slice.partition].resume(slice, position, edge)

    @property
    def finished(self) -> bool:
        return self._planned and not (self._readers or self._ended_early or self._repeated)

    def get_checkpoint(self) -> StreamState | None:
        for reader in self._moved.values():
            self._take_over(reader)
        self._moved.clear()
        after = None if self.finished else self._after
        if not self._changed and after == self._reported_after:
            return None
        self._changed, self._reported_after = False, after
        positions = self._positions.checkpoint()
        parents = {name: parent.state for name, parent in self._parents.items()}
        after = None if after is None else after.bare
        return replace(self._state, positions=positions, parents=parents, shares_cursor=False, after=after)

    @property
    def parents(self) -> Mapping[str, ParentState]:
        return self._parents

    def forget_missing(self, now: datetime, after: timedelta) -> int:
        # With followed parents, only partitions with news are listed. With one cursor for all, a partition would not
        # restart at its beginning. And a source without any partition is more likely faulty than empty.
        if not self.finished or self._parents or WHOLE in self._positions or not self._opened_keys:
            return 0
        forgotten = 0
        for key in [key for key in self._positions.known() if key not in self._opened_keys]:
            since = self._positions.missing_since(key)
            if now - (since or now) >= after:
                self._positions.forget(key)
                forgotten += 1
            elif since is None:
                self._positions.miss(key, now)
            else:
                continue
            self._changed = True
        return forgotten

    def _resumed(
        self, after: Partition, partitions: Iterable[Partition | ParentState]
    ) -> Iterator[Partition | ParentState]:
        """The partitions after `after` first, then those up to it.

        The order is unchanged if `after` is not listed, or not among the first `_SEARCHED` before a parent's state. A
        parent's state still waits for all partitions that were listed before it, including those that are read later.
        """
        up_to: dict[str, Partition] = {}
        partitions = iter(partitions)
        for item in partitions:
            searching = after.key not in up_to
            if isinstance(item, ParentState):
                if searching and len(up_to) >= _SEARCHED:
                    yield from chain(up_to.values(), [item], partitions)
                    return
                yield item
            elif item.key in up_to:
                continue  # it is read at the end
            elif searching:
                up_to[item.key] = item
                self._early_tickets[item] = self._queue.open(None)
                # If this run ends before it has listed up to `after`, the next one starts over instead of skipping all.
                self._after = after if item == after else None
            else:
                yield item
        if not (self._skips_finished and after.key in up_to):
            yield from up_to.values()
            return
        # Skipped partitions count as listed, for `forget_missing`. Parents' states still wait for them: an incremental
        # read may follow, which has to read their new records.
        for key, partition in up_to.items():
            if self._is_finished(partition):
                self._opened_keys.add(key)
            else:
                yield partition

    def _repeat(self, partition: Partition) -> None:
        """Record that a partition was listed again: it may have changed, so this or another read has to visit it."""
        if partition not in self._repeated:
            ticket = self._queue.open(None)
            if self._takes_newer:
                self._repeated[partition] = ticket

    def _is_finished(self, partition: Partition) -> bool:
        """Whether an interrupted read had completed a partition that is listed before the one to resume after.

        False with followed parents: these list children from their own interruption on, so unread ones may come first,
        and only the reader of each partition can tell.
        """
        known = self._positions.get(partition)
        return not (self._follows or known is None or known.resume or known.paging)

    def _end_plan(self) -> None:
        if not self._planned and self._compared is not None and (difference := self._compared.difference):
            logger.warning("%s: none resumes from the state, all are read from their start", difference)
        self._planned = True
        self._leave_shared_cursor()

    def _end_repeats(self) -> None:
        """Queue the repeated partitions that are not open to be read again; without followed parents, release them."""
        # Called whenever a slice ends, so the open partitions are only collected if some were repeated.
        busy = self._readers.keys() | set(self._ended_early) if self._repeated else ()
        for partition in [item for item in self._repeated if item not in busy]:
            ticket = self._repeated.pop(partition)
            if self._follows:
                self._tickets[partition] = ticket, None
                self._ended_early.append(partition)
            else:
                self._queue.close(ticket)

    def _open(self, partition: Partition) -> None:
        self._opened_keys.add(partition.key)
        self._compare(partition)
        position = self._positions.get(partition)
        if position is not None and self._positions.missing_since(partition.key) is not None:
            self._positions.miss(partition.key, None)
            self._changed = True
        if position is None and self._state.positions and not self.mismatch:
            known = next(filter(self._is_unread, other_types(partition)), None)
            if known is not None:
                self.mismatch = (
                    f"the state has the partition {known.key}, but the source's is now {partition.key}, of another type"
                )
        shared = self._positions.get(WHOLE) if position is None else None
        if shared is None:
            position = position or Start()
            reader = self._inner(partition, position)
        else:
            position, reader = self._open_at_shared(partition, shared)
        self.mismatch = self.mismatch or reader.mismatch
        if partition not in self._tickets:
            ticket, turn = self._early_tickets.get(partition) or self._queue.open(None), self._turns.open(partition)
            if self._skips_known and reader.was_finished and partition in self._positions:
                self._end_turn(turn, position)
                return
            self._tickets[partition] = ticket, turn
        self._current = self._readers[partition] = reader

    def _open_at_shared(self, partition: Partition, shared: Position) -> tuple[Position, PartitionReader]:
        """The position and the reader of a new partition, when the state has one position for all of them."""
        position = without_tokens(shared)
        reader, first = self._inner(partition, position), len(self._opened_keys) == 1
        pages = reader.resumes_at_page and position != Start()
        if pages or position != shared:
            fields = ", ".join(map(repr, partition.fields))
            known = f"the state has pages of a read without partitions, but the source's partitions now have {fields}"
            self.mismatch = self.mismatch or known
        elif first:
            logger.warning(
                "the state has one cursor for all partitions (%s): partitions that it does not list start from it, "
                "and their older records are not read",
                "read completely" if position.cursor is None else canonical(dict(position.cursor)),
            )
        return (Start(), self._inner(partition, Start())) if pages else (position, reader)

    def _is_unread(self, partition: Partition) -> bool:
        listed = partition.key in self._opened_keys or partition in self._early_tickets
        return partition in self._positions and not listed

    def compare_fields(self) -> None:
        """List partitions until one has the same fields as the state; without a match, all of them, in memory."""
        listed: list[Partition | ParentState] = []
        while self._compared is not None and not self.mismatch:
            item = next(self._partitions, None)
            if item is None:
                self.mismatch = self._compared.difference
                break
            listed.append(item)
            if not isinstance(item, ParentState):
                self._compare(item)
        if listed:
            self._partitions = chain(listed, self._partitions)

    def _compare(self, partition: Partition) -> None:
        if self._compared is not None and self._compared.has_those_of(partition):
            self._compared = None

    def _refresh(self, reader: PartitionReader) -> None:
        """Record that a partition has advanced, and drop its reader once that is finished.

        The position is computed with the next checkpoint, since a reader of many windows examines all open ones for it.
        """
        partition = reader.partition
        if self._readers.get(partition) is not reader:
            return
        self._moved[partition] = reader
        if reader.finished:
            position = self._take_over(self._moved.pop(partition))
            del self._readers[partition]
            ticket, turn = self._tickets[partition]
            if turn is not None:
                self._end_turn(turn, position)
            if reader.ends_early:
                # If the newer records are left to another read, parents' states wait for that read, too.
                if self._takes_newer:
                    self._ended_early.append(partition)
            else:
                self._queue.close(ticket)
                del self._tickets[partition]
            self._advance_parents()
            self._leave_shared_cursor()

    def _end_turn(self, turn: Ticket[Partition], position: Position) -> None:
        self._turns.close(turn)
        self._has_cursor = self._has_cursor or bool(turn.item and not position.done)
        if (closed := self._turns.pop_closed()) and self._has_cursor:
            self._after = closed[-1]

    def _take_over(self, reader: PartitionReader) -> Position:
        position = reader.position
        if position != Start() or reader.partition in self._positions:
            self._changed |= self._positions.move(reader.partition, position)
        return position

    def _advance_parents(self) -> None:
        for parent in self._queue.pop_closed():
            if parent is not None:
                self._changed |= self._parents.get(parent.name) != parent
                self._parents[parent.name] = parent

    def _leave_shared_cursor(self) -> None:
        """Drop the cursor that all partitions share once each has its own."""
        if self._follows and self._state.parents:
            return  # only partitions of changed parents were listed
        if self._planned and not self._readers and WHOLE in self._positions and self._opened_keys - {WHOLE.key}:
            self._changed |= self._positions.move(WHOLE, None)
