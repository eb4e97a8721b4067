"""A stream's Delta table: rows and state move in one transaction.

A commit names the new files and moves the table's transaction marker `txn(app)` to a fresh version. The state that
belongs to it was written before, to `_cdk_state/<pipeline>/<version>.json`, so the marker alone says which state holds.
The rule that makes it exactly-once: the commit goes through the very table handle whose marker was compared with the
version the state was loaded at. A run whose handle is stale is refused by the log; a fresh handle would not be.

Measured with delta-rs 1.6: the marker survives log clean-up and the commit's metadata does not; the writer does not
compare versions; neighbours such as OPTIMIZE pass. RESTORE leaves the marker where it was: the log then says which
state belongs to the rows (`cdk.lake.delta.restore_detection`), and the marker still fences. So does CREATE OR REPLACE
TABLE, which gives the table another id: a state knows the id of its table.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from cdk.base.errors import BugError, StateError
from cdk.base.process.crash_points import crash_point
from cdk.base.task_map import TaskMap
from cdk.base.times.clock import Clock, system_clock
from cdk.lake.delta.engine_writes import Change
from cdk.lake.delta.failed_commit import look_again, overtaken
from cdk.lake.delta.pinned_table import FilesGone, PinnedTable, TableChanged, repeat_if_changed
from cdk.lake.delta.receipt import Receipt, row_count
from cdk.lake.delta.restore_detection import (
    check_columns_stay,
    check_moves,
    check_not_restored,
    check_rows,
    check_same_table,
    state_of_rows,
)
from cdk.lake.delta.state_blobs import StateBlobs, number, successor
from cdk.lake.delta.table_guard import Use
from cdk.lake.delta.table_sharing import OtherPipelines
from cdk.lake.delta.table_state import TableState, commit_properties
from cdk.lake.parquet.table_files import TableFile, file_actions
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder
from cdk.state.layers.layer_file import PackedLayer
from cdk.state.layers.layered_map import LayeredMap

_RETAINED_STATES = 20


class StreamTable(PinnedTable):
    """One stream's table and its states, opened for one run."""

    def __init__(
        self,
        root: Folder | Path,
        pipeline: str,
        stream: str,
        schema: pa.Schema,
        *,
        clock: Clock = system_clock,
        lost: bool = False,
        partition_by: Sequence[str] | None = None,
    ) -> None:
        """Open the table, or create it with `schema`.

        lost: open it also when its state cannot be found or read, as if it had none: a commit then gives it one.
        Until then `lost_state` says what is wrong.
        partition_by: the columns that divide it; None: those that divide it already, none if it is new.

        Raises ConfigError: a store refuses, the table has other partition columns, or these cannot be. StateError: the
        table's state cannot be found. TransientError: a store does not answer.
        """
        super().__init__(root, pipeline, stream, schema, clock=clock, partition_by=partition_by)
        self.others = OtherPipelines(self)
        """The other pipelines that fill the table."""
        self._states = StateBlobs(self.root.join("_cdk_state", pipeline), stream)
        self.state_version = self.seen_marker
        """The version of the state that the last commit moved to; None before the first."""
        self.rows_state_version: int | None = None
        """The version of the state that belongs to the rows: `state_version`, unless the table was restored since."""
        self._moves: tuple[int, ...] = ()
        self.saved: TableState | None = None
        """The state that belongs to the table's rows; None when there is none."""
        self.newest: TableState | None = None
        """The state of the marker: `saved`, unless a RESTORE has undone it; None: there is none, or none readable."""
        self._looked_at = self.version
        """The version up to which it is known that the table was not restored under this run."""
        self.lost_state: StateError | None = None
        """Why the state cannot be found or read."""
        # Versions go up, also where the marker was lost.
        self._after = self.state_version
        try:
            self._find_state()
        except StateError as error:
            if not lost:
                raise
            self.lost_state = error

    def _find_state(self) -> None:
        """Load the state that belongs to the rows, if there is one. Raises StateError: it is unknown or unreadable."""
        if self.state_version is None:
            self._check_new()
            return
        rows_state = state_of_rows(self.root, self.stream, self.app, version=self.version, marker=self.state_version)
        self.rows_state_version, certain, self._moves = rows_state
        saved = self.newest = None if self.rows_state_version is None else self.load(self.rows_state_version)
        if self.restored:
            self.newest = None
            with suppress(StateError):
                self.newest = self.load(self.state_version)
        if saved is not None:
            check_same_table(self.root, self.stream, self.table_id, saved)
        if saved is not None and not certain:
            newest, others = number(self.state_version), self.others.names
            check_rows(self.root, self.stream, self._handle, saved, number=newest, others=others)
        self.saved = saved

    def _check_new(self) -> None:
        """Raise StateError: the table has no marker, and had one. A first commit that was killed leaves a draft."""
        versions = self._states.versions
        if not versions:
            return
        newest = max(versions)
        # The next first commit is number 1 again: however often it is killed, what it leaves are drafts.
        if number(newest) == 1 and (not self.row_count() or self.others):
            return
        self._after = newest
        raise StateError(
            f"states of this stream lie beside the table, up to number {number(newest)}, and the table's marker "
            "that says which one holds is gone: the table was cloned or created again, or its transaction ids expired. "
            "Reading from the start would add every row again. Take the state that fits the table's rows with "
            "`spark-cdk state rollback`, have all read again with `spark-cdk state reset`, or move the table away",
            path=str(self.root),
            stream=self.stream,
        )

    def check_moves(self) -> None:
        """Raise StateError: a commit after this pipeline's last one says that rows only move, and doubled some."""
        check_moves(self.root, self.stream, self._moves)

    def add(self, columns: Sequence[pa.Field]) -> None:
        """Add columns, or fields to columns that are structs; old files need not be rewritten for it.

        See PinnedTable. Raises StateConflict as well: another run moved the state since the table was opened.
        """
        self._check_marker()
        super().add(columns)
        self._check_marker()

    def _check_marker(self) -> None:
        """Raise StateConflict: the handle has seen the commit of another run."""
        if self.seen_marker != self.state_version:
            raise overtaken(self)

    def reopen(self) -> None:
        """Move the handle to the newest version. Raises StateError: rows or columns that the run builds on are gone."""
        before = self.schema
        super().reopen()
        if self.seen_marker == self.state_version:  # else another run has overtaken this one, which weighs more
            self._check_not_restored()
            check_columns_stay(self.root, self.stream, before, self.schema)

    @property
    def states(self) -> list[int]:
        """The versions of the states that are retained for a RESTORE: the marker's, then the newest first.

        Those that a RESTORE has undone are among them, for it may be undone itself.
        """
        history = [version for saved in (self.saved, self.newest) if saved is not None for version in saved.history]
        versions = (self.state_version, self.rows_state_version, *history)
        return [version for version in dict.fromkeys(versions) if version is not None]

    @property
    def retained(self) -> list[int]:
        """The versions of the states that a rollback can go back to, oldest first.

        Where no state can be read, drafts of commits that never happened may be among them; each number comes once.
        """
        versions = sorted(self.state_files)
        if self.saved is not None:
            versions = [version for version in versions if version in {self.rows_state_version, *self.saved.history}]
        elif self.state_version is not None:
            versions = [version for version in versions if number(version) <= number(self.state_version)]
        return list({number(version): version for version in versions}.values())

    @property
    def state_files(self) -> list[int]:
        """The versions that have a file beside the table, drafts among them, in any order."""
        return self._states.versions

    @property
    def records(self) -> int:
        """Records of the generation, and no more than the table has rows: others may have removed some.

        Those that wait to become visible count all the same.
        """
        saved, rows = self.saved, self.row_count()
        if saved is None or rows is None or saved.pending:
            return 0 if saved is None else saved.records
        return min(saved.records, rows)

    @property
    def restored(self) -> bool:
        """Whether the rows are those of an older state than the newest one."""
        return self.rows_state_version != self.state_version

    def commit(
        self,
        saved: TableState,
        files: Sequence[DataFile] = (),
        *,
        overwrite: bool = False,
        schema: pa.Schema | None = None,
        remove: Sequence[TableFile] = (),
        alone: bool = False,
        logged: Sequence[DataFile] | None = None,
        change: Change | None = None,
        note: str = "",
        receipt: Receipt | None = None,
    ) -> None:
        """Add `files` and move the state to `saved`, or do neither. overwrite: drop the rows that were there.

        schema: what an overwrite makes of the table's columns; without it they stay as they are. remove: files of the
        table, as `files` gives them, that leave it. alone: the commit counts only if no writer has committed since the
        table was last looked at, as where rows leave, or where what is added depends on what is there. change: what
        delta-rs is to do in the place of naming files; it is alone, too. logged: see `TableState`; what `saved` says of
        it does not count. note: for the table's log: what a person did to the state. receipt: what becomes of the rows;
        None: those of `files` come and those of other files leave.

        Raises ReceiptError: the figures of the receipt, or those of the files, contradict each other. FilesGone: some
        of `files` are not there. StateConflict: another run moved this stream's state since the table was opened.
        TableChanged: another writer has committed; the table has been opened anew, and `files` tells what is there now.
        StateError: the table was restored to rows of an older state, or replaced.
        """
        alone = alone or overwrite or bool(remove) or change is not None
        before = self.state_version
        self._check_marker()
        self._check_not_restored()
        version = successor(self._after if before is None else before)
        receipt, rows = self._checked(receipt, files, None if overwrite else [file.path for file in remove], change)
        saved = self._completed(saved, files, () if overwrite else remove, logged, rows, overwrite=overwrite)
        self.check_files(files)
        crash_point("before_state_blob")
        self.draft(version, saved)
        crash_point("after_state_blob")
        named = file_actions(files, remove, partition_by=self.partition_by, now=self._clock())
        properties = commit_properties(self.app, version, saved, receipt, note=note, alone=alone)
        write = change or self._naming(named, schema, overwrite=overwrite)
        try:
            write(self._handle, properties)
        except (DeltaError, OSError) as error:
            forget = partial(self._states.remove, version)
            look_again(self, error, version, before, forget)
        else:
            self.seen_marker = self._marker()
        if self.seen_marker != version:
            raise overtaken(self)
        crash_point("after_commit")
        self._move_to(version, saved)

    def _move_to(self, version: int, saved: TableState) -> None:
        """Know that this is the table's state now, and remove those that nothing needs any more."""
        if self.version == self._looked_at + 1:
            self._looked_at = self.version
        self.state_version = self.rows_state_version = version
        self.saved = self.newest = saved
        self._moves, self.lost_state = (), None
        # A restore of the table can no longer need others, nor drafts of interrupted runs. A state with a higher number
        # may be a newer run's, written and about to be committed.
        self._states.keep({version, *saved.history}, number(version))

    def widen(
        self, saved: TableState, planned: Callable[[frozenset[str]], pa.Schema], bounded: Sequence[str], spread: TaskMap
    ) -> None:
        """Write the files again, in columns that hold more, by one commit in which the state stays `saved`.

        planned: the columns; its argument: those with a number that a double would round. bounded: columns whose bounds
        go into the log. Raises TableChanged: another writer came first; plan again. ConfigError: the table has got a
        feature that refuses it. And what `commit` raises.
        """
        self.guard.check([Use.WIDEN])
        layout = replace(self.layout(bounded), schema=planned(frozenset()))
        layout = replace(layout, schema=planned(layout.unfit(self.files(), spread)))
        files = layout.rewrite(self.files(), spread)
        with self.removing_if_changed(files):
            try:
                self.commit(saved, files, overwrite=True, schema=layout.schema, receipt=Receipt())
            except FilesGone as error:
                # VACUUM has removed what no version named yet; the rows are in the files that are there.
                raise TableChanged(error.message, detail=error.detail, path=error.path) from error

    def move(self, saved: TableState, *, note: str = "", receipt: Receipt | None = None) -> None:
        """Move the state alone. No row comes or goes, so what others have committed meanwhile does not matter.

        Raises what `commit` does.
        """
        repeat_if_changed(self, partial(self.commit, saved, note=note, receipt=receipt))

    def _check_not_restored(self) -> None:
        """Raise StateError: the table was restored since this run looked at it, to the rows of an older state.

        Or it was replaced.
        """
        version = self.version
        if self.state_version is not None:
            check_not_restored(
                self.root,
                self.stream,
                self.app,
                after=self._looked_at,
                version=version,
                marker=self.state_version,
                rows_state=self.rows_state_version,
            )
        if self.saved is not None:
            check_same_table(self.root, self.stream, self.table_id, self.saved)
        self._looked_at = version

    def _completed(
        self,
        saved: TableState,
        files: Sequence[DataFile],
        remove: Sequence[TableFile],
        logged: Sequence[DataFile] | None,
        rows: int | None,
        *,
        overwrite: bool,
    ) -> TableState:
        """The state with what only the table knows: its history, its rows, and the files of its newest commit."""
        named = None if logged is None else tuple(logged)
        history = tuple(self.states)[: _RETAINED_STATES - 1]  # and this one
        saved = replace(
            saved, history=history, logged=named, logged_at=self.logged_at, rows=rows, table_id=self.table_id
        )
        leaving = {file.path for file in remove}
        return saved.with_newest(files, self.saved, lambda path: not overwrite and path not in leaving)

    @property
    def logged_at(self) -> int | None:
        """The version of the newest state that brought rows, or of one that is unreadable; None: there is none."""
        newest = self.newest
        return self.state_version if newest is None or newest.logged is not None else newest.logged_at

    def _naming(self, named: list[AddAction | RemoveAction], schema: pa.Schema | None, *, overwrite: bool) -> Change:
        """A change that names files."""

        def change(handle: DeltaTable, properties: CommitProperties) -> Mapping[str, int]:
            columns = handle.schema() if schema is None else self._prepared(schema)
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
    ) -> list[DataFile]:
        """Have delta-rs change the table in the commit that moves the state to `saved`; the files that it added.

        expected: what it is to count. logged: see `commit`. Raises what `commit` does. BugError: it counted something
        else, and has committed.
        """
        receipt.check(None, stream=self.stream, path=str(self.root))
        before = {file.path for file in self.files()}
        counted: dict[str, int] = {}

        def counting(handle: DeltaTable, properties: CommitProperties) -> Mapping[str, int]:
            counted.update(change(handle, properties))
            return counted

        self.commit(saved, change=counting, logged=logged, receipt=receipt)
        if expected is not None and counted != expected:
            raise BugError(
                f"delta-rs was to change {dict(expected)} rows and counted {counted}; the commit stands. Compare the "
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
        """The receipt of a commit, compared with the files that come to the table and leave it, and the rows it leaves.

        leaving: None: all files. change: what delta-rs does instead; its rows are counted by the caller.
        """
        if change is not None and receipt is not None:
            return receipt, None
        added, removed = row_count(files), self.row_count(leaving)
        if receipt is None:
            receipt = Receipt(read=added, staged=added, added=added, removed=removed or 0)
        receipt.check(None if removed is None else added - removed, stream=self.stream, path=str(self.root))
        before = self.row_count()
        return receipt, None if before is None or removed is None else before + added - removed

    def _prepared(self, schema: pa.Schema) -> Schema:
        """The schema for an overwrite, of which the table can hold all types."""
        self.allow_types(schema)
        self._check_marker()
        return Schema.from_arrow(schema)

    def draft(self, version: int, saved: TableState) -> None:
        """Put a state beside the table. It counts once a commit moves the marker to its version."""
        self._states.write(version, saved)

    def load(self, version: int) -> TableState:
        """The state of a retained version. Raises StateError: its file is missing, or no state of this stream."""
        return self._states.load(version)

    def packed(self, texts: LayeredMap) -> Sequence[PackedLayer]:
        """The layers in which the entries of the table's state lie; none where they are few."""
        return self._states.packed(texts)

    def names_of_states(self, versions: Collection[int]) -> set[str]:
        """The files that states of these versions need."""
        return self._states.names(versions)
