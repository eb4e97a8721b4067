"""An epoch: a batch of slices, read as one Spark job.

The driver hands out bundles of slices, one to a task. A task reads its slices until each ends or the epoch's budget is
spent at a page boundary, writes Parquet, and returns how far each slice got and the names of the files: never rows.
What counts is the result Spark hands back, so a task that is retried or copied leaves orphan files and nothing else.
"""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from cdk.base.errors import CdkError, FailureType
from cdk.base.values import Record
from cdk.engine.executors import threads
from cdk.engine.remember import remembering
from cdk.rest.share import Dealer, Share, Spent, sharing
from cdk.rest.tally import Tally, counting
from cdk.spark.crash import crash_point
from cdk.spark.files import DataFile, TableWriter
from cdk.spark.partitions import without_empty
from cdk.spark.place import Place
from cdk.spark.rows import Rows
from cdk.spark.schema import META, ColumnType
from cdk.spark.tasks import Spread
from cdk.state.position import Checkpoint, Done, Edge, Position
from cdk.state.slice import Slice
from cdk.streams.reading import ReadPage
from cdk.streams.stream import Stream

_HELD_BYTES = 64 * 2**20
# Of the driver's process: one sync after the other in a session calls the same API.
_BUDGETS = Dealer()


@dataclass(frozen=True)
class Target:
    """A stream and the table its rows go to.

    root: where files are written. room: how many undeclared fields may get columns. bounded: columns whose bounds go
    into the table's log. partition_by: the table's partition columns.
    """

    stream: Stream
    root: Place | Path
    columns: Mapping[str, ColumnType]
    generation: int
    room: int = 0
    bounded: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Piece:
    """A slice of the epoch. number: its place in the epoch. target: the place of its stream in the job."""

    number: int
    target: int
    slice: Slice


@dataclass(frozen=True)
class Failure:
    """What went wrong in a slice, as it travels back from a task."""

    message: str
    failure_type: FailureType
    detail: str

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """Describe an error."""
        detail = "".join(traceback.format_exception(error))
        if isinstance(error, CdkError):
            return cls(str(error), error.failure_type, f"{error.detail}\n{detail}".strip())
        return cls(f"{type(error).__name__}: {error}", "system_error", detail)


@dataclass
class Progress:
    """How far a piece got. positions: the last checkpoint and the end, as far as it met them. rows: those in the files.

    The checkpoint counts even when the end was met: it holds the cursor that an author advances by hand.
    rejected: rows with values that did not fit. pages: those that brought records. http: requests, also those of pages
    that no position covers.
    """

    number: int
    positions: tuple[Position, ...] = ()
    edge: Edge | None = None
    read: int = 0
    rows: int = 0
    skipped: int = 0
    rejected: int = 0
    pages: int = field(default=0, compare=False)
    restarted: bool = False
    failure: Failure | None = None
    http: Tally = field(default_factory=Tally, compare=False)


@dataclass
class BundleResult:
    """What a task returns: the progress of the pieces it began, and the files of each target.

    grown: undeclared fields that got columns in those files, in the order they were met. spent: its calls, by budget.
    """

    progress: list[Progress] = field(default_factory=list)
    files: dict[int, list[DataFile]] = field(default_factory=dict)
    grown: dict[int, tuple[str, ...]] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """What the tasks of an epoch read. seconds: the budget; 0 gives each slice one page. threads: slices at once."""

    targets: Sequence[Target]
    seconds: float
    threads: int

    def share(self, task: int, tasks: int) -> "Job":
        """The job as one of several tasks sees it: all threads together are those of the job."""
        return replace(self, threads=max(1, self.threads // tasks + (task < self.threads % tasks)))


def run_epoch(spread: Spread, job: Job, bundles: Sequence[Sequence[Piece]]) -> list[BundleResult]:
    """Read the bundles, one task each, with the job's threads, and what the API allows, split over them.

    Raises what `spread` raises.
    """
    count = len(bundles)
    dealt = _BUDGETS.shares(count)
    results = spread(_read_share, [(job.share(n, count), bundles[n], dealt[n]) for n in range(count)])
    for result in results:
        _BUDGETS.spent(result.spent)
    return results


def _read_share(given: tuple[Job, Sequence[Piece], Share]) -> BundleResult:
    job, pieces, share = given
    with sharing(share) as ledger:
        result = read_bundle(job, pieces)
    result.spent = ledger.spent()
    crash_point("files_written")
    return result


def read_bundle(job: Job, pieces: Sequence[Piece], clock: Callable[[], float] = time.monotonic) -> BundleResult:
    """Read some slices, several at once, into files. Runs in a task; needs no Spark."""
    end = clock() + job.seconds
    collected: dict[int, _Collected] = {}
    writers = {n: _Writer(job.targets[n]) for n in {piece.target for piece in pieces}}

    def enough() -> bool:
        return clock() >= end

    def work() -> Iterator[Piece]:
        for n, piece in enumerate(pieces):
            if n >= job.threads and enough():
                return
            collected[piece.number] = _Collected(piece, writers[piece.target])
            yield piece

    try:
        for piece, page in threads(job.threads)(work(), partial(_read, job.targets, enough, collected)):
            collected[piece.number].take(page)
        files = {n: writer.shared.close() for n, writer in writers.items()}
        for item in collected.values():
            files[item.piece.target].extend(item.own_files())
    except BaseException:
        for item in collected.values():
            item.discard()
        for writer in writers.values():
            writer.shared.discard()
        raise
    return BundleResult(
        [item.progress for item in collected.values()],
        {n: f for n, f in files.items() if f},
        {n: grown for n, writer in writers.items() if (grown := writer.rows.undeclared)},
    )


def _read(
    targets: Sequence[Target], enough: Callable[[], bool], collected: Mapping[int, "_Collected"], piece: Piece
) -> Iterator[ReadPage]:
    """The pages of a slice until the budget is spent; an error of the source ends this slice and no other.

    A slice whose token was refused is read to its end whatever the budget: cut again, it would never get there.
    """
    item, uncut = collected[piece.number], False
    try:
        with counting(item.progress.http):
            for page in remembering(targets[piece.target].stream, piece.slice):
                uncut = uncut or page.restarted
                crash_point("page_read")
                yield page
                if item.broken or (isinstance(page.position, Checkpoint) and enough() and not uncut):
                    return
    except Exception as error:  # noqa: BLE001 - it travels to the driver as a value
        item.progress.failure = Failure.of(error)


class _Writer:
    """The rows and the shared files of one target in a task."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.rows = Rows(target.columns, generation=target.generation, room=target.room)
        self.shared = self.new()

    def new(self) -> TableWriter:
        return TableWriter(self._target.root, self.rows.schema, self._target.bounded, self._target.partition_by)

    def batch(self, records: Sequence[Record]) -> pa.RecordBatch:
        return without_empty(self.rows.batch(records), self._target.partition_by)


@dataclass
class _Waiting:
    """Rows that no position covers yet, and what they count for. bytes: of those in memory."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0
    rows: int = 0
    read: int = 0
    skipped: int = 0
    rejected: int = 0
    pages: int = 0


class _Collected:
    """One slice's share: rows wait here until the source has said where a restart would go on after them.

    broken: a record could not be written; what comes after it does not count.
    """

    def __init__(self, piece: Piece, writer: _Writer) -> None:
        self.piece, self.progress = piece, Progress(piece.number)
        self.broken = False
        self._writer = writer
        self._waiting = _Waiting()
        self._own: TableWriter | None = None
        self._kept: list[TableWriter] = []

    def take(self, page: ReadPage) -> None:
        if self.broken:
            return
        if page.restarted:
            self._drop()
            self.progress.restarted = True
        waiting = self._waiting
        if page.records:
            try:
                batch = self._writer.batch(page.records)
            except Exception as error:  # noqa: BLE001 - a record that is no JSON ends this slice and no other
                self.broken, self.progress.failure = True, Failure.of(error)
                return
            waiting.batches.append(batch)
            waiting.bytes += batch.nbytes
            waiting.rows += batch.num_rows
            waiting.rejected += _rejected(batch)
        waiting.read += len(page.records) + page.skipped
        waiting.skipped += page.skipped
        waiting.pages += bool(page.records or page.skipped)
        if page.position is not None:
            self._seal(page.position, page.edge)
        elif waiting.bytes >= _HELD_BYTES:
            # Too much to hold: a file of this slice's own, which counts only if the slice gets to its end.
            self._own = self._own or self._writer.new()
            self._own.write(waiting.batches)
            waiting.batches, waiting.bytes = [], 0

    def own_files(self) -> list[DataFile]:
        self._drop()
        return [file for writer in self._kept for file in writer.close()]

    def discard(self) -> None:
        self._drop()
        for writer in self._kept:
            writer.discard()

    def _seal(self, position: Position, edge: Edge | None) -> None:
        progress, waiting = self.progress, self._waiting
        self._writer.shared.write(waiting.batches)
        progress.rows += waiting.rows
        progress.read += waiting.read
        progress.skipped += waiting.skipped
        progress.rejected += waiting.rejected
        progress.pages += waiting.pages
        progress.positions = (*progress.positions, position) if isinstance(position, Done) else (position,)
        progress.edge = edge
        self._waiting = _Waiting()
        if self._own is not None:
            self._own.close()
            self._kept.append(self._own)
            self._own = None

    def _drop(self) -> None:
        """Forget the rows that wait."""
        self._waiting = _Waiting()
        if self._own is not None:
            self._own.discard()
            self._own = None


def _rejected(batch: pa.RecordBatch) -> int:
    """How many rows have values that did not fit their column."""
    changes = batch.column(META).field("changes")
    return pc.sum(pc.greater(pc.list_value_length(changes), 0)).as_py() if len(changes.flatten()) else 0
