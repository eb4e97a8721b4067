"""AdaptiveThreadPool: threads that read pieces of work for a caller, who gets all pages. The kit has no other threads.

As many threads read as its `Concurrency` allows, and none while that is one and the process does not wait: Python runs
one thread at a time, so on a fast API handing pages from one thread to another only costs, a fifth of the CPU for pages
of a thousand records. There the caller reads by itself.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from typing import Generic, NamedTuple, Self, TypeAlias, TypeVar

from cdk.base.process.concurrency import BUSY, Concurrency, complain_to
from cdk.base.process.read_ahead import ReadAhead, reading_ahead
from cdk.base.times.clock import interruptible
from cdk.state.position import Checkpoint
from cdk.streams.read_slice import ReadPage

T = TypeVar("T")
W = TypeVar("W")

_LOOK, _LONG_LOOK = 0.02, 0.1
"""Seconds of reading after which it is looked how much was waited: for many pieces, and within one."""

_ALONE = 0.6
"""The share from which on the caller had better read: what it could do while a worker waits is too little."""


class AdaptiveThreadPool(Generic[W]):
    """Worker threads that take work from one queue and put pages into another. Holds at most two pages a thread.

    Threads that no piece needs, for all that there are being read, can send the requests of their next pages ahead.
    """

    def __init__(self, concurrency: Concurrency, read: Callable[[W], Iterator[ReadPage]]) -> None:
        """concurrency: how many threads, from page to page. read: gives the pages of a piece; any thread goes on."""
        self._concurrency, self._read = concurrency, read
        self._work: queue.SimpleQueue[_Reading[W] | Callable[[], None] | None] = queue.SimpleQueue()
        self._pages: _Bounded[_TimedPage[W] | _Reading[W] | _End] = _Bounded(concurrency.ceiling)
        self._stop, self._back = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        # Pieces that were handed out and have not come back; those that workers are at; and those that wait for room.
        self._busy, self._reading, self._counting = 0, 0, threading.Lock()
        self._ahead = 0
        """Requests that were sent ahead, but for those of the pages that are being read."""
        self._paused: deque[_Reading[W]] = deque()
        self._more = self._alone = True
        self._serial = concurrency.ceiling == 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self._stop.set()
        for _thread in self._threads:
            self._work.put(None)
        # Workers may wait to put something: make room until each has ended.
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
        """Hand out work while a thread may read it, and pass on what comes back."""
        idle = Idle()
        while True:
            if self._busy == 0 and self._concurrency.level == 1:
                yield from self._read_inline(work)
            self._hand_out(work)
            if self._busy == 0:
                return
            item = self._pages.get(timeout=None)
            if isinstance(item, _TimedPage):
                yield item.piece, item.page
                if item.seconds is not None:
                    self._concurrency.completed(item.seconds, self._busy + self._ahead)
                if self._concurrency.level == 1 and self._alone and idle.since() > _LOOK and idle.share() > _ALONE:
                    self._back.set()
                continue
            self._busy -= 1
            if isinstance(item, _Reading):
                self._paused.append(item)
            elif item.error is not None:
                raise item.error

    def _next(self, work: Iterator[W]) -> "_Reading[W] | None":
        """What is to be read next: first what was begun."""
        if self._paused:
            return self._paused.popleft()
        for piece in work if self._more else ():
            return _Reading(piece, self._read, self._stop, self._concurrency, ReadAhead(self))
        self._more = False
        return None

    def _hand_out(self, work: Iterator[W]) -> None:
        """Give every worker something to read; and, when all are at work, one piece for the thread that is ready first.

        Where each waits 50 ms for a response, that one piece is 3 % of the time: the caller may have a page in hand.
        """
        level = self._concurrency.level
        most = level + (level == len(self._threads) > 1)
        while self._busy < most and (self._busy < len(self._threads) or self._pages.empty()):
            reading = self._next(work)
            if reading is None:
                return
            self._give(reading)

    def _read_inline(self, work: Iterator[W]) -> Iterator[tuple[W, ReadPage]]:
        """Read on the caller's thread until the process turns out to wait; then a worker goes on."""
        idle = Idle()
        while (reading := self._next(work)) is not None:
            reading.begin()
            try:
                while (timed := reading.next()) is not None:
                    yield timed.piece, timed.page
                    if timed.seconds is not None:
                        self._concurrency.completed(timed.seconds, 1)
                        # Between pieces it is looked more often, so this is of one piece.
                        waits = idle.since() > _LONG_LOOK and idle.share() < _ALONE
                        if not self._serial and (waits or self._concurrency.level > 1):
                            # To take it back again would be to and fro.
                            self._alone = self._alone and not waits
                            self._give(reading)
                            return
                    reading.begin()
            except BaseException:
                reading.close()
                raise
            if not self._serial and (self._concurrency.level > 1 or (idle.since() > _LOOK and idle.share() < BUSY)):
                return

    def _give(self, reading: "_Reading[W]") -> None:
        self._back.clear()
        with self._counting:
            self._busy += 1
            self._add_thread(min(self._busy + self._ahead, self._concurrency.level))
        self._work.put(reading)

    def _add_thread(self, most: int) -> None:
        """Start a thread, unless there are so many."""
        if len(self._threads) < most:
            thread = threading.Thread(target=self._loop, daemon=True)
            self._threads.append(thread)
            thread.start()

    def has_idle(self) -> bool:
        """Whether a thread could send a request ahead; for any thread."""
        needed = self._more or bool(self._paused) or self._stop.is_set()
        return not needed and self._busy + self._ahead < self._concurrency.level > 1

    def submit(self, call: Callable[[], None], /) -> bool:
        """Have a thread run a call, where one is to spare; for whichever thread reads a piece."""
        with self._counting:
            if not self.has_idle():
                return False
            self._ahead += 1
            # Who reads may wait for what another thread was sent for.
            self._add_thread(2 * self._busy + self._ahead)
            # Before the end of the pool, which waits for this lock.
            self._work.put(call)
        return True

    def release(self) -> None:
        """The request that a call has sent is that of a page being read, or has come to nothing; for any thread."""
        with self._counting:
            self._ahead -= 1

    def _loop(self) -> None:
        while (reading := self._work.get()) is not None:
            if not isinstance(reading, _Reading):
                reading()
                continue
            with self._counting:
                self._reading += 1
            item = self._read_on(reading)
            with self._counting:
                self._reading -= isinstance(item, _End)
            self._pages.put(item)

    def _read_on(self, reading: "_Reading[W]") -> "_Reading[W] | _End":
        """Put the pages into the queue until it ends, or the caller wants it back."""
        reading.begin()
        try:
            while not self._stop.is_set() and (timed := reading.next()) is not None:
                self._pages.put(timed)
                if self._back.is_set() or self._reading > self._concurrency.level:
                    with self._counting:
                        if not timed.page.runs_job and (self._back.is_set() or self._is_surplus(timed.page)):
                            self._reading -= 1
                            return reading
            reading.close()
        except BaseException as failure:  # noqa: BLE001 - raised again on the caller's thread
            return _End(failure)
        return _End(None)

    def _is_surplus(self, page: ReadPage) -> bool:
        """Whether fewer are to be read at once, and this is one that can wait: nothing is open between two pages."""
        return self._reading > self._concurrency.level and isinstance(page.position, Checkpoint)


class _TimedPage(NamedTuple, Generic[W]):
    """A page of a piece."""

    piece: W
    page: ReadPage
    seconds: float | None
    """How long it took; None: it is no page of the source, but the end that follows one."""


class _Reading(Generic[W]):
    """A piece being read, in a context of its own: the thread that goes on with it finds there what was set before."""

    def __init__(
        self,
        piece: W,
        read: Callable[[W], Iterator[ReadPage]],
        stop: threading.Event,
        concurrency: Concurrency,
        ahead: ReadAhead[object],
    ) -> None:
        """stop: ends it also in the middle of a wait. concurrency: learns of complaints."""
        self._piece, self._read, self._first, self._began, self._ahead = piece, read, True, 0.0, ahead
        self._context = copy_context()
        self._context.run(_prepare, stop, concurrency, ahead)
        self._pages = self._all()

    def next(self) -> _TimedPage[W] | None:
        """The next page, None at the end. Raises what reading raises."""
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
        """Count the time of the next page from now on: what was waited for a thread is no part of it."""
        self._began = time.monotonic()

    def close(self) -> None:
        """End the reading, and let go of what its slice holds."""
        self._context.run(self._pages.close)
        self._ahead.close()

    def _all(self) -> Generator[ReadPage, None, None]:
        yield from self._read(self._piece)


def _prepare(stop: threading.Event, concurrency: Concurrency, ahead: ReadAhead[object]) -> None:
    interruptible(stop)
    complain_to(concurrency)
    reading_ahead(ahead)


class _Bounded(Generic[T]):
    """A queue that holds so many items, made of two that take no lock in Python."""

    def __init__(self, size: int) -> None:
        self._items: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(size):
            self._room.put(None)

    def put(self, item: T) -> None:
        """Add an item, once there is room."""
        self._room.get()
        self._items.put(item)

    def get(self, timeout: float | None) -> T:
        """The oldest item. Raises queue.Empty: there is none for `timeout` seconds."""
        item = self._items.get(timeout=timeout)
        self._room.put(None)
        return item

    def empty(self) -> bool:
        """Whether there is nothing to get at this moment."""
        return self._items.empty()


class _End:
    """A worker finished a piece, or failed in it."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Idle:
    """How much of a core the process has taken since it was last asked; the rest it has waited."""

    def __init__(self) -> None:
        self._wall, self._cpu, self._share = time.monotonic(), time.process_time(), 1.0

    def since(self) -> float:
        """Seconds since it was last asked."""
        return time.monotonic() - self._wall

    def share(self) -> float:
        """The share; what is asked next counts from now. Of too short a time it says nothing: it is what it was."""
        wall, cpu = time.monotonic(), time.process_time()
        if wall - self._wall > _LOOK:
            self._share = (cpu - self._cpu) / (wall - self._wall)
            self._wall, self._cpu = wall, cpu
        return self._share


Repeating: TypeAlias = Callable[[Callable[[], None], float], AbstractContextManager[None]]
"""Wraps a block: while it runs, a function is called every so many seconds, whose errors the block raises."""


@contextmanager
def repeating_in_a_thread(function: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call a function every so many seconds in a thread of its own, until the block ends; then raise its error."""
    over, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            while not over.wait(seconds):
                function()
        except BaseException as error:  # noqa: BLE001 - raised where the block ends
            failures.append(error)

    # The threads that read may be in the middle of a page for as long as that takes.
    thread = threading.Thread(target=copy_context().run, args=[run], daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for failure in failures:
        raise failure
