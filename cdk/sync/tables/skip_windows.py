"""SkipWindows: skips streams of a sync whose window was read before, according to the state log.

The windows that were read of a stream are in a slot of the log that mirrors the tables, `window:<stream>`. They count
only while the table has the state that the log recorded: a table that was moved away, restored or reset is read.

The state of a table says for which window its rows are read, and since when: `TableState.window` and `started_at`. A
sync that continues an interrupted one therefore completes the window that was started. The slot follows the table: what
a killed sync could not write, the next one writes before it reads. A window is

    {"selection": "5f3a...", "start": "2024-01-02T00:00:00+00:00", "end": "2024-01-03T00:00:00+00:00"}
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import takewhile
from typing import Literal

from msgspec.structs import replace

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue, canonical
from cdk.lake.admin.commit_log import commits
from cdk.lake.admin.locate import OpenTables
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.state.handlers.intervals import Interval, normal
from cdk.state.handlers.redundant import Planned, RedundantRunSkipHandler
from cdk.state.handlers.run import StatefulRun, stateful_run
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_options import SkipOptions
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.state_log_mirror import state_log


class SkipWindows:
    """The windows of one sync. Belongs to the driver's thread."""

    def __init__(self, pipeline: Pipeline, options: SkipOptions, *, secrets: Iterable[str], started: datetime) -> None:
        """secrets: those of the config. started: start of the sync; a bucket that ends later may still grow.

        Raises ConfigError: when no state log is configured.
        """
        self._pipeline, self._options, self._secrets, self._started = pipeline, options, tuple(secrets), started
        if pipeline.state.state_provider is None or not pipeline.state.enabled:
            why = "it needs a state log, which stores the windows that were read; set state.state_provider"
            raise ConfigError(why, path="skip_redundant_runs")
        self._handled = options.handled(ignore_old_state=pipeline.state.ignore_old_state)
        self._handlers: dict[str, RedundantRunSkipHandler] = {}
        self._logged_states: Mapping[str, int] = {}

    def look(
        self, plans: Sequence[StreamPlan], tables: OpenTables
    ) -> tuple[Mapping[str, StreamReport], Sequence[StreamPlan]]:
        """Return the redundant streams with their reports, and the plans of the others with the window to read.

        Writes nothing. Raises BadState: when the log's value is invalid. ConfigError: when the window is invalid.
        """
        redundant, due = dict[str, StreamReport](), list[StreamPlan]()
        with self._run(writes=False) as run:
            self._logged_states = {} if run.session.head is None else dict(_logged_states(run.session.head.effects))
            for stream_plan in plans:
                handler = self._handlers[stream_plan.name] = self._handler(run, stream_plan)
                planned = handler.plan(self._options.start_time, self._options.end_time)
                start, end = planned.requested.start.isoformat(), planned.requested.end.isoformat()
                plan = replace(stream_plan, window={"selection": handler.selection, "start": start, "end": end})
                if planned.skip and (report := self._redundant_report(plan, tables)) is not None:
                    redundant[plan.name] = replace(report, window=f"{start} to {end}")
                else:
                    due.append(plan)
        return redundant, due

    def catch_up(self, plans: Sequence[StreamPlan], tables: OpenTables, *, sync: str) -> None:
        """Bring the log up to date with the tables of `look`, before anything else is done to them.

        This records what a killed sync has read, and discards the windows of a table that was moved away or restored.
        Raises what `remember` raises.
        """
        reads, changed = [], False
        for plan in plans:
            table, handler = tables.existing(plan.location), self._handlers[plan.name]
            saved, moved = None if table is None else table.saved, self._is_moved(plan, table)
            reads.append((plan, saved, moved))
            changed |= self._propose(handler, saved, moved=moved)
        if changed:
            self._commit(reads, sync=sync, status="partial")

    def remember(self, read: Iterable[tuple[StreamPlan, TableState]], *, sync: str, final: bool) -> None:
        """Record in the log the windows of streams whose states are complete.

        final: every stream of the sync was read to its end. Raises what a state store raises.
        """
        self._commit([(*each, False) for each in read], sync=sync, status="final" if final else "partial")

    def _commit(
        self,
        reads: Iterable[tuple[StreamPlan, TableState | None, bool]],
        *,
        sync: str,
        status: Literal["partial", "final"],
    ) -> None:
        with self._run(writes=True, sync=sync) as run:
            changed = [self._propose(self._handler(run, plan), saved, moved=moved) for plan, saved, moved in reads]
            if any(changed):
                # Keeps the effects: later syncs find the states of the tables in the newest record.
                run.session.commit(status, [] if run.session.head is None else list(run.session.head.effects))

    def _propose(self, handler: RedundantRunSkipHandler, saved: TableState | None, *, moved: bool) -> bool:
        """Propose the window of a complete read as read. Return whether that changes anything.

        moved: windows that were read before no longer count.
        """
        changed = moved and handler.forget()
        if saved is None or not saved.complete or saved.started_at is None:
            return changed
        match saved.window:
            case {"selection": handler.selection, "start": str(start), "end": str(end)}:
                # A bucket that had not ended when an interrupted read started may have grown since.
                settled = min(datetime.fromisoformat(saved.started_at), self._started) - self._options.settle
                interval = Interval(datetime.fromisoformat(start), min(datetime.fromisoformat(end), settled))
                return handler.update_state(Planned(interval, normal([interval]))) or changed
            case _:
                return changed

    def _redundant_report(self, plan: StreamPlan, tables: OpenTables) -> StreamReport | None:
        """Return the report of a stream whose table has what the log says was read; None otherwise.

        The table must have the state recorded in the log, at the end of a read; or an interrupted read of another
        window continued from that state, which is left to a sync that requests its window.
        """
        table = tables.existing(plan.location)
        # A lost state becomes the stream's own error when it is read.
        if table is None or (saved := table.saved) is None:
            return None
        redundant = table.state_version == table.rows_state_version == self._logged_states.get(plan.name)
        if not saved.complete:
            of_another = saved.window is not None and saved.window != plan.window
            redundant = plan.name in self._logged_states and of_another and not self._is_moved(plan, table)
        if not redundant:
            return None
        return StreamReport(
            plan.name,
            Status.REDUNDANT,
            plan.sync_mode,
            plan.write_mode,
            total=table.records,
            generation=saved.generation,
        )

    def _is_moved(self, plan: StreamPlan, table: StreamTable | None) -> bool:
        """Whether a table's state differs from the one in the log for another reason than that a sync continued it."""
        if (logged := self._logged_states.get(plan.name)) is None:
            return False
        if table is None or table.restored or logged not in table.states:
            return True
        if logged == table.state_version:
            return False
        log = commits(table.root, table.app, table.version)
        return any(commit.note for commit in takewhile(lambda commit: commit.state != logged, log))

    def _run(self, *, writes: bool, sync: str = "") -> AbstractContextManager[StatefulRun]:
        log = state_log(self._pipeline, self._secrets, lambda: self._started, writes=writes)
        return stateful_run(log, self._handled, preview=not writes, run={"id": sync} if sync else None)

    def _handler(self, run: StatefulRun, plan: StreamPlan) -> RedundantRunSkipHandler:
        source = self._pipeline.source
        config = Secrets(self._secrets).mask(canonical(dict(self._pipeline.config)))
        selection: JsonValue = {
            "source": source.connector or source.manifest,
            "config": config,
            "table": str(plan.root),
            "sync_mode": plan.sync_mode,
            "cursor_field": plan.stream.cursor_field,
        }
        return RedundantRunSkipHandler(run, plan.name, selection=selection)


def _logged_states(effects: Sequence[JsonValue]) -> Iterator[tuple[str, int]]:
    """Yield each stream with the marker that its table had according to the log."""
    for effect in effects:
        match effect:
            case {"stream": stream, "txn": {"version": int(version)}}:
                yield str(stream), version
            case _:
                pass
