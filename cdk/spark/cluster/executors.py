"""Work for Spark's executors: a function and what to call it with, one task each. Only results come back."""

import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from cdk.base.gc_tuning import rare_collections
from cdk.base.run import current_run, part_of
from cdk.lake.parquet.writer import DEFAULT_LIMITS, Limits
from cdk.spark.cluster.driver import Driver, driver_of, unless_lost

Item = TypeVar("Item")
Result = TypeVar("Result")


class Spread(Protocol):
    """Calls a function with each item, somewhere, and gives the results in order."""

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item], /) -> list[Result]:
        """Call `work` with each item."""


@dataclass(frozen=True)
class Workers:
    """Where the tasks of a sync run. count: how many at once. name: tells people what the next tasks are about.

    limits: when a task writes down rows that wait.
    """

    spread: Spread
    count: int
    name: Callable[[str], None] = lambda _: None
    limits: Limits = DEFAULT_LIMITS


def executors(session: SparkSession) -> Workers:
    """The executors of a session. Raises TransientError: Spark was lost."""
    driver = driver_of(session)
    with unless_lost():
        return Workers(partial(on_executors, driver), driver.task_count, driver.name)


def on_executors(driver: Driver, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `work` with each item, one Spark task each, as a part of this run. Both travel by pickle.

    Raises TransientError: Spark could not finish the job, for its JVM is gone or a task failed again and again.
    """
    run = current_run().id

    def task(item: bytes) -> bytes:
        with part_of(run):
            given = pickle.loads(item)  # noqa: S301 - our own driver wrote it
            _spare_pandas()
            with rare_collections():
                return pickle.dumps(work(given))

    with unless_lost():
        results = driver.run(task, [cloudpickle.dumps(item) for item in items])  # type: ignore[no-untyped-call]
    return [pickle.loads(result) for result in results]  # noqa: S301 - our own tasks wrote it


class _NoPandas:
    """Finds no pandas, wherever it is."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """See importlib.abc.MetaPathFinder."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def _spare_pandas() -> None:
    """Let Arrow find no pandas when it makes its first value, unless a connector has imported it.

    Arrow would import it, in each worker, for 0.8 s of CPU on slow cores; nothing here needs it. Who
    converts to pandas or from it by name has Arrow look again.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(_NoPandas)


def here(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `work` with each item in this process: for work that is smaller than a Spark job."""
    return [work(item) for item in items]
