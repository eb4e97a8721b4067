"""Where a stream's sync starts: its state and generation, derived from what earlier syncs have committed."""

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from cdk.base.errors import ConfigError
from cdk.base.logs import logger
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import FULL_REFRESH_DEFAULT, traits_of
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.table_owner import check_owner, warn_of_removed_rows


def starting_state(
    plan: StreamPlan, table: StreamTable, *, pipeline: str, sync: str, started: datetime | None
) -> tuple[TableState, bool]:
    """Return the state that a sync starts from, and whether it resumes an interrupted read.

    sync, started: its id and when it started. Warns if its read does not go together with the rows of the table.
    Raises what `check_owner`, `resume_point` and `with_cursor_start` raise.
    """
    check_owner(table, plan, pipeline)
    warn_of_modes(plan, table.saved)
    saved, resumed = resume_point(plan, table.saved, sync, lambda: table.others.generation)
    if saved.state is not None:
        warn_of_removed_rows(table, plan)
    return with_cursor_start(plan, with_read_start(plan, saved, started=started, resumed=resumed)), resumed


def is_refreshed(plan: StreamPlan, saved: TableState | None) -> bool:
    """Whether an incremental sync rereads everything, started now or resumed, to replace the existing rows.

    A platform requests it with a new generation number. In a table with one row per key, older rows are removed once
    the read is complete. Otherwise the new generation is hidden until then, which its write mode records.
    """
    if saved is None or plan.sync_mode != "incremental" or plan.generation is None:
        return False
    if plan.generation > saved.generation:
        return plan.replaces
    hidden = traits_of(saved.write_mode).hidden_until_complete
    refreshing = plan.replaces and saved.refreshing if plan.traits.merges else hidden
    return refreshing and not saved.complete and saved.sync_mode == "incremental"


def resume_point(
    plan: StreamPlan, saved: TableState | None, sync: str, others_generation: Callable[[], int] = lambda: 0
) -> tuple[TableState, bool]:
    """Return the state that this sync starts from, and whether it resumes an interrupted read.

    Unless a platform numbers generations, each new full refresh gets the next number, which is also greater than
    others_generation, the greatest of other pipelines that fill the same table, because the number identifies the rows
    of a read. A new number of a platform starts a new read, of incremental streams as well. So does a new window of a
    full refresh, because resuming a read of an earlier window would mix both.
    Raises ConfigError: when the table has rows of a later generation.
    """
    sync_mode, write_mode, generation = plan.sync_mode, plan.write_mode, plan.generation
    if saved is None:
        first = 1 + others_generation() if generation is None else generation
        return TableState(sync_mode, write_mode, sync, generation=first), False
    if generation is not None and generation < saved.generation:
        raise ConfigError(
            f"found generation_id {generation}, but the table is at generation {saved.generation}; an older catalog "
            "must not write to it"
        )
    newer = generation is not None and generation > saved.generation
    if plan.traits.repeats_rows and is_refreshed(plan, saved):
        write_mode = FULL_REFRESH_DEFAULT
    if sync_mode == "incremental" == saved.sync_mode and not newer:
        refreshing = saved.refreshing and not saved.complete
        state = replace(saved, write_mode=write_mode, sync=sync, complete=False, refreshing=refreshing)
        return state, not saved.complete
    same = (saved.sync_mode, saved.write_mode) == (sync_mode, write_mode)
    same &= plan.window in (None, saved.window) or saved.window is None
    if same and not newer and (not saved.complete or sync == saved.sync or generation == saved.generation):
        if saved.complete and sync != saved.sync:
            logger.warning(
                "%s: an earlier sync has read generation_id %d completely: nothing is read; a higher generation_id "
                "reads everything again",
                plan.name,
                saved.generation,
            )
        return replace(saved, sync=sync), True
    # A table with one row per key keeps its rows.
    records = saved.records if saved.write_mode == write_mode and plan.traits.merges else 0
    number = max(saved.generation, others_generation()) + 1 if generation is None else generation
    refreshing = is_refreshed(plan, saved)
    return TableState(sync_mode, write_mode, sync, number, refreshing=refreshing, records=records), False


def continues_completed_read(before: TableState | None, saved: TableState) -> bool:
    """Whether an incremental sync that starts from `saved` reads what is new since a completed read."""
    if before is None or not before.complete:
        return False
    known = (before.sync_mode, before.generation)
    return known == ("incremental", saved.generation) and saved.sync_mode == "incremental"


def warn_of_modes(plan: StreamPlan, before: TableState | None) -> None:
    """Warn if the table has rows that were read in other modes, and the new mode does not replace them cleanly."""
    if before is None or not before.records:
        return
    if plan.traits.merges:
        if traits_of(before.write_mode).repeats_rows:
            logger.warning(
                "%s: its write_mode was %s: among the %d rows of the table, duplicates of a primary key remain until "
                "the stream is read again. To have each key once, read everything again: `spark-cdk state reset`",
                plan.name,
                before.write_mode,
                before.records,
            )
        return
    if before.sync_mode != plan.sync_mode:
        logger.warning(
            "%s: its sync_mode was %s; as %s it is read from its start, and %s the %d rows of the table",
            plan.stream.name,
            before.sync_mode,
            plan.sync_mode,
            "is added to" if plan.traits.repeats_rows else "replaces, once the read is complete,",
            before.records,
        )


def with_read_start(plan: StreamPlan, saved: TableState, *, started: datetime | None, resumed: bool) -> TableState:
    """Return the state with the start time and window of its read: those of this sync, unless it resumes one.

    started: start of this sync; None if unknown. resumed: the state is that of an earlier sync.
    """
    if resumed and (saved.complete or saved.state):
        return saved if saved.window == plan.window else replace(saved, window=None)
    return replace(saved, started_at=None if started is None else started.isoformat(), window=plan.window)


def with_cursor_start(plan: StreamPlan, saved: TableState) -> TableState:
    """Return the state with the start of the stream's cursor, its lookback, and the fingerprint of its request.

    Warns if the state was saved with a later start, because the time between the two is not read; with a shorter
    lookback, because records before that are not remembered; or with another request, because the older records of the
    new one are not read. Raises what the cursor raises.
    """
    stream, cursor = plan.stream, plan.stream.cursor
    if cursor is None or plan.sync_mode != "incremental":
        return saved
    lookback, known = cursor.lookback.total_seconds(), saved.lookback
    if saved.state is not None and known is not None and lookback > known and plan.traits.repeats_rows:
        logger.warning(
            "%s: the lookback of its cursor is %s now, and was %s when the state was saved: records between the two "
            "are read again and added a second time, because the state remembers only records within the lookback. "
            "The write mode append_dedup has each key once",
            plan.name,
            cursor.lookback,
            timedelta(seconds=known),
        )
    if saved.state is not None and saved.request and stream.fingerprint not in {"", saved.request}:
        logger.warning(
            "%s: its requests differ from those that its state was saved with (another address, filter or other "
            "setting of the connector or its config): what only the new ones return, and lies before the state, is not "
            "read. Have it read with `spark-cdk state reset`, or `state rewind` to where it begins. %s",
            plan.name,
            plan.traits.reread,
        )
    saved = replace(saved, lookback=lookback, request=stream.fingerprint or saved.request)
    window = next(iter(cursor.windows(None, stream.now())), None)
    if window is None:
        return saved
    start, before = window.start, saved.start
    if saved.state is not None and before not in {None, start} and cursor.greatest([before, start]) == before:
        logger.warning(
            "%s: its cursor starts at %s now, and started at %s when the state was saved: records between the two "
            "are not read. To read them, use `spark-cdk state rewind` to the new start, which also reads everything "
            "newer again. %s",
            plan.name,
            start,
            before,
            plan.traits.reread,
        )
    return replace(saved, start=start)
