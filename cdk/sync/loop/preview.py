"""Previews: what a sync would read, its first slices or the figures of all, found without writing what lasts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from cdk.base.run import RunScope
from cdk.base.values import JsonValue, Record
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.engine.boundary_dedup import read_without_boundary_duplicates
from cdk.lake.admin.locate import OpenTables
from cdk.rest.http.metrics import HttpMetrics, counting
from cdk.rest.http_stream import HttpStream
from cdk.state.position import Done, Edge
from cdk.state.slice import Partition
from cdk.streams.stream import Stream
from cdk.sync.loop.resume import resume_point
from cdk.sync.loop.slice_schedule import SliceSchedule
from cdk.sync.loop.stale_removal import check_table
from cdk.sync.loop.table_fit import check_writing
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.messages import Failure, SliceResult

_SLICES = 5


@dataclass(frozen=True)
class Preview:
    """What a sync would read of a stream."""

    name: str
    sync_mode: str
    write_mode: str
    state: JsonValue = None
    """Where it would resume; None at its start."""
    slices: Sequence[str] = ()
    """The first slices that it would read."""
    more: bool = False
    """Whether there are further slices."""
    records: Sequence[Record] = field(default=(), repr=False)
    """The first records that the table lacks."""
    failure: Failure | None = None
    """What went wrong."""


def previews(
    plans: Sequence[StreamPlan],
    pipeline: Pipeline,
    tables: OpenTables,
    *,
    most: int,
    run: RunScope,
    check: Callable[[Stream], None],
) -> Iterator[Preview]:
    """A preview of each stream, with up to `most` records. With 0 the API is asked only for what planning needs.

    run: of which the reading is a part. check: raises ConfigError for a stream that workers cannot have.
    """
    for plan in plans:
        preview = Preview(plan.name, plan.sync_mode, plan.write_mode)
        try:
            check(plan.stream)
            preview = replace(preview, state=state_at(plan, pipeline, tables))
            with run.working():
                preview = _read(preview, plan, most)
            yield preview
        except Exception as error:  # noqa: BLE001 - it fails this stream and no other
            yield replace(preview, failure=Failure.of(error))


def state_at(plan: StreamPlan, pipeline: Pipeline, tables: OpenTables) -> JsonValue:
    """The state from which a sync would go on. Opening a table that is there writes nothing.

    Raises what a sync would before it reads.
    """
    table = check_writing(plan, tables)
    removal = plan.remove_stale
    if removal is not None and table is not None:
        check_table(plan, table, removal.removal)
    saved = None if table is None or pipeline.state.ignore_old_state else table.saved
    state: JsonValue = resume_point(plan, saved, "")[0].state
    return state


def _read(preview: Preview, plan: StreamPlan, most: int) -> Preview:
    schedule = SliceSchedule(plan.stream, preview.state, single=False, check=lambda _: None)
    first = list(islice(iter(schedule.next, None), _SLICES + 1))
    records: list[Record] = []
    for slice in chain(first, iter(schedule.next, None)):
        if len(records) >= most:
            break
        for page in read_without_boundary_duplicates(plan.stream, slice):
            records.extend(page.records[: most - len(records)])
            if len(records) >= most:
                break
    return replace(
        preview, slices=[str(slice) for slice in first[:_SLICES]], more=len(first) > _SLICES, records=records
    )


@dataclass
class PlannedRead:
    """The figures of one stream.

    state: where it would resume; None at its start. slices, partitions: how many there are, of the slices that were
    counted. first, last: where the windows begin and end, if there are any. complete: whether all slices were counted.
    sent: requests that planning took. least_requests: those that reading takes at least; None where nobody can tell.
    afterwards: the state when all of that is read, and each window had a record at its very end.
    """

    plan: StreamPlan
    state: JsonValue = None
    slices: int = 0
    partitions: int = 0
    first: object = None
    last: object = None
    complete: bool = False
    sent: int = 0
    least_requests: int | None = None
    afterwards: JsonValue = None
    failure: Failure | None = field(default=None, repr=False)

    @property
    def writes(self) -> str:
        """What becomes of the rows, in words."""
        plan = self.plan
        if plan.traits.hidden_until_complete:
            return "replaces all rows once the new ones are complete"
        if not plan.traits.merges:
            return "adds rows"
        key = ", ".join(".".join(path) for path in plan.stream.key_paths)
        deleted = ", and deleted ones leave" if plan.hard_deletes else ""
        history = ", and a history keeps all" if plan.history is not None else ""
        return f"rows replace those with the same {key}{deleted}{history}"


def planned_reads(
    plans: Sequence[StreamPlan],
    pipeline: Pipeline,
    tables: OpenTables,
    *,
    most: int,
    run: RunScope,
    check: Callable[[Stream], None],
) -> Iterator[PlannedRead]:
    """The figures of each stream, of up to `most` slices. What goes wrong is in those of its stream.

    run: of which the planning is a part. check: raises ConfigError for a stream that workers cannot have.
    """
    for plan in plans:
        planned = PlannedRead(plan)
        try:
            check(plan.stream)
            planned.state = state_at(plan, pipeline, tables)
            with run.working(), counting(HttpMetrics()) as http:
                try:
                    _count(planned, most)
                finally:
                    planned.sent = http.requests
        except Exception as error:  # noqa: BLE001 - it fails this stream and no other
            planned.failure = Failure.of(error)
        yield planned


def _count(planned: PlannedRead, most: int) -> None:
    """Plan slice after slice, each as if it was read to its end at once, with a record there."""
    stream, partitions = planned.plan.stream, set[Partition]()
    schedule = SliceSchedule(stream, planned.state, single=False, check=lambda _: None)
    while not (ended := schedule.plan_end()) and planned.slices < most:
        slice = schedule.next()
        assert slice is not None
        window = slice.window
        edge = None if window is None or window.end is None else Edge(window.end)
        schedule.add_result(slice, SliceResult(planned.slices, (Done(),), edge))
        planned.slices += 1
        partitions.add(slice.partition)
        if window is not None:
            planned.first = window.start if planned.first is None else planned.first
            planned.last = window.end
    planned.partitions, planned.complete = len(partitions), ended
    if isinstance(stream, HttpStream | DeclaredStream):
        planned.least_requests = planned.slices
    if ended:
        planned.afterwards = schedule.state()
