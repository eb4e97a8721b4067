"""Previews of what a sync would read: its first slices and records, or figures. They write nothing durable."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TypeVar

from cdk.base.run import RunScope
from cdk.base.values import JsonValue, Record
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.engine.boundary_dedup import read_without_boundary_duplicates
from cdk.lake.admin.locate import OpenTables
from cdk.lake.delta.table_state import TableState
from cdk.rest.http.metrics import HttpMetrics, counting
from cdk.rest.http_stream import HttpStream
from cdk.state.position import Done, Edge
from cdk.state.slice import WHOLE, Partition
from cdk.state.window import Window
from cdk.state.wire import state_of
from cdk.streams.stream import Stream
from cdk.sync.loop.slice_schedule import SliceSchedule
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.resume import resume_point
from cdk.sync.tables.stale_removal import check_table
from cdk.sync.tables.table_fit import check_writing
from cdk.sync.tasks.messages import Failure, SliceResult

_SLICES = 5


@dataclass
class StreamLook(ABC):
    """A look at what a sync would read of a stream."""

    plan: StreamPlan
    state: JsonValue = None
    """The state that a sync would resume from; None to start at the beginning."""
    saved: TableState | None = field(default=None, repr=False)
    """The table's saved state; None if it has none."""
    failure: Failure | None = field(default=None, repr=False)
    """Why the look failed."""

    @abstractmethod
    def fill(self, most: int) -> None:
        """Look at up to `most` records or slices from `state` on. Raises what a sync would raise."""


Look = TypeVar("Look", bound=StreamLook)


def look_ahead(
    kind: Callable[[StreamPlan], Look],
    plans: Sequence[StreamPlan],
    pipeline: Pipeline,
    tables: OpenTables,
    *,
    most: int,
    run: RunScope,
    check: Callable[[Stream], None],
) -> Iterator[Look]:
    """Yield a look at each stream. An error is recorded in the look of its stream.

    run: the run scope to work in. check: raises ConfigError for a stream that cannot be sent to workers.
    """
    for plan in plans:
        look = kind(plan)
        try:
            check(plan.stream)
            look.saved = _saved_at(plan, pipeline, tables)
            look.state = resume_point(plan, look.saved, "")[0].state
            with run.working():
                look.fill(most)
        except Exception as error:  # noqa: BLE001 - an error fails only this stream
            look.failure = Failure.of(error)
        yield look


def _saved_at(plan: StreamPlan, pipeline: Pipeline, tables: OpenTables) -> TableState | None:
    """Return the saved state that a sync would start from. Opening an existing table writes nothing.

    Raises what a sync would raise before it reads.
    """
    table = check_writing(plan, tables)
    removal = plan.remove_stale
    if removal is not None and table is not None:
        check_table(plan, table, removal.removal)
    return None if table is None or pipeline.state.ignore_old_state else table.saved


@dataclass
class Preview(StreamLook):
    """The first slices and records of a stream."""

    slices: Sequence[str] = ()
    """The first slices that a sync would read."""
    more: bool = False
    """Whether there are further slices."""
    records: Sequence[Record] = field(default=(), repr=False)
    """The first records that the table lacks."""

    def fill(self, most: int) -> None:
        """Read up to `most` records; with 0, only planning sends requests to the API."""
        stream = self.plan.stream
        schedule = SliceSchedule(stream, self.state, single=False, check=lambda _: None)
        first = list(islice(iter(schedule.next, None), _SLICES + 1))
        slices = chain(first, iter(schedule.next, None))
        pages = (page for slice in slices for page in read_without_boundary_duplicates(stream, slice))
        self.records = list(islice((record for page in pages for record in page.records), most))
        self.slices, self.more = [str(slice) for slice in first[:_SLICES]], len(first) > _SLICES


@dataclass
class PlannedRead(StreamLook):
    """The figures of what a sync would read of a stream."""

    slices: int = 0
    """Number of slices that were counted."""
    partitions: int = 0
    """Number of partitions of the counted slices."""
    new_partitions: int | None = None
    """Number of these partitions that the state does not know; None if it knows no partition."""
    quiet_partitions: int | None = None
    """Number of other known partitions, which are missing or have nothing to read; None if not all were counted."""
    first: object = None
    """Start of the first window; None if there are no windows."""
    last: object = None
    """End of the last window; None if there are no windows or it is open."""
    complete: bool = False
    """Whether all slices were counted."""
    sent: int = 0
    """Number of requests that planning sent."""
    least_requests: int | None = None
    """Minimum number of requests that reading takes; None if unknown."""
    afterwards: JsonValue = None
    """The state after reading all of that, if each window has a record at its very end."""

    @property
    def writes(self) -> str:
        """What the sync does with the rows, in words."""
        plan = self.plan
        if plan.traits.hidden_until_complete:
            return "replaces all rows once the new ones are complete"
        if not plan.traits.merges:
            return "adds rows" if plan.sync_mode == "incremental" else "adds every row again, as a new generation"
        key = ", ".join(".".join(path) for path in plan.stream.key_paths)
        deleted = ", and deleted ones are removed" if plan.hard_deletes else ""
        history = ", and the history keeps all versions" if plan.history is not None else ""
        return f"rows replace those with the same {key}{deleted}{history}"

    def fill(self, most: int) -> None:
        """Count up to `most` slices."""
        with counting(HttpMetrics()) as http:
            try:
                self._count(most)
            finally:
                self.sent = http.requests

    def _widen(self, window: Window) -> None:
        """Extend `first` and `last` to include a window; an open window has no end."""
        cursor = self.plan.stream.cursor
        assert cursor is not None
        if self.first is None:
            self.first, self.last = window.start, window.end
            return
        if window.start != self.first and cursor.greatest([window.start, self.first]) == self.first:
            self.first = window.start
        open_end = self.last is None or window.end is None
        self.last = None if open_end else cursor.greatest([self.last, window.end])

    def _count(self, most: int) -> None:
        """Plan slice after slice, as if each was read to its end at once and had a record there."""
        stream, partitions = self.plan.stream, set[Partition]()
        schedule = SliceSchedule(stream, self.state, single=False, check=lambda _: None)
        known = state_of(stream, self.state).positions
        while not (ended := schedule.plan_end()) and self.slices < most:
            slice = schedule.next()
            assert slice is not None
            window = slice.window
            edge = None if window is None or window.end is None else Edge(window.end)
            schedule.add_result(slice, SliceResult(self.slices, (Done(),), edge))
            self.slices += 1
            partitions.add(slice.partition)
            if window is not None:
                self._widen(window)
        self.partitions, self.complete = len(partitions), ended
        if self.state is not None and known and WHOLE not in known:
            self.new_partitions = sum(1 for each in partitions if each not in known)
            self.quiet_partitions = len(known) - len(partitions) + self.new_partitions if ended else None
        if isinstance(stream, HttpStream | DeclaredStream):
            self.least_requests = self.slices
        if ended:
            self.afterwards = schedule.state()
