"""Work for Spark's executors: a function and what to call it with, one task each. Only results come back."""

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from cdk.spark.driver import driver_of, unless_lost

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
        return Workers(partial(on_executors, session), driver.task_count, driver.name)


def on_executors(session: SparkSession, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `work` with each item, one Spark task each. Both travel by pickle.

    Raises TransientError: Spark could not finish the job, for its JVM is gone or a task failed again and again.
    """
    count = len(items)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Records are trees, which reference counting frees: looking for cycles among them took a quarter of the CPU.
        gc.set_threshold(100_000, 20, 100)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pickle.dumps((number, work(items[number])))
                yield pa.RecordBatch.from_arrays([pa.array([result], pa.binary())], names=["result"])

    with unless_lost():
        rows = session.range(0, count, 1, count).mapInArrow(task, "result binary").collect() if count else []
    results: dict[int, Result] = dict(pickle.loads(row.result) for row in rows)  # noqa: S301 - our own tasks wrote it
    return [results[number] for number in range(count)]


def here(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `work` with each item in this process: for work that is smaller than a Spark job."""
    return [work(item) for item in items]
