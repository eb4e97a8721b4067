"""StreamCommit: commits the results of a stream's tasks, in a way that is chosen once per sync.

Each commit has rows and state; the last one marks the generation as complete. If stale rows are to be removed, new rows
are committed first, and the commit that completes the generation removes the stale ones.
If the source is asked whether it has changed, nothing is committed until it has (`ReadCondition.waits`).
"""

import time
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.logs import logger
from cdk.base.task_map import TaskMap
from cdk.lake.delta.pinned_table import FilesMissing
from cdk.lake.delta.receipt import CommitRows, row_count
from cdk.lake.delta.table_guard import TableMissing, is_table
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import Committed
from cdk.lake.parquet.emptied_columns import EmptiedColumns
from cdk.lake.parquet.table_files import NO_COLUMNS
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder
from cdk.state.handlers import removal_guards as guards
from cdk.state.handlers.removal_guards import RemovalRefused
from cdk.state.handlers.run import StatefulOptions
from cdk.sync.reports.counts import StaleCount
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.conditional_state import ConditionalState, FollowSettings, ReadCondition, foreign_source_state
from cdk.sync.tables.stale_removal import RemovalRequest, StaleRemoval
from cdk.sync.tables.table_fit import warn_of_wider_columns
from cdk.sync.tables.table_writer import TableWriting
from cdk.sync.tasks.messages import SliceResult

LOST_IN_A_ROW = 3
"""After how many consecutive losses of files a stream ends with an error."""


class CommitOutcome(Struct, frozen=True):
    """The outcome of one commit."""

    committed: Committed
    stale: StaleCount | None = None
    """What was done with the rows that the read did not see."""
    unchanged: bool = False
    """Whether the source has not changed, so that nothing was read."""
    refusal: RemovalRefused | None = None
    """Why the stream fails, although this commit stands."""
    warning: str = ""
    """A warning about the rows that the commit replaced."""
    seconds: float = 0.0
    """Duration of the commit, including removals, merges and rewritten files."""


class StreamCommit:
    """The commits of one stream. Belongs to the driver's thread."""

    def __init__(
        self,
        plan: StreamPlan,
        writing: TableWriting,
        check: Callable[[TableState], None],
        followed: FollowSettings | None,
        removal: RemovalRequest | None = None,
    ) -> None:
        """check: raises for a state that must not be stored. followed: how to ask the source whether it has changed.

        removal: what to do with rows that a complete read did not see; None keeps them. Raises ConfigError: when the
        table cannot flag rows.
        """
        self._plan, self._writing, self._check, self._followed = plan, writing, check, followed
        self._request = removal
        self._removal = None if removal is None else StaleRemoval(plan, writing, removal)
        self._begins, self._may_have_missed = True, False
        # `begin` replaces it by a comparison with the columns of the table.
        self._emptied = EmptiedColumns(lambda: NO_COLUMNS)
        self.source = ReadCondition()

    def begin(self, saved: TableState, *, resumed: bool) -> TableState:
        """Prepare to commit what is read beyond `saved`. Return the state with the source state that it keeps.

        resumed: the read resumes a started generation. Raises BadState.
        """
        # In a resumed generation, rows may have been added before the existing ones were counted.
        self._begins = not resumed or (saved.state is None and not saved.complete)
        before, removal = self._writing.table.saved, self._request
        if self._followed is not None:
            self.source = ConditionalState(self._plan, self._followed, before, resumed=resumed, removal=removal)
        self._emptied = self._compared_columns()
        self._emptied.add(saved.pending)
        self._may_have_missed = False
        return replace(saved, source=foreign_source_state(before))

    def _compared_columns(self) -> EmptiedColumns:
        """Return a comparison of the read columns with those of the table, if this pipeline wrote its rows last.

        Another pipeline that fills the same table may have other fields.
        """
        table = self._writing.table
        return EmptiedColumns((lambda: NO_COLUMNS) if table.others.last_writer else table.filled_columns)

    def add_result(self, progress: SliceResult) -> None:
        """Process what a slice's result says beyond its rows."""
        self.source.add_result(progress)
        self._may_have_missed |= progress.may_have_missed

    def commit(self, saved: TableState, rows: CommitRows, spread: TaskMap) -> Iterator[CommitOutcome]:
        """Commit rows and state, and yield the outcome of each commit as soon as it is made.

        saved: has the new state, but still the number of records before. Raises StateError, FilesMissing, and what a
        store raises: commits that were yielded stand, and nothing else is committed.
        """
        began = time.monotonic()
        for outcome in self._outcomes(saved, rows, spread):
            yield replace(outcome, seconds=time.monotonic() - began)
            began = time.monotonic()

    def _outcomes(self, saved: TableState, rows: CommitRows, spread: TaskMap) -> Iterator[CommitOutcome]:
        if self.source.waits(finished=rows.finished):
            if rows.finished:
                yield self._leave(saved)
        elif self._removal is not None:
            yield from self._commit_removing(self._removal, saved, rows, spread)
        elif rows.finished and self._plan.traits.hidden_until_complete:
            yield self._overwrite(saved, rows, spread)
        else:
            yield self._add(saved, rows, spread, complete=rows.finished)

    def _overwrite(self, saved: TableState, rows: CommitRows, spread: TaskMap) -> CommitOutcome:
        """Replace the table's visible rows by those of the completed generation, unless these are too few."""
        files = [*saved.pending, *rows.files]
        shown, read = self._writing.table.row_count() or 0, row_count(files)
        if not shown:
            return self._add(saved, rows, spread, complete=True)
        counts = guards.EntityCounts(shown, 0 if self._are_no_records(files) else read, max(0, shown - read))
        if (refusal := self._refusal(counts, read)) is not None:
            return self._restart(saved, refusal)
        version, columns = self._writing.table.version, self._writing.table.schema
        outcome = self._add(saved, rows, spread, complete=True)
        warn_of_wider_columns(self._plan.stream.name, columns, self._writing.table.schema)
        if not read or not guards.is_too_much(counts, self._guards):
            return outcome
        warning = (
            f"{self._plan.stream.name}: this overwrite replaced {shown:,} rows with {read:,} ({counts.percent:.1f} % "
            f"fewer). Check the source and its filters; version {version} of the table has the previous rows, until "
            f"a VACUUM. To refuse such an overwrite, set streams.{self._plan.stream.name}.remove_stale: "
            f"{{fail_safe_threshold: {self._guards.fail_safe_threshold:g}}}"
        )
        return replace(outcome, warning="; ".join(text for text in (outcome.warning, warning) if text))

    def _add(self, saved: TableState, rows: CommitRows, spread: TaskMap, *, complete: bool) -> CommitOutcome:
        saved = replace(self._with_source(saved, finished=rows.finished), complete=complete)
        self._check(saved)
        self._emptied.add(rows.files)
        committed = self._writing.mode.commit(saved, replace(rows, finished=complete), spread)
        warning = self._emptied.warning() if rows.finished else ""
        return CommitOutcome(committed, warning=warning and f"{self._plan.stream.name}: {warning}")

    def _leave(self, saved: TableState) -> CommitOutcome:
        """End a read without changes: the table stays as it is, with the newest source state."""
        table = self._writing.table
        assert table.saved is not None  # something was known
        known = replace(table.saved, started_at=saved.started_at, window=saved.window)
        if self.source.moved:
            moved = self._with_source(replace(known, sync=saved.sync), finished=True)
            self._check(moved)
            table.move(moved)
        return CommitOutcome(Committed(known, done=self.source.moved), unchanged=True)

    def _with_source(self, saved: TableState, *, finished: bool) -> TableState:
        return self.source.with_source_state(saved, self._writing.table.state_version, finished=finished)

    @property
    def _guards(self) -> StatefulOptions:
        options = self._plan.remove_stale
        return StatefulOptions(allow_empty=self._plan.allow_empty) if options is None else options.guards()

    def _refusal(self, counts: guards.EntityCounts, read: int) -> RemovalRefused | None:
        """Return the error if an overwrite would leave fewer rows than the user allows; else None."""
        where, options = f"streams.{self._plan.stream.name}", self._plan.remove_stale
        if guards.is_empty(counts, self._guards):
            records = "no record"
            if read:
                key = self._plan.key_columns[0]
                records = f"{read:,} without the primary key {key!r}, which the table's rows have"
            return RemovalRefused(
                f"found {records}, expected some: this overwrite would empty the table, which has "
                f"{counts.previous:,} rows; they are retained. Check the source and its filters; if it really is "
                f"empty, set {where}.remove_stale: {{allow_empty: true}}, or pass --allow-empty if there is no "
                "pipeline file",
                path=where,
            )
        fail_safe = options is not None and bool(options.model_fields_set & {"fail_safe_threshold", "fail_safe_min"})
        if fail_safe and guards.is_too_much(counts, self._guards):
            return RemovalRefused(
                f"found {read:,} records: this overwrite would leave {counts.percent:.1f} % fewer rows than the "
                f"{counts.previous:,} of the table, expected at most {self._guards.fail_safe_threshold:g} % "
                "(fail_safe_threshold); they are retained. Check the source and its filters; if the others really "
                f"are missing, sync once with {where}.remove_stale: {{fail_safe_threshold: 100}}",
                path=where,
            )
        return None

    def _are_no_records(self, files: Sequence[DataFile]) -> bool:
        """Whether no row has a key, but the table's rows do: an error page is often mistaken for a record."""
        return bool(self._plan.key_columns) and self._lack_key(self._plan.key_columns[0], files)

    def _lack_key(self, key: str, files: Sequence[DataFile]) -> bool:
        """Whether a column has values in the table, by its log, but none in these files, by their footers."""
        if any(file.nulls_of(key) != file.rows for file in files):
            return False
        return any(file.nulls is not None and file.nulls < file.rows for file in self._writing.table.files(key))

    def _restart(self, saved: TableState, refusal: RemovalRefused) -> CommitOutcome:
        """Reset the state so that the next sync reads the source again; the visible rows stay."""
        table = self._writing.table
        if unfinished := table.saved is not None and not table.saved.complete:
            saved = replace(saved, state=None, source=None, pending=(), records=0)
            table.move(saved)
        return CommitOutcome(Committed(saved, done=unfinished), refusal=refusal)

    def _commit_removing(
        self, removal: StaleRemoval, saved: TableState, rows: CommitRows, spread: TaskMap
    ) -> Iterator[CommitOutcome]:
        if self._begins and saved.rows_before is None:
            saved = removal.begin(saved, spread)
        self._begins = False
        if self._may_have_missed:
            # Committed even if this sync ends before the read does, because the next sync resumes the read.
            saved = replace(saved, rows_before=None)
        added = self._add(saved, rows, spread, complete=False)
        yield added
        if not rows.finished:
            return
        saved = self._with_source(added.committed.saved, finished=True)
        saved, stale, receipt = removal.commit(saved, spread)
        refusal = RemovalRefused(stale.retained_because, path=removal.where) if stale.refused else None
        yield CommitOutcome(Committed(saved, done=True, receipt=receipt), stale, refusal=refusal)
        if self.source.conditional and stale.unremoved:
            # Stale rows can only be removed after a read, so the next sync must read even an unchanged source.
            saved = replace(saved, source=None)
            self._writing.table.move(saved)
            yield CommitOutcome(Committed(saved, done=True), stale)


class FileLosses:
    """Counts how often in a row files of a stream were lost before their commit."""

    def __init__(self, root: Folder, stream: str) -> None:
        self._root, self._stream, self._in_a_row, self._before_commit = root, stream, 0, False

    def before_commit(self, error: FilesMissing) -> None:
        """Note that files were lost before the next commit; a loss in that commit is not counted a second time.

        Raises `error`: when the loss is the last of `LOST_IN_A_ROW`. TableMissing: when the table itself is missing.
        """
        self._before_commit = True
        self.note(error)

    def committed(self, error: FilesMissing | None = None) -> None:
        """Note the outcome of a commit; error: the loss it failed with. Raises what `before_commit` raises."""
        before, self._before_commit = self._before_commit, False
        if error is not None:
            self.note(error, again=before)
        elif not before:
            self._in_a_row = 0

    def note(self, error: FilesMissing, *, again: bool = False) -> None:
        """Note that files were lost. again: this loss is already counted. Raises what `before_commit` raises."""
        if not is_table(self._root, self._stream):
            raise TableMissing(self._root, self._stream)
        self._in_a_row += not again
        if self._in_a_row >= LOST_IN_A_ROW:
            raise error
        logger.warning("%s: %s; their records are read again", self._stream, error)
