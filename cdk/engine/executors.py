"""Executors: who reads the slices. The only threads of the kit are here.

An executor takes pieces of work (slices, as a rule) from an iterator on the caller's thread, has each read, and gives
the pages back on that thread, each with the piece it belongs to. Contract (tests/contract/test_executors.py): pages of
one piece come in order; a piece is taken only when somebody can read it; an error in any is raised to the caller;
closing the generator stops all work at the next page.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Generic, Protocol, Self, TypeVar

from cdk.streams.reading import ReadPage

W = TypeVar("W")

_PATIENCE = 0.003
"""Seconds to wait for a page before it is asked whether another worker would help."""

_LOOK = 0.02
"""Seconds of reading after which it is looked whether there was much waiting."""

_BUSY = 0.35
"""The share of a core from which on a process is busy with what it has."""


class Executor(Protocol):
    """Reads pieces of work; see the module for the contract."""

    def __call__(self, work: Iterator[W], read: Callable[[W], Iterator[ReadPage]], /) -> Iterator[tuple[W, ReadPage]]:
        """Pages of the work, each with the piece it belongs to."""


def serial(work: Iterator[W], read: Callable[[W], Iterator[ReadPage]], /) -> Iterator[tuple[W, ReadPage]]:
    """Read one piece after the other on the caller's thread."""
    for piece in work:
        for page in read(piece):
            yield piece, page


def threads(count: int) -> Executor:
    """Read up to `count` pieces at once, for sources that make one wait. Holds at most two pages a thread."""
    if count <= 1:
        return serial

    def run(work: Iterator[W], read: Callable[[W], Iterator[ReadPage]], /) -> Iterator[tuple[W, ReadPage]]:
        with _Crew(count, read) as crew:
            yield from crew.pages(work)

    return run


class _End:
    """A worker finished a piece, or failed in it."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Idle:
    """Whether the process has mostly waited since it was last asked."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def since(self) -> float:
        """Seconds since it was last asked."""
        return time.monotonic() - self._wall

    def mostly(self) -> bool:
        """Whether it has mostly waited; what is asked next counts from now."""
        wall, cpu = time.monotonic(), time.process_time()
        waited = cpu - self._cpu < _BUSY * (wall - self._wall)
        self._wall, self._cpu = wall, cpu
        return waited


class _Crew(Generic[W]):
    """Worker threads that take work from one queue and put pages into another."""

    def __init__(self, count: int, read: Callable[[W], Iterator[ReadPage]]) -> None:
        self._count, self._read = count, read
        self._work: queue.SimpleQueue[tuple[W] | None] = queue.SimpleQueue()
        self._pages: queue.Queue[tuple[W, ReadPage] | _End] = queue.Queue(maxsize=count)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for _thread in self._threads:
            self._work.put(None)
        # Workers may wait to put a page: make room until each has ended.
        while any(thread.is_alive() for thread in self._threads):
            try:
                self._pages.get(timeout=0.02)
            except queue.Empty:
                continue

    def pages(self, work: Iterator[W]) -> Iterator[tuple[W, ReadPage]]:
        """Hand out work while somebody is free, and pass on what comes back.

        Another worker begins only while this process has time on its hands: where the machine is what is slow, more
        of them would only take turns (ten on a fast API cost twice the CPU of one, and ten times its memory).
        """
        busy, level, more = 0, 1, True
        idle = _Idle()
        while True:
            if more and busy == 0 and self._threads and level == 1:
                yield from self._here(work, idle)
                level = 2
            while more and busy < level and (busy == 0 or self._pages.empty()):
                piece = next(work, None)
                if piece is None:
                    more = False
                    break
                self._give(piece, busy)
                busy += 1
            if busy == 0:
                return
            try:
                item = self._pages.get(timeout=_PATIENCE if more and level < self._count else None)
            except queue.Empty:
                if idle.mostly():
                    level = min(self._count, 2 * level)
                continue
            if isinstance(item, _End):
                busy -= 1
                if item.error is not None:
                    raise item.error
            else:
                yield item

    def _here(self, work: Iterator[W], idle: _Idle) -> Iterator[tuple[W, ReadPage]]:
        """Read on the caller's thread, which saves handing over, until the process turns out to wait."""
        idle.mostly()
        for piece in work:
            for page in self._read(piece):
                yield piece, page
            if idle.since() > _LOOK and idle.mostly():
                return

    def _give(self, piece: W, busy: int) -> None:
        if busy == len(self._threads):
            context = copy_context()
            thread = threading.Thread(target=context.run, args=(self._loop,), daemon=True)
            self._threads.append(thread)
            thread.start()
        self._work.put((piece,))

    def _loop(self) -> None:
        while (given := self._work.get()) is not None and not self._stop.is_set():
            error: BaseException | None = None
            try:
                for page in self._read(given[0]):
                    self._pages.put((given[0], page))
                    if self._stop.is_set():
                        break
            except BaseException as failure:  # noqa: BLE001 - raised again on the caller's thread
                error = failure
            self._pages.put(_End(error))
