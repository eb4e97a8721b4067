"""AdaptiveThreadPool: threads that read pieces of work for a caller, who gets all pages. The kit has no other threads.

As many threads read as the waiting is worth. Python runs one thread at a time, so on a fast API handing pages from one
thread to another only costs: a fifth of the CPU for pages of a thousand records.
"""

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextvars import copy_context
from itertools import chain
from typing import Generic, Self, TypeVar

from cdk.base.times.clock import interruptible
from cdk.streams.read_slice import ReadPage

T = TypeVar("T")
W = TypeVar("W")

_PATIENCE = 0.003
"""Seconds to wait for a page before it is asked whether another worker would help."""

_LOOK, _LONG_LOOK = 0.02, 0.1
"""Seconds of reading after which it is looked how much was waited: for many pieces, and within one."""

_BUSY = 0.35
"""The share of a core from which on a process is too busy for another worker."""

_ALONE = 0.6
"""The share from which on the caller had better read: what it could do while a worker waits is too little."""


class AdaptiveThreadPool(Generic[W]):
    """Worker threads that take work from one queue and put pages into another. Holds at most two pages a thread."""

    def __init__(self, count: int, read: Callable[[W], Iterator[ReadPage]]) -> None:
        """count: threads, at most. read: gives the pages of a piece; any of the threads goes on with it."""
        self._count, self._read = count, read
        self._work: queue.SimpleQueue[_Reading[W] | None] = queue.SimpleQueue()
        self._pages: _Bounded[tuple[W, ReadPage] | _Reading[W] | _End] = _Bounded(count)
        self._stop, self._back = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        # Pieces that were handed out and have not ended; and how many workers there may be for now.
        self._busy, self._level = 0, 1
        self._more = self._alone = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

    def pages(self, work: Iterator[W]) -> Iterator[tuple[W, ReadPage]]:
        """Hand out work while somebody is free, and pass on what comes back.

        Another worker begins only while this process has time on its hands: where the machine is what is slow, more
        of them would only take turns (ten on a fast API cost twice the CPU of one, and ten times its memory).
        """
        readings = (_Reading(piece, self._read, self._stop) for piece in work)
        idle = _Idle()
        while True:
            if self._more and self._busy == 0 and self._level == 1 and self._threads:
                yield from self._read_inline(readings, idle)
            self._hand_out(readings)
            if self._busy == 0:
                return
            try:
                item = self._pages.get(timeout=_PATIENCE if self._more and self._level < self._count else None)
            except queue.Empty:
                if idle.share() < _BUSY:
                    self._level = min(self._count, 2 * self._level)
                continue
            if isinstance(item, tuple):
                yield item
                if self._level == 1 and self._alone and idle.since() > _LOOK and idle.share() > _ALONE:
                    self._back.set()
                continue
            self._busy -= 1
            if isinstance(item, _Reading):
                yield from self._read_inline(chain([item], readings), idle)
            elif item.error is not None:
                raise item.error

    def _hand_out(self, readings: Iterator["_Reading[W]"]) -> None:
        """Give every worker something to read; and, when all are at work, one piece for whoever is ready first.

        Where each waits 50 ms for a response, that one piece is 3 % of the time: the caller may have a page in hand.
        """
        most = self._level + (self._level == self._count)
        while self._more and self._busy < most and (self._busy < len(self._threads) or self._pages.empty()):
            reading = next(readings, None)
            if reading is None:
                self._more = False
            else:
                self._give(reading)

    def _read_inline(self, readings: Iterable["_Reading[W]"], idle: "_Idle") -> Iterator[tuple[W, ReadPage]]:
        """Read on the caller's thread until the process turns out to wait; then a worker goes on."""
        idle.share()
        for reading in readings:
            own = _Idle()
            try:
                while (page := reading.next()) is not None:
                    yield reading.piece, page
                    if own.since() > _LONG_LOOK and own.share() < _ALONE:
                        # To take it back again would be to and fro.
                        self._alone = False
                        self._give(reading)
                        return
            except BaseException:
                reading.close()
                raise
            if idle.since() > _LOOK and idle.share() < _BUSY:
                self._level = min(self._count, 2)
                return

    def _give(self, reading: "_Reading[W]") -> None:
        self._back.clear()
        if self._busy == len(self._threads) < self._count:
            thread = threading.Thread(target=self._loop, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._busy += 1
        self._work.put(reading)

    def _loop(self) -> None:
        while (reading := self._work.get()) is not None:
            self._pages.put(self._read_on(reading))

    def _read_on(self, reading: "_Reading[W]") -> "_Reading[W] | _End":
        """Put the pages into the queue until it ends, or the caller wants to go on with it."""
        try:
            while not self._stop.is_set() and (page := reading.next()) is not None:
                self._pages.put((reading.piece, page))
                if self._back.is_set():
                    return reading
            reading.close()
        except BaseException as failure:  # noqa: BLE001 - raised again on the caller's thread
            return _End(failure)
        return _End(None)


class _Reading(Generic[W]):
    """A piece being read, in a context of its own: whoever goes on with it finds there what was set before."""

    def __init__(self, piece: W, read: Callable[[W], Iterator[ReadPage]], stop: threading.Event) -> None:
        """stop: ends it also in the middle of a wait."""
        self.piece = piece
        self._read = read
        self._context = copy_context()
        self._context.run(interruptible, stop)
        self._pages = self._all()

    def next(self) -> ReadPage | None:
        """The next page, None at the end. Raises what reading raises."""
        return self._context.run(next, self._pages, None)

    def close(self) -> None:
        """End the reading, and let go of what its slice holds."""
        self._context.run(self._pages.close)

    def _all(self) -> Generator[ReadPage, None, None]:
        yield from self._read(self.piece)


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


class _Idle:
    """How much of a core the process has taken since it was last asked; the rest it has waited."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def since(self) -> float:
        """Seconds since it was last asked."""
        return time.monotonic() - self._wall

    def share(self) -> float:
        """The share; what is asked next counts from now."""
        wall, cpu = time.monotonic(), time.process_time()
        share = (cpu - self._cpu) / max(wall - self._wall, 1e-9)
        self._wall, self._cpu = wall, cpu
        return share
