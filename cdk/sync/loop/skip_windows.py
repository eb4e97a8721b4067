"""SkipWindows: which streams of a sync need not be read, for the log says that the window was read before.

A stream's window is a slot of the log that follows the tables, `window:<stream>`. It is written after all commits of
the sync, so a sync that is cut is at worst repeated. It counts only while the table stands where the log says that it
stood: a table that was moved away, restored or reset is read.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue, canonical
from cdk.lake.admin.locate import OpenTables
from cdk.state.handlers.redundant import RedundantRunSkipHandler
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

    def redundant(self, plans: Sequence[StreamPlan], tables: OpenTables) -> dict[str, StreamReport]:
        """The streams that need not be read, each with its report. Writes nothing.

        Raises BadState: what an earlier sync left cannot be read. ConfigError: the window is none.
        """
        reports = {}
        with self._run(writes=False) as run:
            stood = {} if run.session.head is None else dict(_stood(run.session.head.effects))
            for plan in plans:
                planned = self._handler(run, plan).plan(self._options.start_time, self._options.end_time)
                if planned.skip and (report := _standing(plan, tables, stood)) is not None:
                    window = f"{planned.requested.start.isoformat()} to {planned.requested.end.isoformat()}"
                    reports[plan.name] = replace(report, window=window)
        return reports

    def remember(self, plans: Sequence[StreamPlan], done: Collection[str], *, sync: str, final: bool) -> None:
        """Have the log say that the window of these streams was read. final: no stream of the sync failed.

        done: streams that this run has read from where it began; of what an earlier one read nobody knows when.
        Raises what a store of states raises.
        """
        with self._run(writes=True, sync=sync) as run:
            news = False
            for plan in plans:
                if plan.name in done:
                    handler = self._handler(run, plan)
                    planned = handler.plan(self._options.start_time, self._options.end_time)
                    news |= handler.update_state(planned)
            if news:
                # The newest record is where `follow` looks for where the tables stood.
                effects = [] if run.session.head is None else list(run.session.head.effects)
                run.session.commit("final" if final else "partial", effects)

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


def _standing(plan: StreamPlan, tables: OpenTables, stood: Mapping[str, int]) -> StreamReport | None:
    """The report of a stream whose table stands where the log says, at the end of a read; None otherwise."""
    table = tables.existing(plan.location)
    # A state that is lost is the stream's own error, once it is read.
    if table is None or (saved := table.saved) is None or not saved.complete:
        return None
    if not table.state_version == table.rows_state_version == stood.get(plan.name):
        return None
    return StreamReport(
        plan.name, Status.REDUNDANT, plan.sync_mode, plan.write_mode, total=saved.records, generation=saved.generation
    )


def _stood(effects: Sequence[JsonValue]) -> Iterator[tuple[str, int]]:
    """Where the log says that each table's marker was."""
    for effect in effects:
        match effect:
            case {"stream": stream, "txn": {"version": int(version)}}:
                yield str(stream), version
            case _:
                pass
