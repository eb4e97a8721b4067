"""Executors: who reads the slices.

An executor takes pieces of work (slices, as a rule) from an iterator on the caller's thread, has each read, and gives
the pages back on that thread, each with the piece it belongs to. Contract (tests/contract/test_executors.py): pages of
one piece come in order; a piece is taken only when somebody can read it, but for one that waits while all are at work;
an error in any is raised to the caller; closing the generator stops all work at the next page.
"""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from cdk.base.process.concurrency import Concurrency
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

    ceiling: how many, at most. settled: how many it has come to. complaints: how often the source made them fewer.
    """

    def __init__(self, ceiling: int, begin: int = 1) -> None:
        """begin: how many pieces the first call begins with."""
        self.ceiling, self.settled, self.complaints = max(1, ceiling), max(1, min(begin, ceiling)), 0

    def __call__(
        self, work: Iterator[W], read: Callable[[W], Iterator[ReadPage]], /, most: int | None = None
    ) -> Iterator[tuple[W, ReadPage]]:
        """Pages of the work, each with the piece it belongs to. most: pieces at once, where these may not be more."""
        ceiling = self.ceiling if most is None else min(most, self.ceiling)
        if ceiling <= 1:
            yield from serial(work, read)
            return
        concurrency = Concurrency(ceiling, self.settled, Idle().share)
        try:
            with AdaptiveThreadPool(concurrency, read) as pool:
                yield from pool.pages(work)
        finally:
            self.complaints += concurrency.complaints
            self.settled = concurrency.settled if ceiling == self.ceiling else max(self.settled, concurrency.settled)
