"""Workers: where the tasks of a sync run. In this process, if nothing else is there, or until a cluster joins."""

from collections.abc import Callable, Collection, Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cdk.base.task_map import TaskMap, run_inline
from cdk.base.values import FieldValue
from cdk.lake.parquet.writer import DEFAULT_LIMITS, Limits
from cdk.state.slice import Slice
from cdk.streams.stream import Stream
from cdk.sync.tasks.cluster_start import ClusterStart
from cdk.sync.tasks.task_pool import InlineTasks, TaskPool, ThreadTasks

_NAMED = 3
"""Streams in the name of a job."""
_LONGEST = 40
"""Characters of a value in the name of a job."""


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
    return f" {_short(start)}..{'' if end is None else _short(end)}"


def _short(value: FieldValue) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
