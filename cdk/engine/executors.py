"""Executors: who reads the slices.

An executor takes pieces of work (slices, as a rule) from an iterator on the caller's thread, has each read, and gives
the pages back on that thread, each with the piece it belongs to. Contract (tests/contract/test_executors.py): pages of
one piece come in order; a piece is taken only when a thread can read it, but for one that waits while all are at work;
an error in any is raised to the caller; closing the generator stops all work at the next page.
"""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from cdk.base.process.concurrency import BEGINNING, Concurrency, Learned
from cdk.engine.thread_pool import AdaptiveThreadPool, Idle
from cdk.streams.read_slice import ReadPage

W = TypeVar("W")


class Executor(Protocol):
    """Reads pieces of work; see the module for the contract."""

    def __call__(
        self, work: Iterator[W], read: Callable[[W], Iterator[ReadPage]], /, most: int | None = None
    ) -> Iterator[tuple[W, ReadPage]]:
        """Pages of the work, each with the piece it belongs to. most: pieces at once, where these may not be more."""


def serial(
    work: Iterator[W],
    read: Callable[[W], Iterator[ReadPage]],
    /,
    most: int | None = None,  # noqa: ARG001 - there is never more than one
) -> Iterator[tuple[W, ReadPage]]:
    """Read one piece after the other on the caller's thread."""
    for piece in work:
        for page in read(piece):
            yield piece, page


class Threads:
    """Reads up to `ceiling` pieces at once, for sources that make one wait. Holds at most two pages a thread.

    As many are read as bring more (`Concurrency`), from one piece on; each call goes on from where the last one got to.
    Where fewer pieces are left than may be read at once, requests of their next pages are sent ahead. With a ceiling of
    one no thread is started.

    ceiling: how many, at most. learned: by all calls.
    """

    def __init__(self, ceiling: int, before: Learned = BEGINNING) -> None:
        """before: what is known when the first call begins."""
        self.ceiling = max(1, ceiling)
        self._concurrency = Concurrency(self.ceiling, before)

    @property
    def level(self) -> int:
        """How many are read at once for now."""
        return self._concurrency.level

    @property
    def learned(self) -> Learned:
        return self._concurrency.learned

    def __call__(
        self, work: Iterator[W], read: Callable[[W], Iterator[ReadPage]], /, most: int | None = None
    ) -> Iterator[tuple[W, ReadPage]]:
        """Pages of the work, each with the piece it belongs to. most: pieces at once, where these may not be more."""
        if most is not None and most < self.ceiling:
            yield from Threads(most, self.learned)(work, read)
            return
        self._concurrency = Concurrency(self.ceiling, self.learned, Idle().share)
        with AdaptiveThreadPool(self._concurrency, read) as pool:
            yield from pool.pages(work)
