"""What a sync would read of a stream, counted to its end, and what its state would become. Nothing is written."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from cdk.base.run import RunScope
from cdk.base.values import JsonValue
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.lake.admin.locate import OpenTables
from cdk.rest.http.metrics import HttpMetrics, counting
from cdk.rest.http_stream import HttpStream
from cdk.state.position import Done, Edge
from cdk.state.slice import Partition
from cdk.streams.stream import Stream
from cdk.sync.loop.preview import state_at
from cdk.sync.loop.slice_schedule import SliceSchedule
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.messages import Failure, SliceResult


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
