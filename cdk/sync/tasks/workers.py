"""Workers: where the tasks of a sync run. In this process, if nothing else is there, or until a cluster has started."""

import threading
from collections.abc import Callable, Collection, Iterable
from contextvars import copy_context
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from cdk.base.logs import logger
from cdk.base.task_map import TaskMap, run_inline
from cdk.base.wording import cut
from cdk.lake.parquet.writer import DEFAULT_LIMITS, Limits
from cdk.state.slice import Slice
from cdk.streams.stream import Stream
from cdk.sync.tasks.task_pool import InlineTasks, TaskPool, ThreadTasks

W = TypeVar("W")

_PATIENCE = 2.0
"""Seconds that a start has to end once it is cancelled."""
_NAMED = 3
"""Streams in the name of a job."""
_LONGEST = 40
"""Characters of a value in the name of a job."""


class ClusterStart(Generic[W]):
    """A cluster that may join a sync. Belongs to the driver's thread."""

    def __init__(self, start: Callable[[], W], end: Callable[[], None] = lambda: None) -> None:
        """start: starts workers, in a thread of its own. end: makes a start that still goes on fail, from any thread.

        A start that has ended by then is left alone.
        """
        self._start, self._end = start, end
        self.started = False
        """Whether it was started, however that ends."""
        self.starting = False
        """Whether it was started, and has neither joined nor failed yet."""
        self._over = threading.Event()
        self._workers: W | None = None
        self._error: Exception | None = None

    def begin(self) -> None:
        """Start the workers in a thread of their own; returns at once."""
        self.started = self.starting = True
        # No process waits for a cluster that is not needed any more.
        run = partial(copy_context().run, self._run)
        threading.Thread(target=run, name="cluster-start", daemon=True).start()  # noqa: TID251 - see above

    def _run(self) -> None:
        try:
            self._workers = self._start()
        except Exception as error:  # noqa: BLE001 - the driver's thread looks at it
            self._error = error
        finally:
            self._over.set()

    def joined(self) -> W | None:
        """The workers, as soon as they are ready. A start that fails is a warning: the sync goes on without them."""
        if not self.starting or not self._over.is_set():
            return None
        self.starting = False
        if self._error is not None:
            logger.warning("all is read in this process, for no cluster joins: %s", self._error)
        return self._workers

    def leave(self) -> None:
        """Wait for nothing: a start that still goes on ends, or does so with the process."""
        if self.starting:
            self._end()
            self._over.wait(_PATIENCE)
            self.starting = False


def _itself(stream: Stream) -> Stream:
    return stream


@dataclass(frozen=True)
class Workers:
    """Where the tasks of a sync run, ready to be used."""

    spread: TaskMap
    count: int
    """How many tasks run at once."""
    name: Callable[[str], None] = lambda _: None
    """Tells people what the next tasks are about."""
    limits: Limits = DEFAULT_LIMITS
    """When a task writes rows that wait."""
    cancel: Callable[[], None] = lambda: None
    """Ends the tasks that run, whose results are not needed any more."""
    pool: Callable[[], TaskPool] = InlineTasks
    """Runs the tasks that read: each is a call of `spread` with one item."""
    engine: str = ""
    """The version of what runs the tasks, for reports; empty in this process."""
    master: str = ""
    """Where that is, without credentials."""
    copy: Callable[[Stream], Stream] = _itself
    """The stream as a task gets it, which reads beside the driver's thread."""
    cluster: "ClusterStart[Workers] | None" = None
    """The workers that start beside these and take their place; the pool stays."""

    def check(self, item: object) -> None:
        """Accept every item: what runs where it was made need not be sent."""

    def start(self, name: str, log: Path, modules: Collection[str]) -> "Workers":
        """These, for they are ready."""
        _ = name, log, modules
        return self


class WorkerSource(Protocol):
    """Provides the workers of a sync, once there is something for them to do."""

    def check(self, item: object) -> None:
        """Raise ConfigError: the item, which tasks need, cannot be sent to workers."""

    def start(self, name: str, log: Path, modules: Collection[str]) -> Workers:
        """Workers that have the code of `modules`. name: of the pipeline. log: the file for what a cluster prints.

        Raises ConfigError: they do not start. TransientError: they were lost.
        """


IN_PROCESS = Workers(run_inline, 1)
"""A worker in this process."""


def beside_the_driver(count: int, cluster: ClusterStart[Workers] | None = None) -> Workers:
    """Workers in threads of this process. count: how many tasks run at once. cluster: what may take their place."""
    return Workers(run_inline, count, pool=ThreadTasks, copy=_copied, cluster=cluster)


def _copied(stream: Stream) -> Stream:
    """A copy, as the process of a cluster gets one: what a read leaves in a stream stays where it was read.

    So the stream itself can be sent to a cluster later, and no task changes it while it is.
    """
    try:
        return deepcopy(stream)
    except Exception:  # noqa: BLE001 - a connector's own; one that cannot be copied is read as `spark-cdk read` does
        return stream


def job_name(pipeline: str, slices: Iterable[tuple[str, Slice]]) -> str:
    """The name of a task's job: `shop: orders 2024-01-01..2024-01-31, users`.

    slices: in the order they were planned, each with the name of its stream. Partitions are left out: a
    task has thousands of them. At most three streams are named.
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
