"""Executors: who reads the slices.

An executor takes pieces of work (slices, as a rule) from an iterator on the caller's thread, has each read, and gives
the pages back on that thread, each with the piece it belongs to. Contract (tests/contract/test_executors.py): pages of
one piece come in order; a piece is taken only when somebody can read it, but for one that waits while all are at work;
an error in any is raised to the caller; closing the generator stops all work at the next page.
"""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from cdk.engine.thread_pool import AdaptiveThreadPool
from cdk.streams.read_slice import ReadPage

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
        with AdaptiveThreadPool(count, read) as crew:
            yield from crew.pages(work)

    return run
