"""Workers: where the tasks of a sync run. In this process, if nothing else is there."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cdk.base.task_map import TaskMap, run_inline
from cdk.lake.parquet.writer import DEFAULT_LIMITS, Limits
from cdk.sync.tasks.task_pool import InlineTasks, TaskPool


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
    """Ends the tasks that run, whose results nobody wants any more."""
    pool: Callable[[], TaskPool] = InlineTasks
    """Runs the tasks that read: each is a call of `spread` with one item."""
    engine: str = ""
    """The version of what runs the tasks, for reports; empty in this process."""
    master: str = ""
    """Where that is, without credentials."""

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
