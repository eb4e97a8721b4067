"""Work for Spark's executors: a function and what to call it with, one task each. Only results come back."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from cdk.base.garbage import rare_collections
from cdk.spark.driver import Driver, driver_of, unless_lost

Item = TypeVar("Item")
Result = TypeVar("Result")


class Spread(Protocol):
    """Calls a function with each item, somewhere, and gives the results in order."""

    def __call__(self, work: Callable[[Item], Result], items: Sequence[Item], /) -> list[Result]:
        """Call `work` with each item."""


@dataclass(frozen=True)
class Workers:
    """Where the tasks of a sync run. count: how many at once. name: tells people what the next tasks are about."""

    spread: Spread
    count: int
    name: Callable[[str], None] = lambda _: None


def executors(session: SparkSession) -> Workers:
    """The executors of a session. Raises TransientError: Spark was lost."""
    driver = driver_of(session)
    with unless_lost():
        return Workers(partial(on_executors, driver), driver.task_count, driver.name)


def on_executors(driver: Driver, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `work` with each item, one Spark task each. Both travel by pickle.

    Raises TransientError: Spark could not finish the job, for its JVM is gone or a task failed again and again.
    """

    def task(item: bytes) -> bytes:
        with rare_collections():
            return pickle.dumps(work(pickle.loads(item)))  # noqa: S301 - our own driver wrote it

    with unless_lost():
        results = driver.run(task, [cloudpickle.dumps(item) for item in items])  # type: ignore[no-untyped-call]
    return [pickle.loads(result) for result in results]  # noqa: S301 - our own tasks wrote it


def here(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `work` with each item in this process: for work that is smaller than a Spark job."""
    return [work(item) for item in items]
