"""Changing the state of streams between two syncs: what `spark-cdk state` does.

Every change is one commit of one table, through the handle whose marker was compared when it was opened, with a note
of what was done. The pipeline's lock is held, which keeps out syncs of this machine; a sync of another machine is
refused by the table at its next commit, since the marker has moved.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import orjson
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from cdk.base.errors import StateConflict, StateError
from cdk.base.times.clock import Clock, system_clock
from cdk.lake.admin.diff import moves
from cdk.lake.admin.edits import Change, reset, rolled_back
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.delta.commit_log import Commit, commits
from cdk.lake.delta.state_blobs import number
from cdk.lake.delta.stream_table import NOTE, StreamTable, successor
from cdk.lake.delta.table_state import TableState
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.run_lock import between_runs
from cdk.state.slice import Partition

_NOTED = 20
_SHOWN = 4096


@dataclass(frozen=True)
class EditResult:
    """What was done to a stream, or would be. version: of the table after it; None for a dry run."""

    stream: str
    change: Change
    version: int | None = None


@dataclass(frozen=True)
class StreamStatus:
    """Where a stream stands. saved: None where nothing was committed, or where the state cannot be read.

    number: which state of the table it is. kept: the numbers that can be rolled back to, newest first. lost: why the
    state cannot be read. restored: the rows are those of an older state than the newest one.
    """

    stream: str
    path: str
    saved: TableState | None = None
    number: int | None = None
    kept: tuple[int, ...] = ()
    lost: str = ""
    restored: bool = False


class Admin:
    """The states of one pipeline. dry: say what would be done, and write nothing.

    check: raises for a state of a stream that may not be kept (`cdk.sync.loop.state_log_mirror.state_check`).
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

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep syncs of the pipeline out. Raises StateConflict: one is running. A dry run keeps nobody out."""
        if self.dry:
            yield
            return
        with between_runs(self.target, self.pipeline):
            yield

    def standing(self, one: StreamLocation) -> StreamStatus:
        """Where a stream stands. Raises ConfigError and TransientError of a store."""
        path = str(one.root)
        if not one.there:
            return StreamStatus(one.name, path)
        try:
            table = one.open(self.pipeline)
        except StateError as error:
            lost = one.open(self.pipeline, lost=True)
            kept = tuple(sorted(self._kept(one, lost), reverse=True))
            marker = lost.state_version
            return StreamStatus(one.name, path, None, None if marker is None else number(marker), kept, str(error))
        held = table.rows_state_version
        return StreamStatus(
            one.name,
            path,
            table.saved,
            None if held is None else number(held),
            tuple(sorted(self._kept(one, table), reverse=True)),
            restored=held != table.state_version,
        )

    def log(self, one: StreamLocation) -> Iterator[tuple[Commit, TableState | None]]:
        """The commits of a stream's table, newest first, each with the state it moved to where that is kept."""
        if not one.there:
            return
        table = one.open(self.pipeline, lost=True)
        for commit in commits(one.root, one.app(self.pipeline), table.version):
            yield commit, None if commit.state is None else _loaded(table, commit.state)

    def at(self, one: StreamLocation, wanted: int) -> TableState:
        """State number `wanted` of a stream. Raises StateError: it is not kept."""
        table = one.open(self.pipeline, lost=True)
        return table.load(self._version(one, table, wanted))

    def change(self, one: StreamLocation, make: Callable[[TableState], Change]) -> EditResult:
        """Make a change of the stream's state.

        Raises StateError: there is no state, or `make` refuses. StateConflict: a sync on another machine was faster.
        """
        table = one.open(self.pipeline, clock=self.clock)
        if table.saved is None:
            raise StateError("nothing was committed for this stream yet: there is no state", stream=one.stream)
        return self.commit(one, table, make(table.saved))

    def reset(self, one: StreamLocation, partition: Partition | None = None) -> EditResult:
        """Have the stream, or a partition, read from its start; also where the state is lost."""
        table = one.open(self.pipeline, clock=self.clock, lost=True)
        if table.state_version is None and not self._kept(one, table):
            raise StateError("nothing was committed for this stream yet: there is no state", stream=one.stream)
        saved = table.saved
        if saved is None:
            # How it was read is all that is needed of an older state; if none can be read, the next sync knows.
            kept = self._kept(one, table)
            saved = next(
                filter(None, (_loaded(table, kept[n]) for n in sorted(kept, reverse=True))), TableState("", "")
            )
        return self.commit(one, table, reset(saved, partition))

    def rollback(self, one: StreamLocation, wanted: int, *, tables: bool = False) -> EditResult:
        """Take the state of an earlier number; with `tables` the rows too, both in one commit.

        Raises StateError: it is not kept, or its rows are not. StateConflict: a sync on another machine was faster.
        """
        table = one.open(self.pipeline, clock=self.clock, lost=True)
        version = self._version(one, table, wanted)
        older = table.load(version)
        if not table.root.has([file.path for file in older.pending]):
            raise StateError(
                f"state {wanted} names rows that were waiting then, and their files are gone; reset the stream",
                stream=one.stream,
            )
        change = rolled_back(table.saved, older, wanted)
        if not tables:
            if {file.path for file in older.pending} & {file.path for file in table.files()}:
                raise StateError(
                    f"the rows that were waiting at state {wanted} are visible now; roll back with --tables",
                    stream=one.stream,
                )
            return self.commit(one, table, change)
        found = commits(one.root, one.app(self.pipeline), table.version)
        to = next((commit.version for commit in found if commit.state == version), None)
        if to is None:
            raise StateError(
                f"the table's log no longer has the commit of state {wanted}, so its rows cannot be brought back; "
                "without --tables the state alone goes back",
                stream=one.stream,
            )
        if to == table.version:
            return EditResult(
                one.name, replace(change, means=("The table and its state stand there: nothing changes.",))
            )
        rows = f"The table has the rows of its version {to} again; those that came later are read again."
        if one.history is not None:
            rows += " Its history keeps every row."
        change = replace(change, what=f"{change.what}, rows of version {to}", means=(rows,))
        if self.dry:
            return EditResult(one.name, change)
        one.settle(self.pipeline, table)
        return EditResult(one.name, change, self._restore(one, table, change, to))

    def fork(self, one: StreamLocation, name: str) -> EditResult:
        """Let a pipeline called `name` begin where this one stands, on the same table. Raises StateError."""
        saved = one.open(self.pipeline).saved
        if saved is None:
            raise StateError("nothing was committed for this stream yet: there is no state", stream=one.stream)
        if saved.pending:
            raise StateError(
                "a full refresh was cut, and its rows can become visible only once; finish it, or reset it",
                stream=one.stream,
            )
        other = one.open(name, clock=self.clock, lost=True)
        if other.state_version is not None:
            raise StateError(f"the pipeline {name!r} has a state of its own already", stream=one.stream)
        means = f"Both pipelines write to this table from now on, each with a state of its own ({saved.write_mode})."
        change = Change(f"fork from {self.pipeline}", replace(saved, sync=""), (), (means,))
        return Admin(self.target, name, clock=self.clock, dry=self.dry, check=self.check).commit(one, other, change)

    def commit(self, one: StreamLocation, table: StreamTable, change: Change) -> EditResult:
        """Commit a change, unless it changes nothing or this is a dry run. Raises what `check` does."""
        self.check(one.name, change.saved)
        if self.dry or change.saved == table.saved:
            return EditResult(one.name, change)
        one.settle(self.pipeline, table)
        table.commit(change.saved, note=self._note(change))
        return EditResult(one.name, change, table.version)

    def _restore(self, one: StreamLocation, table: StreamTable, change: Change, to: int) -> int:
        """Rows of an older version and the state that belongs to them, in one commit that moves the marker."""
        version, before = successor(table.state_version), table.state_version
        kept = dict.fromkeys(
            n for n in (before, table.rows_state_version, *self._kept(one, table).values()) if n is not None
        )
        table.draft(version, replace(change.saved, history=tuple(kept)))
        with one.root.explaining(one.stream):
            handle = DeltaTable(one.root.uri, storage_options=one.root.storage_options)
            if handle.transaction_version(one.app(self.pipeline)) != before:
                raise _overtaken(one)
            properties = CommitProperties(
                custom_metadata={NOTE: self._note(change)},
                app_transactions=[Transaction(one.app(self.pipeline), version)],
                max_commit_retries=0,
            )
            try:
                handle.restore(to, commit_properties=properties)
            except DeltaError as error:
                handle = DeltaTable(one.root.uri, storage_options=one.root.storage_options)
                if handle.transaction_version(one.app(self.pipeline)) != before:
                    raise _overtaken(one) from error
                raise StateError(
                    f"the rows of version {to} cannot be brought back, so nothing was changed: {error}",
                    stream=one.stream,
                    path=str(one.root),
                ) from error
        return one.open(self.pipeline).version

    def _kept(self, one: StreamLocation, table: StreamTable) -> dict[int, int]:
        """The states that are kept, by number. Drafts of commits that never came are none."""
        names = [name.removesuffix(".json") for name in one.states(self.pipeline).names() if name.endswith(".json")]
        there = {int(name) for name in names if name.isdecimal()}
        if table.saved is not None:
            there &= {n for n in (table.rows_state_version, *table.saved.history) if n is not None}
        elif table.state_version is not None:
            there = {n for n in there if number(n) <= number(table.state_version)}
        return {number(n): n for n in sorted(there)}

    def _version(self, one: StreamLocation, table: StreamTable, wanted: int) -> int:
        kept = self._kept(one, table)
        if wanted not in kept:
            there = ", ".join(map(str, sorted(kept))) or "none"
            raise StateError(f"state {wanted} is not kept, expected one of {there}", stream=one.stream)
        return kept[wanted]

    def _note(self, change: Change) -> str:
        note = {
            "what": change.what,
            "at": self.clock().isoformat(timespec="seconds"),
            "moves": [str(move) for move in change.moves[:_NOTED]],
        }
        return orjson.dumps(note).decode()[:_SHOWN]


def difference(older: TableState, newer: TableState) -> Sequence[str]:
    """What differs between two states of a stream, in lines."""
    facts = [
        f"{name}: {getattr(older, name)} → {getattr(newer, name)}"
        for name in ("sync_mode", "write_mode", "generation", "records", "complete")
        if getattr(older, name) != getattr(newer, name)
    ]
    return [*facts, *map(str, moves(older.state, newer.state))]


def _loaded(table: StreamTable, version: int) -> TableState | None:
    try:
        return table.load(version)
    except StateError:
        return None


def _overtaken(one: StreamLocation) -> StateConflict:
    return StateConflict(
        "a sync moved this stream's state in the meantime; nothing was changed. Try again when it has ended",
        stream=one.stream,
        path=str(one.root),
    )
