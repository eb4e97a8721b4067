"""JvmLaunch: starts the JVM of a session in such a way that another thread can end it while it starts.

So a start that is no longer needed wastes no CPU time, and no process stays behind.
"""

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from cdk.base.errors import ConfigError

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable that spark-submit sets for the program it starts: the JVM runs already, and its master is decided."""
ENDED = "Java ended before Spark was ready"
_SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105 - the name of a variable
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_POLL_SECONDS = 0.05
"""Seconds between two checks for the address of the JVM."""


class JvmLaunch:
    """A start of a JVM, like `pyspark.java_gateway.launch_gateway`. `end` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = self._completed = False

    def run(self, settings: Mapping[str, str], properties: Path | None, log: Path) -> None:
        """Start the JVM, and connect this process to it. Its output goes to `log`.

        settings: visible to everyone on the machine. properties: a file with further settings. Raises ConfigError: when
        the JVM does not start, or was ended.
        """
        # Imported here: a launch can be created, and ended, without pyspark.
        from pyspark import SparkContext  # noqa: PLC0415
        from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
        from pyspark.serializers import UTF8Deserializer, read_int  # noqa: PLC0415

        with TemporaryDirectory(prefix="spark-cdk-") as folder:
            address = Path(folder, "address")
            environment = {**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address)}
            arguments = [f"--conf={key}={value}" for key, value in settings.items()]
            if properties is not None:
                arguments.append(f"--properties-file={properties}")
            arguments += shlex.split(os.environ.get(_ARGUMENTS, "pyspark-shell"))
            process = self._begin([str(Path(_find_spark_home(), "bin", "spark-submit")), *arguments], environment, log)
            while process.poll() is None and not address.exists():
                time.sleep(_POLL_SECONDS)  # noqa: TID251 - another process is waited for
            if not address.exists():
                raise ConfigError(ENDED)
            with address.open("rb") as file:
                port = str(read_int(file))  # type: ignore[no-untyped-call]  # pyspark's are untyped
                secret = UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
        # With these variables, pyspark connects to a running JVM instead of starting one.
        os.environ |= {SUBMITTED: port, _SECRET: secret}
        try:
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ[SUBMITTED], os.environ[_SECRET]
        gateway.proc = process  # keeps the JVM's standard input open as long as the gateway lives
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - no public API takes one

    def _begin(self, command: list[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        with self._lock, log.open("ab") as file:
            if self._ended:
                raise ConfigError("Spark is not needed any more")
            # The JVM ends with this process, when its standard input closes; its own process group gets no Ctrl-C.
            self._process = subprocess.Popen(  # noqa: S603 - Spark's own program
                command, stdin=subprocess.PIPE, stdout=file, stderr=file, env=environment, start_new_session=True
            )
            return self._process

    def complete(self) -> None:
        """Let the JVM live as long as this process. Raises ConfigError: when it was ended."""
        with self._lock:
            if self._ended:
                raise ConfigError("Spark is not needed any more")
            self._completed = True

    def end(self) -> None:
        """Kill the JVM, or prevent its start, unless the start is complete."""
        with self._lock:
            if self._completed:
                return
            self._ended = True
            if self._process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def reset_pyspark(self) -> None:
        """Reset pyspark after a failed start, so that this process can start another JVM."""
        self.end()
        with self._lock:
            if self._process is None:
                return
        from pyspark import SparkContext  # noqa: PLC0415 - it was imported for the start
        from pyspark.sql import SparkSession  # noqa: PLC0415

        with SparkContext._lock:  # noqa: SLF001 - as above
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
            SparkSession._instantiatedSession = None  # noqa: SLF001
