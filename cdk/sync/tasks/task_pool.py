"""TaskPool: runs tasks in parallel to the driver's thread, and returns each to it as soon as it has ended."""

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol

from msgspec import Struct

from cdk.sync.tasks.messages import BundleResult

Call = Callable[[], BundleResult]


class EndedTask(Struct, frozen=True):
    """A task that has ended, with its result or its error."""

    number: int
    result: BundleResult | None
    error: Exception | None = None


class TaskPool(Protocol):
    """Runs tasks. Belongs to the driver's thread."""

    def start(self, number: int, call: Call, /) -> None:
        """Start a task. number: identifies it in `ended`."""

    def ended(self, seconds: float | None, /) -> list[EndedTask]:
        """Wait for a task to end, and return all tasks that have ended since the last call.

        seconds: maximum wait; None waits as long as it takes. Call it only while a task runs.
        """


class InlineTasks:
    """Runs each task immediately on the driver's thread, without parallelism."""

    def __init__(self) -> None:
        self._ended: list[EndedTask] = []

    def start(self, number: int, call: Call, /) -> None:
        self._ended.append(_run(number, call))

    def ended(self, seconds: float | None, /) -> list[EndedTask]:
        _ = seconds
        ended, self._ended = self._ended, []
        return ended


class ThreadTasks:
    """Runs each task in a thread of its own, which waits for a cluster or reads in this process."""

    def __init__(self) -> None:
        self._ended = SimpleQueue[EndedTask]()

    def start(self, number: int, call: Call, /) -> None:
        # A new thread has an empty context, without the current run, metrics and budgets.
        context = copy_context()
        # A daemon, so that the process does not wait for a task whose result is no longer needed.
        target = partial(self._run, context, number, call)
        threading.Thread(target=target, name=f"task-{number}", daemon=True).start()  # noqa: TID251 - see above

    def _run(self, context: Context, number: int, call: Call) -> None:
        self._ended.put(context.run(_run, number, call))

    def ended(self, seconds: float | None, /) -> list[EndedTask]:
        ended: list[EndedTask] = []
        with suppress(Empty):
            ended.append(self._ended.get(block=seconds is None or seconds > 0, timeout=seconds))
            while True:
                ended.append(self._ended.get_nowait())
        return ended


def _run(number: int, call: Call) -> EndedTask:
    try:
        return EndedTask(number, call())
    except Exception as error:  # noqa: BLE001 - the driver's thread raises it
        return EndedTask(number, None, error)
