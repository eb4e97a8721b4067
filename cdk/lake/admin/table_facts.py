"""Facts about a pipeline's tables, taken from Delta logs and saved states without reading rows or changing tables."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from deltalake.exceptions import DeltaError
from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import ConfigError, StateError
from cdk.lake.admin.commit_log import commits
from cdk.lake.admin.freshness import NO_LIMITS, Freshness, FreshnessLimits, cursor_of
from cdk.lake.admin.locate import StreamLocation, locations_in
from cdk.lake.delta.receipt import row_count
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Guard, Use, guard_at
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import INCREMENTAL_DEFAULT, traits_of
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.run_lock import last_completed

_MANY, _SMALL = 100, 8 * 2**20
"""With at least _MANY files, smaller than _SMALL bytes on average, their number slows down readers of a table."""


class TableStatus(StrEnum):
    """The status of a stream, by its table."""

    NEVER = "never"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    RESTORED = "restored"
    UNREADABLE = "unreadable"


_NEXT = {
    TableStatus.NEVER: "reads everything",
    TableStatus.INTERRUPTED: "resumes where the last one stopped",
    TableStatus.RESTORED: "resumes from the restored rows",
}


class TableFacts(Struct, frozen=True, dict=True):
    """The facts about a stream's table. If there is no table, the counts are 0 and version is None."""

    stream: str
    path: str
    status: TableStatus
    rows: int | None = 0
    """None if the log has no row count for some file."""
    files: int = 0
    bytes: int = 0
    """Total size of the files that the table's version names."""
    version: int | None = None
    committed: datetime | None = None
    """When the version was committed."""
    completed: datetime | None = None
    """When the last complete read started or, if that was not recorded, when its sync committed."""
    saved: TableState | None = None
    """The state that the table has for its stream."""
    limits: FreshnessLimits = NO_LIMITS
    partition_columns: Sequence[str] = ()
    generation: int | None = None
    sync_mode: str | None = None
    write_mode: str | None = None
    waiting: int = 0
    """Rows of a generation that is not visible yet."""
    problem: str = ""
    """Why its log or its state cannot be read."""
    refused: Sequence[str] = ()
    """Why the next sync cannot write to it."""
    named: bool = True
    """Whether the pipeline names the stream, or syncs all streams of its source."""

    @cached_property
    def cursor(self) -> datetime | None:
        """The greatest value of the stream's cursor. Checks every partition."""
        return cursor_of(self.saved)

    def freshness(self, now: datetime) -> Freshness:
        """Return how fresh the table is at `now`."""
        return Freshness.at(now, self.completed, self.cursor, self.limits if self.named else NO_LIMITS)

    @property
    def file_bytes(self) -> int:
        """The average size of a file in bytes."""
        return self.bytes // self.files if self.files else 0

    @property
    def next(self) -> str:
        """What the next sync does with this stream."""
        if not self.named:
            return "leaves it unchanged: `streams` of the pipeline does not name it"
        if self.problem:
            return "fails before it reads: the table cannot be read"
        if self.refused:
            return "fails before it reads: the table has features that forbid it"
        if self.status is not TableStatus.COMPLETE:
            return _NEXT[self.status]
        traits = traits_of(self.write_mode or "")
        replaces = "replaces" if traits.hidden_until_complete else "merges into" if traits.merges else "adds to"
        what = f"everything, {replaces} the rows"
        return f"reads {'what is new' if self.sync_mode == 'incremental' else what}"

    @property
    def hint(self) -> str | None:
        """What a user should do about this table, or know of it; None: nothing."""
        if self.refused:
            return "; ".join(self.refused)
        if self.waiting:
            return f"{self.waiting:,} rows of generation {self.generation} are not visible until it is complete"
        if self.files >= _MANY and self.file_bytes < _SMALL:
            return f"many small files: DeltaTable({self.path!r}).optimize.compact() makes few large ones"
        return None


class TableRequest(Struct, frozen=True):
    """What a pipeline requests for a stream's table. write_mode: None if not set. removal: of stale rows."""

    write_mode: str | None = None
    removal: str | None = None
    limits: FreshnessLimits = NO_LIMITS


def tables_of(
    target: Folder, pipeline: str, named: Mapping[str, TableRequest] | None = None, limits: FreshnessLimits = NO_LIMITS
) -> list[TableFacts]:
    """Return the facts about the pipeline's tables below a folder and the streams of `named` without a table, by path.

    named: what the pipeline requests for the streams that it names, with or without namespaces; empty: it syncs all
    streams. limits: for tables whose streams it does not name. A missing folder has no tables.
    A table that cannot be read is included, with its problem. Histories are not streams and are left out.
    Raises OSError, DeltaError: when the folder cannot be read.
    """
    named = named or {}
    existing, completed = [], last_completed(target, pipeline)
    streams: set[str] = set()
    exists = target.on_disk is None or target.on_disk.is_dir()
    for location in locations_in(target, pipeline) if exists else ():
        names = {location.name, location.stream}
        request = next((named[name] for name in named if name in names), None)
        requested = request or TableRequest(limits=limits)
        try:
            facts = table_facts(location, pipeline, requested)
        except (ConfigError, StateError, DeltaError, OSError) as error:
            path, status = str(location.root), TableStatus.UNREADABLE
            facts = TableFacts(location.name, path, status, None, problem=str(error), limits=requested.limits)
        if facts.status is not TableStatus.NEVER:
            facts = replace(facts, completed=completed.get(location.name, facts.completed))
        existing.append(replace(facts, named=not named or request is not None))
        streams |= names
    missing = [_never(name, target.join(name), request) for name, request in named.items() if name not in streams]
    return sorted([*existing, *missing], key=lambda facts: facts.path)


def table_facts(location: StreamLocation, pipeline: str, request: TableRequest) -> TableFacts:
    """Return the facts about one table, from its log and state.

    Raises DeltaError, UnreadableTable: when the log cannot be read.
    """
    table = location.open(pipeline, allow_lost_state=True)
    files, newest = table.files(), next(commits(table.root, table.app, table.version), None)
    facts = TableFacts(
        location.name,
        str(location.root),
        _status(table),
        rows=table.row_count(),
        files=len(files),
        bytes=sum(file.size for file in files),
        version=table.version,
        committed=None if newest is None else newest.at,
        partition_columns=table.partition_by,
        problem=str(table.lost_state or ""),
        refused=_refused(table.guard, request, table.saved.write_mode if table.saved else None),
        limits=request.limits,
    )
    if table.saved is None:
        return facts
    return replace(
        facts,
        completed=_completed(table) if facts.status is TableStatus.COMPLETE else None,
        saved=table.saved,
        generation=table.saved.generation,
        sync_mode=table.saved.sync_mode,
        write_mode=table.saved.write_mode,
        waiting=row_count(table.saved.pending),
    )


def _completed(table: StreamTable) -> datetime | None:
    """Return when the read of the current state started; None: a user made the state, or its commit left the log.

    If the state does not record it, returns when the sync made the commit.
    """
    log = commits(table.root, table.app, table.version)
    moved = next((commit for commit in log if commit.state is not None), None)
    if moved is None or moved.note:
        return None
    started_at = None if table.saved is None else table.saved.started_at
    return moved.at if started_at is None else datetime.fromisoformat(started_at)


def _never(stream: str, root: Folder, request: TableRequest) -> TableFacts:
    refused = _refused(guard_at(root, stream), request)
    return TableFacts(stream, str(root), TableStatus.NEVER, refused=refused, limits=request.limits)


def _status(table: StreamTable) -> TableStatus:
    if table.lost_state is not None:
        return TableStatus.UNREADABLE
    if table.state_version is None:
        return TableStatus.NEVER
    if table.restored:
        return TableStatus.RESTORED
    return TableStatus.COMPLETE if table.saved is not None and table.saved.complete else TableStatus.INTERRUPTED


def _refused(guard: Guard, request: TableRequest, write_mode: str | None = None) -> list[str]:
    """Return why the next sync cannot write to a table. write_mode: of the last sync, if the pipeline sets none."""
    uses = [traits_of(request.write_mode or write_mode or INCREMENTAL_DEFAULT).use]
    if request.removal in {"soft", "hard"}:
        uses.append(Use(f"remove_stale: {request.removal}"))
    return guard.refusals(uses)
