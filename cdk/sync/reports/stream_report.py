"""StreamReport: what became of a stream in a sync."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from cdk.lake.delta.write_modes import traits_of
from cdk.rest.http.metrics import HttpMetrics
from cdk.sync.reports.counts import CommitCounts, SliceCounts, StaleCount
from cdk.sync.tasks.messages import Failure


class Status(StrEnum):
    """Where a stream's sync stands."""

    READING = "reading"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """Not read to its end; what is covered, if anything is, is committed, and the next sync goes on there."""
    REDUNDANT = "redundant"
    """Not begun, for the sync's window was read before."""


@dataclass(frozen=True)
class StreamReport:
    """What became of a stream in a sync."""

    name: str
    status: Status
    sync_mode: str
    write_mode: str
    read: int = 0
    """Records that the source gave and a commit covers."""
    written: int = 0
    """Rows added to the table (for an overwrite: to the new generation)."""
    skipped: int = 0
    """Records left out because an earlier run had them, or for they lie outside of their slice's window."""
    restarted: int = 0
    """Slices whose saved token the source refused, read again from their start."""
    slices: int = 0
    commits: int = 0
    total: int = 0
    """Rows of this generation, over all its syncs; where nothing had to be read, those of them that are there."""
    resumed: bool = False
    """The sync continued an interrupted one."""
    failure: Failure | None = None
    generation: int = 0
    rejected: int = 0
    """Rows with values that did not fit their column."""
    pages: int = 0
    bytes: int = 0
    """Size of the files of `written`."""
    files: int = 0
    """Files that hold the rows of `written`."""
    planned: int = 0
    """Slices that were handed out so far."""
    started: bool = False
    """Whether a task has read any of them, however little of it is covered."""
    all_planned: bool = False
    """Whether no further slice will be planned."""
    reading: int = 0
    """Slices that are handed out now."""
    http: HttpMetrics = field(default_factory=HttpMetrics)
    """Requests, those for planning included."""
    by_slice: SliceCounts = field(default_factory=SliceCounts)
    """The records of each slice."""
    by_commit: CommitCounts = field(default_factory=CommitCounts)
    """The rows and files of each commit."""
    stale: StaleCount | None = None
    """What became of rows that the source has no more; None before a complete read, and without `remove_stale`."""
    window: str = ""
    """What was read before, of a stream that is redundant."""
    unchanged: bool = False
    """Its source was asked and has not changed, so nothing was read; generation and rows are those that are there."""
    warnings: Sequence[str] = ()
    """What a person should know of the data that was read."""
    apart: int = 0
    """Rows that were merged and whose key is null, missing or no value of its column."""

    @property
    def outcome(self) -> str:
        """The status in a word, as people and reports are told it at the end."""
        return "unchanged" if self.unchanged else str(self.status)

    @property
    def repeats_rows(self) -> bool:
        """Whether a further sync adds the rows of this one once more."""
        return self.sync_mode == "full_refresh" and traits_of(self.write_mode).repeats_rows

    @property
    def came_nearer(self) -> bool:
        """Whether the run has brought the stream nearer to an end that it comes to, however often it is interrupted.

        An incremental read may have none: it asks partitions again for what is new.
        """
        ends = self.status is Status.INTERRUPTED and self.sync_mode == "full_refresh"
        return self.status is Status.DONE or (ends and bool(self.slices or self.read))

    @property
    def begins_anew(self) -> bool:
        """Whether it was interrupted before it met a position, so that the next sync has nothing to resume from."""
        return self.status is Status.INTERRUPTED and self.started and not (self.slices or self.read or self.total)

    @property
    def ends_in_list(self) -> bool:
        """Whether it was interrupted before its first slice, by requests that list its partitions."""
        return self.status is Status.INTERRUPTED and not self.planned and self.http.requests > 0

    @property
    def hidden(self) -> bool:
        """Whether this generation is still out of sight: an overwrite shows it once it is complete."""
        started = bool(self.written) or self.resumed
        hides = traits_of(self.write_mode).hidden_until_complete
        return started and hides and self.status not in {Status.DONE, Status.REDUNDANT}

    def doubts_of_keys(self) -> Iterator[str]:
        """Why keys may not tell rows apart, in words."""
        if self.apart:
            yield (
                f"the primary key of {self.apart} rows is null, missing, or no value of its column; each of them is "
                "kept as a row of its own, and a changed one as another. Choose a primary_key that every record has"
            )
        receipt = self.by_commit.receipt
        if receipt.superseded >= _MANY_SUPERSEDED and 2 * receipt.superseded > receipt.read:
            yield (
                f"{receipt.superseded} of the {receipt.read} rows that were read have the primary key of another one "
                "that was read, and of each key the newest alone is in the table. If they are different things, the "
                "key lacks a field that tells them apart, such as one of their parent"
            )


_MANY_SUPERSEDED = 10
"""Rows that others of their key supersede in one sync from which on their key is doubted, where they are most."""
