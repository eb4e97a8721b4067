"""The log of a table, commit by commit, and the runs of a pipeline, reconstructed from the commits of its tables."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from heapq import merge
from itertools import repeat

import orjson
from msgspec import Struct, field

from cdk.base.errors import BadState
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.delta.pinned_table import app_of
from cdk.lake.delta.receipt import RECEIPT, Receipt
from cdk.lake.delta.table_state import COMPLETE, NOTE, STATE_IGNORED, SYNC
from cdk.lake.parquet.table_files import LoggedCommit, commit_at, row_count_of, total_rows
from cdk.lake.storage.folder import Folder


class Commit(Struct, frozen=True):
    """A commit of a table."""

    version: int
    """The version of the table that it created."""
    at: datetime | None
    """When it was made, by the clock of the writer."""
    operation: str
    state: int | None = None
    """The version of the state that it moved the marker to; None: it did not move the state."""
    rows: int | None = 0
    """Rows that it added, by its receipt or its files; None: unknown, for example if it replaced files."""
    replaced: bool = False
    """Whether it removed files."""
    note: str = ""
    """What a person did to the state, or that a sync ignored the old state as configured."""
    sync: str = ""
    """The id of the sync that made it; empty: no sync did."""
    complete: bool = False
    """Whether it is of a sync whose state says that the stream was read to its end."""
    receipt: str = ""
    """Its receipt as JSON text; empty for a commit of another program."""

    @property
    def edit(self) -> str:
        """What its note says was done to the state; empty without a note."""
        return str(orjson.loads(self.note)["what"]) if self.note else ""


def commits(root: Folder, app: str, version: int) -> Iterator[Commit]:
    """Yield the commits up to `version`, newest first, as far back as the log goes. app: the marker's application."""
    for at in range(version, -1, -1):
        try:
            commit = commit_at(root, at)
        except FileNotFoundError:
            return
        timestamp, note = commit.info.get("timestamp"), str(commit.info.get(NOTE, ""))
        yield Commit(
            at,
            datetime.fromtimestamp(timestamp / 1000, UTC) if isinstance(timestamp, int) else None,
            commit.operation,
            state=commit.markers.get(app),
            rows=_added(commit),
            replaced=bool(commit.remove),
            note=note,
            # A state that a person has changed still names the sync that saved it.
            sync=str(commit.info.get(SYNC, "")) if note in ("", STATE_IGNORED) else "",
            complete=commit.info.get(COMPLETE) == "true",
            receipt=str(commit.info.get(RECEIPT, "")),
        )


def _added(commit: LoggedCommit) -> int | None:
    """Return the rows that a commit added; None: unknown."""
    if RECEIPT in commit.info:
        try:
            return Receipt.from_text(str(commit.info[RECEIPT]), "").added
        except BadState:
            return None
    if not commit.changes_rows:
        return 0
    # Another program's UPDATE rewrites existing rows, so its files do not tell; an overwrite adds only new rows.
    if commit.add and commit.remove and commit.operation != "WRITE":
        return None
    return total_rows([row_count_of(add) for add in commit.add.values()])


_COMMITS = 2000
"""How many commits are read for a page of runs, however many commits a run has."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class CommitSums(Struct):
    """The sums over the commits of a run. rows: rows that they added. receipt_errors: why receipts cannot be read.

    complete: whether the stream was read to its end after the last commit; None: unknown.
    """

    commits: int = 0
    rows: int = 0
    started: datetime | None = None
    ended: datetime | None = None
    receipt: Receipt = field(default_factory=Receipt)
    receipts: int = 0
    receipt_errors: list[str] = field(default_factory=list)
    complete: bool = False

    def add(self, commit: Commit, stream: str) -> None:
        """Add a commit; it must be older than those added before."""
        if not self.commits:
            self.complete = commit.complete
        self.commits, self.rows = self.commits + 1, self.rows + (commit.rows or 0)
        times = [at for at in (self.started, self.ended, commit.at) if at is not None]
        self.started, self.ended = min(times, default=None), max(times, default=None)
        if commit.receipt:
            try:
                receipt = Receipt.from_text(commit.receipt, stream)
                self.receipt, self.receipts = self.receipt + receipt, self.receipts + 1
            except BadState as error:
                self.receipt_errors.append(f"{stream}, version {commit.version}: {error}")


class Run(CommitSums):
    """A sync, with its commits by stream."""

    sync: str = ""
    streams: dict[str, CommitSums] = field(default_factory=dict)

    def add(self, commit: Commit, stream: str) -> None:
        """Add a commit; it must be older than those added before."""
        self.streams.setdefault(stream, CommitSums()).add(commit, stream)
        super().add(commit, stream)
        self.complete = all(each.complete for each in self.streams.values())


class OlderRuns(Struct, frozen=True):
    """Where the next page of runs starts. versions: each table's version to start with. before: its runs are older."""

    versions: Sequence[int]
    before: datetime


def runs_of(
    tables: Sequence[StreamLocation], newest: Sequence[int], pipeline: str, most: int, since: datetime | None = None
) -> tuple[list[Run], OlderRuns | None]:
    """Return a page of runs, newest first, and where the next page starts; None if it is the last page.

    newest: the version of each table to start with. since: earlier commits belong to the next page; a run with very
    many commits continues there.
    """
    logs = [
        zip(repeat(number), commits(table.root, app_of(pipeline, table.stream), version))
        for number, (table, version) in enumerate(zip(tables, newest, strict=True))
    ]
    runs: dict[str, Run] = {}
    rest = [*newest]
    # A pipeline has one run at a time, so all its commits between two commits of a run belong to that run.
    for count, (number, commit) in enumerate(merge(*logs, key=lambda each: each[1].at or _LONG_AGO, reverse=True)):
        at = commit.at or _LONG_AGO
        # Other pipelines may write to the same tables; their commits move other markers.
        sync = "" if commit.state is None else commit.sync
        if (since is not None and at < since) or count == _COMMITS or (sync and sync not in runs and len(runs) == most):
            return [*runs.values()], OlderRuns(rest, at if since is None else max(at, since))
        rest[number] = commit.version - 1
        if sync:
            runs.setdefault(sync, Run(sync=sync)).add(commit, tables[number].name)
    return [*runs.values()], None if since is None else OlderRuns(rest, since)
