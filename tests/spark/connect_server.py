"""A Spark Connect server on this machine, started as the page about clusters says, on a port that is free."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.docs.page import DOCS
from tests.spark.local_cluster import environment, waited

PAGE = DOCS / "how-to" / "run-on-a-cluster.md"
ADDRESS = "sc://spark-server:15002"
"""Where the page says that the server is."""

_PATIENCE = 180.0  # seconds on a machine that has much else to do
_STARTED = re.compile(r"Spark Connect server started at: (\S+:\d+)")
_SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executorEnv.GIVEN": "to the server",
    "spark.ui.enabled": "false",
}


def section() -> str:
    """What the page says about Spark Connect."""
    text = PAGE.read_text().partition("## Under Spark Connect\n")[2].partition("\n## ")[0]
    assert text
    return text


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Start the server, with its log in `folder`, and stop it; gives its address."""
    (command,) = re.findall(r"^\$ (.*SparkConnectServer.*)$", section(), re.MULTILINE)
    given = " ".join(f"--conf '{key}={value}'" for key, value in _SETTINGS.items())
    log = folder / "server.log"
    with log.open("wb") as said:
        server = subprocess.Popen(
            ["/bin/bash", "-c", f"exec {command} {given}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**environment(), "SPARK_DAEMON_MEMORY": "1g"},
            start_new_session=True,
        )
    try:
        yield "sc://" + waited(lambda: _STARTED.search(log.read_text()), log.read_text, _PATIENCE)[1]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()
