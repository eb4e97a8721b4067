"""Executors: they decide on which threads slices are read.

An executor takes pieces of work (usually slices) from an iterator on the caller's thread, has each read, and yields
the pages on that thread, each with the piece it belongs to. Contract (tests/contract/test_executors.py): the pages of
one piece come in order; a piece is taken only when a thread can read it, except for one piece that waits while all
threads are busy; an error in any piece is raised to the caller; closing the generator stops all work at the next page.
"""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from cdk.base.process.concurrency import BEGINNING, Concurrency, Learned
from cdk.engine.thread_pool import AdaptiveThreadPool, CpuUsage
from cdk.streams.page import ReadPage

W = TypeVar("W")


class Executor(Protocol):
    """Reads pieces of work; see the module for the contract."""

    def __call__(
        self, work: Iterator[W], read: Callable[[W], Iterator[ReadPage]], /, most: int | None = None
    ) -> Iterator[tuple[W, ReadPage]]:
        """Yield the pages of the work, each with its piece. most: the maximum number of pieces to read at once."""


def serial(
    work: Iterator[W],
    read: Callable[[W], Iterator[ReadPage]],
    /,
    most: int | None = None,  # noqa: ARG001 - reads one at a time anyway
) -> Iterator[tuple[W, ReadPage]]:
    """Read one piece after the other on the caller's thread."""
    for piece in work:
        for page in read(piece):
            yield piece, page


class Threads:
    """Reads up to `ceiling` pieces at once, for sources with latency. Holds at most two pages per thread.

    Starts with one piece and reads as many at once as raises the throughput (`Concurrency`); each call starts at the
    level that the previous one reached. When fewer pieces are left than may be read at once, requests for their next
    pages are sent ahead. With a ceiling of one, starts no threads.

    ceiling: the maximum number of pieces. learned: what all calls so far have learned about the source.
    """

    def __init__(self, ceiling: int, before: Learned = BEGINNING) -> None:
        """before: what is already known about the source before the first call."""
        self.ceiling = max(1, ceiling)
        self._concurrency = Concurrency(self.ceiling, before)

    @property
    def level(self) -> int:
        """How many pieces are currently read at once."""
        return self._concurrency.level

    @property
    def learned(self) -> Learned:
        return self._concurrency.learned

    def __call__(
        self, work: Iterator[W], read: Callable[[W], Iterator[ReadPage]], /, most: int | None = None
    ) -> Iterator[tuple[W, ReadPage]]:
        """Yield the pages of the work, each with its piece. most: the maximum number of pieces to read at once."""
        if most is not None and most < self.ceiling:
            yield from Threads(most, self.learned)(work, read)
            return
        self._concurrency = Concurrency(self.ceiling, self.learned, CpuUsage().share)
        with AdaptiveThreadPool(self._concurrency, read) as pool:
            yield from pool.pages(work)
