"""An epoch: a batch of slices, read as one Spark job.

The driver hands out bundles of slices, one to a task. A task reads its slices until each ends or the epoch's budget is
spent at a page boundary, writes Parquet, and returns how far each slice got and the names of the files: never rows.
What counts is the result Spark hands back, so a task that is retried or copied leaves orphan files and nothing else.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from cdk.base.process.crash_points import crash_point
from cdk.base.task_map import TaskMap
from cdk.base.times.clock import system_clock
from cdk.engine.executors import threads
from cdk.lake.parquet.writer import DEFAULT_LIMITS, DataFile, Limits
from cdk.rest.auth.tokens import Findings, IssuedToken, SliceProgress, TokenEnded, holding, reading, run_tokens
from cdk.rest.http.activity import activities, task_activity, working_for
from cdk.rest.http.metrics import counting
from cdk.rest.limits.task_share import BudgetAllocator, BudgetUsage, TaskShare, sharing
from cdk.state.position import Checkpoint
from cdk.streams.read_slice import ReadPage
from cdk.streams.stream import full_name
from cdk.sync.tasks.conditional_read import read_pages_conditionally
from cdk.sync.tasks.messages import Failure, SliceResult, SliceTask, WriteTarget
from cdk.sync.tasks.slice_buffer import SliceBuffer, TaskWriter

# Of the driver's process: one sync after the other in a session calls the same API.
_BUDGETS = BudgetAllocator()


@dataclass
class BundleResult:
    """What a task returns: the progress of the pieces it began, and the files of each target."""

    progress: list[SliceResult] = field(default_factory=list)
    files: dict[int, list[DataFile]] = field(default_factory=dict)
    grown: dict[int, Mapping[str, tuple[pa.DataType, ...]]] = field(default_factory=dict)
    """Undeclared fields that got columns in those files, or wider ones, see RecordBatchBuilder."""
    spent: Mapping[str, BudgetUsage] = field(default_factory=dict)
    """Its calls, by budget."""
    tokens: Findings = field(default_factory=Findings)
    """What it found out of its access tokens."""


@dataclass(frozen=True)
class EpochJob:
    """What the tasks of an epoch read."""

    targets: Sequence[WriteTarget]
    seconds: float
    """The budget; 0 gives each slice one page."""
    threads: int
    """Slices at once."""
    tokens: Mapping[str, IssuedToken] = field(default_factory=dict)
    """The access tokens that they use, by key."""
    live: Path | None = None
    """The folder in which tasks note what they are doing."""
    limits: Limits = DEFAULT_LIMITS
    """When rows that wait are written."""

    def share(self, task: int, tasks: int) -> "EpochJob":
        """The job as one of several tasks sees it: all threads together are those of the job."""
        return replace(self, threads=max(1, self.threads // tasks + (task < self.threads % tasks)))


def run_epoch(spread: TaskMap, job: EpochJob, bundles: Sequence[Sequence[SliceTask]]) -> list[BundleResult]:
    """Read the bundles, one task each, with the job's threads, and what the API allows, split over them.

    Raises what `spread` raises.
    """
    count = len(bundles)
    shares = _BUDGETS.shares(count)
    results = spread(_read_share, [(job.share(n, count), bundles[n], shares[n]) for n in range(count)])
    for result in results:
        _BUDGETS.spent(result.spent)
        run_tokens().merge(result.tokens)
    return results


def _read_share(work: tuple[EpochJob, Sequence[SliceTask], TaskShare]) -> BundleResult:
    job, pieces, share = work
    with sharing(share) as ledger, holding(job.tokens) as held, activities().task(job.live):
        result = read_bundle(job, pieces)
    result.spent, result.tokens = ledger.spent(), held.findings
    crash_point("files_written")
    return result


def read_bundle(
    job: EpochJob, pieces: Sequence[SliceTask], clock: Callable[[], float] = time.monotonic
) -> BundleResult:
    """Read some slices, several at once, into files. Runs in a task; needs no Spark."""
    end = clock() + job.seconds
    collected: dict[int, SliceBuffer] = {}
    writers = {n: TaskWriter(job.targets[n], job.limits) for n in {piece.target for piece in pieces}}

    def enough() -> bool:
        return clock() >= end

    def work() -> Iterator[SliceTask]:
        for n, piece in enumerate(pieces):
            if n >= job.threads and enough():
                return
            collected[piece.number] = SliceBuffer(piece, writers[piece.target])
            yield piece

    try:
        for piece, page in threads(job.threads)(work(), partial(_read, job.targets, writers, enough, collected)):
            collected[piece.number].add(page)
        files = {n: writer.close() for n, writer in writers.items()}
        for item in collected.values():
            files[item.piece.target].extend(item.own_files())
    except BaseException:
        for item in collected.values():
            item.discard()
        for writer in writers.values():
            writer.discard()
        raise
    return BundleResult(
        [item.progress for item in collected.values()],
        {n: f for n, f in files.items() if f},
        {n: grown for n, writer in writers.items() if (grown := writer.grown)},
    )


def _read(
    targets: Sequence[WriteTarget],
    writers: Mapping[int, TaskWriter],
    enough: Callable[[], bool],
    collected: Mapping[int, SliceBuffer],
    piece: SliceTask,
) -> Iterator[ReadPage]:
    """The pages of a slice until the budget is spent; an error of the source ends this slice and no other.

    A slice whose page token was refused is read to its end whatever the budget: cut again, it would never get there.
    One whose access token has ended goes on in the next epoch.
    """
    item, uncut, got_page, reached = collected[piece.number], targets[piece.target].to_end, False, False
    name, activity = full_name(targets[piece.target].stream), task_activity()
    progress = SliceProgress(system_clock(), lambda: got_page and not reached)
    slice = replace(piece.slice, record_type=writers[piece.target].record_type)
    try:
        with (
            counting(item.progress.http),
            reading(progress),
            working_for(name, activity),
        ):
            for page in read_pages_conditionally(targets[piece.target], slice, item.progress):
                uncut = uncut or page.restarted
                got_page, reached = True, reached or page.position is not None
                activity.page(name)
                crash_point("page_read")
                yield page
                if item.broken or (isinstance(page.position, Checkpoint) and enough() and not uncut):
                    return
    except TokenEnded:
        return
    except Exception as error:  # noqa: BLE001 - it travels to the driver as a value
        item.progress.failure = Failure.of(error)
