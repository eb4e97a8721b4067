"""StreamReport: the status and figures of a stream in a sync."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from cdk.lake.delta.write_modes import traits_of
from cdk.rest.http.metrics import HttpMetrics
from cdk.state.slice import Slice
from cdk.sync.reports.counts import CommitCounts, SliceCounts, StaleCount
from cdk.sync.tasks.messages import Failure, SliceResult


class Status(StrEnum):
    """The status of a stream in a sync."""

    READING = "reading"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """Not read to its end; anything covered is committed, and the next sync resumes there."""
    REDUNDANT = "redundant"
    """Not started, because the sync's window was read before."""


class StreamReport(Struct, frozen=True):
    """The status and figures of a stream in a sync."""

    name: str
    status: Status
    sync_mode: str
    write_mode: str
    read: int = 0
    """Records that the source returned and a commit covers."""
    written: int = 0
    """Rows added to the table (for an overwrite: to the new generation)."""
    skipped: int = 0
    """Records left out because an earlier run had them, or because they are outside their slice's window."""
    restarted: int = 0
    """Slices that were read again from their start, because the source refused their saved page token."""
    completed_slices: int = 0
    commits: int = 0
    total: int = 0
    """Rows of this generation, over all its syncs; if nothing had to be read, those that are in the table."""
    resumed: bool = False
    """Whether the sync resumed an interrupted read."""
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
    """Whether a task has started reading any of them, even if nothing of it is covered."""
    all_planned: bool = False
    """Whether planning is at its end."""
    reading: int = 0
    """Slices that are handed out now."""
    http: HttpMetrics = field(default_factory=HttpMetrics)
    """Requests, including those for planning."""
    by_slice: SliceCounts = field(default_factory=SliceCounts)
    """The records of each slice."""
    by_commit: CommitCounts = field(default_factory=CommitCounts)
    """The rows and files of each commit."""
    stale: StaleCount | None = None
    """What was done with stale rows; None before a complete read, and without `remove_stale`."""
    window: str = ""
    """The window that was read before, if the stream is redundant."""
    unchanged: bool = False
    """Whether its source has not changed, so that nothing was read; generation and rows are the existing ones."""
    warnings: Sequence[str] = ()
    """Warnings about the data that was read."""
    apart: int = 0
    """Merged rows whose key is null, missing or does not fit its column."""

    def plus(self, slice: Slice, progress: SliceResult) -> "StreamReport":
        """Return this report plus how far a task got with `slice`."""
        report = replace(self, started=self.started or not progress.unrequested)
        if progress.last is None:
            return report
        return replace(
            report,
            read=self.read + progress.read,
            skipped=self.skipped + progress.skipped,
            restarted=self.restarted + progress.restarted,
            completed_slices=self.completed_slices + progress.done,
            rejected=self.rejected + progress.rejected,
            pages=self.pages + progress.pages,
            by_slice=self.by_slice.plus(slice, progress),
        )

    @property
    def outcome(self) -> str:
        """The final status in one word, for people and reports."""
        return "unchanged" if self.unchanged else str(self.status)

    @property
    def repeats_rows(self) -> bool:
        """Whether a further sync would add the rows of this one again."""
        return self.sync_mode == "full_refresh" and traits_of(self.write_mode).repeats_rows

    @property
    def made_progress(self) -> bool:
        """Whether the run made progress towards an end that the stream reaches, however often it is interrupted.

        An interrupted incremental read may never reach one, because it asks partitions for new records again.
        """
        ends = self.status is Status.INTERRUPTED and self.sync_mode == "full_refresh"
        return self.status is Status.DONE or (ends and bool(self.completed_slices or self.read))

    @property
    def nothing_to_resume(self) -> bool:
        """Whether it was interrupted before it reached a position, so that the next sync has nothing to resume from."""
        return (
            self.status is Status.INTERRUPTED
            and self.started
            and not (self.completed_slices or self.read or self.total)
        )

    @property
    def ended_while_listing(self) -> bool:
        """Whether it was interrupted before its first slice, while its partitions were being listed."""
        return self.status is Status.INTERRUPTED and not self.planned and self.http.requests > 0

    @property
    def hidden(self) -> bool:
        """Whether this generation is still hidden, because an overwrite makes it visible once it is complete."""
        started = bool(self.written) or self.resumed
        hides = traits_of(self.write_mode).hidden_until_complete
        return started and hides and self.status not in {Status.DONE, Status.REDUNDANT}

    def doubts_of_keys(self) -> Iterator[str]:
        """Yield reasons to doubt that the key distinguishes rows, in words."""
        if self.apart:
            yield (
                f"the primary key of {self.apart} rows is null, missing, or not a value of its column; each of them "
                "is stored as a row of its own, and again when it changes. Choose a primary_key that every record has"
            )
        receipt = self.by_commit.receipt
        if receipt.superseded >= _MANY_SUPERSEDED and 2 * receipt.superseded > receipt.read:
            yield (
                f"{receipt.superseded} of the {receipt.read} rows that were read have the same primary key as "
                "another one, and only the newest row of each key is in the table. If they are different records, "
                "the key lacks a field that distinguishes them, such as one of their parent"
            )


_MANY_SUPERSEDED = 10
"""Minimum number of superseded rows in a sync for which their key is doubted, if they are also the majority."""
