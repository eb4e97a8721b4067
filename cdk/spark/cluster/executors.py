"""Runs work on Spark's executors: calls a function with each item, in one task each, and returns the results."""

import pickle
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession

from cdk.base.errors import ConfigError
from cdk.base.process.tuning import spare_pandas, tuned_for_records
from cdk.base.run import current_run, part_of
from cdk.base.task_map import Item, Result, attempting
from cdk.spark.cluster.driver import Driver, driver_of, translate_lost
from cdk.spark.cluster.jvm_launch import JvmLaunch
from cdk.spark.cluster.session import open_session, pickled_by_value, ship
from cdk.spark.cluster.task_logs import gathering_lines, log_levels
from cdk.sync.settings.pipeline_file import SparkOptions
from cdk.sync.tasks.task_pool import ThreadTasks
from cdk.sync.tasks.workers import Workers


def executors(session: SparkSession) -> Workers:
    """Return the executors of a session as workers. Raises TransientError: when Spark was lost."""
    driver = driver_of(session)
    with translate_lost():
        return Workers(
            partial(on_executors, driver),
            driver.task_count,
            driver.name,
            engine=session.version,
            master=driver.master,
            cancel=driver.cancel,
            make_pool=ThreadTasks,
        )


def start_executors(
    options: SparkOptions, name: str, log: Path, modules: Collection[str], launch: JvmLaunch | None = None
) -> Workers:
    """Start or join a session, send it the code of `modules`, and return its executors as workers.

    Raises ConfigError: when Spark does not start. TransientError: when Spark was lost.
    """
    session = open_session(name, options, log, launch)
    ship(session, modules)
    return executors(session)


def check_picklable(item: object) -> None:
    """Raise ConfigError when an item cannot be pickled: a single one would make the job of all items fail."""
    # Registers a module that is a single file first, so that the check includes its globals, which are pickled, too.
    pickled_by_value(type(item).__module__)
    try:
        cloudpickle.dumps(item)  # type: ignore[no-untyped-call]  # pyspark's copy is untyped
    except Exception as error:
        raise ConfigError(
            f"the stream cannot be sent to Spark's tasks: {error}; create the object that it, or a global of its "
            "module, holds in read_records instead, or leave it out in __getstate__"
        ) from error


def on_executors(driver: Driver, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `work` with each item, in one Spark task each, as a part of this run. Both are pickled.

    What the tasks log and print is logged and printed here once they have ended.
    Raises TransientError: when Spark could not finish the job, because its JVM is gone or a task failed repeatedly.
    """
    run, levels = current_run().id, log_levels()

    def task(item: bytes) -> bytes:
        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        with part_of(run), attempting(attempt), gathering_lines(levels) as lines:
            argument = pickle.loads(item)  # noqa: S301 - our own driver wrote it
            spare_pandas()
            with tuned_for_records():
                result = work(argument)
        return pickle.dumps((result, lines))

    with translate_lost():
        packed = driver.run(task, [cloudpickle.dumps(item) for item in items])  # type: ignore[no-untyped-call]
    results = list[Result]()
    for result, lines in map(pickle.loads, packed):  # our own tasks wrote it
        results.append(result)
        for line in lines:
            line.repeat()
    return results
