"""Workers: where the tasks of a sync run. This process, unless there is a cluster, or until it has started."""

import threading
from collections.abc import Callable, Collection, Iterable
from contextvars import copy_context
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from cdk.base.logs import logger
from cdk.base.task_map import TaskMap, run_inline
from cdk.base.wording import cut
from cdk.lake.parquet.writer import DEFAULT_LIMITS, Limits
from cdk.state.slice import Slice
from cdk.streams.stream import Stream
from cdk.sync.tasks.task_pool import InlineTasks, TaskPool, ThreadTasks

W = TypeVar("W")

_LONGEST_WAIT = 2.0
"""Seconds to wait for a cancelled start to end."""
_NAMED = 3
"""Maximum number of streams in the name of a job."""
_LONGEST = 40
"""Maximum characters of a value in the name of a job."""


class ClusterStart(Generic[W]):
    """A cluster that may join a sync. Belongs to the driver's thread."""

    def __init__(self, start: Callable[[], W], end: Callable[[], None] = lambda: None) -> None:
        """start: starts workers; runs in a thread of its own. end: makes a running start fail; runs in any thread.

        `end` does not affect a start that has already ended.
        """
        self._start, self._end = start, end
        self.started = False
        """Whether it was started, successfully or not."""
        self.starting = False
        """Whether it was started, but has neither joined nor failed yet."""
        self._over = threading.Event()
        self._workers: W | None = None
        self._error: Exception | None = None

    def begin(self) -> None:
        """Start the workers in a separate thread, without waiting."""
        self.started = self.starting = True
        # A daemon, so that the process does not wait for a cluster that is no longer needed.
        run = partial(copy_context().run, self._run)
        threading.Thread(target=run, name="cluster-start", daemon=True).start()  # noqa: TID251 - see above

    def _run(self) -> None:
        try:
            self._workers = self._start()
        except Exception as error:  # noqa: BLE001 - the driver's thread reports it
            self._error = error
        finally:
            self._over.set()

    def joined(self) -> W | None:
        """Return the workers once they are ready; else None. A failed start is only a warning: the sync continues."""
        if not self.starting or not self._over.is_set():
            return None
        self.starting = False
        if self._error is not None:
            logger.warning("everything is read in this process, because no cluster joined: %s", self._error)
        return self._workers

    def leave(self) -> None:
        """Cancel a running start, and wait briefly for its end; otherwise it ends with the process."""
        if self.starting:
            self._end()
            self._over.wait(_LONGEST_WAIT)
            self.starting = False


class Workers(Struct, frozen=True):
    """A place where the tasks of a sync run, ready for use."""

    spread: TaskMap
    count: int
    """Maximum number of concurrent tasks."""
    set_name: Callable[[str], None] = lambda _: None
    """Sets the name of the next tasks for user interfaces."""
    limits: Limits = DEFAULT_LIMITS
    """When a task writes waiting rows."""
    cancel: Callable[[], None] = lambda: None
    """Cancels the running tasks, whose results are no longer needed."""
    make_pool: Callable[[], TaskPool] = InlineTasks
    """Makes the pool that runs the tasks that read: each is a call of `spread` with one item."""
    engine: str = ""
    """The version of the engine that runs the tasks, for reports; empty in this process."""
    master: str = ""
    """The address of the engine, without credentials."""
    copy_stream: Callable[[Stream], Stream] = lambda stream: stream
    """Returns a stream for a task, which reads in parallel to the driver's thread."""
    cluster: "ClusterStart[Workers] | None" = None
    """The cluster whose workers may replace these; the pool stays."""

    def check(self, item: object) -> None:
        """Accept every item, because nothing has to be sent within a process."""

    def start(self, name: str, log: Path, modules: Collection[str]) -> "Workers":
        """Return these workers, which are ready."""
        _ = name, log, modules
        return self


class WorkerSource(Protocol):
    """Provides the workers of a sync, once there is work for them."""

    def check(self, item: object) -> None:
        """Raise ConfigError if the item, which tasks need, cannot be sent to workers."""

    def start(self, name: str, log: Path, modules: Collection[str]) -> Workers:
        """Start workers that have the code of `modules`. name: of the pipeline. log: file for a cluster's output.

        Raises ConfigError: when they do not start. TransientError: when they were lost.
        """


IN_PROCESS = Workers(run_inline, 1)
"""One worker in this process, on the driver's thread."""


def beside_the_driver(count: int, cluster: ClusterStart[Workers] | None = None) -> Workers:
    """Return workers in threads of this process. count: concurrent tasks. cluster: the one that may replace them."""
    return Workers(run_inline, count, make_pool=ThreadTasks, copy_stream=_copied, cluster=cluster)


def _copied(stream: Stream) -> Stream:
    """Return a copy, as a process of a cluster would get, so that a read does not change the original stream.

    The original can then be sent to a cluster later, and no task modifies it meanwhile.
    """
    try:
        return deepcopy(stream)
    except Exception:  # noqa: BLE001 - an error of the connector; the stream is then shared, as in `spark-cdk read`
        return stream


def job_name(pipeline: str, slices: Iterable[tuple[str, Slice]]) -> str:
    """Return the name of a task's job, such as `shop: orders 2024-01-01..2024-01-31, users`.

    slices: in the order they were planned, each with the name of its stream. Partitions are omitted, because a task
    has thousands of them. At most three streams are named.
    """
    by_stream: dict[str, list[Slice]] = {}
    for name, slice in slices:
        by_stream.setdefault(name, []).append(slice)
    named = [f"{name}{_stretch(slices_of_stream)}" for name, slices_of_stream in list(by_stream.items())[:_NAMED]]
    more = f" ({len(by_stream) - _NAMED} more)" if len(by_stream) > _NAMED else ""
    return f"{pipeline}: {', '.join(named)}{more}"


def _stretch(slices: list[Slice]) -> str:
    windows = [slice.window for slice in slices if slice.window is not None]
    if not windows:
        return ""
    # Windows are handed out oldest first, and those of one task may belong to several partitions.
    start, end = windows[0].start, windows[-1].end
    return f" {cut(str(start), _LONGEST)}..{'' if end is None else cut(str(end), _LONGEST)}"
