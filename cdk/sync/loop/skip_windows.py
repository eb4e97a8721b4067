"""SkipWindows: which streams of a sync need not be read, for the log says that the window was read before.

What was read of a stream is a slot of the log that follows the tables, `window:<stream>`. It counts only while the
table stands where the log says that it stood: a table that was moved away, restored or reset is read.

The state of a table says which window its rows were read for, and since when: `TableState.window` and `began`. So a
sync that is the rest of an interrupted one completes the window that was begun, and the slot follows the table: what a
sync that was killed could not write, the next one does before it reads. A window is

    {"selection": "5f3a...", "start": "2024-01-02T00:00:00+00:00", "end": "2024-01-03T00:00:00+00:00"}
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import takewhile
from typing import Literal

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
from cdk.state.log.state_log import StateLog
from cdk.state.stores.key import StateKey
from cdk.state.stores.opening import open_store
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_options import SkipOptions
from cdk.sync.settings.stream_plan import StreamPlan


class SkipWindows:
    """The windows of one sync. Belongs to the driver's thread."""

    def __init__(self, pipeline: Pipeline, options: SkipOptions, *, secrets: Iterable[str], started: datetime) -> None:
        """secrets: those of the config. started: when the sync did, for what is not over by then may still grow.

        Raises ConfigError: there is no log.
        """
        self._pipeline, self._options, self._secrets, self._started = pipeline, options, tuple(secrets), started
        if pipeline.state.state_provider is None or not pipeline.state.enabled:
            raise ConfigError(
                "it needs a state log, which remembers the windows that were read; set state.state_provider",
                path="skip_redundant_runs",
            )
        self._handled = options.handled(ignore_old_state=pipeline.state.ignore_old_state)
        self._looked: dict[str, RedundantRunSkipHandler] = {}
        self._stood: Mapping[str, int] = {}

    def look(
        self, plans: Sequence[StreamPlan], tables: OpenTables
    ) -> tuple[Mapping[str, StreamReport], Sequence[StreamPlan]]:
        """The streams that need not be read, each with its report, and the others, with the window they are read for.

        Writes nothing. Raises BadState: what an earlier sync left cannot be read. ConfigError: the window is none.
        """
        redundant, due = dict[str, StreamReport](), list[StreamPlan]()
        with self._run(writes=False) as run:
            self._stood = {} if run.session.head is None else dict(_stood(run.session.head.effects))
            for stream_plan in plans:
                handler = self._looked[stream_plan.name] = self._handler(run, stream_plan)
                planned = handler.plan(self._options.start_time, self._options.end_time)
                start, end = planned.requested.start.isoformat(), planned.requested.end.isoformat()
                plan = replace(stream_plan, window={"selection": handler.selection, "start": start, "end": end})
                if planned.skip and (report := self._standing(plan, tables)) is not None:
                    redundant[plan.name] = replace(report, window=f"{start} to {end}")
                else:
                    due.append(plan)
        return redundant, due

    def catch_up(self, plans: Sequence[StreamPlan], tables: OpenTables, *, sync: str) -> None:
        """Before anything else is done to the tables of `look`, have the log say of them what it does not say yet.

        That is what a sync that was killed has read, and that nothing counts of a table that was moved away or back.
        Raises what `remember` raises.
        """
        standing, news = [], False
        for plan in plans:
            table, handler = tables.existing(plan.location), self._looked[plan.name]
            saved, moved = None if table is None else table.saved, self._is_moved(plan, table)
            standing.append((plan, saved, moved))
            news |= self._propose(handler, saved, moved=moved)
        if news:
            self._commit(standing, sync=sync, status="partial")

    def remember(self, read: Iterable[tuple[StreamPlan, TableState]], *, sync: str, final: bool) -> None:
        """Have the log say which windows were read, where the states of their streams are complete.

        final: no stream of the sync failed. Raises what a store of states raises.
        """
        self._commit([(*each, False) for each in read], sync=sync, status="final" if final else "partial")

    def _commit(
        self,
        standing: Iterable[tuple[StreamPlan, TableState | None, bool]],
        *,
        sync: str,
        status: Literal["partial", "final"],
    ) -> None:
        with self._run(writes=True, sync=sync) as run:
            news = [self._propose(self._handler(run, plan), saved, moved=moved) for plan, saved, moved in standing]
            if any(news):
                # The newest record is where `follow` looks for where the tables stood.
                run.session.commit(status, [] if run.session.head is None else list(run.session.head.effects))

    def _propose(self, handler: RedundantRunSkipHandler, saved: TableState | None, *, moved: bool) -> bool:
        """Propose that the window of a complete read was read; tell whether that is news.

        moved: what was read before does not count.
        """
        news = moved and handler.forget()
        if saved is None or not saved.complete or saved.began is None:
            return news
        match saved.window:
            case {"selection": handler.selection, "start": str(start), "end": str(end)}:
                # What was not over when an interrupted read began may have grown since.
                settled = min(datetime.fromisoformat(saved.began), self._started) - self._options.settle
                span = Interval(datetime.fromisoformat(start), min(datetime.fromisoformat(end), settled))
                return handler.update_state(Planned(span, normal([span]))) or news
            case _:
                return news

    def _standing(self, plan: StreamPlan, tables: OpenTables) -> StreamReport | None:
        """The report of a stream whose table has what the log says was read of it; None otherwise.

        It stands where the log says, at the end of a read, or an interrupted read of another window went on from there:
        that one is left to a sync which asks for its window.
        """
        table = tables.existing(plan.location)
        # A state that is lost is the stream's own error, once it is read.
        if table is None or (saved := table.saved) is None:
            return None
        stands = table.state_version == table.rows_state_version == self._stood.get(plan.name)
        if not saved.complete:
            of_another = saved.window is not None and saved.window != plan.window
            stands = plan.name in self._stood and of_another and not self._is_moved(plan, table)
        if not stands:
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
        """Whether a table does not stand where the log says, for another reason than that a sync went on from there."""
        if (stood := self._stood.get(plan.name)) is None:
            return False
        if table is None or table.restored or stood not in table.states:
            return True
        if stood == table.state_version:
            return False
        log = commits(plan.root, plan.location.app(self._pipeline.name), table.version)
        return any(commit.note for commit in takewhile(lambda commit: commit.state != stood, log))

    @contextmanager
    def _run(self, *, writes: bool, sync: str = "") -> Iterator[StatefulRun]:
        state = self._pipeline.state
        assert state.state_provider is not None
        log = StateLog(
            open_store(state.state_provider.model_dump(), writes=writes),
            StateKey(self._pipeline.name),
            clock=lambda: self._started,
            secrets=self._secrets,
            max_checkpoint_state_size=state.max_checkpoint_state_size,
        )
        with stateful_run(log, self._handled, preview=not writes, run={"id": sync} if sync else None) as run:
            yield run

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


def _stood(effects: Sequence[JsonValue]) -> Iterator[tuple[str, int]]:
    """Where the log says that each table's marker was."""
    for effect in effects:
        match effect:
            case {"stream": stream, "txn": {"version": int(version)}}:
                yield str(stream), version
            case _:
                pass
