"""TaskMap: calls a function with each item of a list, here or on a cluster, and returns the results in order."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from cdk.base.errors import TransientError
from cdk.base.run import setting

Item = TypeVar("Item")
Result = TypeVar("Result")


class TaskMap(Protocol):
    """Calls a function with each item, somewhere, and returns the results in order."""

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item], /) -> list[Result]:
        """Call `work` with each item. Raises ClusterLost: what runs it was lost; TaskLost."""


_attempt: ContextVar[int] = ContextVar("task_attempt", default=0)


def task_attempt() -> int:
    """How often the task that runs here was begun before: it died, or is copied."""
    return _attempt.get()


def attempting(attempt: int) -> AbstractContextManager[int]:
    """Let a block be a further attempt of a task."""
    return setting(_attempt, attempt)


def run_inline(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `work` with each item in this process: for work that is smaller than a job of a cluster."""
    return [work(item) for item in items]


class ClusterLost(TransientError):
    """What runs the tasks failed at one, or is gone. reason: what happened, without what to do about it."""

    def __init__(self, reason: str, advice: str, *, path: str = "", detail: str = "") -> None:
        super().__init__(f"{reason}; {advice}", path=path, detail=detail)
        self.reason = reason


class TaskLost(TransientError):
    """The process of a task died again and again, most often for want of memory."""

    def __init__(self, task: int | None, reason: str) -> None:
        """Name the task. task: its number; None: unknown. reason: what the cluster reported last."""
        super().__init__(
            "the process of a task died again and again; what was committed is safe: give it more memory, and run the "
            "sync again",
            detail=reason,
        )
        self.task = task
