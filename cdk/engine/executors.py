"""Executors: who reads the slices. The only threads of the kit are here.

An executor takes slices from an iterator on the caller's thread and gives pages back on it, each with its slice.
Contract (tests/contract/test_executors.py): pages of one slice come in order; a slice is taken only when somebody can
read it; an error of any slice is raised to the caller; closing the generator stops all work at the next page.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Protocol, Self, TypeAlias

from cdk.state.slice import Slice
from cdk.streams.reading import ReadPage, read_slice
from cdk.streams.stream import Stream

SliceReader: TypeAlias = Callable[[Stream, Slice], Iterator[ReadPage]]


class Executor(Protocol):
    """Reads slices of a stream; see the module for the contract."""

    def __call__(
        self, stream: Stream, slices: Iterator[Slice], read: SliceReader = read_slice, /
    ) -> Iterator[tuple[Slice, ReadPage]]:
        """Pages of the slices, each with the slice it belongs to."""


def serial(
    stream: Stream, slices: Iterator[Slice], read: SliceReader = read_slice, /
) -> Iterator[tuple[Slice, ReadPage]]:
    """Read one slice after the other on the caller's thread."""
    for slice in slices:
        for page in read(stream, slice):
            yield slice, page


def threads(count: int) -> Executor:
    """Read up to `count` slices at once, for sources that make one wait. Holds at most two pages a thread."""
    if count <= 1:
        return serial

    def run(
        stream: Stream, slices: Iterator[Slice], read: SliceReader = read_slice, /
    ) -> Iterator[tuple[Slice, ReadPage]]:
        with _Crew(count, stream, read) as crew:
            yield from crew.pages(slices)

    return run


class _End:
    """A worker finished a slice, or failed in it."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Crew:
    """Worker threads that take slices from one queue and put pages into another."""

    def __init__(self, count: int, stream: Stream, read: SliceReader) -> None:
        self._count, self._stream, self._read = count, stream, read
        self._work: queue.SimpleQueue[Slice | None] = queue.SimpleQueue()
        self._pages: queue.Queue[tuple[Slice, ReadPage] | _End] = queue.Queue(maxsize=count)
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

    def pages(self, slices: Iterator[Slice]) -> Iterator[tuple[Slice, ReadPage]]:
        """Hand out slices while a worker is free, and pass on what comes back."""
        busy, more = 0, True
        while True:
            while more and busy < self._count and (busy == 0 or self._pages.empty()):
                slice = next(slices, None)
                if slice is None:
                    more = False
                    break
                self._give(slice, busy)
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

    def _give(self, slice: Slice, busy: int) -> None:
        if busy == len(self._threads):
            context = copy_context()
            thread = threading.Thread(target=context.run, args=(self._loop,), daemon=True)
            self._threads.append(thread)
            thread.start()
        self._work.put(slice)

    def _loop(self) -> None:
        while (slice := self._work.get()) is not None and not self._stop.is_set():
            error: BaseException | None = None
            try:
                for page in self._read(self._stream, slice):
                    self._pages.put((slice, page))
                    if self._stop.is_set():
                        break
            except BaseException as failure:  # noqa: BLE001 - raised again on the caller's thread
                error = failure
            self._pages.put(_End(error))
