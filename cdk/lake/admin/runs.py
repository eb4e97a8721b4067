"""The runs of a pipeline, reconstructed from the commits of its tables."""

from collections.abc import Sequence
from datetime import UTC, datetime
from heapq import merge
from itertools import repeat

from msgspec import Struct, field

from cdk.base.errors import BadState
from cdk.lake.admin.commit_log import Commit, commits
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.delta.pinned_table import app_of
from cdk.lake.delta.receipt import Receipt

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
        if (
            (since is not None and at < since)
            or count == _COMMITS
            or (commit.sync and commit.sync not in runs and len(runs) == most)
        ):
            return [*runs.values()], OlderRuns(rest, at if since is None else max(at, since))
        rest[number] = commit.version - 1
        if commit.sync:
            runs.setdefault(commit.sync, Run(sync=commit.sync)).add(commit, tables[number].name)
    return [*runs.values()], None if since is None else OlderRuns(rest, since)
