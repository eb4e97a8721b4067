"""What a sync asks of a session besides queries: of the JVM in this process, or of a server of Spark Connect.

A session of Spark Connect has no JVM here, and so no SparkContext: it knows queries, settings, tags and files.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.utils import is_remote

from cdk.base.errors import ConfigError
from cdk.base.task_map import ClusterLost, TaskLost

_FAILURES = (("py4j.protocol", "Py4JError"), ("grpc", "RpcError"))
# Spark's words since 1.0, in the JVM and under Connect: the job is given up after so many attempts of one task.
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
    """The other end of a session. Methods raise what `unless_lost` explains where it cannot be reached."""

    @property
    def master(self) -> str:
        """Where Spark runs, as people are told; without tokens."""

    @property
    def task_count(self) -> int:
        """How many tasks run at once."""

    @property
    def shares_installation(self) -> bool:
        """Whether tasks import what this process imports."""

    @property
    def sent(self) -> list[str]:
        """The names of the archives that this session was sent."""

    def run(self, task: Task, items: Sequence[bytes]) -> list[bytes]:
        """Call a function with each of the texts given, one Spark task each; the results in order.

        Raises what `unless_lost` explains: a task failed again and again.
        """

    def name(self, text: str) -> None:
        """Say in Spark's own pages what the next jobs of this thread are about."""

    def cancel(self) -> None:
        """End the jobs that run and were named."""

    def send(self, archive: Path) -> None:
        """Let tasks import from an archive that `archived` wrote.

        Raises ConfigError: it is newer code, and the workers that have imported the older cannot be replaced.
        """

    def begin(self, digest: str) -> None:
        """Let the next tasks run in workers that have imported no other code than that of this digest."""


def driver_of(session: SparkSession) -> Driver:
    """The driver of a session, wherever it is."""
    return ConnectDriver(session) if is_remote() else JvmDriver(session)


@contextmanager
def translate_lost(
    what: str = "finish a job", then: str = "what was committed is safe: run the sync again"
) -> Iterator[None]:
    """Raise ClusterLost instead of what Spark's clients raise when a job fails, or when the other end is gone.

    It is a TaskLost where the process of a task died, and no more than that.
    what, then: what Spark did not do, and what to do about it.
    """
    try:
        yield
    except _failures() as error:
        if (died := _DIED.search(text := str(error))) is not None and "PythonException" not in text:
            raise TaskLost(int(died["task"]), text) from error
        full = _FULL.search(text)
        why = f"{type(error).__name__}: {full[0].strip()}" if full else type(error).__name__
        advice = f"{'make room, and then: ' if full else ''}{then}"
        raise ClusterLost(f"Spark did not {what} ({why})", advice, detail=text) from error


def _failures() -> tuple[type[Exception], ...]:
    """Those of clients that were imported: each works without what the other is made of."""
    clients = (vars(sys.modules[module])[name] for module, name in _FAILURES if module in sys.modules)
    return (PySparkException, OSError, *clients)


@dataclass(frozen=True)
class JvmDriver:
    """The driver whose JVM belongs to this process."""

    session: SparkSession
    group: str = field(default_factory=_new_group)
    """What its jobs are cancelled by."""

    @property
    def master(self) -> str:
        return str(self.session.sparkContext.master)

    @property
    def task_count(self) -> int:
        context = self.session.sparkContext
        conf = context.getConf()
        if conf.get("spark.dynamicAllocation.enabled") != "true":
            return context.defaultParallelism
        # A cluster grows where tasks wait, so those that could run count, not those that can.
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
        with finding_the_kit(self.session):
            # A query took 0.3 s longer to plan and to begin on slow cores, and its workers import pandas first.
            return self.session.sparkContext.parallelize(items, len(items)).map(task).collect()

    def name(self, text: str) -> None:
        self.session.sparkContext.setJobGroup(self.group, text)

    def cancel(self) -> None:
        self.session.sparkContext.cancelJobGroup(self.group)

    def send(self, archive: Path) -> None:
        self.session.sparkContext.addPyFile(str(archive))

    def begin(self, digest: str) -> None:
        # A Python worker keeps the modules it has imported, and lives on; one with another environment is new.
        self.session.sparkContext.environment[_CODE] = digest


@contextmanager
def finding_the_kit(session: SparkSession) -> Iterator[None]:
    """Let Python workers of what is wrapped in this block run this program's Python, and find the kit where it does.

    A session that the user's program made starts `python3`, whatever that is, unless PYSPARK_PYTHON says otherwise.
    That can be mended on this machine only, so nothing changes where the workers are elsewhere. Blocks of several
    threads overlap: the last one puts back what the first one changed.
    """
    context = session.sparkContext
    if _PYTHON in os.environ or not str(context.master).startswith("local"):
        yield
        return
    kit = str(Path(__file__).parents[2])
    with _lock:
        if context not in _mended:
            python, paths = context.pythonExec, context.environment.get("PYTHONPATH")
            _mended[context] = _Mended(python, paths)
            context.pythonExec = sys.executable
            context.environment["PYTHONPATH"] = kit if paths is None else f"{paths}{os.pathsep}{kit}"
        _mended[context].blocks += 1
    try:
        yield
    finally:
        with _lock:
            mended = _mended[context]
            mended.blocks -= 1
            if not mended.blocks:
                del _mended[context]
                context.pythonExec = mended.python
                if mended.paths is None:
                    del context.environment["PYTHONPATH"]
                else:
                    context.environment["PYTHONPATH"] = mended.paths


@dataclass
class _Mended:
    """What a context had before, and how many blocks need it otherwise."""

    python: str
    paths: str | None
    blocks: int = 0


_lock = threading.Lock()
_mended: dict[SparkContext, _Mended] = {}


class ConnectDriver:
    """A server of Spark Connect."""

    def __init__(self, session: SparkSession) -> None:
        self._session, self._group, self._of_thread = session, _new_group(), threading.local()

    @property
    def master(self) -> str:
        return f"sc://{self._session.client.host}"

    @property
    def task_count(self) -> int:
        # The last of the partitions that Spark makes where no number is set: their number is its parallelism.
        (row,) = self._session.range(1).select(f.spark_partition_id()).collect()
        return int(row[0]) + 1

    @property
    def shares_installation(self) -> bool:
        return False

    @property
    def sent(self) -> list[str]:
        # The server does not tell which files it has; what is set here lives as long as they do.
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
                f"found other code of {name!r} than this session of Spark Connect was sent before, and expected the "
                "same: its Python workers keep what they have imported; stop the session, and sync in a new one"
            )
        self._session.addArtifacts(str(archive), pyfile=True)
        self._session.conf.set(_SENT, " ".join([*self.sent, archive.name]))

    def begin(self, digest: str) -> None:
        """Nothing: workers belong to one session, and a session is sent no other code."""
