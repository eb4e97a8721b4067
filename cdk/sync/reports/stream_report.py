"""StreamReport: what became of a stream in a sync."""

from dataclasses import dataclass, field
from enum import StrEnum

from cdk.rest.http.metrics import HttpMetrics
from cdk.sync.reports.counts import CommitCounts, SliceCounts, StaleCount
from cdk.sync.tasks.messages import Failure


class Status(StrEnum):
    """Where a stream's sync stands."""

    READING = "reading"
    DONE = "done"
    FAILED = "failed"
    REDUNDANT = "redundant"
    """Not begun, for the sync's window was read before."""


@dataclass(frozen=True)
class StreamReport:
    """What became of a stream in a sync.

    read: records the source gave and that are covered by a commit. written: rows added to the table (for an overwrite:
    to the new generation). skipped: records left out because an earlier run had them. restarted: slices whose saved
    token the source refused, read again from their start. resumed: the sync continued an interrupted one.
    total: rows of this generation, over all its syncs. rejected: rows with values that did not fit their column.
    bytes, files: what was written for `written`. planned: slices that were handed out so far; whole: there are no more.
    reading: slices that are handed out now. http: requests, those for planning included. by_slice, by_commit: the
    figures above in detail. stale: what became of rows that the source has no more; None before a complete read, and
    where nobody asked. window: what was read before, of a stream that is redundant. unchanged: its source was asked and
    has not changed, so nothing was read; total and generation are those that are there. apart: rows that were merged
    and whose key is null, missing or no value of its column.
    """

    name: str
    status: Status
    sync_mode: str
    write_mode: str
    read: int = 0
    written: int = 0
    skipped: int = 0
    restarted: int = 0
    slices: int = 0
    commits: int = 0
    total: int = 0
    resumed: bool = False
    failure: Failure | None = None
    generation: int = 0
    rejected: int = 0
    pages: int = 0
    bytes: int = 0
    files: int = 0
    planned: int = 0
    all_planned: bool = False
    reading: int = 0
    http: HttpMetrics = field(default_factory=HttpMetrics)
    by_slice: SliceCounts = field(default_factory=SliceCounts)
    by_commit: CommitCounts = field(default_factory=CommitCounts)
    stale: StaleCount | None = None
    window: str = ""
    unchanged: bool = False
    apart: int = 0

    @property
    def outcome(self) -> str:
        """The status in a word, as people and reports are told it at the end."""
        return "unchanged" if self.unchanged else str(self.status)

    @property
    def hidden(self) -> bool:
        """Whether this generation is still out of sight: an overwrite shows it once it is complete."""
        begun = bool(self.written) or self.resumed
        return begun and self.write_mode == "overwrite" and self.status in {Status.READING, Status.FAILED}
