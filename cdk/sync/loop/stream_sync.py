"""One stream's part in a sync: plans its slices, takes their progress, commits rows and state."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta

from cdk.base.errors import CdkError, StateError
from cdk.base.logs import FirstWarning, logger
from cdk.base.task_map import TaskMap, run_inline
from cdk.base.values import Json
from cdk.lake.arrow.schema_evolution import Grown
from cdk.lake.delta.pinned_table import FilesGone
from cdk.lake.delta.receipt import RecordCounts
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import Committed
from cdk.lake.parquet.writer import DataFile
from cdk.rest.auth.tokens import IssuedToken, TokenUser
from cdk.rest.http.activity import activities, working_for
from cdk.rest.http.metrics import HttpMetrics, counting
from cdk.state.handlers import removal_guards as guards
from cdk.state.handlers.options import StatefulOptions
from cdk.state.handlers.removal_guards import RemovalRefused
from cdk.state.position import Done
from cdk.state.slice import Slice
from cdk.state.wire import decode, encode
from cdk.streams.checkpoint import CheckpointReader
from cdk.sync.loop.conditional_state import (
    ConditionalState,
    FollowSettings,
    foreign_source_state,
    has_unremoved_rows,
    multiple_slices_error,
)
from cdk.sync.loop.resume import is_refreshed, resume_point
from cdk.sync.loop.stale_removal import AS_THE_PLATFORM_SAYS, RemovalRequest, StaleRemoval
from cdk.sync.loop.table_writer import TableWriting
from cdk.sync.reports.counts import counted
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.messages import Failure, SliceResult, WriteTarget

LOST_IN_A_ROW = 3
"""Commits whose files are gone, one after the other, that end a stream."""


class StreamSync:
    """A stream in a running sync. Belongs to the driver's thread."""

    def __init__(
        self,
        plan: StreamPlan,
        pipeline: str,
        *,
        sync: str,
        removal: RemovalRequest | None = None,
        followed: FollowSettings | None = None,
        check: Callable[[TableState], None] = lambda _: None,
    ) -> None:
        """Open the table and find out where to go on.

        sync: the id of the whole sync. A full refresh that an earlier sync completed is a new generation and reads
        from the beginning; one that was cut resumes; one that this sync completed before it was cut is done.
        removal: what is to become of rows that a complete read did not see; None: they stay. followed: how the source
        is asked whether it has changed; None: all is read. check: raises for a state that may not be kept.
        Raises ConfigError and StateError of the table.
        """
        self.stream = stream = plan.stream
        self._writing = TableWriting(plan, pipeline)
        self._check = check
        if plan.write_mode == "append_dedup" and is_refreshed(plan, self._writing.table.saved):
            removal = RemovalRequest(AS_THE_PLATFORM_SAYS)
        self._plan, self._followed, self._wanted = plan, followed, removal
        self._removal = None if removal is None else StaleRemoval(plan, self._writing, removal)
        self.table = self._writing.table
        sync_mode, write_mode, before = plan.sync_mode, plan.write_mode, self.table.saved
        if before is None and self.table.state_version is None:
            self._check_owner(pipeline, write_mode)
        self.saved, resumed = resume_point(plan, before, sync)
        if before is not None and before.records and before.sync_mode != sync_mode and write_mode == "append":
            logger.warning(
                "%s: its sync_mode was %s; as %s it is read from its start and added to the %d rows that are there",
                stream.name,
                before.sync_mode,
                sync_mode,
                before.records,
            )
        resumed = self._begin(resumed=resumed)
        self._begins = not resumed or (self.saved.state is None and not self.saved.complete)
        status = Status.DONE if self.saved.complete else Status.READING
        self.report = StreamReport(
            plan.name,
            status,
            sync_mode,
            write_mode,
            resumed=resumed,
            total=self.saved.records,
            generation=self.saved.generation,
        )
        self._http = HttpMetrics()
        self._committed = self.report
        self._warn, self._again_warning = FirstWarning(), FirstWarning()
        self._lost = 0
        self._gone: Failure | None = None
        self._doubles = False

    def _begin(self, *, resumed: bool, unusable: str | None = None) -> bool:
        """Get ready to read what the saved state does not cover; False: it covers nothing, for its files are of no use.

        resumed: what is read goes on with a generation that was begun. unusable: why its files are of no use, where
        they do not tell themselves. Raises StateError.
        """
        plan, stream, saved = self._plan, self.stream, self.saved
        if (why := unusable or self._writing.unusable(saved.pending)) is not None:
            logger.warning("%s: %s; reading from the start", stream.name, why)
            # A generation that a platform numbers keeps its number: nobody has seen a row of it.
            generation = saved.generation + 1 if plan.generation is None else plan.generation
            saved, resumed = TableState(plan.sync_mode, saved.write_mode, saved.sync, generation), False
        before = self.table.saved
        self.saved = replace(saved, source=foreign_source_state(before))
        self._answers: ConditionalState | None = None
        if self._followed is not None:
            self._answers = ConditionalState(plan, self._followed, before, resumed=resumed, removal=self._wanted)
        self._state = decode(
            self.saved.state,
            path=f"state of {stream.name}",
            cursor_field=stream.cursor_field,
            partition_field=stream.partition_field,
        )
        self._reader: CheckpointReader = stream.checkpoint_reader(self._state)
        # What the slices counted since the last commit: nothing that is counted on the way to the table adds to it.
        self._read = RecordCounts()
        self._again: deque[Slice] = deque()
        self._planned, self._handed, self._out = False, 0, 0
        return resumed

    def _check_owner(self, pipeline: str, write_mode: str) -> None:
        """Raise StateError: another pipeline has filled the table, and this one would append its rows again."""
        others = self.table.other_pipelines if self.table.row_count() != 0 else []
        if not others:
            return
        text = (
            f"the table has rows and a state of the pipeline {others[0]!r}, and none of {pipeline!r}. If it was "
            f"renamed, give its file the name {others[0]!r} again, run `spark-cdk state fork FILE {pipeline}`, and "
            "rename it: it then goes on from there. If both are to fill the table, do the same, and then `spark-cdk "
            "state reset`"
        )
        if write_mode == "append":
            raise StateError(text, path=str(self.table.root), stream=self.stream.name)
        logger.warning("%s: %s; it is read from its start", self.stream.name, text)

    def _check_known(self) -> None:
        """Raise StateError: what the state knows would be read again, and its rows appended."""
        if not (mismatch := self._reader.mismatch):
            return
        text = f"{mismatch}; all of it would be read again"
        if self._plan.write_mode != "append_dedup" and self.saved.records:
            raise StateError(
                f"{text} and added to the {self.saved.records:,} rows that are there. Have the source name it as "
                "before, or accept that with `spark-cdk state reset`",
                path=str(self.table.root),
                stream=self.stream.name,
            )
        self._again_warning(f"{self.stream.name}: {text}")

    @property
    def standing(self) -> StreamReport:
        """The report, with what is being read now and what it took so far."""
        return replace(
            self.report,
            planned=self._handed,
            all_planned=self._planned,
            reading=self._out,
            http=self._http + HttpMetrics(),
        )

    @property
    def active(self) -> bool:
        """Whether there is something left to read."""
        return self.report.status is Status.READING

    def next(self) -> Slice | None:
        """The next slice to hand out, None when there is none for now."""
        if not self.active:
            return None
        slice = self._again.popleft() if self._again else None
        if slice is None and not self._planned:
            try:
                with counting(self._http), self._planning():
                    slice = self._reader.next()
                self._check_known()
            except Exception as error:  # noqa: BLE001 - planning reads parents: it fails this stream and no other
                self.fail(Failure.of(error))
                slice = None
            self._planned = slice is None
            if slice is not None and self._handed and self._answers is not None and self._answers.alone:
                self.fail(Failure.of(multiple_slices_error(self.stream.name)))
                return None
            self._handed += slice is not None
        if slice is not None:
            self._out += 1
        return slice

    def access_tokens(self, seconds: float) -> Mapping[str, IssuedToken]:
        """The tokens for tasks that read this stream for so many seconds, by key. Raises CdkErrors."""
        if not isinstance(self.stream, TokenUser):
            return {}
        with counting(self._http), self._planning():
            return self.stream.access_tokens(seconds)

    def _planning(self) -> AbstractContextManager[None]:
        """What is asked meanwhile is seen as asked for this stream."""
        return working_for(self._plan.name, activities().planning)

    def untouched(self, slice: Slice) -> None:
        """Take back a slice that the epoch had no time for."""
        self._out -= 1
        self._again.append(slice)

    def add_result(self, slice: Slice, progress: SliceResult) -> None:
        """Take over how far a slice got."""
        self._out -= 1
        self._http += progress.http
        self._warn(progress.warning)
        report = self.report
        for position in progress.positions:
            self._reader.observe(slice, position, progress.edge)
        last = progress.positions[-1] if progress.positions else None
        if last is not None:
            self._read = counted(self._read, progress)
            self.report = replace(
                report,
                read=report.read + progress.read,
                skipped=report.skipped + progress.skipped,
                restarted=report.restarted + progress.restarted,
                slices=report.slices + isinstance(last, Done),
                rejected=report.rejected + progress.rejected,
                pages=report.pages + progress.pages,
                by_slice=report.by_slice.plus(slice, progress),
            )
        # Its rows are hidden already. A token of this sync may be refused each time: such a read would never end.
        hidden = self._plan.write_mode == "overwrite" and bool(self.saved.pending) and not report.commits
        self._doubles = self._doubles or (progress.restarted and hidden)
        if self._answers is not None and isinstance(last, Done) and progress.failure is None:
            self._answers.add_result(progress.conditional)
        if progress.failure is not None and progress.failure.final and self.active:
            # The source will never give this slice. The state keeps it open, and the later ones are read first.
            logger.error("%s %s: %s", self.stream.name, slice, progress.failure.message)
            self._gone = self._gone or progress.failure
        elif progress.failure is not None:
            self.fail(progress.failure)
        elif last is None:
            self._again.append(slice)
        elif not isinstance(last, Done):
            self._again.append(self._reader.resume(slice, last, progress.edge))

    def fail(self, failure: Failure) -> None:
        """End this stream's reading; what is covered is still committed."""
        if self.report.failure is None:
            if failure is not self._gone:
                logger.error("%s: %s", self.stream.name, failure.message)
            self.report = replace(self.report, status=Status.FAILED, failure=failure)

    @property
    def target(self) -> WriteTarget:
        """What tasks need to know to read and write."""
        target = self._writing.target(self.saved.generation)
        return target if self._answers is None else replace(target, source=self._answers.snapshot)

    def prepare(self, spread: TaskMap) -> None:
        """Bring the table's files to the stream's schema, and its history to the table. Raises StateError."""
        self._writing.prepare(self.saved, spread)
        if self._answers is None:
            self._count_shown(spread)
        elif self._answers.alone:
            # A second slice is refused before the first is read.
            for slice in filter(None, [self.next(), self.next()]):
                self.untouched(slice)

    def grow(
        self, grown: Sequence[Grown], files: Sequence[Sequence[DataFile]], spread: TaskMap = run_inline
    ) -> list[Sequence[DataFile] | None]:
        """Give undeclared fields the columns that tasks found they need, and wider ones where there are some.

        found, files: of each task. Their files as they then fit the table, written again where they are narrower; None
        where they cannot, and are gone. Raises StateError, and what a store raises.
        """
        fitting, self.saved = self._writing.grow(grown, files, self.saved, spread)
        return fitting

    def commit(self, files: Sequence[DataFile], spread: TaskMap = run_inline) -> None:
        """Make the files and the state of their records one, and finish when nothing is left.

        What is finished stays as it is. Where files are gone, what they held is read again by the next epochs.
        Raises StateError, and FilesGone where files are gone for the third time in a row.
        """
        if self.report.status is Status.DONE:
            return
        if self._doubles:
            self._begin_anew(files)
            return
        try:
            self._commit(files, spread)
        except FilesGone as error:
            self._lost += 1
            if self._lost >= LOST_IN_A_ROW or not self.active:
                raise
            logger.warning("%s: %s; reading again what they held", self.stream.name, error)
            self._begin(resumed=True)
            total, generation = self.saved.records, self.saved.generation
            self.report = self._committed = replace(self._committed, total=total, generation=generation)
        else:
            self._lost = 0

    def _begin_anew(self, files: Sequence[DataFile]) -> None:
        """Leave a generation that would show rows twice, and the files that were to be added to it."""
        for file in files:
            self.table.root.delete(file.path)
        self._doubles = False
        resumed = self._begin(resumed=False, unusable="the source refused a page token of the interrupted sync")
        self._committed = replace(self._committed, total=0, generation=self.saved.generation, resumed=resumed)
        self.report = replace(self._committed, status=self.report.status, failure=self.report.failure)

    def _finished(self) -> bool:
        """Whether all has been read; the stream fails where all but what is gone was."""
        # Only asking the reader tells that nothing is left to plan; a slice it gives instead waits for the next epoch.
        if self.active and not self._out and not self._again:
            self._planned = False
            if (slice := self.next()) is not None:
                self.untouched(slice)
        ended = self.active and self._planned and not self._out and not self._again
        if ended and self._gone is not None:
            self.fail(self._gone)
        return ended and self.active

    def _commit(self, files: Sequence[DataFile], spread: TaskMap) -> None:
        finished = self._finished()
        if self._answers is not None:
            if self._answers.waits(finished=finished):
                if finished:
                    self._leave(self._answers)
                return
            self._count_shown(spread)
            self.saved = replace(self.saved, source=self._source(self._answers, finished=finished))
        if finished and self._plan.forget_after is not None:
            self._forget_missing(self._plan.forget_after)
        self._state = self._reader.get_checkpoint() or self._state
        # What was not seen leaves with the commit that says that all was, so rows come first.
        complete = finished and self._removal is None
        if complete and not files and self._empties():
            return
        saved = replace(self.saved, state=self._wire(), complete=complete)
        self._check(saved)
        done = self._writing.mode.commit(saved, files, self._read, finished=complete, spread=spread)
        self._note(done)
        if done.done:
            self._read = RecordCounts()
        if finished and self._removal is not None:
            self._remove(self._removal, spread)
        if finished and self.active:
            self.report = replace(self.report, status=Status.DONE)
        self._committed = self.report

    def _forget_missing(self, after: timedelta) -> None:
        now = self.stream.now().replace(microsecond=0)
        if count := self._reader.forget_missing(now, after):
            logger.info("%s: its state forgets %d partitions that the source lacks", self.stream.name, count)

    def _empties(self) -> bool:
        """Whether an overwrite would leave a table without rows that has some, and nobody said that it may.

        The stream has failed then, the rows stay, and the next sync reads the source again.
        """
        plan = self._plan
        if plan.write_mode != "overwrite" or self.saved.records:
            return False
        shown = self.table.row_count() or 0
        counts = guards.EntityCounts(shown, 0, shown)
        if not guards.is_empty(counts, StatefulOptions(allow_empty=plan.allow_empty)):
            return False
        if self.table.saved is not None and not self.table.saved.complete:
            self.saved = replace(self.saved, state=None, source=None)
            self.table.commit(self.saved)
            self._note(Committed(self.saved, done=True))
        where = f"streams.{self.stream.name}"
        error = RemovalRefused(
            f"found no record, expected some: this overwrite would empty the table, which has {shown:,} rows; they "
            f"stay. Look at the source and its filters; if it is empty indeed, set {where}.remove_stale: "
            "{allow_empty: true}, or --allow-empty where no pipeline file says what to sync",
            path=where,
        )
        self.fail(Failure.of(error))
        return True

    def _leave(self, answers: ConditionalState) -> None:
        """End a read that brought nothing new: the table stays, with what its source said of itself."""
        assert self.table.saved is not None  # something was known
        saved = self.table.saved
        if answers.moved:
            saved = replace(saved, sync=self.saved.sync, source=self._source(answers, finished=True))
            self._check(saved)
            self.table.commit(saved)
            self._note(Committed(saved, done=True))
        self.saved = saved
        self.report = replace(
            self.report, status=Status.DONE, unchanged=True, total=saved.records, generation=saved.generation
        )
        self._committed = self.report

    def _source(self, answers: ConditionalState, *, finished: bool) -> Json:
        return answers.to_json(self.table.state_version, finished=finished)

    def _count_shown(self, spread: TaskMap) -> None:
        """Count the rows that are shown before this generation adds to them, where those it does not see are to go."""
        if self._removal is not None and self._begins and self.saved.known is None:
            self.saved = replace(self.saved, known=self._removal.known(self.saved.generation, spread))

    def _note(self, done: Committed) -> None:
        """Take over what a commit did."""
        self.saved, before, report, commits = done.saved, self._committed, self.report, self.report.by_commit
        self.report = replace(
            report,
            written=before.written + done.receipt.landed,
            total=done.saved.records,
            files=report.files + len(done.files),
            bytes=report.bytes + sum(file.size for file in done.files),
            commits=report.commits + done.done,
            apart=report.apart + done.apart,
            by_commit=commits.plus(self.table.version, done.files, done.receipt) if done.done else commits,
        )
        self._committed = self.report

    def _remove(self, removal: StaleRemoval, spread: TaskMap) -> None:
        """Commit that all was read, and with it what becomes of the rows that were not seen."""
        if self._answers is not None:
            self.saved = replace(self.saved, source=self._source(self._answers, finished=True))
        saved, stale, receipt = removal.commit(self.saved, spread)
        self._note(Committed(saved, done=True, receipt=receipt))
        self.report = replace(self.report, stale=stale)
        if self._answers is not None and has_unremoved_rows(stale):
            # They can leave only with a read, so the next sync has to be one.
            saved = replace(saved, source=None)
            self.table.commit(saved)
            self._note(Committed(saved, done=True))
        if stale.refused:
            self.fail(Failure.of(RemovalRefused(stale.kept_because, path=removal.where)))

    def warn_of_keys(self) -> None:
        """Warn, at the end of the sync, of the rows whose keys do not tell them apart."""
        if self.report.apart:
            logger.warning(
                "%s: the primary key of %d rows is null, missing, or no value of its column; each of them is kept as a "
                "row of its own, and a changed one as another. Choose a primary_key that every record has",
                self.stream.name,
                self.report.apart,
            )

    def compact(self) -> None:
        """Join the small files that many short epochs have left, in the tables of a stream that is done."""
        if self.report.status is not Status.DONE:
            return
        for table in self._writing.mode.tables:
            try:
                table.compact()
            except CdkError as error:
                logger.warning("%s: %s", self.stream.name, error)

    def refused(self, failure: Failure) -> None:
        """End this stream: its last commit was refused, and what it covered does not count."""
        # What went wrong before, in the source, is what a person needs to know first.
        self.report = replace(self._committed, status=self.report.status, failure=self.report.failure)
        self.fail(failure)

    def _wire(self) -> Json:
        stream = self.stream
        return encode(self._state, incremental=stream.incremental, cursor_field=stream.cursor_field, exact=True)
