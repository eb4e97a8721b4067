"""CheckpointReader: the three verbs `next`, `observe` and `get_checkpoint`; and the reader of pages.

A reader lives on one thread, the one that owns the state; the slices it hands out travel.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from cdk.state.position import Checkpoint, Edge, Position, Start
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState


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

    def compare_fields(self) -> None:  # noqa: B027 - most have no partitions
        """Find out, before the first slice, whether the state knows partitions by other fields: a `mismatch`."""

    def skip_finished(self) -> None:  # noqa: B027 - most have no partitions
        """Leave out, from the first slice on, the partitions that an interrupted read had read to their end.

        For a full refresh, which needs each once; others ask them for what is new, last of all.
        """

    def end_with_plan(self) -> None:  # noqa: B027 - most have no plan but that of today
        """Read what an interrupted read had planned and not finished, and leave what is newer to another read."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether every slice has been planned and read to its end."""

    @property
    def parents(self) -> Mapping[str, ParentState]:
        """How far the parents are covered that the stream follows, by name."""
        return {}

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
    was_finished: as its state says, an earlier read has read the partition to its end.
    counts_pages: its position is a page of its partition, and of no use to another one.
    """

    ends_early = was_finished = counts_pages = False

    def __init__(self, partition: Partition, position: Position) -> None:
        self.partition = partition
        self._reported = position

    @property
    @abstractmethod
    def position(self) -> Position:
        """How far the partition was read, as its state says."""

    def get_checkpoint(self) -> StreamState | None:
        if self.position == self._reported:
            return None
        self._reported = self.position
        return StreamState({self.partition: self._reported})


class PassingReader(CheckpointReader):
    """A reader around another, to which it passes everything on; for overriding."""

    def __init__(self, inner: CheckpointReader) -> None:
        self._inner = inner

    def next(self) -> Slice | None:
        return self._inner.next()

    def compare_fields(self) -> None:
        self._inner.compare_fields()

    def skip_finished(self) -> None:
        self._inner.skip_finished()

    def end_with_plan(self) -> None:
        self._inner.end_with_plan()

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        self._inner.observe(slice, position, edge)

    def resume(self, slice: Slice, position: Position, edge: Edge | None = None) -> Slice:
        return self._inner.resume(slice, position, edge)

    def forget_missing(self, now: datetime, after: timedelta) -> int:
        return self._inner.forget_missing(now, after)

    @property
    def parents(self) -> Mapping[str, ParentState]:
        return self._inner.parents

    @property
    def mismatch(self) -> str:  # type: ignore[override] # it is the wrapped reader that finds one
        return self._inner.mismatch

    @property
    def finished(self) -> bool:
        return self._inner.finished

    def get_checkpoint(self) -> StreamState | None:
        return self._inner.get_checkpoint()


class PageCheckpointReader(PartitionReader):
    """One slice that starts where the last attempt stopped: full refresh, resumable or not.

    keeps_cursor: the author advances a cursor value by hand (`self.state = {"updated_at": ...}`). The end of the
    slice then leaves that value instead of `Done`, so that the next sync goes on from it.
    """

    def __init__(self, partition: Partition, position: Position, *, keeps_cursor: bool = False) -> None:
        super().__init__(partition, position)
        if not keeps_cursor and (position.resume is not None or position.edge is not None):
            of_partition = f" of {partition.key}" if partition else ""
            self.mismatch = f"the state{of_partition} knows windows of a cursor, and the stream has no cursor"
            position = Start()
        self._position = position
        self._keeps_cursor, self.counts_pages = keeps_cursor, not keeps_cursor
        self._planned = self._finished = position.done and not keeps_cursor

    @property
    def position(self) -> Position:
        return self._position

    @property
    def finished(self) -> bool:
        return self._finished

    def next(self) -> Slice | None:
        if self._planned:
            return None
        self._planned = True
        return Slice(self.partition, start=Start() if self._position.done else self._position)

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:  # noqa: ARG002
        self._finished = position.done
        if not (position.done and self._keeps_cursor):
            self._position = position
        elif self._position.paging is not None:
            # The author has set no state: the next read begins where this one has.
            self._position = Checkpoint(self._position.cursor) if self._position.cursor else Start()
