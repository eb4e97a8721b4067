"""What a stream's part in a sync amounts to, slice by slice and commit by commit, in bounded size, and who read it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdk.lake.delta.receipt import Receipt, RecordCounts
from cdk.lake.parquet.writer import DataFile
from cdk.state.slice import Slice
from cdk.sync.tasks.messages import SliceResult
from cdk.sync.tasks.task_concurrency import ConcurrencyCount
from cdk.sync.tasks.workers import Workers

LISTED = 100
"""Slices, and commits, that are kept one by one; a sync may have a million of them."""


def counted(before: RecordCounts, progress: SliceResult) -> RecordCounts:
    """The records of a slice so far, with those that a task brought."""
    return RecordCounts(
        before.read + progress.read,
        before.written + progress.rows,
        before.rejected + progress.rejected,
        before.skipped + progress.skipped,
        before.restarted + progress.restarted,
        before.done + progress.done,
    )


@dataclass(frozen=True, slots=True)
class SliceCounts:
    """The first slices of a stream one by one, under their partition and window, and all others together."""

    listed: Mapping[str, RecordCounts] = field(default_factory=dict)
    others: RecordCounts = field(default_factory=RecordCounts)

    def plus(self, slice: Slice, progress: SliceResult) -> "SliceCounts":
        """These and what a task brought of `slice`."""
        name = str(slice)
        if name in self.listed or len(self.listed) < LISTED:
            return replace(self, listed={**self.listed, name: counted(self.listed.get(name, RecordCounts()), progress)})
        return replace(self, others=counted(self.others, progress))


@dataclass(frozen=True, slots=True)
class CommitCount:
    """A commit of this sync."""

    version: int
    """The version of the table that it made."""
    rows: int
    """Rows that it added; those that were written again with them do not count."""
    files: int
    """Files that it added."""
    bytes: int
    """Size of these files."""
    seconds: float = 0.0
    """How long it took."""
    receipt: Receipt = field(default_factory=Receipt)


@dataclass(frozen=True, slots=True)
class CommitCounts:
    """The newest commits of a sync, oldest first. receipt, seconds: of all its commits."""

    listed: Sequence[CommitCount] = ()
    receipt: Receipt = field(default_factory=Receipt)
    seconds: float = 0.0

    def plus(self, version: int, files: Sequence[DataFile], receipt: Receipt, seconds: float = 0.0) -> "CommitCounts":
        """These and a commit that added `files`."""
        size = sum(file.size for file in files)
        commit = CommitCount(version, receipt.added, len(files), size, seconds, receipt)
        return CommitCounts((*self.listed, commit)[-LISTED:], self.receipt + receipt, self.seconds + seconds)


@dataclass(frozen=True)
class StaleCount:
    """What became of the rows that a complete read did not see."""

    removal: str
    """`soft`, `hard` or `report`."""
    previous: int
    """Rows that were shown when the read began, those of other writers aside."""
    current: int
    """Rows that it saw."""
    missing: int
    """Rows of `previous` that it did not see."""
    removed: int = 0
    """How many of the missing rows were flagged or deleted."""
    kept_because: str = ""
    """Why none of them was removed; empty where they were."""
    refused: bool = False
    """A guard refused the removal; a person has to look."""

    @property
    def unremoved(self) -> bool:
        """Whether rows that the source has no more stayed, and a later read may remove them."""
        return bool(self.missing and self.kept_because) and self.removal != "report"


@dataclass
class ReadBy:
    """What the tasks of one reader have brought."""

    tasks: int = 0
    slices: int = 0
    """Slices that were read to their end."""
    records: int = 0


@dataclass
class Readers:
    """What this process and Spark have read. Belongs to the driver's thread."""

    concurrency: ConcurrencyCount = field(default_factory=ConcurrencyCount)
    process: ReadBy = field(default_factory=ReadBy)
    spark: ReadBy = field(default_factory=ReadBy)
    version: str = ""
    """The version of Spark; empty where it has read nothing and was not there to."""
    master: str = ""
    """The address of Spark's master."""

    def joined(self, workers: Workers) -> None:
        """Note that tasks run there from now on."""
        self.version, self.master = workers.engine, workers.master

    def add(self, workers: Workers, results: Iterable[SliceResult], *, ended: bool) -> None:
        """Count what a task has brought where it runs. ended: whether that was the last of it."""
        reader = self.spark if workers.engine else self.process
        reader.tasks += ended
        for result in results:
            reader.slices += result.done
            reader.records += result.read
