"""What a stream's part in a sync amounts to, slice by slice and commit by commit, in bounded size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdk.lake.delta.receipt import Receipt, row_count
from cdk.lake.parquet.writer import DataFile
from cdk.state.position import Done
from cdk.state.slice import Slice
from cdk.sync.tasks.messages import Progress

LISTED = 100
"""Slices, and commits, that are kept one by one; a sync may have a million of them."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Records of one slice, or of several together. done: slices that were read to their end."""

    read: int = 0
    written: int = 0
    skipped: int = 0
    rejected: int = 0
    restarted: int = 0
    done: int = 0

    def plus(self, progress: Progress) -> "Counted":
        """These and what an epoch brought."""
        return Counted(
            self.read + progress.read,
            self.written + progress.rows,
            self.skipped + progress.skipped,
            self.rejected + progress.rejected,
            self.restarted + progress.restarted,
            self.done + (bool(progress.positions) and isinstance(progress.positions[-1], Done)),
        )


@dataclass(frozen=True, slots=True)
class SliceCounts:
    """The first slices of a stream one by one, under their partition and window, and all others together."""

    listed: Mapping[str, Counted] = field(default_factory=dict)
    others: Counted = Counted()

    def plus(self, slice: Slice, progress: Progress) -> "SliceCounts":
        """These and what an epoch brought of `slice`."""
        name = str(slice)
        if name in self.listed or len(self.listed) < LISTED:
            return replace(self, listed={**self.listed, name: self.listed.get(name, Counted()).plus(progress)})
        return replace(self, others=self.others.plus(progress))


@dataclass(frozen=True, slots=True)
class CommitCount:
    """A commit of this sync. version: the table's, as Delta counts. rows, files, bytes: what it made visible."""

    version: int
    rows: int
    files: int
    bytes: int
    receipt: Receipt = field(default_factory=Receipt)


@dataclass(frozen=True, slots=True)
class CommitCounts:
    """The newest commits of a sync, oldest first. receipt: of all its commits."""

    listed: Sequence[CommitCount] = ()
    receipt: Receipt = field(default_factory=Receipt)

    def plus(self, version: int, files: Sequence[DataFile], receipt: Receipt) -> "CommitCounts":
        """These and a commit that added `files`."""
        one = CommitCount(version, row_count(files), len(files), sum(f.size for f in files), receipt)
        return CommitCounts((*self.listed, one)[-LISTED:], self.receipt + receipt)
