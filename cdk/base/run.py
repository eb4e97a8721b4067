"""RunScope: one sync, read or check, and the objects that live as long as it does.

A process outlives its runs: a notebook syncs repeatedly, and Spark's Python workers serve one sync after another. Facts
learned about an API may be outdated in the next run, so each run starts without any. `setting` assigns a value to a
context variable for the length of a block.
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
    """Set a variable for this block, and for the threads that the executors start in it."""
    before = variable.get()
    variable.set(value)
    try:
        yield value
    finally:
        # Not `reset`: an abandoned generator is closed in whichever context the garbage collector runs.
        cast("ContextVar[T | None]", variable).set(before)


class RunScope:
    """One run in one process. Thread-safe. id: the same in all processes that work for the run.

    shared: objects that outlive the run, by the function that would make each.
    """

    def __init__(self, id: str | None = None, shared: Mapping[Callable[[], object], object] | None = None) -> None:
        self.id = uuid4().hex if id is None else id
        self._lock = Lock()
        self._shared: dict[Callable[[], object], object] = dict(shared or {})

    def own(self, make: Callable[[], T]) -> T:
        """The result of `make`, which is called once per run."""
        with self._lock:
            if make not in self._shared:
                self._shared[make] = make()
            return cast("T", self._shared[make])

    def working(self) -> AbstractContextManager["RunScope"]:
        """Make this the current run of a block, and of the threads that the executors start in it."""
        return setting(_current, self)


# The run of programs that read streams by hand, outside of any other run.
_OF_THE_PROCESS = RunScope("")
_current: ContextVar[RunScope] = ContextVar("run", default=_OF_THE_PROCESS)


def current_run() -> RunScope:
    """The current run; the process's own if none was started."""
    return _current.get()


@contextmanager
def one_run() -> Iterator[None]:
    """Make this block a run of its own, or a part of the current run if one was started."""
    with (RunScope() if current_run() is _OF_THE_PROCESS else current_run()).working():
        yield


@contextmanager
def part_of(id: str) -> Iterator[None]:
    """Make this block, perhaps in another process, a part of the run with this id."""
    with (current_run() if current_run().id == id else _joined(id)).working():
        yield


# Two pipelines may sync in one session at the same time; a third one makes the first start over, which only costs time.
@lru_cache(maxsize=2)
def _joined(id: str) -> RunScope:
    return RunScope(id)
