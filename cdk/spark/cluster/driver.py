"""What a sync needs of a session besides queries, from this process's JVM or from a Spark Connect server.

A Spark Connect session has no JVM in this process, and so no SparkContext: only queries, settings, tags and files.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pyarrow as pa
from msgspec import Struct, field
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.utils import is_remote

from cdk.base.errors import ConfigError
from cdk.base.task_map import ClusterLost, TaskLost

_FAILURES = (("py4j.protocol", "Py4JError"), ("grpc", "RpcError"))
# Spark's message since 1.0, in the JVM and under Connect, when it gives up a job after several attempts of one task.
_FULL = re.compile(r"[^\n]*No space left on device[^\n]*")
_DIED = re.compile(r"Job aborted due to stage failure: Task (?P<task>\d+) in stage [\d.]+ failed \d+ times")
_CODE = "SPARK_CDK_CODE"
_SENT = "spark.cdk.sent"
_PYTHON = "PYSPARK_PYTHON"
_MOST_TASKS = 10_000


Task = Callable[[bytes], bytes]


def _new_group() -> str:
    return f"spark-cdk-{uuid4().hex}"


class Driver(Protocol):
    """The driver of a session. If it cannot be reached, methods raise errors that `translate_lost` translates."""

    @property
    def master(self) -> str:
        """Where Spark runs, for display; without tokens."""

    @property
    def task_count(self) -> int:
        """How many tasks run at once."""

    @property
    def shares_installation(self) -> bool:
        """Whether tasks can import everything that this process can import."""

    @property
    def sent(self) -> list[str]:
        """The names of the archives that were sent to this session."""

    def run(self, task: Task, items: Sequence[bytes]) -> list[bytes]:
        """Call a function with each item, in one Spark task each, and return the results in order.

        Raises errors that `translate_lost` translates: when a task fails repeatedly.
        """

    def name(self, text: str) -> None:
        """Set the description that Spark's UI shows for the next jobs of this thread."""

    def cancel(self) -> None:
        """Cancel the running jobs that were named."""

    def send(self, archive: Path) -> None:
        """Let tasks import from an archive that `archived` wrote.

        Raises ConfigError: when it has newer code, and workers that have imported the older code cannot be replaced.
        """

    def begin(self, digest: str) -> None:
        """Make the next tasks run in workers that have imported no other code than that of this digest."""


def driver_of(session: SparkSession) -> Driver:
    """Return the driver of a session, with a JVM in this process or on a Spark Connect server."""
    return ConnectDriver(session) if is_remote() else JvmDriver(session)


@contextmanager
def translate_lost(
    what: str = "finish a job", then: str = "what was committed is safe: run the sync again"
) -> Iterator[None]:
    """Translate errors that Spark's clients raise when a job fails or the driver is lost into ClusterLost.

    Raises TaskLost if only the process of a task died.
    what, then: what Spark failed to do, and the advice, for the message.
    """
    try:
        yield
    except _failures() as error:
        if (died := _DIED.search(text := str(error))) is not None and "PythonException" not in text:
            raise TaskLost(int(died["task"]), text) from error
        full = _FULL.search(text)
        why = f"{type(error).__name__}: {full[0].strip()}" if full else type(error).__name__
        advice = f"{'free some space, and then: ' if full else ''}{then}"
        raise ClusterLost(f"Spark did not {what} ({why})", advice, detail=text) from error


def _failures() -> tuple[type[Exception], ...]:
    """Return the error classes of the clients that were imported: each client works without the other's packages."""
    clients = (vars(sys.modules[module])[name] for module, name in _FAILURES if module in sys.modules)
    return (PySparkException, OSError, *clients)


class JvmDriver(Struct, frozen=True):
    """The driver whose JVM belongs to this process."""

    session: SparkSession
    group: str = field(default_factory=_new_group)
    """The job group by which its jobs are cancelled."""

    @property
    def master(self) -> str:
        return str(self.session.sparkContext.master)

    @property
    def task_count(self) -> int:
        context = self.session.sparkContext
        conf = context.getConf()
        if conf.get("spark.dynamicAllocation.enabled") != "true":
            return context.defaultParallelism
        # A cluster with dynamic allocation grows while tasks wait, so its maximum size counts, not its current one.
        executors = int(conf.get("spark.dynamicAllocation.maxExecutors") or _MOST_TASKS)
        return min(_MOST_TASKS, executors * int(conf.get("spark.executor.cores") or 1))

    @property
    def shares_installation(self) -> bool:
        return str(self.session.conf.get("spark.master", "")).startswith("local[")

    @property
    def sent(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.session.sparkContext.listFiles]

    def run(self, task: Task, items: Sequence[bytes]) -> list[bytes]:
        if not items:
            return []
        with using_this_python(self.session):
            # An RDD, because a query takes 0.3 s longer to plan and start on slow cores, and its workers import pandas.
            return self.session.sparkContext.parallelize(items, len(items)).map(task).collect()

    def name(self, text: str) -> None:
        self.session.sparkContext.setJobGroup(self.group, text)

    def cancel(self) -> None:
        self.session.sparkContext.cancelJobGroup(self.group)

    def send(self, archive: Path) -> None:
        self.session.sparkContext.addPyFile(str(archive))

    def begin(self, digest: str) -> None:
        # A Python worker is reused and keeps the modules it has imported; another environment makes Spark start new
        # workers.
        self.session.sparkContext.environment[_CODE] = digest


@contextmanager
def using_this_python(session: SparkSession) -> Iterator[None]:
    """Make Python workers started in this block use this program's Python, and find the kit where this program does.

    A session that the user's program created starts `python3`, whatever that is, unless PYSPARK_PYTHON is set. This can
    be fixed on this machine only, so nothing changes if the workers are on other machines. Blocks of several threads
    may overlap: the last one to end restores what the first one changed.
    """
    context = session.sparkContext
    if _PYTHON in os.environ or not str(context.master).startswith("local"):
        yield
        return
    kit = str(Path(__file__).parents[2])
    with _lock:
        if context not in _original_settings:
            python, paths = context.pythonExec, context.environment.get("PYTHONPATH")
            _original_settings[context] = _OriginalSettings(python, paths)
            context.pythonExec = sys.executable
            context.environment["PYTHONPATH"] = kit if paths is None else f"{paths}{os.pathsep}{kit}"
        _original_settings[context].blocks += 1
    try:
        yield
    finally:
        with _lock:
            original = _original_settings[context]
            original.blocks -= 1
            if not original.blocks:
                del _original_settings[context]
                context.pythonExec = original.python
                if original.paths is None:
                    del context.environment["PYTHONPATH"]
                else:
                    context.environment["PYTHONPATH"] = original.paths


class _OriginalSettings(Struct):
    """The original settings of a context, and the number of active blocks that have changed them."""

    python: str
    paths: str | None
    blocks: int = 0


_lock = threading.Lock()
_original_settings: dict[SparkContext, _OriginalSettings] = {}


class ConnectDriver:
    """The driver on a Spark Connect server."""

    def __init__(self, session: SparkSession) -> None:
        self._session, self._group, self._of_thread = session, _new_group(), threading.local()

    @property
    def master(self) -> str:
        return f"sc://{self._session.client.host}"

    @property
    def task_count(self) -> int:
        # Without a given number, Spark makes as many partitions as its parallelism; the row is in the last one.
        (row,) = self._session.range(1).select(f.spark_partition_id()).collect()
        return int(row[0]) + 1

    @property
    def shares_installation(self) -> bool:
        return False

    @property
    def sent(self) -> list[str]:
        # The server does not tell which files it has; this setting of the session lives as long as they do.
        return str(self._session.conf.get(_SENT, "")).split()

    def run(self, task: Task, items: Sequence[bytes]) -> list[bytes]:
        count = len(items)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    columns = [pa.array([number]), pa.array([task(items[number])], pa.binary())]
                    yield pa.RecordBatch.from_arrays(columns, names=["number", "result"])

        numbers = self._session.range(0, count, 1, count)
        rows = numbers.mapInArrow(run, "number long, result binary").collect() if count else []
        results = {row.number: bytes(row.result) for row in rows}
        return [results[number] for number in range(count)]

    def name(self, text: str) -> None:
        # Tags belong to a thread.
        if before := getattr(self._of_thread, "tag", ""):
            self._session.removeTag(before)
        self._of_thread.tag = text.replace(",", ";")  # a comma separates tags
        self._session.addTag(self._of_thread.tag)
        self._session.addTag(self._group)

    def cancel(self) -> None:
        self._session.interruptTag(self._group)

    def send(self, archive: Path) -> None:
        name, number, _ = archive.stem.rsplit("-", 2)
        if int(number) > 1:
            raise ConfigError(
                f"found other code of {name!r} than was sent to this session of Spark Connect before, expected the "
                "same: its Python workers do not import a module again; stop the session, and sync in a new one"
            )
        self._session.addArtifacts(str(archive), pyfile=True)
        self._session.conf.set(_SENT, " ".join([*self.sent, archive.name]))

    def begin(self, digest: str) -> None:
        """Do nothing: workers belong to one session, and a session is never sent different code."""
