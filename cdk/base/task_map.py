"""TaskMap: calls a function with each item of a list, in this process or on a cluster; results come in order."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from cdk.base.errors import TransientError
from cdk.base.run import setting

Item = TypeVar("Item")
Result = TypeVar("Result")


class TaskMap(Protocol):
    """Calls a function with each item, wherever the implementation runs it, and returns the results in order."""

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item], /) -> list[Result]:
        """Call `work` with each item.

        Raises ClusterLost: the cluster is gone. Raises TaskLost: the process of a task keeps dying.
        """


_attempt: ContextVar[int] = ContextVar("task_attempt", default=0)


def task_attempt() -> int:
    """How often the current task was started before, because it died or runs speculatively."""
    return _attempt.get()


def attempting(attempt: int) -> AbstractContextManager[int]:
    """Mark a block as the given attempt of a task."""
    return setting(_attempt, attempt)


def run_inline(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `work` with each item in this process, for work that is too small for a cluster."""
    return [work(item) for item in items]


class ClusterLost(TransientError):
    """The cluster failed at a task, or is gone. reason: what happened, without the advice."""

    def __init__(self, reason: str, advice: str, *, path: str = "", detail: str = "") -> None:
        super().__init__(f"{reason}; {advice}", path=path, detail=detail)
        self.reason = reason


class TaskLost(TransientError):
    """The process of a task died repeatedly, usually because it ran out of memory."""

    def __init__(self, task: int | None, reason: str) -> None:
        """Name the task. task: its number; None if unknown. reason: the last report of the cluster."""
        super().__init__(
            "the process of a task died repeatedly; committed rows are safe: give it more memory, and run the sync "
            "again",
            detail=reason,
        )
        self.task = task
