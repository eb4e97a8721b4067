"""AdaptiveThreadPool: threads that read pieces of work for a caller, which receives all pages.

The kit starts no other threads, except those of `cdk.sync.tasks` and the one of `repeating_in_a_thread` below.
As many threads read as the pool's `Concurrency` allows. While that is one and the process does not wait for I/O, the
caller reads on its own thread: Python runs one thread at a time, so on a fast API handing pages from one thread to
another only costs CPU, a fifth of it for pages of a thousand records.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import Generic, Self, TypeAlias, TypeVar

from msgspec import Struct

from cdk.base.process.concurrency import BUSY, Concurrency, complain_to
from cdk.base.process.read_ahead import ReadAhead, reading_ahead
from cdk.base.times.clock import interruptible
from cdk.state.position import Checkpoint
from cdk.streams.page import ReadPage

T = TypeVar("T")
W = TypeVar("W")

_CHECK_SECONDS, _LONG_CHECK_SECONDS = 0.02, 0.1
"""Seconds of reading after which the share of waiting is checked: between pieces, and within one piece."""

_INLINE_CPU_SHARE = 0.6
"""The share of CPU time from which the caller should read itself: a worker would wait too little to be worth it."""


class AdaptiveThreadPool(Generic[W]):
    """Worker threads that take work from one queue and put pages into another. Holds at most two pages per thread.

    When all remaining pieces are being read, idle threads can send the requests for their next pages ahead.
    """

    def __init__(self, concurrency: Concurrency, read: Callable[[W], Iterator[ReadPage]]) -> None:
        """concurrency: the number of threads, updated after each page. read: yields a piece's pages, on any thread."""
        self._concurrency, self._read = concurrency, read
        self._work: queue.SimpleQueue[_Reading[W] | Callable[[], None] | None] = queue.SimpleQueue()
        self._pages: _Bounded[_TimedPage[W] | _Reading[W] | _End] = _Bounded(concurrency.ceiling)
        self._stop, self._return_to_caller = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        # Pieces handed out that have not come back; those that workers read, or whose page waits for room in the queue.
        self._outstanding, self._readers, self._lock = 0, 0, threading.Lock()
        self._ahead = 0
        """The number of requests sent ahead, without those that pages being read have claimed."""
        self._paused: deque[_Reading[W]] = deque()
        self._has_more_work = self._may_read_inline = True
        self._single_threaded = concurrency.ceiling == 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stop.set()
        for _thread in self._threads:
            self._work.put(None)
        # Workers may be blocked on the full queue: drain it until each has ended.
        while any(thread.is_alive() for thread in self._threads) or not self._pages.empty():
            try:
                item = self._pages.get(timeout=0.02)
            except queue.Empty:
                continue
            if isinstance(item, _Reading):
                item.close()
        for reading in self._paused:
            reading.close()

    def pages(self, work: Iterator[W]) -> Iterator[tuple[W, ReadPage]]:
        """Hand out work to threads as they become free, and yield the pages that they read."""
        cpu = CpuUsage()
        while True:
            if self._outstanding == 0 and self._concurrency.level == 1:
                yield from self._read_inline(work)
            self._hand_out(work)
            if self._outstanding == 0:
                return
            item = self._pages.get(timeout=None)
            if isinstance(item, _TimedPage):
                yield item.piece, item.page
                if item.seconds is not None:
                    self._concurrency.completed(item.seconds, self._outstanding + self._ahead)
                inline = self._concurrency.level == 1 and self._may_read_inline
                if inline and cpu.seconds() > _CHECK_SECONDS and cpu.share() > _INLINE_CPU_SHARE:
                    self._return_to_caller.set()
                continue
            self._outstanding -= 1
            if isinstance(item, _Reading):
                self._paused.append(item)
            elif item.error is not None:
                raise item.error

    def _next(self, work: Iterator[W]) -> "_Reading[W] | None":
        """Return the next piece to read, None if there is none. Pieces that were paused come first."""
        if self._paused:
            return self._paused.popleft()
        for piece in work if self._has_more_work else ():
            return _Reading(piece, self._read, self._stop, self._concurrency, ReadAhead(self))
        self._has_more_work = False
        return None

    def _hand_out(self, work: Iterator[W]) -> None:
        """Give every worker a piece to read and, when all are busy, queue one more for the thread that is free first.

        The caller may be busy with a page when a thread becomes free. With responses that take 50 ms, the queued piece
        saves 3 % of the time.
        """
        level = self._concurrency.level
        most = level + (level == len(self._threads) > 1)
        while self._outstanding < most and (self._outstanding < len(self._threads) or self._pages.empty()):
            reading = self._next(work)
            if reading is None:
                return
            self._hand_over(reading)

    def _read_inline(self, work: Iterator[W]) -> Iterator[tuple[W, ReadPage]]:
        """Read on the caller's thread until the process turns out to wait; then hand over to a worker."""
        cpu = CpuUsage()
        while (reading := self._next(work)) is not None:
            reading.begin()
            try:
                while (timed := reading.next()) is not None:
                    yield timed.piece, timed.page
                    if timed.seconds is not None:
                        self._concurrency.completed(timed.seconds, 1)
                        # The check between pieces runs more often, so this one is about a single long piece.
                        waits = cpu.seconds() > _LONG_CHECK_SECONDS and cpu.share() < _INLINE_CPU_SHARE
                        if not self._single_threaded and (waits or self._concurrency.level > 1):
                            # Once handed over because it waits, the piece must not come back: it would go to and fro.
                            self._may_read_inline = self._may_read_inline and not waits
                            self._hand_over(reading)
                            return
                    reading.begin()
            except BaseException:
                reading.close()
                raise
            waits = cpu.seconds() > _CHECK_SECONDS and cpu.share() < BUSY
            if not self._single_threaded and (waits or self._concurrency.level > 1):
                return

    def _hand_over(self, reading: "_Reading[W]") -> None:
        self._return_to_caller.clear()
        with self._lock:
            self._outstanding += 1
            self._add_thread(min(self._outstanding + self._ahead, self._concurrency.level))
        self._work.put(reading)

    def _add_thread(self, most: int) -> None:
        """Start a thread, unless there are `most` already."""
        if len(self._threads) < most:
            thread = threading.Thread(target=self._loop, daemon=True)
            self._threads.append(thread)
            thread.start()

    def has_idle(self) -> bool:
        """Whether a thread could send a request ahead. May be called from any thread."""
        needed = self._has_more_work or bool(self._paused) or self._stop.is_set()
        return not needed and self._outstanding + self._ahead < self._concurrency.level > 1

    def submit(self, call: Callable[[], None], /) -> bool:
        """Run a call on an idle thread; returns False if there is none. Called by the thread that reads a piece."""
        with self._lock:
            if not self.has_idle():
                return False
            self._ahead += 1
            # A thread that reads a piece may be blocked until another thread has fetched the response: allow for both.
            self._add_thread(2 * self._outstanding + self._ahead)
            # While the lock is held, so that the call is queued before the end of the work.
            self._work.put(call)
        return True

    def release(self) -> None:
        """Stop counting a request sent ahead: a page being read has claimed it, or it failed. For any thread."""
        with self._lock:
            self._ahead -= 1

    def _loop(self) -> None:
        while (reading := self._work.get()) is not None:
            if not isinstance(reading, _Reading):
                reading()
                continue
            with self._lock:
                self._readers += 1
            item = self._read_pages(reading)
            with self._lock:
                self._readers -= isinstance(item, _End)
            self._pages.put(item)

    def _read_pages(self, reading: "_Reading[W]") -> "_Reading[W] | _End":
        """Put the pages of a piece into the queue until it ends, the caller wants it back, or it is surplus."""
        reading.begin()
        try:
            while not self._stop.is_set() and (timed := reading.next()) is not None:
                self._pages.put(timed)
                if self._return_to_caller.is_set() or self._readers > self._concurrency.level:
                    with self._lock:
                        if not timed.page.runs_job and (
                            self._return_to_caller.is_set() or self._is_surplus(timed.page)
                        ):
                            self._readers -= 1
                            return reading
            reading.close()
        except BaseException as failure:  # noqa: BLE001 - raised again on the caller's thread
            return _End(failure)
        return _End(None)

    def _is_surplus(self, page: ReadPage) -> bool:
        """Whether too many pieces are being read, and this one can pause here: its page ends at a checkpoint."""
        return self._readers > self._concurrency.level and isinstance(page.position, Checkpoint)


class _TimedPage(Struct, Generic[W], frozen=True):
    """A page of a piece, with the time that it took."""

    piece: W
    page: ReadPage
    seconds: float | None
    """How long the page took; None if it is not a page of the source but the end of the piece that follows one."""


class _Reading(Generic[W]):
    """A piece being read, in its own context: a thread that resumes it sees the context variables that were set."""

    def __init__(
        self,
        piece: W,
        read: Callable[[W], Iterator[ReadPage]],
        stop: threading.Event,
        concurrency: Concurrency,
        ahead: ReadAhead[object],
    ) -> None:
        """stop: ends the reading even in the middle of a wait. concurrency: receives complaints, see `complain_to`."""
        self._piece, self._read, self._first, self._began, self._ahead = piece, read, True, 0.0, ahead
        self._context = copy_context()
        self._context.run(_enter_context, stop, concurrency, ahead)
        self._pages = self._all()

    def next(self) -> _TimedPage[W] | None:
        """Return the next page, or None at the end. Raises what reading raises."""
        try:
            page = self._context.run(next, self._pages, None)
        except BaseException:
            self._ahead.close()
            raise
        if page is None:
            self._ahead.close()
            return None
        extra = self._ahead.extra_seconds()
        if not (page.records or self._first):
            return _TimedPage(self._piece, page, None)
        now = time.monotonic()
        seconds, self._began, self._first = now - self._began + extra, now, False
        return _TimedPage(self._piece, page, seconds)

    def begin(self) -> None:
        """Start timing the next page now, so that the wait for a thread is not included."""
        self._began = time.monotonic()

    def close(self) -> None:
        """Stop reading and release the resources of the slice."""
        self._context.run(self._pages.close)
        self._ahead.close()

    def _all(self) -> Generator[ReadPage, None, None]:
        yield from self._read(self._piece)


def _enter_context(stop: threading.Event, concurrency: Concurrency, ahead: ReadAhead[object]) -> None:
    interruptible(stop)
    complain_to(concurrency)
    reading_ahead(ahead)


class _Bounded(Generic[T]):
    """A queue with a maximum size, made of two `SimpleQueue`s, which take no lock in Python."""

    def __init__(self, size: int) -> None:
        self._items: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(size):
            self._room.put(None)

    def put(self, item: T) -> None:
        """Add an item; blocks while the queue is full."""
        self._room.get()
        self._items.put(item)

    def get(self, timeout: float | None) -> T:
        """Remove and return the oldest item. Raises queue.Empty: when there is none for `timeout` seconds."""
        item = self._items.get(timeout=timeout)
        self._room.put(None)
        return item

    def empty(self) -> bool:
        """Whether the queue is empty at this moment."""
        return self._items.empty()


class _End:
    """The end of a piece: a worker finished it, or failed with `error`."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class CpuUsage:
    """Measures the share of CPU time that the process used since the last measurement; the rest was waiting."""

    def __init__(self) -> None:
        self._wall, self._cpu, self._share = time.monotonic(), time.process_time(), 1.0

    def seconds(self) -> float:
        """Return the seconds since the last measurement."""
        return time.monotonic() - self._wall

    def share(self) -> float:
        """Return the CPU share and start a new measurement; after too short a time, return the previous share again."""
        wall, cpu = time.monotonic(), time.process_time()
        if wall - self._wall > _CHECK_SECONDS:
            self._share = (cpu - self._cpu) / (wall - self._wall)
            self._wall, self._cpu = wall, cpu
        return self._share


Repeating: TypeAlias = Callable[[Callable[[], None], float], AbstractContextManager[None]]
"""Wraps a block: calls a function at an interval in seconds while the block runs; the block raises its errors."""


@contextmanager
def repeating_in_a_thread(function: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call a function at an interval in seconds, in a thread of its own, until the block ends; then raise its error."""
    over, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not over.wait(seconds):
                function()
        except BaseException as error:  # noqa: BLE001 - raised where the block ends
            failures.append(error)

    # A thread of its own, because the reading threads may be busy with one page for a long time.
    thread = threading.Thread(target=copy_context().run, args=[run], daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for failure in failures:
        raise failure
