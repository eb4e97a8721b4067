"""A standalone Spark cluster on this machine, from the pip package of pyspark: a master, and workers with a core each.

Each worker has a loopback address of its own: Spark copies a slow task to another host only.

All its processes are in process groups of their own and are killed when the `with` block ends, however it does. A
worker's executors are in the group of their worker; Python workers end when their executor does.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyspark

from cdk.spark.cluster.java_home import java_home

HOME = Path(pyspark.__file__).parent

_MEMORY = "1g"  # of a worker, and what an executor asks for

_PATIENCE = 60.0
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"

T = TypeVar("T")


class Cluster:
    """A running cluster. address: of the master, as `spark.master` wants it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workers: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []
        self._start("master", "master.Master", "127.0.0.1")
        self.address = waited(lambda: _MASTER.search(self._log("master")), lambda: self._log("master"))[1]

    def add_workers(self, count: int) -> None:
        """Start workers, and wait until the master knows them."""
        names = []
        for _ in range(count):
            number = len(self._workers) + 1
            names.append(name := f"worker-{number}")
            given = ["--cores", "1", "--memory", _MEMORY, "--work-dir", str(self._folder / name), self.address]
            self._workers.append(self._start(name, "worker.Worker", f"127.0.0.{number}", *given))
        for name in names:
            waited(partial(self._says, name, _REGISTERED), partial(self._log, name))

    def workers(self) -> list[int]:
        """The processes of the workers that live."""
        return [worker.pid for worker in self._workers if worker.poll() is None]

    def executors(self) -> list[int]:
        """The processes of the executors, in the order of their workers."""
        listed = processes()
        return [
            pid
            for worker in self.workers()
            for pid, (parent, command) in listed.items()
            if parent == worker and "CoarseGrainedExecutorBackend" in command
        ]

    def stop(self) -> None:
        """Kill every process, also those whose parent was killed before."""
        for process in self._all:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, name: str, part: str, host: str, *given: str) -> subprocess.Popen[bytes]:
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{part}", "--host", host]
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--port", "0", "--webui-port", "0", *given],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environment(), "SPARK_LOCAL_IP": host},
                start_new_session=True,
            )
        self._all.append(process)
        return process

    def _says(self, name: str, text: str) -> bool:
        return text in self._log(name)

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a cluster with its logs in `folder`, and stop it."""
    running: list[Cluster] = []
    try:
        running.append(Cluster(folder))
        running[0].add_workers(workers)
        yield running[0]
    finally:
        for each in running:
            each.stop()


def environment() -> Mapping[str, str]:
    """What Spark's scripts need to know."""
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(HOME),
        "JAVA_HOME": str(java_home(os.environ)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": quick,
    }


def processes() -> Mapping[int, tuple[int, str]]:
    """Every process of this machine: its parent and its command."""
    listed = subprocess.run(
        ["ps", "-wwAo", "pid=,ppid=,command="],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    rows = (line.split(None, 2) for line in listed.splitlines())
    return {int(pid): (int(parent), command) for pid, parent, command in rows}


def waited(look: Callable[[], T | None], otherwise: Callable[[], str], patience: float = _PATIENCE) -> T:
    """What `look` finds, once it finds something. Raises TimeoutError, with what `otherwise` says: nothing in time."""
    end = time.monotonic() + patience
    while not (found := look()):
        if time.monotonic() > end:
            raise TimeoutError(otherwise())
        # Some look through all processes of the machine, which takes longer than what they wait for may leave over.
        threading.Event().wait(0.25)
    return found
