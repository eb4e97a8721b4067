"""Previews: what a sync would read, found out without writing anything that lasts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from cdk.base.run import RunScope
from cdk.base.values import JsonValue, Record
from cdk.engine.boundary_dedup import read_without_boundary_duplicates
from cdk.lake.admin.locate import OpenTables
from cdk.streams.stream import Stream
from cdk.sync.loop.resume import resume_point
from cdk.sync.loop.slice_schedule import SliceSchedule
from cdk.sync.loop.stale_removal import check_table
from cdk.sync.loop.table_fit import check_writing
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.messages import Failure

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
