"""StaleRemoval: removes rows from a table, after a complete read, that the source no longer has.

The commit that marks a generation as complete also removes the stale rows, so an interrupted sync removes nothing, and
the next one does. Stale rows are found within the table (`cdk.lake.parquet.generation_diff`); the number of rows that
it had when the read started is part of its state.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import ConfigError
from cdk.base.logs import logger
from cdk.base.task_map import TaskMap, run_inline
from cdk.base.times.clock import system_clock
from cdk.lake.delta.engine_writes import delete_stale_rows, flag_stale_rows
from cdk.lake.delta.failed_commit import repeat_if_changed
from cdk.lake.delta.receipt import Receipt
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Use, Way
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.generation_diff import FLAG, GenerationCounts, GenerationDiff, check_flag
from cdk.lake.parquet.merge import SMALL_ROWS
from cdk.lake.parquet.table_files import TableFile
from cdk.state.handlers.removal_guards import EntityCounts, refusal
from cdk.sync.reports.counts import StaleCount
from cdk.sync.settings.pipeline_file import StateOptions
from cdk.sync.settings.stream_options import RemoveStaleOptions
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.table_writer import TableWriting


class RemovalRequest(Struct, frozen=True):
    """What a sync is to do with rows of a stream that its complete read does not see."""

    options: RemoveStaleOptions
    skip_reason: str = ""
    """Why this sync removes nothing; empty if it may remove rows."""

    @property
    def intended(self) -> str:
        """What a sync would do, as a clause for messages."""
        what = {"soft": "flagged", "hard": "deleted", "report": "counted"}[self.options.removal]
        if self.skip_reason:
            return f"rows that the source no longer has would stay: {self.skip_reason}"
        return f"rows that the source no longer has would be {what} after a complete read"


AS_THE_PLATFORM_SAYS = RemoveStaleOptions(removal="hard", fail_safe_threshold=100, allow_empty=True)
"""Removes all rows of earlier generations without a guard, as a platform that numbers generations requests."""

_OF_OVERWRITES = {"allow_empty", "fail_safe_min", "fail_safe_threshold"}


def check_removal(plan: StreamPlan, options: RemoveStaleOptions) -> None:
    """Raise ConfigError if the stream's modes cannot tell which rows a complete read did not see."""
    where = plan.where.below("remove_stale")
    if plan.sync_mode == "incremental":
        why = "an incremental sync reads only what is new, and cannot tell what is missing; use full_refresh"
        raise ConfigError(why, path=where)
    if plan.traits.hidden_until_complete and (more := options.model_fields_set - _OF_OVERWRITES):
        raise ConfigError(
            f"an overwrite leaves no rows of earlier reads; of these options it supports "
            f"{', '.join(sorted(_OF_OVERWRITES))}: leave {', '.join(sorted(more))} out, or use append_dedup",
            path=where,
        )
    if not (plan.traits.one_row_per_key or plan.traits.hidden_until_complete):
        why = "only tables with one row per key can tell which rows are missing; use append_dedup"
        raise ConfigError(why, path=where)


def removal_of(plan: StreamPlan, state: StateOptions) -> RemovalRequest | None:
    """Return what a sync is to do with rows that a complete read does not see; None keeps them."""
    if plan.remove_stale is None or plan.traits.hidden_until_complete:
        return None
    return RemovalRequest(plan.remove_stale, "the run ignores the saved state" if state.ignore_old_state else "")


class StaleRemoval:
    """The removal of one stream's stale rows in one sync. Belongs to the driver's thread."""

    def __init__(self, plan: StreamPlan, writing: TableWriting, request: RemovalRequest) -> None:
        """writing: of a table with one row per key, each with the generation in which it was last read.

        Raises ConfigError: when the table cannot flag rows.
        """
        self.where = plan.where.below("remove_stale")
        self._writing, self._table, self._options = writing, writing.table, request.options
        self._keys = plan.key_columns
        self._skip_reason = request.skip_reason or ("removal is report" if request.options.removal == "report" else "")
        check_table(plan, self._table, request.options.removal)

    def begin(self, saved: TableState, spread: TaskMap) -> TableState:
        """Return the state with the number of visible rows, counted before its generation adds any.

        Raises what a store raises.
        """
        known = repeat_if_changed(self._table, partial(self._known, saved.generation, spread))
        return replace(saved, rows_before=known, rows_before_version=self._table.version)

    def _known(self, generation: int, spread: TaskMap) -> int:
        diff = self._generation_diff(generation)
        if self._by_engine:
            counts, _, _ = diff.summary(self._table.scan(diff.compared_columns))
        else:
            files = self._table.files()
            counts = sum(diff.counted(files, _where(files, spread)), GenerationCounts())
        return counts.current + counts.stale

    def commit(self, saved: TableState, spread: TaskMap) -> tuple[TableState, StaleCount, Receipt]:
        """Mark the generation of `saved` as complete, and remove the rows that it did not see, in one commit.

        saved: the committed, incomplete state. Raises StateError, and what a store raises; nothing is removed then.
        """
        if self._options.removal == "soft" and FLAG.name not in self._table.schema.names:
            self._writing.mode.add([FLAG])
        return repeat_if_changed(
            self._table,
            lambda: self._commit_by_engine(saved) if self._by_engine else self._commit_rewritten(saved, spread),
        )

    @property
    def _by_engine(self) -> bool:
        """Whether delta-rs must read and remove the rows, because of table features such as deletion vectors."""
        guard, uses = self._table.guard, _USES.get(self._options.removal, [])
        return guard.vectors or any(guard.way(use) is Way.ENGINE for use in uses)

    def _commit_by_engine(self, saved: TableState) -> tuple[TableState, StaleCount, Receipt]:
        table, diff, hard = self._table, self._generation_diff(saved.generation), self._options.removal == "hard"
        total, rows, name = diff.summary(table.scan(diff.compared_columns))
        count = self._decide(saved, total, lambda: name)
        removed = count.removed if hard else 0
        complete, receipt = replace(saved, complete=True, records=rows - removed), Receipt(removed=removed)
        if not count.removed:
            table.commit(complete, exclusive=True, receipt=receipt)
        elif hard:
            change = partial(delete_stale_rows, table.schema, saved.generation)
            table.change(complete, change, receipt, {"deleted": count.removed})
        else:
            change = partial(flag_stale_rows, table.schema, saved.generation, system_clock())
            table.change(complete, change, receipt, {"updated": count.removed})
        self._log(count)
        return complete, count, receipt

    def _commit_rewritten(self, saved: TableState, spread: TaskMap) -> tuple[TableState, StaleCount, Receipt]:
        diff, files = self._generation_diff(saved.generation), self._table.files()
        hard, run = self._options.removal == "hard", _where(files, spread)
        each = diff.counted(files, run)
        touched = [file for file, counts in zip(files, each, strict=True) if counts.stale]
        count = self._decide(saved, sum(each, GenerationCounts()), lambda: diff.plan(touched, run))
        if not count.removed:
            touched = []
        rewritten = diff.rewritten(touched, None if hard else system_clock(), run)
        removed = count.removed if hard else 0
        complete = replace(saved, complete=True, records=sum(file.rows for file in files) - removed)
        receipt = Receipt(removed=removed)
        with self._table.removing_if_changed(rewritten):
            # Without concurrent commits, so that exactly the counted rows are removed.
            self._table.commit(complete, rewritten, remove=touched, exclusive=True, receipt=receipt)
        self._log(count)
        return complete, count, receipt

    def _log(self, count: StaleCount) -> None:
        because = f": {count.retained_because}" if count.retained_because else ""
        logger.info("%s: removed %d of %d%s", self.where, count.removed, count.missing, because)

    def _decide(self, saved: TableState, total: GenerationCounts, plan: Callable[[], str]) -> StaleCount:
        """Decide whether to remove the missing rows. plan: returns a digest that identifies them."""
        count = StaleCount(self._options.removal, max(total.stale, saved.rows_before or 0), total.current, total.stale)
        reason = self._skip_reason or self._doubt(saved)
        counted = EntityCounts(count.previous, count.current, count.missing)
        refused = "" if reason else refusal("", counted, self._options.guards(), lambda: f"{count.missing}-{plan()}")
        if reason or refused:
            return replace(count, retained_because=reason or refused, refused=bool(refused))
        return replace(count, removed=count.missing)

    def _doubt(self, saved: TableState) -> str:
        """Return why rows of other generations may not be stale; empty if they certainly are."""
        if saved.rows_before is None or saved.rows_before_version is None:
            return (
                "it is uncertain whether the read was complete: records were removed from the source while its pages "
                "were read, or it started without remove_stale, or from a state that was edited; the next complete "
                "read removes them"
            )
        other = self._table.others.writer_since(saved.rows_before_version)
        if other is None:
            return "the table's log no longer shows whether other pipelines have written to it since the read started"
        return other and (
            f"the pipeline {other} has written to the table since the read started; the next complete read removes them"
        )

    def _generation_diff(self, generation: int) -> GenerationDiff:
        return GenerationDiff(self._table.layout(self._writing.bounded), generation, self._keys)


def check_table(plan: StreamPlan, table: StreamTable, removal: str) -> None:
    """Raise ConfigError if rows cannot be removed from the table in this way."""
    if removal == "soft":
        check_flag(table.schema, plan.where.below("remove_stale"))
    table.guard.check(_USES.get(removal, []))


_USES: Mapping[str, Sequence[Use]] = {"soft": [Use.FLAG, Use.NEW_COLUMNS], "hard": [Use.DELETE]}


def _where(files: Sequence[TableFile], spread: TaskMap) -> TaskMap:
    """Return where to process files: for few rows, in this process, as a Spark job would cost more."""
    return run_inline if sum(file.rows for file in files) <= SMALL_ROWS else spread
