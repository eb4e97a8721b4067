"""Executors: who reads the slices. The only threads of the kit are here.

An executor takes pieces of work (slices, as a rule) from an iterator on the caller's thread, has each read, and gives
the pages back on that thread, each with the piece it belongs to. Contract (tests/contract/test_executors.py): pages of
one piece come in order; a piece is taken only when somebody can read it; an error in any is raised to the caller;
closing the generator stops all work at the next page.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Generic, Protocol, Self, TypeVar

from cdk.streams.reading import ReadPage

W = TypeVar("W")


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
    """A worker finished a slice, or failed in it."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


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
        """Hand out work while somebody is free, and pass on what comes back."""
        busy, more = 0, True
        while True:
            while more and busy < self._count and (busy == 0 or self._pages.empty()):
                piece = next(work, None)
                if piece is None:
                    more = False
                    break
                self._give(piece, busy)
                busy += 1
            if busy == 0:
                return
            item = self._pages.get()
            if isinstance(item, _End):
                busy -= 1
                if item.error is not None:
                    raise item.error
            else:
                yield item

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
