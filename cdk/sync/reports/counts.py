"""Counts of a stream's sync by slice and by commit, bounded in size, and what each kind of worker has read."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from cdk.lake.delta.receipt import Receipt
from cdk.lake.parquet.writer import DataFile
from cdk.state.slice import Slice
from cdk.sync.tasks.messages import SliceResult
from cdk.sync.tasks.task_concurrency import ConcurrencyCount
from cdk.sync.tasks.workers import Workers

LISTED = 100
"""Maximum number of slices, and of commits, that are listed individually; a sync may have a million of them."""


class RecordCounts(Struct, frozen=True):
    """Record counts of one slice, or the sums of several, as counted by the slices."""

    read: int = 0
    written: int = 0
    rejected: int = 0
    skipped: int = 0
    restarted: int = 0
    done: int = 0
    """Slices that were read to their end."""

    def plus(self, progress: SliceResult) -> "RecordCounts":
        """Return these counts plus those of a task's result."""
        return RecordCounts(
            self.read + progress.read,
            self.written + progress.rows,
            self.rejected + progress.rejected,
            self.skipped + progress.skipped,
            self.restarted + progress.restarted,
            self.done + progress.done,
        )


class SliceCounts(Struct, frozen=True):
    """Records of the first slices of a stream, each by its partition and window, and of all other slices together."""

    listed: Mapping[str, RecordCounts] = field(default_factory=dict)
    others: RecordCounts = field(default_factory=RecordCounts)

    def plus(self, slice: Slice, progress: SliceResult) -> "SliceCounts":
        """Return these counts plus a task's result for `slice`."""
        name = str(slice)
        if name in self.listed or len(self.listed) < LISTED:
            return replace(self, listed={**self.listed, name: self.listed.get(name, RecordCounts()).plus(progress)})
        return replace(self, others=self.others.plus(progress))


class CommitCount(Struct, frozen=True):
    """The figures of one commit."""

    table_version: int
    """The table version that it created."""
    rows: int
    """Number of rows that it added, without rows that were only rewritten."""
    files: int
    """Number of files that it added."""
    bytes: int
    """Size of these files."""
    seconds: float = 0.0
    """Duration of the commit."""
    receipt: Receipt = field(default_factory=Receipt)


class CommitCounts(Struct, frozen=True):
    """The newest commits of a sync, oldest first. receipt, seconds: the sums of all its commits."""

    listed: Sequence[CommitCount] = ()
    receipt: Receipt = field(default_factory=Receipt)
    seconds: float = 0.0

    def plus(self, version: int, files: Sequence[DataFile], receipt: Receipt, seconds: float = 0.0) -> "CommitCounts":
        """Return these counts plus a commit that added `files`."""
        size = sum(file.size for file in files)
        commit = CommitCount(version, receipt.added, len(files), size, seconds, receipt)
        return CommitCounts((*self.listed, commit)[-LISTED:], self.receipt + receipt, self.seconds + seconds)


class StaleCount(Struct, frozen=True):
    """What was done with the rows that a complete read did not see."""

    removal: str
    """`soft`, `hard` or `report`."""
    previous: int
    """Number of visible rows when the read started, without those of other writers."""
    current: int
    """Number of rows that the read saw."""
    missing: int
    """Number of rows of `previous` that it did not see."""
    removed: int = 0
    """Number of missing rows that were flagged or deleted."""
    retained_because: str = ""
    """Why none of them was removed; empty if they were."""
    refused: bool = False
    """Whether a guard refused the removal, so that a person has to decide."""

    @property
    def unremoved(self) -> bool:
        """Whether stale rows stayed that a later read may remove."""
        return bool(self.missing and self.retained_because) and self.removal != "report"


class ReadBy(Struct):
    """The totals of the tasks in one place: this process or Spark."""

    tasks: int = 0
    slices: int = 0
    """Number of slices that were read to their end."""
    records: int = 0


class Readers(Struct):
    """What this process and Spark have read. Belongs to the driver's thread."""

    concurrency: ConcurrencyCount = field(default_factory=ConcurrencyCount)
    process: ReadBy = field(default_factory=ReadBy)
    spark: ReadBy = field(default_factory=ReadBy)
    version: str = ""
    """The version of Spark; empty if it was not used."""
    master: str = ""
    """The address of Spark's master."""

    def joined(self, workers: Workers) -> None:
        """Record that tasks run on these workers from now on."""
        self.version, self.master = workers.engine, workers.master

    def add(self, workers: Workers, results: Iterable[SliceResult], *, ended: bool) -> None:
        """Count a task's results for the place where it runs. ended: these are its last results."""
        reader = self.spark if workers.engine else self.process
        reader.tasks += ended
        for result in results:
            reader.slices += result.done
            reader.records += result.read
