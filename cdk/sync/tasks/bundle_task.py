"""A task: reads a bundle of slices until each ends or its time is spent, and writes their rows into files.

A task returns how far each slice got and the names of the files: never rows. What counts is the result that the driver
gets, so a task that is tried again or copied leaves orphan files and nothing else.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from cdk.base.process.concurrency import BEGINNING, Learned
from cdk.base.process.crash_points import crash_point
from cdk.base.process.interruption import Interruption
from cdk.base.process.read_ahead import current_read_ahead
from cdk.base.process.request_lease import RequestLease, RequestsSpent, leasing
from cdk.base.run import current_run
from cdk.base.task_map import task_attempt
from cdk.base.times.clock import system_clock
from cdk.engine.executors import Threads
from cdk.lake.parquet.writer import DEFAULT_LIMITS, DataFile, Limits
from cdk.rest.auth.tokens import Findings, IssuedToken, SliceProgress, TokenEnded, holding, reading
from cdk.rest.http.activity import activities, task_activity, working_for
from cdk.rest.http.metrics import counting
from cdk.rest.limits.budget_slice import TermEnded
from cdk.rest.limits.task_budgets import SliceTerm, sharing, waiting
from cdk.rest.limits.task_share import BudgetUsage, TaskShare
from cdk.state.position import Checkpoint
from cdk.streams.read_slice import ReadPage
from cdk.streams.stream import StreamCopies, full_name
from cdk.sync.tasks.conditional_read import read_pages_conditionally
from cdk.sync.tasks.messages import Failure, SliceResult, SliceTask, WriteTarget
from cdk.sync.tasks.slice_buffer import SliceBuffer, TaskWriter


@dataclass
class BundleResult:
    """What a task returns: the progress of the pieces it began, and the files of each target."""

    progress: list[SliceResult] = field(default_factory=list)
    files: dict[int, list[DataFile]] = field(default_factory=dict)
    grown: dict[int, Mapping[str, tuple[pa.DataType, ...]]] = field(default_factory=dict)
    """Undeclared fields that got columns in those files, or wider ones, see RecordBatchBuilder."""
    spent: Mapping[str, BudgetUsage] | None = field(default_factory=dict)
    """Its calls, by budget; None: nobody knows, for it was begun before."""
    requests: int = 0
    """Those that it sent."""
    tokens: Findings = field(default_factory=Findings)
    """What it found out of its access tokens."""
    concurrency: Learned | None = field(default=None, compare=False)
    """What it came to by reading them; None: it brings nothing."""
    vanished: str = ""
    """The file that somebody removed while it was written, so that the task brings nothing."""


@dataclass(frozen=True)
class BundleJob:
    """What a task needs to read its slices."""

    targets: Mapping[int, WriteTarget]
    """The streams of its slices, by the `target` of these."""
    seconds: float
    """Its time; 0 gives each slice one page."""
    threads: int
    """Slices at once, at most."""
    share: TaskShare = field(default_factory=TaskShare)
    """Its part of what the API allows."""
    tokens: Mapping[str, IssuedToken] = field(default_factory=dict)
    """The access tokens that it uses, by key."""
    live: Path | None = None
    """The folder in which tasks note what they are doing."""
    limits: Limits = DEFAULT_LIMITS
    """When rows that wait are written."""
    before: Learned = BEGINNING
    """What earlier tasks have learned of how many slices to read at once."""


def run_bundle(work: tuple[BundleJob, Sequence[SliceTask]]) -> BundleResult:
    """Read slices with the job's part of what is shared. Runs in a task."""
    job, pieces = work
    current_run().own(Interruption).follow(job.live)
    lent = RequestLease(job.share.requests)
    if task_attempt() and lent.unsent is not None:
        # What the first attempt has sent, nobody knows.
        return BundleResult(requests=lent.unsent)
    budgets = sharing(job.share, copied=task_attempt() > 0)
    with budgets as ledger, leasing(lent), holding(job.tokens) as held, activities().task(job.live):
        result = read_bundle(job, pieces)
    result.spent = None if ledger.lost else ledger.spent()
    result.requests, result.tokens = lent.sent, held.findings
    crash_point("files_written")
    return result


class _Time:
    """How long slices are read: until the task's time is spent, the run is interrupted, or nearly nobody reads.

    A task whose queue is empty, and most of whose threads are idle, hands its last slices back at their next page: they
    go on beside others.
    """

    def __init__(self, job: BundleJob, execute: Threads, *, many: bool, clock: Callable[[], float]) -> None:
        """many: there are more slices than can be read at once."""
        self._clock, self._end, self._seconds = clock, clock() + job.seconds, job.seconds
        self._interruption = current_run().own(Interruption)
        self._execute, self._many = execute, many
        self.reading = set[int]()
        """The numbers of the slices that are being read."""
        self.drained = False
        """No slice of the bundle waits."""
        self._waits = self._got_page = False

    @property
    def spent(self) -> bool:
        """Whether to stop at the next page."""
        if self._clock() >= self._end or self._interruption.why:
            return True
        return self._many and self.drained and len(self.reading) <= self._execute.level // 2

    def ends_slice(self) -> bool:
        """Whether the slice that is read here stops at its page; what was requested ahead is read before."""
        ahead = current_read_ahead()
        return self.spent and (ahead is None or bool(self._interruption.why) or ahead.end())

    def longest_wait(self) -> float:
        """Seconds that a slice may wait for its next call: rows wait with it for their commit.

        The first may wait as long as it takes: each task brings something.
        """
        first, self._waits = not self._waits, True
        return math.inf if first else max(0.0, self._end - self._clock())

    def got_page(self) -> None:
        """Leave time for further calls, where the first one had to be waited for."""
        if self._waits and not self._got_page:
            self._end = max(self._end, self._clock() + self._seconds / 4)
        self._got_page = True


def read_bundle(
    job: BundleJob, pieces: Sequence[SliceTask], clock: Callable[[], float] = time.monotonic
) -> BundleResult:
    """Read some slices, several at once, into files. Needs no Spark."""
    least = min(job.before.level, job.threads)
    execute = Threads(job.threads, job.before)
    until = _Time(job, execute, many=len(pieces) > job.threads, clock=clock)
    collected: dict[int, SliceBuffer] = {}
    writers = {n: TaskWriter(job.targets[n], job.limits) for n in {piece.target for piece in pieces}}
    copies = {n: StreamCopies(job.targets[n].stream) for n in writers}

    def work() -> Iterator[SliceTask]:
        for n, piece in enumerate(pieces):
            if n >= least and until.spent:
                return
            collected[piece.number] = SliceBuffer(piece, writers[piece.target])
            until.reading.add(piece.number)
            yield piece
        until.drained = True

    try:
        for piece, page in execute(work(), partial(_read, job.targets, writers, until, collected, copies=copies)):
            collected[piece.number].add(page)
        files = {n: writer.close() for n, writer in writers.items()}
        for item in collected.values():
            files[item.piece.target].extend(item.own_files())
    except BaseException as error:
        for item in collected.values():
            item.discard()
        for writer in writers.values():
            writer.discard()
        match error:
            case FileNotFoundError(filename=path) if path is not None:
                # Only what is written is missed here: VACUUM without retention removes what no version names.
                return BundleResult(vanished=str(path))
            case _:
                raise
    return BundleResult(
        [item.progress for item in collected.values()],
        {n: f for n, f in files.items() if f},
        {n: grown for n, writer in writers.items() if (grown := writer.grown)},
        concurrency=execute.learned,
    )


def _read(
    targets: Mapping[int, WriteTarget],
    writers: Mapping[int, TaskWriter],
    until: _Time,
    collected: Mapping[int, SliceBuffer],
    piece: SliceTask,
    *,
    copies: Mapping[int, StreamCopies],
) -> Iterator[ReadPage]:
    """The pages of a slice until the task's time is spent; an error of the source ends this slice and no other.

    A slice whose page token was refused is read to its end whatever the time: cut again, it would never get there.
    One whose access token has ended, or whose task may send no more requests, or only later, goes on in another task.
    """
    item, uncut, got_page, reached = collected[piece.number], targets[piece.target].to_end, False, False
    name, activity = full_name(targets[piece.target].stream), task_activity()
    progress = SliceProgress(system_clock(), lambda: got_page and not reached)
    term = SliceTerm(until.longest_wait, resumable=not uncut)
    slice = replace(piece.slice, record_type=writers[piece.target].record_type)
    try:
        with (
            counting(item.progress.http),
            reading(progress),
            waiting(term),
            working_for(name, activity),
            copies[piece.target].lent() as stream,
        ):
            target = replace(targets[piece.target], stream=stream)
            for page in read_pages_conditionally(target, slice, item.progress):
                uncut = uncut or page.restarted
                got_page, reached = True, reached or page.position is not None
                term.resumable = isinstance(page.position, Checkpoint) and not uncut
                activity.page(name)
                until.got_page()
                crash_point("page_read")
                yield page
                if item.broken or (isinstance(page.position, Checkpoint) and not uncut and until.ends_slice()):
                    return
    except (TokenEnded, RequestsSpent, TermEnded):
        return
    except Exception as error:  # noqa: BLE001 - it travels to the driver as a value
        item.progress.failure = Failure.of(error)
    finally:
        until.reading.discard(piece.number)
