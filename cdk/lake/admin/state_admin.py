"""Changing the state of streams between two syncs: the implementation of `spark-cdk state`.

Each change is one commit to one table, with a note of what was done, through the handle whose marker was compared when
it was opened. The pipeline's lock is held meanwhile, which keeps out syncs of this machine; the table refuses the next
commit of a sync on another machine, because the marker has moved.
"""

from collections.abc import Callable, Iterator, Sequence

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import StateConflict, StateError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import to_json
from cdk.lake.admin.commit_log import Commit, commits
from cdk.lake.admin.diff import moves
from cdk.lake.admin.edits import Change, reset, rolled_back
from cdk.lake.admin.locate import OpenTables, StreamLocation
from cdk.lake.delta.restore_detection import may_have_rows_of
from cdk.lake.delta.state_blobs import number, successor
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import open_newest
from cdk.lake.delta.table_state import NOTE, TableState
from cdk.lake.parquet.table_files import logged_files, missing_files
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.table_log import UnreadableTable
from cdk.state.slice import Partition

_NO_STATE = "nothing was committed for this stream yet: there is no state"
_NOTED, _LONGEST_NOTE = 20, 4096
"""The most moves in the note of a change, and the most characters of a note that has some."""


class EditResult(Struct, frozen=True):
    """What an edit did to a stream, or would do in a dry run."""

    stream: str
    change: Change
    version: int | None = None
    """The table's version after the edit; None if nothing was committed, as in a dry run."""


class StreamStatus(Struct, frozen=True):
    """The state of a stream's table, as shown by `spark-cdk state show`."""

    stream: str
    path: str
    saved: TableState | None = None
    """None if nothing was committed, or the state cannot be read."""
    number: int | None = None
    """The sequence number of the state."""
    retained: tuple[int, ...] = ()
    """The numbers of the states that a rollback can return to, newest first."""
    lost: str = ""
    """Why the state cannot be read; empty if it can."""
    restored: bool = False
    """Whether the rows belong to an older state than the newest one."""

    @property
    def has_state(self) -> bool:
        """Whether there is a state, be it one that cannot be read."""
        return bool(self.lost) or self.saved is not None


class Admin:
    """Views and changes the states of one pipeline. dry: only report what would be done, and write nothing.

    check: raises for a stream's state that must not be stored (`cdk.sync.tables.state_log_mirror.state_check`).
    """

    def __init__(
        self,
        target: Folder,
        pipeline: str,
        *,
        clock: Clock = system_clock,
        dry: bool = False,
        check: Callable[[str, TableState], None] = lambda *_: None,
    ) -> None:
        self.target, self.pipeline, self.clock, self.dry, self.check = target, pipeline, clock, dry, check

    def status(self, location: StreamLocation) -> StreamStatus:
        """Return the status of a stream. Raises ConfigError and TransientError from a store."""
        path = str(location.root)
        if not location.exists:
            return StreamStatus(location.name, path)
        try:
            table = location.open(self.pipeline, allow_lost_state=True)
        except UnreadableTable as error:
            return StreamStatus(location.name, path, lost=str(error))
        lost = table.lost_state is not None
        version = table.state_version if lost else table.rows_state_version
        return StreamStatus(
            location.name,
            path,
            None if lost else table.saved,
            None if version is None else number(version),
            tuple(map(number, reversed(table.retained))),
            str(table.lost_state or ""),
            restored=not lost and table.restored,
        )

    def log(self, location: StreamLocation, before: int | None = None) -> Iterator[tuple[Commit, TableState | None]]:
        """Yield the commits of a stream's table, newest first, each with the state it moved to, if that is retained.

        before: only commits of versions before this one.
        """
        if not location.exists:
            return
        table = location.open(self.pipeline, allow_lost_state=True)
        newest = table.version if before is None else min(table.version, before - 1)
        for commit in commits(table.root, table.app, newest):
            yield commit, None if commit.state is None else _loaded(table, commit.state)

    def at(self, location: StreamLocation, state_number: int) -> TableState:
        """Return state number `state_number` of a stream. Raises StateError: when it is not retained."""
        table = location.open(self.pipeline, allow_lost_state=True)
        return table.blobs.load(self._version(location, table, state_number))

    def change(self, location: StreamLocation, make: Callable[[TableState], Change]) -> EditResult:
        """Change the stream's state. make: returns the change of the current state.

        Raises StateError: when there is no state, or `make` refuses. StateConflict: when a sync on another machine
        committed first.
        """
        table = location.open(self.pipeline, clock=self.clock)
        if table.saved is None:
            raise StateError(_NO_STATE, stream=location.stream)
        return self.commit(location, table, make(table.saved))

    def reset(self, location: StreamLocation, partition: Partition | None = None) -> EditResult:
        """Make the next sync read the stream from its start, even if its state is lost; or a partition of its state.

        Raises StateError: when nothing was committed, or there is no state that a partition could be reset in.
        """
        table = location.open(self.pipeline, clock=self.clock, allow_lost_state=True)
        if table.state_version is None and not table.retained and not table.has_synced_rows:
            raise StateError(_NO_STATE, stream=location.stream)
        saved = table.saved
        if saved is None and partition is not None:
            # The positions of an older state are those of rows that the table may no longer have.
            why = f"{table.lost_state or 'the table has no state'}; reset the whole stream, without --partition"
            raise StateError(why, stream=location.stream)
        if saved is None:
            # Of an older state, only the sync and write mode are needed; if none is readable, the next sync sets them.
            states = (_loaded(table, version) for version in reversed(table.retained))
            saved = next(filter(None, states), TableState("", ""))
        return self.commit(location, table, reset(saved, partition))

    def rollback(self, location: StreamLocation, state_number: int, *, tables: bool = False) -> EditResult:
        """Return to an earlier state; with `tables`, also to its rows, both in one commit.

        Raises StateError: when the state or its rows are not retained. StateConflict: when a sync on another machine
        committed first.
        """
        table = location.open(self.pipeline, clock=self.clock, allow_lost_state=True)
        version = self._version(location, table, state_number)
        older = table.blobs.load(version)
        if not table.root.has([file.path for file in older.pending]):
            raise StateError(
                f"state {state_number} names files of rows that were not visible then, and they no longer exist; "
                "reset the stream",
                stream=location.stream,
            )
        change = rolled_back(table.saved, older, state_number, has_rows=may_have_rows_of(table, version))
        if not tables:
            if {file.path for file in older.pending} & {file.path for file in table.files()}:
                why = f"rows that were not visible at state {state_number} are visible now; roll back with --tables"
                raise StateError(why, stream=location.stream)
            return self.commit(location, table, change)
        log = commits(table.root, table.app, table.version)
        to = next((commit.version for commit in log if commit.state == version), None)
        if to is None:
            raise StateError(
                f"the table's log no longer has the commit of state {state_number}, so its rows cannot be "
                "restored; without --tables, only the state is rolled back",
                stream=location.stream,
            )
        if to == table.version:
            return EditResult(
                location.name,
                replace(change, consequences=("The table and its state are already there: nothing changes.",)),
            )
        self._check_restorable(location, to)
        change = rolled_back(table.saved, older, state_number, to)
        if location.history is not None:
            change = replace(change, consequences=(*change.consequences, "Its history retains every row."))
        if self.dry:
            return EditResult(location.name, change)
        OpenTables(self.pipeline).complete_history(location, table)
        return EditResult(location.name, change, self._restore(location, table, change, to))

    def fork(self, location: StreamLocation, name: str) -> EditResult:
        """Give a pipeline called `name` a copy of this pipeline's state, on the same table.

        Nothing changes where it has this state already, as after a fork that was killed. Raises StateError.
        """
        saved = location.open(self.pipeline).saved
        if saved is None:
            raise StateError(_NO_STATE, stream=location.stream)
        if saved.pending:
            raise StateError(
                "a full refresh was interrupted, and its rows can become visible only once; complete it with a sync, "
                "or reset it",
                stream=location.stream,
            )
        forked, other = replace(saved, sync=""), location.open(name, clock=self.clock, allow_lost_state=True)
        if other.rows_state_version is not None and other.saved != forked:
            raise StateError(
                f"the pipeline {name!r} already has a state of its own; choose other streams with --stream, or replace "
                "its state by `state export` of this one and `state import --replace`",
                stream=location.stream,
            )
        means = f"Both pipelines write to this table from now on, each with a state of its own ({saved.write_mode})."
        change = Change(f"fork from {self.pipeline}", forked, (), (means,))
        return self.commit(location, other, change)

    def commit(self, location: StreamLocation, table: StreamTable, change: Change) -> EditResult:
        """Commit a change, unless it changes nothing or this is a dry run. Raises what `check` raises."""
        self.check(location.name, change.saved)
        if self.dry or change.saved == table.saved:
            return EditResult(location.name, change)
        OpenTables(table.pipeline).complete_history(location, table)
        table.move(change.saved, note=self._note(change))
        return EditResult(location.name, change, table.version)

    def _restore(self, location: StreamLocation, table: StreamTable, change: Change, to: int) -> int:
        """Restore the rows of version `to` and the state that belongs to them, in one commit that moves the marker.

        Returns the table's new version.
        """
        version, before = successor(table.state_version), table.state_version
        retained = dict.fromkeys(n for n in (before, table.rows_state_version, *table.retained) if n is not None)
        table.draft(version, replace(change.saved, history=tuple(retained), logged_version=table.logged_version))
        with location.root.explaining(location.stream):
            handle = open_newest(location.root, location.stream)
            if handle.transaction_version(table.app) != before:
                raise _overtaken(location)
            properties = CommitProperties(
                custom_metadata={NOTE: self._note(change)},
                app_transactions=[Transaction(table.app, version)],
                max_commit_retries=0,
            )
            try:
                handle.restore(to, commit_properties=properties)
            except DeltaError as error:
                handle = open_newest(location.root, location.stream)
                if handle.transaction_version(table.app) != before:
                    raise _overtaken(location) from error
                raise _not_restorable(location, to, str(error)) from error
        return location.open(self.pipeline).version

    @staticmethod
    def _check_restorable(location: StreamLocation, to: int) -> None:
        """Raise StateError when the log or the files of version `to` are gone, before anything is changed."""
        root, why = location.root, ""
        with root.explaining(location.stream):
            now = logged_files(open_newest(root, location.stream))
            try:
                then = logged_files(DeltaTable(root.uri, version=to, storage_options=root.storage_options))
            except DeltaError as error:
                why = str(error)
            else:
                if missing := missing_files(root, [path for path in then if path not in now]):
                    why = f"{len(missing):,} of its files no longer exist, such as {missing[0]}"
        if why:
            raise _not_restorable(location, to, why)

    def _version(self, location: StreamLocation, table: StreamTable, state_number: int) -> int:
        retained = {number(version): version for version in table.retained}
        if state_number not in retained:
            numbers = ", ".join(map(str, sorted(retained))) or "none"
            raise StateError(f"state {state_number} is not retained, expected one of {numbers}", stream=location.stream)
        return retained[state_number]

    def _note(self, change: Change) -> str:
        """Return the note of a change: JSON, with as many of its first moves as fit."""
        note = {"what": change.what, "at": self.clock().isoformat(timespec="seconds")}
        listed = [str(move) for move in change.moves[:_NOTED]]
        while len(text := to_json({**note, "moves": listed}).decode()) > _LONGEST_NOTE and listed:
            listed.pop()
        return text


def difference(older: TableState, newer: TableState) -> Sequence[str]:
    """Return the differences between two states of a stream, one line each."""
    facts = [
        f"{name}: {getattr(older, name)} → {getattr(newer, name)}"
        for name in ("sync_mode", "write_mode", "generation", "records", "complete")
        if getattr(older, name) != getattr(newer, name)
    ]
    return [*facts, *map(str, moves(older.state, newer.state))]


def _loaded(table: StreamTable, version: int) -> TableState | None:
    try:
        return table.blobs.load(version)
    except StateError:
        return None


def _not_restorable(location: StreamLocation, to: int, why: str) -> StateError:
    return StateError(
        f"the rows of version {to} cannot be restored, so nothing was changed ({why}); without --tables, only the "
        "state is rolled back",
        stream=location.stream,
        path=str(location.root),
    )


def _overtaken(location: StreamLocation) -> StateConflict:
    text = "a sync moved this stream's state in the meantime; nothing was changed. Try again when it has ended"
    return StateConflict(text, stream=location.stream, path=str(location.root))
