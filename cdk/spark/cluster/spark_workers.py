"""SparkWorkers: decides whether tasks of a pipeline run on Spark or in this process. Imports pyspark only for Spark."""

import os
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from cdk.spark.cluster.jvm_launch import SUBMITTED, JvmLaunch
from cdk.sync.settings.pipeline_file import SparkOptions
from cdk.sync.tasks.workers import ClusterStart, Workers, beside_the_driver

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*(?:\d+|\*))?\])?")
_ELSEWHERE = (SUBMITTED, "SPARK_REMOTE")
"""If one of these variables is set, Spark runs already, or on a server."""


@dataclass(frozen=True)
class SparkWorkers:
    """The executors of a session that is started or joined when a sync needs them, or workers in this process."""

    options: SparkOptions
    _unchecked: list[object] = field(default_factory=list)
    """Items that tasks need, to be checked if Spark starts later."""

    def check(self, item: object) -> None:
        """Raise ConfigError when an item cannot be pickled and everything is read on Spark."""
        if self._start == "always":
            from cdk.spark.cluster.executors import check_picklable  # noqa: PLC0415 - it imports pyspark

            check_picklable(item)
        else:
            self._unchecked.append(item)

    def start(self, name: str, log: Path, modules: Collection[str]) -> Workers:
        """Start or join a session that has the code of `modules`, or prepare to do so later.

        Raises ConfigError: when Spark does not start. TransientError: when Spark was lost.
        """
        match self._start:
            case "always":
                return self._executors(name, log, modules)
            case "never":
                return beside_the_driver(self._tasks)
            case "needed":
                launch = JvmLaunch()
                start = partial(self._executors_of, launch, name, log, modules)
                return beside_the_driver(self._tasks, ClusterStart(start, launch.end))

    def _executors(self, name: str, log: Path, modules: Collection[str], launch: JvmLaunch | None = None) -> Workers:
        from cdk.spark.cluster.executors import check_picklable, start_executors  # noqa: PLC0415 - it imports pyspark

        for item in self._unchecked:
            check_picklable(item)
        return start_executors(self.options, name, log, modules, launch)

    def _executors_of(self, launch: JvmLaunch, name: str, log: Path, modules: Collection[str]) -> Workers:
        """Return the executors of a session that starts while this process already reads, unless `launch` is ended."""
        try:
            workers = self._executors(name, log, modules, launch)
            launch.complete()
        except Exception:
            launch.reset_pyspark()
            raise
        return workers

    @cached_property
    def _start(self) -> Literal["needed", "always", "never"]:
        start = self.options.start
        if start == "never":
            return start
        if start == "always" or _is_available():
            return "always"
        return start or ("always" if _local_cores(self._master) is None else "needed")

    @property
    def _master(self) -> str:
        conf = self.options.conf
        return str(conf.get("spark.master", "") or conf.get("spark.remote", "") or self.options.master or "local[*]")

    @property
    def _tasks(self) -> int:
        """How many tasks run at once in this process: as many as on Spark, if its master is local."""
        # For a cluster, at least two, since a single task would read slices in another order than several.
        return _local_cores(self._master) or max(2, os.cpu_count() or 1)


def _is_available() -> bool:
    """Whether a Spark session runs already, or the environment says where Spark is."""
    if any(name in os.environ for name in _ELSEWHERE):
        return True
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext  # noqa: PLC0415 - the program has imported it
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkContext._active_spark_context is not None or SparkSession.getActiveSession() is not None  # noqa: SLF001


def _local_cores(master: str) -> int | None:
    """Return how many tasks a local master runs at once; None: the master is not local."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    cores = match[1] if "[" in master else "1"
    return (os.cpu_count() or 1) if cores == "*" else int(cores)
