"""SyncRunner: reads a source's streams into Delta tables, committing rows and state together."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from cdk.base.errors import CdkError, ConfigError
from cdk.base.logs import logger
from cdk.base.process.crash_points import check_crash_point, crash_point
from cdk.base.process.interruption import MAX_REQUESTS, Interrupted, Interruption
from cdk.base.process.request_lease import RequestLease, leasing
from cdk.base.process.tuning import spare_pandas, tuned_for_records
from cdk.base.run import RunScope, current_run, setting
from cdk.base.secret_masking import Secrets, secret_values
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import canonical
from cdk.lake.admin.freshness import TableTimes, cursor_of
from cdk.lake.admin.locate import OpenTables, unfilled
from cdk.lake.delta.table_state import TableState
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.object_store import folder_at
from cdk.lake.storage.run_lock import last_completed, note_completed, only_run
from cdk.lake.storage.token_files import TokenFiles
from cdk.rest.auth.tokens import Tokens, run_tokens
from cdk.rest.http.activity import Activities, StreamActivity, activities
from cdk.rest.http.authenticator import ignore
from cdk.rest.http.metrics import counting
from cdk.sources.crashes import CRASH_SECRETS
from cdk.streams.source import Source, connector_name
from cdk.streams.stream import Stream, full_name
from cdk.sync.loop.preview import Look, PlannedRead, Preview, look_ahead
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.loop.task_loop import TaskLoop
from cdk.sync.reports.lineage import NotRead, Running, lineage
from cdk.sync.reports.run_history import RunHistory
from cdk.sync.reports.run_report import RunFacts, SyncResult
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, checked_pipeline
from cdk.sync.settings.stream_plan import StreamPlan, check_apart, plan_streams
from cdk.sync.tables.conditional_state import FollowSettings
from cdk.sync.tables.skip_windows import SkipWindows
from cdk.sync.tables.stale_removal import check_removal, removal_of
from cdk.sync.tables.state_log_mirror import mirroring, open_log, state_check
from cdk.sync.tasks.messages import Failure
from cdk.sync.tasks.workers import IN_PROCESS, Workers, WorkerSource

Watch = Callable[[Sequence[StreamReport], float], None]
"""Called with the reports of all streams: once the streams are known, and whenever tasks or commits change them.

The number is the seconds until the next commit, 0 while no task runs.
"""


class SyncRunner:
    """One sync of a pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: Source,
        *,
        watch: Watch = lambda *_: None,
        clock: Clock = system_clock,
        workers: WorkerSource | None = None,
        mask: Callable[[str], str] = str,
        learn: Callable[[str], None] = ignore,
        crash_secrets: Secrets | None = None,
    ) -> None:
        """Prepare a sync. Raises ConfigError: when the config does not fit its schema, or an argument its type.

        workers: where tasks run; default: see `workers_of`.
        mask: masks secrets other than those of the config in reported errors. learn: called with each secret that the
        run obtains, such as an access token. crash_secrets: secrets to mask in crash reports; None disables these.
        """
        # The command line has prepared its pipeline before, with its own name for the config; a program has not.
        pipeline = checked_pipeline(pipeline, source).prepared(source, "source.config", Secrets())
        self._pipeline, self._source, self._watch, self._clock = pipeline, source, watch, clock
        self._workers, self._tables = workers or self.workers_of(pipeline), OpenTables(pipeline.name)
        self._secrets = list(secret_values(source.config_schema, pipeline.config))
        self._own, self._learn, self._crash_secrets = Secrets(self._secrets), learn, crash_secrets
        self._facts = RunFacts(
            pipeline.name, pipeline.target.path, started=clock(), mask=lambda text: mask(self._own.mask(text))
        )
        self._reports: Callable[[], Sequence[StreamReport]] = tuple
        self._traces: Path | None = None
        self._ended_at: datetime | None = None
        self._activities: Activities | None = None
        self._interruption = Interruption()

    def workers_of(self, pipeline: Pipeline) -> WorkerSource:  # noqa: ARG002 - overrides use the pipeline
        """Return where a pipeline's tasks run unless the caller passes workers: in this process."""
        return IN_PROCESS

    @property
    def result(self) -> SyncResult:
        """What the sync has done so far; also valid after `run` has raised."""
        return SyncResult(self._reports(), replace(self._facts, ended=self._ended_at or self._clock()), self._traces)

    @property
    def sync(self) -> str:
        """The id of the sync; empty before it holds the lock."""
        return self._facts.sync

    @property
    def stream_names(self) -> frozenset[str]:
        """The names of its streams; empty before they are known. Callable from any thread."""
        return frozenset(plan.name for plan in self.__dict__.get("_planned", ()))

    def table_times(self) -> Mapping[str, TableTimes]:
        """Return how fresh the tables of the run's streams are, by stream; empty before the streams are known.

        Raises OSError, ConfigError, TransientError and DeltaError: when a table cannot be opened.
        """
        plans = self._planned if self._reports() else []
        completed = last_completed(self._target, self._pipeline.name)
        tables = {plan.name: self._tables.existing(plan.location) for plan in plans}
        return {
            name: TableTimes(completed.get(name), cursor_of(table.saved))
            for name, table in tables.items()
            if table is not None
        }

    def run(self) -> SyncResult:
        """Read every stream to its end or to its error; a failing stream does not stop the others.

        Raises ConfigError: when the pipeline does not fit the source, Spark does not start, or the crash point is
        unknown. StateConflict: when another sync of this pipeline runs. TransientError: when Spark was lost; the next
        sync resumes.
        """
        check_crash_point()
        self._interruption = Interruption(self._pipeline.max_duration)
        # An earlier `run` of the same object may have ended with an error.
        self._facts, self._ended_at = replace(self._facts, failure=None, interrupted=""), None
        spare_pandas()
        requests = RequestLease(self._pipeline.max_requests)
        crashes = setting(CRASH_SECRETS, self._crash_secrets)
        with self._one_run() as tokens, counting(self._facts.http), leasing(requests), tuned_for_records(), crashes:
            try:
                self._run()
            except Interrupted as end:
                # The requests or the time were used up before the streams were known.
                self._facts = replace(self._facts, interrupted=end.why)
            except BaseException as error:
                self._facts = self._facts.ended_by(error)
                raise
            finally:
                tokens.flush()
                self._ended_at = self._clock()
                self._write_traces()
                self._add_to_history()
                if (live := activities().folder) is not None:
                    shutil.rmtree(live, ignore_errors=True)
            return self.result

    def interrupt(self, why: str) -> bool:
        """End the sync at its next checkpoints, commit what is covered, and let `run` return. Callable from any thread.

        why: the reason for the report. Return False if nothing is being read or the sync is ending already.
        """
        return self._interruption.request(why)

    def doing(self) -> Mapping[str, StreamActivity]:
        """Return what is being done right now, by stream, with secrets masked. Callable from any thread."""
        current = {} if self._activities is None else self._activities.current()
        return {name: replace(doing, why=self._facts.mask(doing.why)) for name, doing in current.items()}

    def _prepare_activities(self, target: Folder) -> None:
        """Create a local folder in which tasks that can access this disk note what they are doing."""
        self._activities, folder = activities(), target.local_path / f"{self._pipeline.name}.live"
        with suppress(OSError):
            shutil.rmtree(folder, ignore_errors=True)  # left over from a run that was killed
            folder.mkdir(parents=True)
            self._activities.folder = folder
            self._interruption.announce(folder)

    def _write_traces(self) -> None:
        """Write all failures with tracebacks to the traces file, replacing that of the previous run."""
        failures = [(report.name, report.failure) for report in self._reports() if report.failure is not None]
        path = self._target.local_path / f"{self._pipeline.name}.traces.log"
        try:
            path.unlink(missing_ok=True)
            if failures:
                path.parent.mkdir(parents=True, exist_ok=True)
                texts = [f"{name}: {failure.message}\n{failure.detail}\n" for name, failure in failures]
                path.write_text(self._facts.mask("\n".join(texts)), encoding="utf-8", errors="backslashreplace")
                self._traces = path
        except OSError as error:
            logger.warning("the failures cannot be written to %s: %s", path, error.strerror)

    def _add_to_history(self) -> None:
        """Add the run's report to the history, unless the run was redundant, or was refused and is the first there."""
        if self.sync or self._facts.failure is not None:
            RunHistory(self._target, self._pipeline.name).add(self.result.to_json(), first=bool(self.sync))

    def preview(self, most: int) -> Iterator[Preview]:
        """Yield, per stream, what a sync would read, with up to `most` records. Writes nothing durable.

        Raises ConfigError as `run` does; the failure of a stream is in its preview.
        """
        return self._look_ahead(Preview, most)

    def plan(self, most: int) -> Iterator[PlannedRead]:
        """Yield, per stream, what a sync would read, counting up to `most` slices; see `preview`."""
        return self._look_ahead(PlannedRead, most)

    def _look_ahead(self, kind: Callable[[StreamPlan], Look], most: int) -> Iterator[Look]:
        with self._one_run():
            plans, check = self._redundant_and_due[1], self._workers.check
            return look_ahead(kind, plans, self._pipeline, self._tables, most=most, run=current_run(), check=check)

    def notes(self) -> Iterator[str]:
        """Yield what a sync would do besides reading, one line each. Raises what `preview` raises."""
        yield from self._notes_of_orphaned_tables
        redundant, due = self._redundant_and_due
        for name, report in redundant.items():
            yield f"{name}: redundant, {report.window} was read before; a sync would not read it"
        for plan in due:
            if (removal := removal_of(plan, self._pipeline.state)) is not None:
                yield f"{plan.name}: {removal.intended}"
            if plan.follow_source is not None:
                yield f"{plan.name}: followed, a sync would read it only if its source has changed"

    @contextmanager
    def _one_run(self) -> Iterator[Tokens]:
        """Open a run scope whose rotated tokens are stored in the target, even if nothing else is written."""
        with RunScope(shared={Interruption: self._interruption}).working():
            tokens = run_tokens()
            tokens.store, tokens.learn = TokenFiles(self._target), self._learn_secret
            yield tokens

    def _learn_secret(self, secret: str) -> None:
        self._own.add(secret)
        self._learn(secret)

    @cached_property
    def _target(self) -> Folder:
        return folder_at(self._pipeline.target.path, self._pipeline.target.storage)

    @cached_property
    def _streams(self) -> Sequence[Stream]:
        """All streams of the source. Raises ConfigError: when it has none, which may be an error of its API."""
        if streams := tuple(self._source.open(self._pipeline.config)):
            return streams
        raise ConfigError("the source has no streams for this config; check it, and what its credentials may read")

    @property
    def _notes_of_orphaned_tables(self) -> Iterator[str]:
        """Notes about tables whose streams the source does not list, because they are gone or it cannot see them."""
        names = {full_name(stream) for stream in self._streams}
        for location in unfilled(self._target, self._pipeline.name, names):
            why = (
                "check what its credentials may read, or once nobody reads the table of a stream that it no longer has,"
            )
            yield f"{location.name}: the source does not list this stream; {why} move {location.root} away"

    @cached_property
    def _planned(self) -> list[StreamPlan]:
        plans = plan_streams(self._streams, self._pipeline, self._target)
        for plan in plans:
            if plan.remove_stale is not None:
                check_removal(plan, plan.remove_stale)
        check_apart(plans)
        return plans

    @cached_property
    def _windows(self) -> SkipWindows | None:
        options = self._pipeline.skip_redundant_runs
        if options is None or not options.enabled:
            return None
        return SkipWindows(self._pipeline, options, secrets=self._secrets, started=self._facts.started)

    @cached_property
    def _redundant_and_due(self) -> tuple[Mapping[str, StreamReport], Sequence[StreamPlan]]:
        """The redundant streams with their reports, and the plans of the streams that a sync reads."""
        plans = self._planned
        return ({}, plans) if self._windows is None else self._windows.look(plans, self._tables)

    def _run(self) -> None:
        target, planned = self._target, self._planned
        log = open_log(self._pipeline, self._secrets, self._clock)
        redundant, plans = self._redundant_and_due
        opened: dict[str, Running] = {name: NotRead(report) for name, report in redundant.items()}

        def report() -> list[StreamReport]:
            return [opened[plan.name].current_report for plan in planned if plan.name in opened]

        self._facts, self._reports = replace(self._facts, target=str(target)), report
        for note in self._notes_of_orphaned_tables:
            logger.warning("%s", note)
        if not plans:
            return
        runs: list[StreamSync] = []
        with only_run(target, self._pipeline.name, lambda: _has_rest(runs)) as sync:
            if self._windows is not None:
                self._windows.catch_up(plans, self._tables, sync=sync)
            with mirroring(log, self._pipeline, plans, self._tables, sync=sync, ended=lambda: self.result.ok):
                runs = self._open_in_turn(plans, sync, opened)
                self._facts = replace(self._facts, sync=sync)
                with self._lineage([(plan, opened[plan.name]) for plan in plans]):
                    self._watch(report(), 0)
                    if runs:
                        self._prepare_activities(target)
                        workers = self._start_workers(target, plans)
                        loop = TaskLoop(self._pipeline, runs, workers, lambda seconds: self._watch(report(), seconds))
                        self._facts = replace(self._facts, readers=loop.readers)
                        loop.read_all()
                        if any(run.report.status is Status.INTERRUPTED for run in runs):
                            self._facts = replace(self._facts, interrupted=self._interruption.why or MAX_REQUESTS)
                crash_point("done")
            read = [(run.plan, run.saved) for run in runs if run.report.status is Status.DONE]
            self._note_completed(target, read)
            crash_point("noted")
            if self._windows is not None:
                self._windows.remember(read, sync=sync, final=self.result.ok)

    def _note_completed(self, target: Folder, read: Sequence[tuple[StreamPlan, TableState]]) -> None:
        """Record when the reads of completed streams started; a read resumed from an earlier sync started with that."""
        started = {
            plan.name: datetime.fromisoformat(saved.started_at) for plan, saved in read if saved.started_at is not None
        }
        try:
            note_completed(target, self._pipeline.name, started)
        except (CdkError, OSError) as error:
            logger.warning("the times at which streams were last read completely could not be stored: %s", error)

    def _lineage(self, opened: Sequence[tuple[StreamPlan, Running]]) -> AbstractContextManager[None]:
        named = self._pipeline.source
        source = self._source.name or connector_name(named.connector or str(named.manifest))
        return lineage(self._pipeline.name, source, opened, mask=self._facts.mask, clock=self._clock)

    def _start_workers(self, target: Folder, plans: Sequence[StreamPlan]) -> Workers:
        modules = {self._source.module, *(type(plan.stream).__module__ for plan in plans)}
        return self._workers.start(self._pipeline.name, target.local_path / f"{self._pipeline.name}.spark.log", modules)

    def _open_in_turn(self, plans: Sequence[StreamPlan], sync: str, opened: dict[str, Running]) -> list[StreamSync]:
        """Open the streams, and return the usable ones in reading order: the one that has waited longest is first.

        A limit may end every run before it gets to all streams. Streams that this sync has already completed are last.
        """
        history = RunHistory(self._target, self._pipeline.name)
        completed = history.completed(sync)
        known = [self._open(plan, sync, opened, completed=plan.name in completed) for plan in plans]
        runs = [run for run in known if run is not None]
        waits = history.waits([run.plan.name for run in runs if run.active])
        return sorted(runs, key=lambda run: (run.was_completed, -waits.get(run.plan.name, 0)))

    def _open(self, plan: StreamPlan, sync: str, opened: dict[str, Running], *, completed: bool) -> StreamSync | None:
        """Open a stream; None if its table or schema is unusable. Adds the stream or its failure to `opened`."""
        stream = plan.stream
        try:
            stream.check_ready()
            self._workers.check(stream)
            removal, followed = removal_of(plan, self._pipeline.state), self._followed(plan)
            check = partial(state_check(self._pipeline, self._secrets), plan.location.name)
            run = StreamSync(
                plan,
                self._tables,
                sync=sync,
                removal=removal,
                followed=followed,
                check=check,
                started=self._facts.started,
                completed=completed,
            )
        except Exception as error:  # noqa: BLE001 - an error fails only this stream
            failure = Failure.of(error)
            logger.error("%s: %s", plan.name, failure.message)
            report = StreamReport(plan.name, Status.FAILED, plan.sync_mode, plan.write_mode, failure=failure)
            opened[plan.name] = NotRead(report)
            return None
        opened[plan.name] = run
        return run

    def _followed(self, plan: StreamPlan) -> FollowSettings | None:
        """Return how to ask the stream's source whether it has changed; None if the stream is not followed."""
        if plan.follow_source is None:
            return None
        config = Secrets(self._secrets).mask(canonical(dict(self._pipeline.config)))
        code = self._source.definition.encode()
        # Code from a notebook or a zip has the name of a file that does not exist.
        if not code and (file := plan.stream.code_file()) is not None and Path(file).is_file():
            code = Path(file).read_bytes()
        most = self._pipeline.state.max_checkpoint_state_size
        return FollowSettings(plan.follow_source, config, sha256(code).hexdigest(), self._facts.started, most)


def _has_rest(runs: Sequence[StreamSync]) -> bool:
    """Whether the next run continues this interrupted sync, and skips the streams that it has completed.

    Only if this run made progress towards the sync's end: otherwise, completed streams would never be read again beside
    a stream that a limit keeps from reaching its end each time.
    """
    made_progress = any(run.report.made_progress for run in runs if not run.was_completed)
    return made_progress and any(run.report.status is Status.INTERRUPTED for run in runs)
