"""Work for Spark's executors: a function and what to call it with, one task each. Only results come back."""

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cdk.base.errors import TransientError

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
    """The executors of a session."""
    context = session.sparkContext
    return Workers(partial(on_executors, session), context.defaultParallelism, context.setJobDescription)


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

    try:
        rows = session.range(0, count, 1, count).mapInArrow(task, "result binary").collect() if count else []
    except (PySparkException, Py4JError, OSError) as error:
        raise TransientError(
            f"Spark did not finish a job ({type(error).__name__}); what was committed is safe: run the sync again",
            detail=str(error),
        ) from error
    results: dict[int, Result] = dict(pickle.loads(row.result) for row in rows)  # noqa: S301 - our own tasks wrote it
    return [results[number] for number in range(count)]


def here(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `work` with each item in this process: for work that is smaller than a Spark job."""
    return [work(item) for item in items]
