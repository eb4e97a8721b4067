"""A stream's Delta table: each commit updates rows and state in one transaction.

A commit names the new files and moves the table's transaction marker `txn(app)` to a fresh version. The state for that
version is written first, to `_cdk_state/<pipeline>/<version>.json`, so the marker alone determines the current state.
What makes this exactly-once: the commit goes through the same table handle whose marker was compared with the version
of the loaded state. The log refuses a commit through a stale handle; it would accept one through a fresh handle.

Measured with delta-rs 1.6: the marker survives log clean-up and the commit's metadata does not; the writer does not
compare marker versions; concurrent writers such as OPTIMIZE do not cause a conflict. RESTORE leaves the marker where it
was: the log then says which state belongs to the rows (`cdk.lake.delta.restore_detection`), and the marker still fences
other runs. CREATE OR REPLACE TABLE also leaves the marker, but changes the table's id; each state stores the id of its
table.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction
from msgspec.structs import replace

from cdk.base.errors import BugError, StateError
from cdk.base.process.crash_points import crash_point
from cdk.base.task_map import TaskMap
from cdk.base.times.clock import Clock, system_clock
from cdk.lake.delta.engine_writes import Change
from cdk.lake.delta.failed_commit import overtaken_error, repeat_if_changed, resolve_failed_commit
from cdk.lake.delta.pinned_table import FilesMissing, PinnedTable, TableChanged
from cdk.lake.delta.receipt import Receipt, row_count
from cdk.lake.delta.restore_detection import (
    check_columns_stay,
    check_not_restored,
    check_row_moves,
    check_rows,
    check_same_table,
    missing_marker_error,
    state_of_rows,
)
from cdk.lake.delta.state_blobs import StateBlobs, number, successor
from cdk.lake.delta.table_guard import Use
from cdk.lake.delta.table_sharing import OtherPipelines
from cdk.lake.delta.table_state import TableState, commit_properties
from cdk.lake.parquet.table_files import TableFile, file_actions
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder, unwritable

_RETAINED_STATES = 20


class StreamTable(PinnedTable):
    """The table of one stream and its states, opened for one run."""

    def __init__(
        self,
        root: Folder | Path,
        pipeline: str,
        stream: str,
        schema: pa.Schema,
        *,
        clock: Clock = system_clock,
        allow_lost_state: bool = False,
        partition_by: Sequence[str] | None = None,
    ) -> None:
        """Open the table, or create it with `schema`.

        allow_lost_state: also open a table whose state is missing or unreadable, as if it had no state; the next commit
        writes one. Until then `lost_state` holds the error.
        partition_by: the partition columns; None: the existing ones, or no columns for a new table.

        Raises ConfigError: when the store refuses access, the table has other partition columns, or these are invalid.
        StateError: when the table's state is missing. TransientError: when the store does not respond.
        """
        super().__init__(root, pipeline, stream, schema, clock=clock, partition_by=partition_by)
        self.others = OtherPipelines(self)
        """The other pipelines that write to the table."""
        self.blobs = StateBlobs(self.root.join("_cdk_state", pipeline), stream)
        """The state files beside the table, including drafts."""
        self.state_version = self.seen_marker
        """The version of the state that the last commit moved the marker to; None before the first commit."""
        self.rows_state_version: int | None = None
        """The version of the state that belongs to the rows: `state_version`, unless the table was restored later."""
        self._row_moves: tuple[int, ...] = ()
        self.saved: TableState | None = None
        """The state that belongs to the table's rows; None: the table has no state."""
        self.newest: TableState | None = None
        """The state that the marker names: `saved`, unless a RESTORE has undone it; None: missing or unreadable."""
        self._checked_version = self.version
        """The table version up to which this run has checked that the table was not restored."""
        self.lost_state: StateError | None = None
        """Why the state is missing or unreadable; None: it was loaded, or there was none to load."""
        # Versions keep increasing even if the marker was lost.
        self._last_version = self.state_version
        try:
            self._find_state()
        except StateError as error:
            if not allow_lost_state:
                raise
            self.lost_state = error

    def _find_state(self) -> None:
        """Load the state that belongs to the rows, if any. Raises StateError: when it is unknown or unreadable."""
        if self.state_version is None:
            self._check_new()
            return
        rows = state_of_rows(self, self.state_version)
        self.rows_state_version, self._row_moves = rows.version, rows.row_moves
        saved = self.newest = None if self.rows_state_version is None else self.blobs.load(self.rows_state_version)
        if self.restored:
            self.newest = None
            with suppress(StateError):
                self.newest = self.blobs.load(self.state_version)
        if saved is not None:
            check_same_table(self, saved)
        if saved is not None and not rows.certain:
            known = number(self.state_version)
            check_rows(self, saved, doubt=rows.doubt, number=known, others=self.others.names)
        self.saved = saved

    def _check_new(self) -> None:
        """Raise StateError when the table has lost its marker. Drafts of a killed first commit do not count as that."""
        versions = self.blobs.versions
        if not versions:
            return
        newest = max(versions)
        # The next attempt at a first commit has number 1 again: however often it is killed, it leaves only drafts.
        if number(newest) == 1 and (not self.row_count() or self.others):
            return
        self._last_version = newest
        raise missing_marker_error(self, number(newest))

    def check_row_moves(self) -> None:
        """Raise StateError when a commit after this pipeline's last one says it only moves rows but duplicated some."""
        check_row_moves(self, self._row_moves)

    def add(self, columns: Sequence[pa.Field]) -> None:
        """Add columns, or fields of struct columns, without rewriting existing files.

        See PinnedTable. Also raises StateConflict: when another run moved the state since the table was opened.
        """
        self._check_marker()
        super().add(columns)
        self._check_marker()

    def _check_marker(self) -> None:
        """Raise StateConflict when the handle has seen another run's commit."""
        if self.seen_marker != self.state_version:
            raise overtaken_error(self)

    def reopen(self) -> None:
        """Move the handle to the newest version. Raises StateError: when rows or columns the run builds on are gone."""
        before = self.schema
        super().reopen()
        if self.seen_marker == self.state_version:  # else another run has overtaken this one: the caller reports that
            self._check_not_restored()
            check_columns_stay(self, before)

    @property
    def states(self) -> list[int]:
        """The versions of the states retained for a RESTORE: the marker's first, then newest to oldest.

        They include states that a RESTORE has undone, because the RESTORE itself may be undone.
        """
        history = [version for saved in (self.saved, self.newest) if saved is not None for version in saved.history]
        versions = (self.state_version, self.rows_state_version, *history)
        return [version for version in dict.fromkeys(versions) if version is not None]

    @property
    def retained(self) -> list[int]:
        """The versions of the states that a rollback can return to, oldest first, one per state number.

        If no state can be read, they may include drafts of commits that never happened.
        """
        versions = sorted(self.blobs.versions)
        if self.saved is not None:
            versions = [version for version in versions if version in {self.rows_state_version, *self.saved.history}]
        elif self.state_version is not None:
            versions = [version for version in versions if number(version) <= number(self.state_version)]
        return list({number(version): version for version in versions}.values())

    @property
    def records(self) -> int:
        """Number of records of the generation, at most the table's rows: other writers may have removed some.

        Records of a generation that is not visible yet are counted as well.
        """
        saved, rows = self.saved, self.row_count()
        if saved is None or rows is None or saved.pending:
            return 0 if saved is None else saved.records
        return min(saved.records, rows)

    @property
    def restored(self) -> bool:
        """Whether the rows belong to an older state than the newest one."""
        return self.rows_state_version != self.state_version

    def commit(
        self,
        saved: TableState,
        files: Sequence[DataFile] = (),
        *,
        overwrite: bool = False,
        schema: pa.Schema | None = None,
        remove: Sequence[TableFile] = (),
        exclusive: bool = False,
        logged: Sequence[DataFile] | None = None,
        change: Change | None = None,
        changed: Sequence[DataFile] = (),
        note: str = "",
        receipt: Receipt | None = None,
    ) -> None:
        """Add `files` and move the state to `saved`, or do neither. overwrite: remove the existing rows.

        schema: the table's columns after an overwrite; None: they stay as they are. remove: files of the table, as
        the method `files` returns them, to remove. exclusive: the commit succeeds only if no other writer has committed
        since the table was last read; required where rows are removed or where the added rows depend on existing
        ones. change: what delta-rs does instead of naming files; it implies `exclusive`. changed: files with the rows
        that it adds. logged: see `TableState`; the value in `saved` is ignored. note: for the table's log: what a
        person did to the state. receipt: what happened to the rows; None: the rows of `files` are added and those of
        the removed files are removed.

        Raises ReceiptError: when the figures of the receipt contradict each other or those of the files. FilesMissing:
        when some of `files` are missing. StateConflict: when another run moved this stream's state since the table was
        opened. TableChanged: when another writer has committed; the table has been reopened, and the method `files`
        returns its current files. StateError: when the table was replaced, or restored to the rows of an older state.
        """
        exclusive = exclusive or overwrite or bool(remove) or change is not None
        before = self.state_version
        self._check_marker()
        self._check_not_restored()
        version = successor(self._last_version if before is None else before)
        leaving = None if overwrite else [file.path for file in remove]
        receipt, rows = self._checked(receipt, files, leaving, change)
        saved = self._completed(saved, logged, rows)
        moves_rows = bool(receipt.added or receipt.removed)
        saved = saved.with_newest(files, changed or files, self.saved, leaving, moves_rows=moves_rows)
        self.check_files(files)
        crash_point("before_state_blob")
        self.draft(version, saved)
        crash_point("after_state_blob")
        named = file_actions(files, remove, partition_by=self.partition_by, now=self._clock())
        properties = commit_properties(self.app, version, saved, receipt, note=note, exclusive=exclusive)
        write = change or self._write_of(named, schema, overwrite=overwrite)
        try:
            write(self._handle, properties)
        except (DeltaError, OSError) as error:
            resolve_failed_commit(self, error, version, before, partial(self.blobs.remove, version))
        else:
            self.seen_marker = self._marker()
        if self.seen_marker != version:
            raise overtaken_error(self)
        crash_point("after_commit")
        self._move_to(version, saved)

    def _move_to(self, version: int, saved: TableState) -> None:
        """Make `saved` the table's current state, and remove the states that are no longer needed."""
        if self.version == self._checked_version + 1:
            self._checked_version = self.version
        self.state_version = self.rows_state_version = version
        self.saved = self.newest = saved
        self._row_moves, self.lost_state = (), None
        # A restore of the table can no longer need any other state, nor the drafts of interrupted runs. A state with a
        # higher number may belong to a newer run that has written it and is about to commit.
        self.blobs.retain({version, *saved.history}, number(version))

    def widen(
        self, saved: TableState, planned: Callable[[frozenset[str]], pa.Schema], bounded: Sequence[str], spread: TaskMap
    ) -> None:
        """Rewrite all files with wider columns, in one commit that keeps the state `saved`.

        planned: returns the columns; its argument: names of columns with a number that a double would round. bounded:
        columns whose bounds go into the log. Raises TableChanged: when another writer committed first; plan again.
        ConfigError: when a feature that the table has got meanwhile forbids it. Also raises what `commit` raises.
        """
        self.guard.check([Use.WIDEN])
        layout = replace(self.layout(bounded), schema=planned(frozenset()))
        layout = replace(layout, schema=planned(layout.rounded_columns(self.files(), spread)))
        files = layout.rewrite(self.files(), spread)
        with self.removing_if_changed(files):
            try:
                self.commit(saved, files, overwrite=True, schema=layout.schema, receipt=Receipt())
            except FilesMissing as error:
                # VACUUM removed the rewritten files, which no version named yet; the old files still hold the rows.
                raise TableChanged(error.message, detail=error.detail, path=error.path) from error

    def move(self, saved: TableState, *, note: str = "", receipt: Receipt | None = None) -> None:
        """Move only the state. Rows do not change, so concurrent commits of other writers do not matter.

        Raises what `commit` raises.
        """
        repeat_if_changed(self, partial(self.commit, saved, note=note, receipt=receipt))

    def _check_not_restored(self) -> None:
        """Raise StateError when, since this run's last check, the table was replaced or restored to an older state."""
        if self.state_version is not None:
            after, marker, rows_state = self._checked_version, self.state_version, self.rows_state_version
            check_not_restored(self, after=after, marker=marker, rows_state=rows_state)
        if self.saved is not None:
            check_same_table(self, self.saved)
        self._checked_version = self.version

    def _completed(self, saved: TableState, logged: Sequence[DataFile] | None, rows: int | None) -> TableState:
        """Return the state completed with what only the table knows: its history, row count and id."""
        named = None if logged is None else tuple(logged)
        history = tuple(self.states)[: _RETAINED_STATES - 1]  # and this one
        return replace(
            saved, history=history, logged=named, logged_version=self.logged_version, rows=rows, table_id=self.table_id
        )

    @property
    def logged_version(self) -> int | None:
        """The version of the newest state whose commit added rows, or of an unreadable state; None: there is none."""
        newest = self.newest
        return self.state_version if newest is None or newest.logged is not None else newest.logged_version

    def _write_of(self, named: list[AddAction | RemoveAction], schema: pa.Schema | None, *, overwrite: bool) -> Change:
        """Return a change that commits by naming files. schema: the table's columns after an overwrite."""

        def change(handle: DeltaTable, properties: CommitProperties) -> Mapping[str, int]:
            if schema is not None:
                self.allow_types(schema)
                self._check_marker()
            columns = handle.schema() if schema is None else Schema.from_arrow(schema)
            by, mode = list(self.partition_by) or None, Use.OVERWRITE if overwrite else Use.APPEND
            handle.create_write_transaction(named, mode, columns, by, commit_properties=properties)
            handle.update_incremental()
            return {}

        return change

    def change(
        self,
        saved: TableState,
        change: Change,
        receipt: Receipt,
        expected: Mapping[str, int] | None = None,
        *,
        logged: Sequence[DataFile] | None = None,
        changed: Sequence[DataFile] = (),
    ) -> list[DataFile]:
        """Have delta-rs change the table in the commit that moves the state to `saved`; return the files it added.

        expected: the counts that delta-rs must return. logged, changed: see `commit`. Raises what `commit` raises.
        BugError: when delta-rs returned other counts; the commit has already happened then.
        """
        receipt.check(None, stream=self.stream, path=str(self.root))
        before = {file.path for file in self.files()}
        counted: dict[str, int] = {}

        def counting(handle: DeltaTable, properties: CommitProperties) -> Mapping[str, int]:
            counted.update(change(handle, properties))
            return counted

        self.commit(saved, change=counting, changed=changed, logged=logged, receipt=receipt)
        if expected is not None and counted != expected:
            raise BugError(
                f"delta-rs reports {counted} changed rows, expected {dict(expected)}; the commit was made. Compare the "
                "table with its source, and report this",
                path=str(self.root),
                stream=self.stream,
            )
        return [
            DataFile(file.path, file.size, file.rows, 0, partition=file.partition)
            for file in self.files()
            if file.path not in before
        ]

    def _checked(
        self, receipt: Receipt | None, files: Sequence[DataFile], leaving: Sequence[str] | None, change: Change | None
    ) -> tuple[Receipt, int | None]:
        """Return a commit's receipt, checked against the added and removed files, and the table's row count after it.

        leaving: paths of the removed files; None: all files. change: what delta-rs does instead; the caller counts its
        rows. The row count is None when the log does not tell it.
        """
        if change is not None and receipt is not None:
            return receipt, None
        added, removed = row_count(files), self.row_count(leaving)
        if receipt is None:
            receipt = Receipt(read=added, staged=added, added=added, removed=removed or 0)
        receipt.check(None if removed is None else added - removed, stream=self.stream, path=str(self.root))
        before = self.row_count()
        return receipt, None if before is None or removed is None else before + added - removed

    def draft(self, version: int, saved: TableState) -> None:
        """Write a state beside the table. It becomes valid once a commit moves the marker to its version.

        Raises ConfigError, TransientError: when the folder refuses the file.
        """
        try:
            self.blobs.write(version, saved)
        except OSError as error:
            raise unwritable(error, str(self.root), self.stream) from None
