"""CheckpointReader with its three verbs `next`, `observe` and `get_checkpoint`, and the reader of pages.

A reader stays on one thread, which owns the state; the slices that it hands out are sent elsewhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from cdk.state.position import Checkpoint, Edge, Position, Start
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState


class CheckpointReader(ABC):
    """Plans the slices of a stream and owns its state. Not thread-safe.

    mismatch: why a part of the stream starts over although the state covers it; empty unless that happens.
    """

    mismatch: str = ""

    @abstractmethod
    def next(self) -> Slice | None:
        """The next slice to read; None when there is nothing to plan until a slice that was handed out ends."""

    @abstractmethod
    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:
        """Record that everything before `position` of `slice` has been emitted.

        edge: the greatest cursor value of this slice so far, if the stream has a cursor.
        """

    @abstractmethod
    def get_checkpoint(self) -> StreamState | None:
        """The state; None if it has not changed since the last call, so no state is emitted twice."""

    def compare_fields(self) -> None:  # noqa: B027 - most have no partitions
        """Set `mismatch` if the partitions in the state have other fields than the source's. Call it before `next`."""

    def skip_finished(self) -> None:  # noqa: B027 - most have no partitions
        """Skip the partitions that an interrupted read had completed. Call it before `next`.

        For a full refresh, which needs each partition once; other reads visit these last, for new records.
        """

    def end_with_plan(self) -> None:  # noqa: B027 - most have no earlier plan
        """Complete the plan of an interrupted read, and leave newer records to another read."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether every slice has been planned and read to its end."""

    @property
    def parents(self) -> Mapping[str, ParentState]:
        """The states of the parents that the stream follows, up to which their children are covered; by name."""
        return {}

    def resume(self, slice: Slice, position: Position, edge: Edge | None = None) -> Slice:  # noqa: ARG002
        """The rest of a slice that was interrupted at `position`."""
        return replace(slice, start=position)

    def forget_missing(self, now: datetime, after: timedelta) -> int:  # noqa: ARG002
        """Drop the partitions that the source has not listed for `after` from the state; return their number.

        Call it on a finished reader. A partition that reappears later is read from its start.
        """
        return 0


class PartitionReader(CheckpointReader):
    """A reader of one partition.

    ends_early: its plan is the rest of an earlier one; newer records need another reader.
    was_finished: according to its state, an earlier read completed the partition.
    resumes_at_page: its position is a page token, which means nothing for another partition.
    """

    ends_early = was_finished = resumes_at_page = False

    def __init__(self, partition: Partition, position: Position) -> None:
        self.partition, self._reported = partition, position

    @property
    @abstractmethod
    def position(self) -> Position:
        """The position to save for the partition."""

    def get_checkpoint(self) -> StreamState | None:
        if self.position == self._reported:
            return None
        self._reported = self.position
        return StreamState({self.partition: self._reported})


class PassingReader(CheckpointReader):
    """Base class of readers that wrap another one: delegates everything to it."""

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
    """Plans one slice, which starts where the last attempt stopped: a full refresh, resumable or not.

    keeps_cursor: the author advances a cursor value by hand (`self.state = {"updated_at": ...}`). At its end, the slice
    then leaves that value instead of `Done`, and the next sync continues from it.
    """

    position: Position = Start()
    finished = False

    def __init__(self, partition: Partition, position: Position, *, keeps_cursor: bool = False) -> None:
        super().__init__(partition, position)
        if not keeps_cursor and (position.resume is not None or position.edge is not None):
            of_partition = f" of {partition.key}" if partition else ""
            self.mismatch = f"the state{of_partition} has windows of a cursor, but the stream has no cursor"
            position = Start()
        self.position, self._keeps_cursor, self.resumes_at_page = position, keeps_cursor, not keeps_cursor
        self._planned = self.finished = position.done and not keeps_cursor

    def next(self) -> Slice | None:
        if self._planned:
            return None
        self._planned = True
        return Slice(self.partition, start=Start() if self.position.done else self.position)

    def observe(self, slice: Slice, position: Position, edge: Edge | None = None) -> None:  # noqa: ARG002
        self.finished = position.done
        if not (position.done and self._keeps_cursor):
            self.position = position
        elif self.position.paging is not None:
            # The author has set no state, so the next read starts where this one did.
            self.position = Checkpoint(self.position.cursor) if self.position.cursor else Start()
