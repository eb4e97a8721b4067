"""A task: reads a bundle of slices until each ends or the task's time is spent, and writes their rows into files.

A task returns how far each slice got and the names of the files, but never rows. Only the result that the driver
receives counts, so a task that is retried or copied leaves orphan files and nothing else.
"""

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from uuid import uuid4

from msgspec.structs import replace

from cdk.base.errors import ConfigError, FatalError, StateError, TransientError
from cdk.base.logs import logger
from cdk.base.process.crash_points import crash_point
from cdk.base.process.interruption import Interrupted, Interruption
from cdk.base.process.read_ahead import current_read_ahead
from cdk.base.process.request_lease import RequestLease, leasing
from cdk.base.run import current_run, setting
from cdk.base.task_map import task_attempt
from cdk.base.values import Record
from cdk.engine.boundary_dedup import read_without_boundary_duplicates
from cdk.engine.executors import Threads
from cdk.engine.thread_pool import Repeating, repeating_in_a_thread
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import unwritable
from cdk.rest.auth.tokens import SliceProgress, TokenEnded, tracking_slice, using_tokens
from cdk.rest.conditional_requests import NotModified, conditional_reads, several_pages
from cdk.rest.http.activity import activities, task_activity, working_for
from cdk.rest.http.metrics import counting
from cdk.rest.http.own_connections import limiting
from cdk.rest.limits.task_budgets import SliceTerm, limiting_waits, sharing
from cdk.rest.tracing import Trace, tracing
from cdk.sources.crashes import CRASH_SECRETS
from cdk.state.position import Checkpoint, Done, Position
from cdk.state.slice import Slice
from cdk.streams.page import ReadPage
from cdk.streams.stream import StreamCopies, full_name
from cdk.sync.tasks.interim_results import InterimResults
from cdk.sync.tasks.messages import BundleJob, BundleResult, Failure, SliceResult, SliceTask, WriteTarget
from cdk.sync.tasks.slice_buffer import SliceBuffer, TaskWriter


def run_bundle(
    work: tuple[BundleJob, Sequence[SliceTask]],
    clock: Callable[[], float] = time.monotonic,
    repeating: Repeating = repeating_in_a_thread,
) -> BundleResult:
    """Read slices as `read_bundle` does, with the job's share of budgets, requests and tokens. Runs in a task."""
    job, tasks = work
    current_run().own(Interruption).follow(job.activity_folder)
    lent = RequestLease(job.share.requests)
    if task_attempt() and lent.unsent is not None:
        # It is unknown how many of the leased requests the first attempt has sent.
        return BundleResult(requests=lent.unsent)
    budgets = sharing(job.share, copied=task_attempt() > 0)
    crashes = setting(CRASH_SECRETS, job.crash_secrets)
    with (
        limiting(),
        crashes,
        budgets as ledger,
        leasing(lent),
        using_tokens(job.tokens) as held,
        activities().task(job.activity_folder),
    ):
        result = read_bundle(job, tasks, clock, repeating)
    result.spent = None if ledger.lost else ledger.usage()
    result.requests, result.tokens = lent.sent, held.findings
    crash_point("files_written")
    return result


class _TaskTime:
    """Decides when slices stop: once the task's time is spent, the run is interrupted, or most threads are idle.

    When no slice is waiting and most threads are idle, a task hands its last slices back at their next page, so that
    they continue in a task with others.
    """

    def __init__(self, job: BundleJob, execute: Threads, *, many: bool, clock: Callable[[], float]) -> None:
        """many: there are more slices than the task can read at once."""
        self._clock, self._end, self._seconds = clock, clock() + job.seconds, job.seconds
        self._interruption = current_run().own(Interruption)
        self._execute, self._many = execute, many
        self.reading = set[int]()
        """The numbers of the slices that are being read."""
        self.drained = False
        """Whether no slice of the bundle is waiting."""
        self._waited = self._got_page = False

    @property
    def spent(self) -> bool:
        """Whether slices should stop at their next page."""
        if self._clock() >= self._end or self._interruption.why:
            return True
        return self._many and self.drained and len(self.reading) <= self._execute.level // 2

    def ends_slice(self, position: Position | None) -> bool:
        """Whether the slice of the current thread stops at this page. Pages requested ahead are read first.

        If its author has advanced the cursor, only an interruption stops the slice, or a time of 0 seconds, which
        `spark-cdk prove` uses. Many lists are not sorted by the cursor, so after a stop the rest of the list would only
        be asked for newer records. If the cursor is only set at the end, every stop would make the read start over.
        """
        if isinstance(position, Checkpoint) and (position.last or position.by_author):
            stops = bool(self._interruption.why) or self._seconds <= 0
            return stops and position.by_author and not position.last
        ahead = current_read_ahead()
        return self.spent and (ahead is None or bool(self._interruption.why) or ahead.end())

    def longest_wait(self) -> float:
        """Return how many seconds a slice may wait for its next call, as rows are not committed meanwhile.

        The first wait of a task is unlimited, so that each task makes progress.
        """
        first, self._waited = not self._waited, True
        return math.inf if first else max(0.0, self._end - self._clock())

    def got_page(self) -> None:
        """Extend the task's time if its first call had to wait, so that there is time for further calls."""
        if self._waited and not self._got_page:
            self._end = max(self._end, self._clock() + self._seconds / 4)
        self._got_page = True


class _Unwritable(Exception):
    """The records of a stream cannot be written. stream: index of the stream. error: the cause."""

    def __init__(self, stream: int, error: Exception) -> None:
        super().__init__(str(error))
        self.stream, self.error = stream, error


@contextmanager
def _writing(stream: int) -> Iterator[None]:
    """Wrap errors in this block as `_Unwritable`, with the stream whose records are being written."""
    try:
        yield
    except (FileNotFoundError, ConfigError, StateError, TransientError):
        raise  # an error of the store, after which the task may be retried
    except Exception as error:
        raise _Unwritable(stream, error) from error


class _TaskOutput:
    """The rows and progress of a bundle's slices. Used by the thread that collects pages, and by the one beside it."""

    def __init__(self, job: BundleJob, tasks: Sequence[SliceTask], time: _TaskTime, execute: Threads) -> None:
        self._interim, self._time, self._execute, self._slice_count = job.interim, time, execute, len(tasks)
        self._targets = job.targets
        self.writers = {n: TaskWriter(job.targets[n], job.limits) for n in {task.stream for task in tasks}}
        self.buffers: dict[int, SliceBuffer] = {}
        """Buffers of the slices that were started and not handed over, by number."""
        self._handed_over: list[BundleResult] = []
        self._attempt, self._lock, self._was_late = uuid4().hex, threading.Lock(), False

    def begin(self, task: SliceTask) -> bool:
        """Prepare for the pages of a slice. Return False if it was already handed back to the driver."""
        with self._lock:
            if not self._handed_over:
                self.buffers[task.number] = SliceBuffer(task, self.writers[task.stream])
                self._time.reading.add(task.number)
            return not self._handed_over

    def add(self, task: SliceTask, page: ReadPage) -> None:
        """Process the next page of a slice."""
        with self._lock, _writing(task.stream):
            self.buffers[task.number].add(page)

    def hand_over_if_late(self) -> None:
        """Store an interim result if the time was already spent at the previous call, and there is something new."""
        was_late, self._was_late = self._was_late, self._time.spent
        if was_late and self._was_late and self._interim is not None:
            with self._lock:
                self._hand_over(self._interim)

    def _hand_over(self, interim: InterimResults) -> None:
        unfinished = {n for n, buffer in self.buffers.items() if n in self._time.reading or buffer.unread}
        ending = any(self.buffers[n].progress.done for n in unfinished)
        hands_back = not self._handed_over and len(self.buffers) < self._slice_count
        new = hands_back or any(n not in unfinished or b.progress.positions for n, b in self.buffers.items())
        if not unfinished or ending or not new:
            return
        learned = None if self._handed_over else self._execute.learned
        result = replace(self._since_last(unfinished), attempt=self._attempt, concurrency=learned)
        sent_ahead = [self.buffers[n].ahead for n in unfinished]
        result.threads = self._execute.ceiling
        if not any(ahead is None or ahead.pending for ahead in sent_ahead):
            # No further requests were sent ahead, so other tasks may use the idle threads.
            result.threads = len(unfinished)
            for ahead in filter(None, sent_ahead):
                ahead.end()
        self._handed_over.append(result)
        interim.store(len(self._handed_over) - 1, result)

    def _since_last(self, unfinished: Collection[int] = ()) -> BundleResult:
        """Return what was read since the last interim result. unfinished: numbers of the slices that continue."""
        files, progress = dict[int, list[DataFile]](), list[SliceResult]()
        for n, writer in self.writers.items():
            with _writing(n):
                files[n] = writer.close()
        for number, buffer in self.buffers.items():
            with _writing(buffer.slice_task.stream):
                files[buffer.slice_task.stream].extend(buffer.own_files(ended=number not in unfinished))
        for number, buffer in list(self.buffers.items()):
            if number not in unfinished:
                progress.append(self.buffers.pop(number).progress)
            elif (handed_over := buffer.hand_over()).positions:
                progress.append(handed_over)
        grown = {n: grown for n, writer in self.writers.items() if (grown := writer.grown)}
        for writer in self.writers.values() if unfinished else ():
            writer.hand_over()
        return BundleResult(progress, {n: f for n, f in files.items() if f}, grown, unfinished=frozenset(unfinished))

    def result(self) -> BundleResult:
        """Return the task's final result, once all slices have ended or stopped."""
        learned = None if self._handed_over else self._execute.learned
        return self.after_interim(replace(self._since_last(), concurrency=learned))

    def after_interim(self, result: BundleResult) -> BundleResult:
        """Return a final result with the interim results before it."""
        earlier = tuple(self._handed_over)
        return replace(result, attempt=self._attempt, earlier=earlier) if earlier else result

    def failed(self, unwritten: _Unwritable) -> BundleResult:
        """Return the task's result if a stream's records cannot be written: its slices fail, others are read again."""
        error, path = unwritten.error, str(self._targets[unwritten.stream].root)
        if isinstance(error, OSError):
            error = unwritable(error, path).with_traceback(error.__traceback__)
        failure = Failure.of(error)
        buffers = [buffer for buffer in self.buffers.values() if buffer.slice_task.stream == unwritten.stream]
        results = [SliceResult(b.slice_task.number, failure=failure, http=b.progress.http) for b in buffers]
        return self.after_interim(BundleResult(results))

    def discard(self) -> None:
        """Delete the files that were not handed over."""
        for buffer in self.buffers.values():
            buffer.discard()
        for writer in self.writers.values():
            writer.discard()


def read_bundle(
    job: BundleJob,
    tasks: Sequence[SliceTask],
    clock: Callable[[], float] = time.monotonic,
    repeating: Repeating = repeating_in_a_thread,
) -> BundleResult:
    """Read slices, several at once, into files. Needs no Spark.

    clock: returns seconds. repeating: calls a function again and again during a block. An error of a source or of a
    stream's records is part of the result; raises what else reading and writing raise, without leaving files.
    """
    first_threads = min(job.learned.level, job.threads)
    execute = Threads(job.threads, job.learned)
    task_time = _TaskTime(job, execute, many=len(tasks) > job.threads, clock=clock)
    output = _TaskOutput(job, tasks, task_time, execute)
    copies = {n: StreamCopies(job.targets[n].stream) for n in output.writers}

    def begin_each() -> Iterator[SliceTask]:
        for n, task in enumerate(tasks):
            if (n >= first_threads and task_time.spent) or not output.begin(task):
                return
            yield task
        task_time.drained = True

    try:
        with nullcontext() if job.interim is None else repeating(output.hand_over_if_late, job.interim.check_seconds):
            for task, page in execute(
                begin_each(), partial(_read_slice, job.targets, task_time, output, copies=copies)
            ):
                output.add(task, page)
        return output.result()
    except BaseException as error:
        output.discard()
        match error:
            case FileNotFoundError(filename=path) if path is not None:
                # Only a file being written can be missing: VACUUM without retention removes uncommitted files.
                return output.after_interim(BundleResult(missing_file=str(path)))
            case _Unwritable():
                return output.failed(error)
            case _:
                raise


def _read_slice(
    targets: Mapping[int, WriteTarget],
    task_time: _TaskTime,
    output: _TaskOutput,
    task: SliceTask,
    *,
    copies: Mapping[int, StreamCopies],
) -> Iterator[ReadPage]:
    """Yield the pages of a slice until the task's time is spent. An error of the source ends only this slice.

    A slice whose page token was refused is read to its end regardless of the time: interrupted again, it would never
    get there. If its access token has expired, or its task may send no more requests, or only later, the slice
    continues in another task.
    """
    buffer, to_end = output.buffers[task.number], targets[task.stream].to_end
    name, activity = full_name(targets[task.stream].stream), task_activity()
    progress = SliceProgress()
    term = SliceTerm(task_time.longest_wait, resumable=not to_end)
    buffer.ahead = current_read_ahead()
    slice = replace(task.slice, record_type=output.writers[task.stream].record_type)
    try:
        with (
            counting(buffer.progress.http),
            tracking_slice(progress),
            limiting_waits(term),
            working_for(name, activity),
            tracing() if targets[task.stream].trace else nullcontext() as trace,
            copies[task.stream].lent() as stream,
        ):
            target = replace(targets[task.stream], stream=stream)
            for page in _read_pages(target, slice, buffer.progress):
                to_end = to_end or page.restarted
                progress.read, progress.reached = True, progress.reached or page.position is not None
                resumable = isinstance(page.position, Checkpoint) and not to_end
                term.resumable = resumable
                activity.page(name)
                task_time.got_page()
                crash_point("page_read")
                buffer.pages_read += 1
                yield (
                    page if trace is None else replace(page, source=_row_source(target, task, trace, buffer.pages_read))
                )
                if buffer.broken or (
                    resumable and page.position != slice.start and task_time.ends_slice(page.position)
                ):
                    return
    except TokenEnded:
        buffer.progress.wasted_token = progress.wasted_token
    except Interrupted:  # no request left, no turn before the task ends, or a long wait in an interrupted run
        buffer.progress.unrequested = not buffer.progress.http.requests
        return
    except Exception as error:  # noqa: BLE001 - sent to the driver as a value
        buffer.progress.failure = Failure.of(error)
    finally:
        task_time.reading.discard(task.number)


def _row_source(target: WriteTarget, task: SliceTask, trace: Trace, page: int) -> Record:
    """Return the origin of a page's rows, with the request of its response, or else the last one sent for it."""
    noted = trace.drain()
    request = noted.page.request if noted.page is not None else None
    if request is None and noted.exchanges:
        request = noted.exchanges[-1].request
    shown = None if request is None else target.stream.secrets.cut(str(request))
    return {"sync_id": target.trace, "slice": str(task.slice), "page": page, "request": shown}


def _read_pages(target: WriteTarget, slice: Slice, progress: SliceResult) -> Iterator[ReadPage]:
    """Yield the pages of a slice without remembered records; no records if a followed source has not changed.

    progress: receives a followed source's response, once all was read. Raises FatalError: when a slice of a followed
    stream has more than one page, or sends no GET request. Raises what reading raises.
    """
    stream, known = target.stream, target.source
    if known is None:
        yield from read_without_boundary_duplicates(stream, slice)
        return
    with conditional_reads(known) as result:
        try:
            for page in read_without_boundary_duplicates(stream, slice):
                if isinstance(page.position, Checkpoint):
                    raise several_pages(stream.name, "follow_source")
                yield page
        except NotModified as same:
            logger.info("%s: nothing new, %s", stream.name, same)
            yield ReadPage((), Done())
    if result.request is None:
        raise FatalError(
            "a followed stream sends a GET request per slice, but this one sent none, so it is unknown whether its "
            "source has changed; leave follow_source out",
            stream=stream.name,
        )
    progress.conditional = result
