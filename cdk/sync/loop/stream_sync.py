"""StreamSync: one stream in a running sync. It plans the slices, tracks their progress, and commits rows and state."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from cdk.base.errors import TransientError
from cdk.base.logs import FirstWarning, SliceErrors, logger, warn, warnings_in
from cdk.base.process.interruption import Interrupted
from cdk.base.task_map import TaskMap, run_inline
from cdk.lake.admin.locate import OpenTables
from cdk.lake.arrow.schema_evolution import Grown
from cdk.lake.delta.pinned_table import FilesMissing
from cdk.lake.delta.receipt import CommitRows, Receipt
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.writer import DataFile
from cdk.rest.auth.tokens import IssuedToken, access_tokens
from cdk.rest.http.activity import activities, working_for
from cdk.rest.http.metrics import HttpMetrics, counting
from cdk.state.slice import Slice
from cdk.streams.page import PageWarnings
from cdk.streams.stream import Stream
from cdk.sync.loop.slice_schedule import SliceSchedule
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.conditional_state import FollowSettings
from cdk.sync.tables.resume import continues_completed_read, is_refreshed, starting_state, with_read_start
from cdk.sync.tables.stale_removal import AS_THE_PLATFORM_SAYS, RemovalRequest
from cdk.sync.tables.stream_commit import CommitOutcome, FileLosses, StreamCommit
from cdk.sync.tables.table_writer import TableWriting
from cdk.sync.tasks.messages import Failure, SliceResult, WriteTarget

T = TypeVar("T")

_REFUSED_AGAIN = (
    "the source refused a page token again, although each slice was read without interruption: its rows would be "
    "duplicated, so none are shown. Run the sync again, or set supports_checkpointing to False, so that no token is "
    "saved"
)


class StreamSync:
    """A stream in a running sync. Belongs to the driver's thread."""

    def __init__(
        self,
        plan: StreamPlan,
        tables: OpenTables,
        *,
        sync: str,
        removal: RemovalRequest | None = None,
        followed: FollowSettings | None = None,
        check: Callable[[TableState], None] = lambda _: None,
        started: datetime | None = None,
        completed: bool = False,
    ) -> None:
        """Open the table and find out where to resume.

        sync: the id of the whole sync. A full refresh that an earlier sync completed starts a new generation from the
        beginning; an interrupted one resumes; one that this same sync completed before it was interrupted is done.
        removal: what to do with rows that a complete read did not see; None keeps them. followed: how to ask the source
        whether it has changed; None reads everything. check: raises for a state that must not be stored. started: when
        the whole sync started. completed: an earlier run of this sync has read the stream to its end.
        Raises ConfigError and StateError of the table.
        """
        self._trace = sync if plan.trace_rows else ""
        self.plan, self._writing = plan, TableWriting(plan, tables, removes_stale=removal is not None)
        before, self._started = self.table.saved, started
        saved, resumed = starting_state(plan, self.table, pipeline=tables.pipeline, sync=sync, started=started)
        self._completed = before if completed and continues_completed_read(before, saved) else None
        self.saved = replace(saved, keys=self._writing.keys, json_keys=self._writing.json_keys)
        if self._writing.refreshes_keys:
            removal = RemovalRequest(AS_THE_PLATFORM_SAYS)
        self._commits = StreamCommit(plan, self._writing, check, followed, removal)
        self._warn_of_mismatch = FirstWarning()
        self._warned: list[str] = []
        self._slice_errors = SliceErrors()
        self.attempt = 0
        """Number of times that reading was started. Slices and results of one attempt are invalid in the next."""
        resumed = self._begin(resumed=resumed)
        status = Status.DONE if self.saved.complete else Status.READING
        self.was_completed = status is Status.DONE or self._completed is not None
        """Whether an earlier run of this sync has read the stream to its end."""
        self.report = self._committed = StreamReport(
            plan.name,
            status,
            plan.sync_mode,
            plan.write_mode,
            resumed=resumed,
            total=self.saved.records,
            generation=self.saved.generation,
        )
        self._http = HttpMetrics()
        self._losses = FileLosses(plan.root, plan.stream.name)
        self._to_end = self._refused = False

    @property
    def stream(self) -> Stream:
        """The stream, with the pipeline's options applied."""
        return self.plan.stream

    @property
    def table(self) -> StreamTable:
        """The table that the rows are written to."""
        return self._writing.table

    def _begin(self, *, resumed: bool, unusable: str | None = None) -> bool:
        """Prepare to read what the saved state does not cover. Return whether the read resumes a generation.

        If the hidden files of the generation are unusable, it starts over. resumed: the read is to resume a started
        generation. unusable: why its files are unusable, if the files themselves do not show it. Raises StateError.
        """
        plan, saved = self.plan, self.saved
        if (why := unusable or self._writing.unusable(saved.pending)) is not None:
            logger.warning("%s: %s; reading from the start", self.stream.name, why)
            # A generation that a platform numbers keeps its number, because none of its rows was ever visible.
            generation = saved.generation + 1 if plan.generation is None else plan.generation
            anew = TableState(plan.sync_mode, saved.write_mode, saved.sync, generation, refreshing=saved.refreshing)
            saved, resumed = with_read_start(plan, anew, started=self._started, resumed=False), False
        self.attempt += 1
        if self.attempt > 1:
            self.stream.begins_anew(self.attempt)
        self.saved = self._commits.begin(saved, resumed=resumed)
        self._warnings = PageWarnings(resumed=bool(self.saved.state))
        single = self._commits.source.single_slice
        # compares_first: slices read and committed before the comparison would add rows that the table already has.
        self._schedule = SliceSchedule(
            self.stream,
            self.saved.state,
            single=single,
            check=self._check_known,
            compares_first=self._adds_again,
            refreshes=plan.sync_mode == "full_refresh" or is_refreshed(plan, self.table.saved),
        )
        return resumed

    @property
    def _adds_again(self) -> bool:
        """Whether records that are read again would be added beside the rows that the table already has."""
        return not self.plan.traits.one_row_per_key and self.saved.records > 0

    def _check_known(self, mismatch: str) -> None:
        """Raise StateError if records that the state covers would be read again and appended; else warn.

        mismatch: how the source's partitions differ from those in the state.
        """
        text = f"{mismatch}; all of it would be read again"
        if self._adds_again:
            raise self.table.state_error(
                f"{text} and added to the {self.saved.records:,} rows of the table. Have the source name it as "
                "before, or accept this with `spark-cdk state reset`"
            )
        self._warn_of_mismatch(f"{self.stream.name}: {text}")

    @property
    def current_report(self) -> StreamReport:
        """The report, including the slices being read now and the requests so far."""
        return replace(
            self.report,
            planned=self._schedule.planned,
            all_planned=self._schedule.all_planned,
            reading=self._schedule.reading,
            http=self._http + HttpMetrics(),
            warnings=tuple(self._warned),
        )

    @property
    def active(self) -> bool:
        """Whether the stream is still being read."""
        return self.report.status is Status.READING

    @property
    def stops_at_pages(self) -> bool:
        """Whether a slice can stop at a page and resume in another task."""
        return self.stream.stops_at_pages and not self._to_end

    @property
    def in_read_order(self) -> bool:
        """Whether slices must be committed in the order of the read."""
        return self._writing.mode.in_read_order

    @property
    def idle(self) -> bool:
        """Whether no slice is handed out or waiting, so that a commit has to find out if everything was read."""
        return self.active and self._schedule.idle

    def next(self) -> Slice | None:
        """Return the next slice to hand out; None if there is none for now."""
        return self._plan_slices(self._schedule.next) if self.active else None

    def _plan_slices(self, planning: Callable[[], T]) -> T | None:
        """Return the result of `planning`. If it raises, fail this stream and return None.

        Its requests and warnings count for this stream, and are shown as its planning.
        """
        try:
            with warnings_in(self._warned), counting(self._http), working_for(self.plan.name, activities().planning):
                return planning()
        except Interrupted:
            # The slice being planned is lost, so the plan is not at its end.
            self._end_early()
            return None
        except Exception as error:  # noqa: BLE001 - planning reads parents; an error fails only this stream
            self.fail(Failure.of(error))
            return None

    def access_tokens(self, seconds: float) -> Mapping[str, IssuedToken]:
        """Return access tokens by key for tasks that read this stream for `seconds`; empty if that fails the stream."""
        return self._plan_slices(partial(access_tokens, self.stream, seconds)) or {}

    def untouched(self, slice: Slice) -> None:
        """Take back a slice that its task did not read."""
        self._schedule.put_back(slice)

    def add_result(self, slice: Slice, progress: SliceResult, *, unfinished: bool = False) -> None:
        """Process how far a slice got. unfinished: its task still reads it."""
        failure = self._schedule.add_result(slice, progress, unfinished=unfinished)
        self._commits.add_result(progress)
        self._http += progress.http
        with warnings_in(self._warned):
            self._warnings.add(progress)
        self.report = self.report.plus(slice, progress)
        if failure is not None and failure.final and self.active:
            # The remaining slices are read first; the stream fails at its end.
            self._slice_errors.add(self.stream.name, slice, failure.message)
        elif failure is not None:
            self.fail(failure)

    def fail(self, failure: Failure) -> None:
        """Stop reading this stream with a failure; what is covered is still committed."""
        if self.report.failure is None:
            self._slice_errors.end(self.stream.name)
            if failure is not self._schedule.final_failure:
                logger.error("%s: %s", self.stream.name, failure.message)
            self.report = replace(self.report, status=Status.FAILED, failure=failure)

    def interrupt(self) -> None:
        """Stop reading this stream where it is, unless the next commit will find that everything was read."""
        if self.active and not (self.idle and self._schedule.all_planned):
            self._end_early()

    def _end_early(self) -> None:
        """Stop reading this stream. If this sync had completed it before and has read nothing new since, it is done."""
        self._slice_errors.end(self.stream.name)
        if self._completed is not None and not any(
            (self.report.pages, self.report.completed_slices, self.report.commits)
        ):
            self.saved = self._completed
            self.report = replace(self.report, status=Status.DONE)
        else:
            self.report = replace(self.report, status=Status.INTERRUPTED)

    @property
    def target(self) -> WriteTarget:
        """What tasks need to know to read the stream and write its rows."""
        target = self._writing.target(self.saved.generation)
        return replace(target, source=self._commits.source.snapshot, to_end=self._to_end, trace=self._trace)

    def prepare(self, spread: TaskMap) -> None:
        """Adapt the table's files to the stream's schema, and its history to the table. Raises StateError."""
        self._writing.prepare(self.saved, spread)
        if self._commits.source.single_slice and self.active:
            # Plan two slices, so that a second one is refused before the first is read.
            self._plan_slices(partial(self._schedule.plan_ahead, 2))

    def outgrew(self, target: WriteTarget) -> bool:
        """Whether the table's columns have changed since a task was started with `target`."""
        return self._writing.outgrew(target)

    def grow(
        self,
        grown: Sequence[Grown],
        files: Sequence[Sequence[DataFile]],
        spread: TaskMap = run_inline,
        *,
        stale: bool = False,
    ) -> list[Sequence[DataFile] | None]:
        """Add the columns that tasks found necessary for undeclared fields, or widen existing ones.

        grown, files: one item per task. stale: some files were written before the table's columns changed. Return each
        task's files so that they fit the table, rewritten where they are narrower; None where they cannot fit and were
        deleted. Raises StateError, FilesMissing when files have vanished for the third time in a row, and what a store
        raises.
        """
        result = self._writing.grow(grown, files, self.saved, spread, stale=stale)
        self.saved = result.saved
        if result.lost is not None:
            self._losses.before_commit(result.lost)
        return result.files

    def commit(self, files: Sequence[DataFile], spread: TaskMap = run_inline) -> None:
        """Commit the files together with the state of their records, and complete the stream if all of it was read.

        Does nothing for a stream that is done or was refused. Records of files that have vanished are read again.
        Raises StateError, and FilesMissing when files have vanished for the third time in a row.
        """
        if self.report.status is Status.DONE or self._refused:
            return
        if self._schedule.restarted and self.saved.pending:
            self._restart(files)
            return
        try:
            self._commit(files, spread)
        except FilesMissing as error:
            if self.report.status is Status.FAILED:
                raise
            self._losses.committed(error)
            self._begin(resumed=True)
            total, generation = self.saved.records, self.saved.generation
            self.report = self._committed = replace(self._committed, total=total, generation=generation)
        else:
            self._losses.committed()

    def miss(self, path: str) -> None:
        """Record that a file vanished while a task wrote it, so that the task's slices are read again.

        Raises FilesMissing: when this has happened for the third time in a row.
        """
        self._losses.note(FilesMissing([path], 1, stream=self.stream.name, path=str(self.target.root)))

    def _restart(self, files: Sequence[DataFile]) -> None:
        """Abandon a generation that would contain duplicate rows, delete the files for it, and start over.

        A source whose page tokens expire between two tasks would refuse them every time, so from now on each slice is
        read to its end.
        """
        for file in files:
            self.table.root.delete(file.path)
        resumed = self._begin(resumed=False, unusable="a saved page token is stale")
        self._committed = replace(self._committed, total=0, generation=self.saved.generation, resumed=resumed)
        self.report = replace(self._committed, status=self.report.status, failure=self.report.failure)
        if self._to_end:
            self.fail(Failure.of(TransientError(_REFUSED_AGAIN, stream=self.stream.name)))
        self._to_end = True

    def _commit(self, files: Sequence[DataFile], spread: TaskMap) -> None:
        finished = self.active and bool(self._plan_slices(self._schedule.plan_end))
        if finished and self._schedule.final_failure is not None:
            self.fail(self._schedule.final_failure)
        finished = finished and self.active
        if finished and self.plan.forget_after is not None:
            self._schedule.forget_missing(self.plan.forget_after)
        rows = CommitRows(files, self._schedule.counts, finished)
        saved = replace(self.saved, state=self._schedule.state(), complete=False)
        for outcome in self._commits.commit(saved, rows, spread):
            self._note(outcome)
        if finished and self.active:
            with warnings_in(self._warned):
                self._warnings.end()
            self.report = self._committed = replace(self.report, status=Status.DONE)

    def _note(self, outcome: CommitOutcome) -> None:
        """Update state and report with the outcome of a commit."""
        done, before, report = outcome.committed, self._committed, self.report
        self.saved = done.saved
        if done.done:
            self._schedule.counts = Receipt()
        self.report = self._committed = replace(
            report,
            written=before.written + done.receipt.landed,
            total=done.saved.records if done.done and not outcome.unchanged else self.table.records,
            generation=done.saved.generation,
            files=report.files + len(done.files),
            bytes=report.bytes + sum(file.size for file in done.files),
            commits=report.commits + done.done,
            apart=report.apart + done.keyless,
            by_commit=report.by_commit.plus(self.table.version, done.files, done.receipt, outcome.seconds)
            if done.done
            else report.by_commit,
            stale=outcome.stale,
            unchanged=outcome.unchanged,
        )
        with warnings_in(self._warned):
            warn(outcome.warning)
        if outcome.refusal is not None:
            self.fail(Failure.of(outcome.refusal))

    def warn_of_keys(self) -> None:
        """Warn, at the end of the sync, about rows that their keys do not distinguish."""
        for text in self.report.doubts_of_keys():
            logger.warning("%s: %s", self.stream.name, text)

    def compact(self) -> None:
        """Join the small files that frequent commits have left in the tables, if the stream is done."""
        if self.report.status is Status.DONE:
            self._writing.compact()

    def refused(self, failure: Failure) -> None:
        """Fail this stream because its last commit was refused; the rows and state of that commit do not count."""
        # An earlier failure, of the source, is the one that a person needs to know first.
        self._refused = True
        self.attempt += 1
        self.report = replace(self._committed, status=self.report.status, failure=self.report.failure)
        self.fail(failure)
