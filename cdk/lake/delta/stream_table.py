"""A stream's Delta table: rows and state move in one transaction.

A commit names the new files and moves the table's transaction marker `txn(app)` to a fresh version. The state that
belongs to it was written before, to `_cdk_state/<pipeline>/<version>.json`, so the marker alone says which state holds.
The rule that makes it exactly-once: the commit goes through the very table handle whose marker was compared with the
version the state was loaded at. A run whose handle is stale is refused by the log; a fresh handle would not be.

Measured with delta-rs 1.6: the marker survives log clean-up and the commit's metadata does not; the writer does not
compare versions; neighbours such as OPTIMIZE pass. RESTORE leaves the marker where it was: the log then says which
state belongs to the rows (`cdk.lake.delta.restore_detection`), and the marker still fences.
"""

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from cdk.base.errors import BugError, CdkError, ConfigError, StateConflict, StateError
from cdk.base.process.crash_points import crash_point
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import to_json
from cdk.lake.delta.engine_writes import Change
from cdk.lake.delta.pinned_table import ATTEMPTS, PinnedTable, TableChanged
from cdk.lake.delta.receipt import RECEIPT, Receipt, row_count
from cdk.lake.delta.restore_detection import RowsState, state_of_rows
from cdk.lake.delta.state_blobs import NONCE_BITS, StateBlobs, number
from cdk.lake.delta.table_guard import Use
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.table_files import (
    TableFile,
    actions,
    apply_commit,
    file_actions,
    logged_files,
    oldest,
    rows_of,
)
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder

NOTE = "spark-cdk.note"
"""In the metadata of a commit: what a person did to the state."""

_RETAINED_STATES = 20
_MOVES = 20
"""Commits that only move rows and are looked at when a table is opened: each costs as much as opening it."""
_NEWEST = 3
_CLOCKS_DIFFER = 3_600_000
"""Milliseconds by which clocks of machines that write to one table may differ."""
_SHOWN = 4096
_CONSTRAINT_ERROR = re.compile("failed validation check|declared as non-nullable")
"""In the errors of delta-rs about rows that a constraint refuses."""


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
        super().__init__(root, f"spark-cdk/{pipeline}/{stream}", stream, schema, clock=clock, partition_by=partition_by)
        self._states = StateBlobs(self.root.join("_cdk_state", pipeline), stream)
        self._version = self._seen_marker
        self._rows_state_version: int | None = None
        self._moves: tuple[int, ...] = ()
        self.saved: TableState | None = None
        """The state that belongs to the table's rows; None when there is none."""
        self._undone: tuple[int, ...] = ()
        self.lost_state: StateError | None = None
        """Why the state cannot be found or read."""
        # Versions go up, also where the marker was lost.
        self._after = self._version
        try:
            self._find_state()
        except StateError as error:
            if not lost:
                raise
            self.lost_state = error

    def _find_state(self) -> None:
        """Load the state that belongs to the rows, if there is one. Raises StateError: it is unknown or unreadable."""
        if self._version is None:
            self._check_new()
            return
        self._rows_state_version, certain, self._moves = self._of_rows(self._version)
        saved = None if self._rows_state_version is None else self.load(self._rows_state_version)
        if saved is not None and not certain:
            self._check_rows(saved)
        self.saved = saved
        if self._rows_state_version != self._version:
            with suppress(StateError):
                self._undone = self.load(self._version).history

    def _check_new(self) -> None:
        """Raise StateError: the table has no marker, and had one. A first commit that was killed leaves a draft."""
        versions = self._states.versions
        if not versions:
            return
        newest = max(versions)
        # The next first commit is number 1 again: however often it is killed, what it leaves are drafts.
        if number(newest) == 1 and (not self.row_count() or self.other_pipelines):
            return
        self._after = newest
        raise StateError(
            f"states of this stream lie beside the table, up to number {number(newest)}, and the table's marker "
            "that says which one holds is gone: the table was cloned or created again, or its transaction ids expired. "
            "Reading from the start would add every row again. Take the state that fits the table's rows with "
            "`spark-cdk state rollback`, have all read again with `spark-cdk state reset`, or move the table away",
            path=str(self.root),
            stream=self._stream,
        )

    def _check_rows(self, saved: TableState) -> None:
        """Raise StateError: the table's rows contradict the state that its marker names, whose commit left the log.

        RESTORE takes the files of that commit away. So may whoever joins files, but then the rows are as many, and some
        file is not older.
        """
        with self.root.explaining(self._stream):
            version, files = oldest(self.root, self._handle)
        rows = rows_of(files)
        if saved.rows is None or rows is None or not saved.newest or not files.keys().isdisjoint(saved.newest):
            return
        # Whoever joins files writes the rows of that commit anew; the clocks of two machines may differ.
        joined = not files or max(file.modified for file in files.values()) >= saved.newest_at - _CLOCKS_DIFFER
        if (rows == saved.rows and joined) or (rows > saved.rows and self.other_pipelines):
            return
        raise StateError(
            f"state {number(self._rows_state_version or 0)} and the table's rows contradict each other: after it the "
            f"table had {saved.rows:,} rows, and version {version}, the oldest in its log, has {rows:,} rows and no "
            "file of that commit. The table was restored to an older version, and the log was cleaned up since. Take "
            "the state that fits the rows with `spark-cdk state rollback`, this one too if somebody else has added or "
            "deleted the rows, or have all read again with `spark-cdk state reset`",
            path=str(self.root),
            stream=self._stream,
        )

    def check_moves(self) -> None:
        """Raise StateError: a commit after this pipeline's last one says that rows only move, and changed their number.

        delta-rs 1.6 commits two OPTIMIZEs that began with the same version one after the other, and both files that
        they made hold the same rows. The newest commits of the kind are looked at, as the table was opened.
        """
        for version in reversed(self._moves[:_MOVES]):
            with self.root.explaining(self._stream):
                try:
                    older = DeltaTable(self.root.uri, version=version - 1, storage_options=self.root.storage_options)
                    files = logged_files(older)
                except DeltaError:
                    continue  # the log was cleaned up
                before, lines = rows_of(files), actions(self.root, version)
                apply_commit(files, lines)
                after = rows_of(files)
            if before is None or after is None or before == after:
                continue
            name = next((line["commitInfo"].get("operation", "") for line in lines if "commitInfo" in line), "")
            raise StateError(
                f"version {version}, {name or 'unnamed'}, says that rows only move, and the table had {before:,} rows "
                f"before it and {after:,} after it. So it is when two jobs join the same files at once. Restore the "
                f"table to version {version - 1}, DeltaTable(path).restore({version - 1}), and sync again: what this "
                "pipeline has read is there, and what others have added since leaves. If somebody has corrected the "
                "rows already, take the state that fits them with `spark-cdk state rollback`",
                path=str(self.root),
                stream=self._stream,
            )

    def add(self, columns: Sequence[pa.Field]) -> None:
        """Add columns, or fields to columns that are structs; old files need not be rewritten for it.

        A commit of its own, which moves no state. Raises StateConflict: another run moved it since the table was
        opened.
        """
        for attempts_left in reversed(range(ATTEMPTS)):
            schema = self.schema
            missing = [c for c in columns if c.name not in schema.names or schema.field(c.name).type != c.type]
            if not missing:
                return
            try:
                self._handle.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
                self._handle.update_incremental()
                self._seen_marker = self._marker()
            except (DeltaError, OSError) as error:
                # Somebody else may have changed the columns in the meantime.
                if not attempts_left:
                    raise self.root.explain(error, self._stream) from None
                self._reopen()
            if self._seen_marker != self._version:
                raise self._conflict(self._version, None)

    @property
    def state_version(self) -> int | None:
        """The version of the state that the last commit moved to; None before the first."""
        return self._version

    @property
    def states(self) -> list[int]:
        """The versions of the states that are retained for a RESTORE: the marker's, then the newest first.

        Those that a RESTORE has undone are among them, for it may be undone itself.
        """
        versions = (self._version, self._rows_state_version, *(self.saved.history if self.saved else ()), *self._undone)
        return [version for version in dict.fromkeys(versions) if version is not None]

    @property
    def retained(self) -> list[int]:
        """The versions of the states that a rollback can go back to, oldest first.

        Where no state can be read, drafts of commits that never happened may be among them; each number comes once.
        """
        versions = sorted(self.state_files)
        if self.saved is not None:
            versions = [version for version in versions if version in {self._rows_state_version, *self.saved.history}]
        elif self._version is not None:
            versions = [version for version in versions if number(version) <= number(self._version)]
        return list({number(version): version for version in versions}.values())

    @property
    def state_files(self) -> list[int]:
        """The versions that have a file beside the table, drafts among them, in any order."""
        return self._states.versions

    @property
    def restored(self) -> bool:
        """Whether the rows are those of an older state than the newest one."""
        return self._rows_state_version != self._version

    @property
    def rows_state_version(self) -> int | None:
        """The version of the state that belongs to the rows: `state_version`, unless the table was restored since."""
        return self._rows_state_version

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
        table, as `files` gives them, that leave it. alone: the commit counts only if nobody else has committed since
        the table was last looked at, as where rows leave, or where what is added depends on what is there. change: what
        delta-rs is to do in the place of naming files; it is alone, too. logged: see Saved; what `saved` says of it
        does not count. note: for the table's log: what a person did to the state. receipt: what becomes of the rows;
        None: those of `files` come and those of other files leave.

        Raises ReceiptError: the figures of the receipt, or those of the files, contradict each other. FilesGone: some
        of `files` are not there. StateConflict: another run moved this stream's state since the table was opened.
        TableChanged: somebody else has committed; the table has been opened anew, and `files` tells what is there now.
        """
        alone = alone or overwrite or bool(remove) or change is not None
        before = self._version
        if self._seen_marker != before:  # refused before; the handle has seen the other run's commit since
            raise self._conflict(before, None)
        version = successor(self._after if before is None else before)
        receipt, rows = self._checked(receipt, files, None if overwrite else [file.path for file in remove], change)
        saved = self._completed(saved, files, () if overwrite else remove, logged, rows, overwrite=overwrite)
        crash_point("before_state_blob")
        self.draft(version, saved)
        crash_point("after_state_blob")
        self.check_files(files)
        named = file_actions(files, remove, partition_by=self.partition_by, now=self._clock())
        metadata = {"spark-cdk.state": _for_people(saved), RECEIPT: receipt.to_text()}
        properties = CommitProperties(
            custom_metadata={**metadata, NOTE: note} if note else metadata,
            app_transactions=[Transaction(self._app, version)],
            # delta-rs lets a file be removed that OPTIMIZE has removed before, by name or by an overwrite, and its
            # rows would be there twice (measured, 1.6): where files leave, no neighbour may come in between.
            max_commit_retries=0 if alone else None,
        )
        write = change or self._naming(named, schema, overwrite=overwrite)
        try:
            write(self._handle, properties)
        except (DeltaError, OSError) as error:
            self._look_again(error, version)
        else:
            self._seen_marker = self._marker()
        if self._seen_marker != version:
            raise self._conflict(version, None)
        crash_point("after_commit")
        self._version, self._rows_state_version, self.saved = version, version, saved
        self._moves, self.lost_state = (), None
        self._prune(version, saved)

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
        if logged is None and self.saved is None and self._version is not None:
            logged = ()  # nobody knows which rows the lost state had brought
        saved = replace(
            saved,
            history=tuple(self.states)[:_RETAINED_STATES],
            logged=None if logged is None else tuple(logged),
            logged_at=None,
            rows=rows,
            newest=(),
            newest_at=0,
        )
        if self.saved is not None:
            logged_at = self.saved.logged_at if self.saved.logged is None else self._rows_state_version
            saved = replace(saved, logged_at=logged_at)
        if files:
            newest = files[-_NEWEST:]
            at = max(file.modified for file in newest)
            return replace(saved, newest=tuple(file.path for file in newest), newest_at=at)
        if self.saved is not None:
            leaving = {file.path for file in remove}
            staying = () if overwrite else tuple(path for path in self.saved.newest if path not in leaving)
            return replace(saved, newest=staying, newest_at=self.saved.newest_at)
        return saved

    def _naming(self, named: list[AddAction | RemoveAction], schema: pa.Schema | None, *, overwrite: bool) -> Change:
        """A change that names files."""

        def change(handle: DeltaTable, properties: CommitProperties) -> Mapping[str, int]:
            columns = handle.schema() if schema is None else self._prepared(schema)
            by, mode = list(self.partition_by) or None, Use.OVERWRITE if overwrite else Use.APPEND
            handle.create_write_transaction(named, mode, columns, by, commit_properties=properties)
            handle.update_incremental()
            return {}

        return change

    def _look_again(self, error: Exception, version: int) -> None:
        """Open the table anew after an error, and raise what it means unless the commit succeeded all the same."""
        explained, version_before, before = self.root.explain(error, self._stream), self.version, self._version
        self._reopen()
        if self._seen_marker == version:
            return
        if self._seen_marker == before and _CONSTRAINT_ERROR.search(str(error)):
            # Of a table without a marker, a state that lies beside its rows would say that the marker was lost.
            self._states.remove(lambda candidate: candidate == version)
            # The error shows rows.
            if self.version != version_before:
                raise TableChanged("something else has changed the table", path=str(self.root)) from None
            raise self._violated(error) from None
        if self._seen_marker == before and self.version != version_before and explained is error:
            # What delta-rs says of it advises to set isolation levels, which would not help.
            raise TableChanged(
                "something else has changed the table", detail=str(error), path=str(self.root)
            ) from error
        raise self._conflict(before, explained) from (error if explained is error else None)

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
        receipt.check(None, stream=self._stream, path=str(self.root))
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
                stream=self._stream,
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

        leaving: None: all files. change: what delta-rs does instead; its rows are counted by whoever asks for it.
        """
        if change is not None and receipt is not None:
            return receipt, None
        added, removed = row_count(files), self.row_count(leaving)
        if receipt is None:
            receipt = Receipt(read=added, staged=added, added=added, removed=removed or 0)
        receipt.check(None if removed is None else added - removed, stream=self._stream, path=str(self.root))
        before = self.row_count()
        return receipt, None if before is None or removed is None else before + added - removed

    def _prepared(self, schema: pa.Schema) -> Schema:
        """The schema for an overwrite, which does not turn on by itself what timestamps without a zone need."""
        if any(map(_zoneless, schema.types)) and not any(map(_zoneless, self.schema.types)):
            features = [TableFeatures.TimestampWithoutTimezone]
            self._handle.alter.add_feature(features, allow_protocol_versions_increase=True)
            self._handle.update_incremental()
            self._seen_marker = self._marker()
            if self._seen_marker != self._version:
                raise self._conflict(self._version, None)
        return Schema.from_arrow(schema)

    def _of_rows(self, marker: int) -> RowsState:
        return state_of_rows(self.root, self._stream, self._app, version=self.version, marker=marker)

    def _conflict(self, expected: int | None, error: Exception | None) -> CdkError:
        if self._seen_marker == expected:
            if isinstance(error, CdkError):
                return error
            return StateError(f"the table refused a commit: {error}", path=str(self.root), stream=self._stream)
        return StateConflict(
            "another run moved this stream's state while this one was reading; this run wrote nothing more. "
            "Run one sync of a pipeline at a time.",
            path=str(self.root),
            stream=self._stream,
        )

    def _violated(self, error: Exception) -> ConfigError:
        reason = str(error).partition("\n")[0].rpartition(": ")[2]
        return ConfigError(
            f"the table's constraints refuse rows that were read, so none of their commit are written ({reason}): "
            f"{self.guard.constraints}. Change the rows at their source, or the constraints",
            path=str(self.root),
            stream=self._stream,
        )

    def draft(self, version: int, saved: TableState) -> None:
        """Put a state beside the table. It counts once a commit moves the marker to its version."""
        self._states.write(version, saved)

    def load(self, version: int) -> TableState:
        """The state of a retained version. Raises StateError: its file is missing, or no state of this stream."""
        return self._states.load(version)

    def bases(self, versions: Collection[int]) -> set[int]:
        """The versions whose files states of these versions need besides their own."""
        return self._states.bases(versions)

    def _prune(self, version: int, saved: TableState) -> None:
        """Remove states that a restore of the table can no longer need, and drafts of interrupted runs.

        A state with a higher number may be a newer run's, written and about to be committed.
        """
        self._states.keep({version, *saved.history}, number(version))


def successor(version: int | None) -> int:
    """A version for the state after `version`. Two runs never choose the same one: it ends in random bits."""
    return (number(version or 0) + 1) << NONCE_BITS | secrets.randbits(NONCE_BITS)


def _zoneless(kind: pa.DataType) -> bool:
    """Whether a type is, or contains, a timestamp without a zone."""
    if pa.types.is_struct(kind):
        return any(_zoneless(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _zoneless(kind.value_type)
    return pa.types.is_timestamp(kind) and kind.tz is None


def _for_people(saved: TableState) -> str:
    """The state as the table's history shows it; never read back."""
    text = to_json(saved.state).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
