"""A task: reads a bundle of slices until each ends or its time is spent, and writes their rows into files.

A task returns how far each slice got and the names of the files: never rows. What counts is the result that the driver
gets, so a task that is tried again or copied leaves orphan files and nothing else.
"""

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

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
from cdk.lake.storage.folder import unwritable
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
from cdk.sync.tasks.interim_results import InterimResults
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
    unfinished: frozenset[int] = frozenset()
    """Of an interim result: the pieces that go on, which may have progress. Others that have none never begin."""
    threads: int = 0
    """Of an interim result: how many of the task's threads these need at most."""
    attempt: str = ""
    """Tells attempts at a task apart; empty without interim results."""
    earlier: Sequence["BundleResult"] = ()
    """Its interim results, in order: each has what came after the one before, and this what came after all of them."""


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
    interim: InterimResults | None = None
    """Where it leaves what it has read while a slice goes on for longer than the task was to take."""


Beside: TypeAlias = Callable[[Callable[[], None], float], AbstractContextManager[None]]
"""Calls something every so many seconds, beside the block that it wraps, which raises what that raises."""


@contextmanager
def in_a_thread(call: Callable[[], None], seconds: float) -> Iterator[None]:
    """A Beside."""
    over, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not over.wait(seconds):
                call()
        except BaseException as error:  # noqa: BLE001 - raised where the block ends
            failures.append(error)

    # Who reads may be in the middle of a page for as long as that takes.
    thread = threading.Thread(target=copy_context().run, args=[run], daemon=True)  # noqa: TID251 - see above
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for failure in failures:
        raise failure


def run_bundle(
    work: tuple[BundleJob, Sequence[SliceTask]],
    clock: Callable[[], float] = time.monotonic,
    beside: Beside = in_a_thread,
) -> BundleResult:
    """Read slices with the job's part of what is shared. Runs in a task."""
    job, pieces = work
    current_run().own(Interruption).follow(job.live)
    lent = RequestLease(job.share.requests)
    if task_attempt() and lent.unsent is not None:
        # What the first attempt has sent, nobody knows.
        return BundleResult(requests=lent.unsent)
    budgets = sharing(job.share, copied=task_attempt() > 0)
    with budgets as ledger, leasing(lent), holding(job.tokens) as held, activities().task(job.live):
        result = read_bundle(job, pieces, clock, beside)
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


class _Unwritable(Exception):
    """The files of a target cannot be written."""

    def __init__(self, target: int, error: OSError) -> None:
        super().__init__(str(error))
        self.target, self.error = target, error


@contextmanager
def _writing(target: int) -> Iterator[None]:
    """Say of an error of a disk in this block which target it keeps from being written."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _Unwritable(target, error) from error


class _Collected:
    """What the slices of a bundle have brought. For the thread that reads them, and one that looks beside it."""

    def __init__(self, job: BundleJob, pieces: Sequence[SliceTask], until: _Time, execute: Threads) -> None:
        self._interim, self._until, self._execute, self._count = job.interim, until, execute, len(pieces)
        self._targets = job.targets
        self.writers = {n: TaskWriter(job.targets[n], job.limits) for n in {piece.target for piece in pieces}}
        self.buffers: dict[int, SliceBuffer] = {}
        self._handed_over: list[BundleResult] = []
        self._attempt, self._lock, self._late = uuid4().hex, threading.Lock(), False

    def begin(self, piece: SliceTask) -> bool:
        """Get ready for the pages of a slice; False: it was handed back."""
        with self._lock:
            if not self._handed_over:
                self.buffers[piece.number] = SliceBuffer(piece, self.writers[piece.target])
                self._until.reading.add(piece.number)
            return not self._handed_over

    def add(self, piece: SliceTask, page: ReadPage) -> None:
        """Take the next page of a slice."""
        with self._lock, _writing(piece.target):
            self.buffers[piece.number].add(page)

    def look(self) -> None:
        """Leave an interim result where the time was over at the last look already, and it has something new."""
        before, self._late = self._late, self._until.spent
        if before and self._late and self._interim is not None:
            with self._lock:
                self._hand_over(self._interim)

    def _hand_over(self, interim: InterimResults) -> None:
        unfinished = {n for n, item in self.buffers.items() if n in self._until.reading or item.unread}
        ending = any(self.buffers[n].progress.done for n in unfinished)
        waits = not self._handed_over and len(self.buffers) < self._count
        new = waits or any(n not in unfinished or item.progress.positions for n, item in self.buffers.items())
        if not unfinished or ending or not new:
            return
        learned = None if self._handed_over else self._execute.learned
        result = replace(self._brought(unfinished), attempt=self._attempt, concurrency=learned)
        sent_ahead = [self.buffers[n].ahead for n in unfinished]
        result.threads = self._execute.ceiling
        if not any(ahead is None or ahead.pending for ahead in sent_ahead):
            # Others read in place of the threads that have nothing to do.
            result.threads = len(unfinished)
            for ahead in filter(None, sent_ahead):
                ahead.end()
        self._handed_over.append(result)
        interim.leave(len(self._handed_over) - 1, result)

    def _brought(self, unfinished: Collection[int] = ()) -> BundleResult:
        """What came since the last interim result. unfinished: the slices that do."""
        files, progress = dict[int, list[DataFile]](), list[SliceResult]()
        for n, writer in self.writers.items():
            with _writing(n):
                files[n] = writer.close()
        for number, item in self.buffers.items():
            with _writing(item.piece.target):
                files[item.piece.target].extend(item.own_files(ended=number not in unfinished))
        for number, item in list(self.buffers.items()):
            if number not in unfinished:
                progress.append(self.buffers.pop(number).progress)
            elif (handed_over := item.hand_over()).positions:
                progress.append(handed_over)
        grown = {n: grown for n, writer in self.writers.items() if (grown := writer.grown)}
        for writer in self.writers.values() if unfinished else ():
            writer.hand_over()
        return BundleResult(progress, {n: f for n, f in files.items() if f}, grown, unfinished=frozenset(unfinished))

    def result(self) -> BundleResult:
        """What the task brings, once nothing goes on."""
        learned = None if self._handed_over else self._execute.learned
        return self.after_interim(replace(self._brought(), concurrency=learned))

    def after_interim(self, result: BundleResult) -> BundleResult:
        """A result with the interim ones before it."""
        earlier = tuple(self._handed_over)
        return replace(result, attempt=self._attempt, earlier=earlier) if earlier else result

    def failed(self, refused: "_Unwritable") -> BundleResult:
        """What the task brings where the files of a target cannot be written: its slices fail, all others wait."""
        path = str(self._targets[refused.target].root)
        failure = Failure.of(unwritable(refused.error, path).with_traceback(refused.error.__traceback__))
        items = [item for item in self.buffers.values() if item.piece.target == refused.target]
        return self.after_interim(
            BundleResult([SliceResult(item.piece.number, failure=failure, http=item.progress.http) for item in items])
        )

    def discard(self) -> None:
        """Delete the files that were not handed over."""
        for item in self.buffers.values():
            item.discard()
        for writer in self.writers.values():
            writer.discard()


def read_bundle(
    job: BundleJob,
    pieces: Sequence[SliceTask],
    clock: Callable[[], float] = time.monotonic,
    beside: Beside = in_a_thread,
) -> BundleResult:
    """Read some slices, several at once, into files. Needs no Spark."""
    least = min(job.before.level, job.threads)
    execute = Threads(job.threads, job.before)
    until = _Time(job, execute, many=len(pieces) > job.threads, clock=clock)
    collected = _Collected(job, pieces, until, execute)
    copies = {n: StreamCopies(job.targets[n].stream) for n in collected.writers}

    def work() -> Iterator[SliceTask]:
        for n, piece in enumerate(pieces):
            if (n >= least and until.spent) or not collected.begin(piece):
                return
            yield piece
        until.drained = True

    try:
        with nullcontext() if job.interim is None else beside(collected.look, job.interim.after):
            for piece, page in execute(work(), partial(_read, job.targets, until, collected, copies=copies)):
                collected.add(piece, page)
        return collected.result()
    except BaseException as error:
        collected.discard()
        match error:
            case FileNotFoundError(filename=path) if path is not None:
                # Only what is written is missed here: VACUUM without retention removes what no version names.
                return collected.after_interim(BundleResult(vanished=str(path)))
            case _Unwritable():
                return collected.failed(error)
            case _:
                raise


def _read(
    targets: Mapping[int, WriteTarget],
    until: _Time,
    collected: _Collected,
    piece: SliceTask,
    *,
    copies: Mapping[int, StreamCopies],
) -> Iterator[ReadPage]:
    """The pages of a slice until the task's time is spent; an error of the source ends this slice and no other.

    A slice whose page token was refused is read to its end whatever the time: cut again, it would never get there.
    One whose access token has ended, or whose task may send no more requests, or only later, goes on in another task.
    """
    item, uncut, got_page, reached = collected.buffers[piece.number], targets[piece.target].to_end, False, False
    name, activity = full_name(targets[piece.target].stream), task_activity()
    progress = SliceProgress(system_clock(), lambda: got_page and not reached)
    term = SliceTerm(until.longest_wait, resumable=not uncut)
    item.ahead = current_read_ahead()
    slice = replace(piece.slice, record_type=collected.writers[piece.target].record_type)
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
                item.read += 1
                yield page
                if item.broken or (isinstance(page.position, Checkpoint) and not uncut and until.ends_slice()):
                    return
    except (TokenEnded, RequestsSpent, TermEnded):
        return
    except Exception as error:  # noqa: BLE001 - it travels to the driver as a value
        item.progress.failure = Failure.of(error)
    finally:
        until.reading.discard(piece.number)
