"""RunScope: one sync, read or check, and what is kept for its length.

A process outlives its runs: a notebook syncs again and again, and Spark's Python workers serve one sync after the
other. What was learned of an API is as old as the run that learned it, so each run begins with nothing. `setting` lets
any variable have a value in a block.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from typing import TypeVar, cast
from uuid import uuid4

T = TypeVar("T")


@contextmanager
def setting(variable: ContextVar[T] | ContextVar[T | None], value: T) -> Iterator[T]:
    """Let a variable have a value in this block, and in threads that the executors start in it."""
    before = variable.get()
    variable.set(value)
    try:
        yield value
    finally:
        # Not `reset`: a generator that is dropped is closed wherever the collector runs.
        cast("ContextVar[T | None]", variable).set(before)


class RunScope:
    """One run, in one process. id: the same in all processes that work for it. Safe to use from several threads.

    shared: what lives longer than the run, by what would make it.
    """

    def __init__(self, id: str | None = None, shared: Mapping[Callable[[], object], object] | None = None) -> None:
        self.id = uuid4().hex if id is None else id
        self._lock = Lock()
        self._shared: dict[Callable[[], object], object] = dict(shared or {})

    def own(self, make: Callable[[], T]) -> T:
        """What `make` gives, made once for this run."""
        with self._lock:
            if make not in self._shared:
                self._shared[make] = make()
            return cast("T", self._shared[make])

    def working(self) -> AbstractContextManager["RunScope"]:
        """Let a block, and threads that the executors start in it, work for this run."""
        return setting(_current, self)


# A program that reads streams by hand, outside of any run, is one.
_OF_THE_PROCESS = RunScope("")
_current: ContextVar[RunScope] = ContextVar("run", default=_OF_THE_PROCESS)


def current_run() -> RunScope:
    """The run that works here; the process's own where none was begun."""
    return _current.get()


@contextmanager
def one_run() -> Iterator[None]:
    """Let this block be a run of its own; a part of the one that works here, if any was begun."""
    with (RunScope() if current_run() is _OF_THE_PROCESS else current_run()).working():
        yield


@contextmanager
def part_of(id: str) -> Iterator[None]:
    """Let this block, in a process that may have none yet, work for the run of an id."""
    with (current_run() if current_run().id == id else _joined(id)).working():
        yield


# Two pipelines may sync in one session at once; a third makes the first begin with nothing again, which only costs.
@lru_cache(maxsize=2)
def _joined(id: str) -> RunScope:
    return RunScope(id)
