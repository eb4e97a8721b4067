"""JvmLaunch: starts the JVM of a session, so that another thread can end it while it starts.

The processor time of a start that is not needed any more is not spent, and no process stays behind.
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
"""What spark-submit sets in the program that it starts: the JVM runs already, and its master is settled."""
_SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105 - the name of a variable
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_SEEN_EVERY = 0.05
"""Seconds between two looks for the address of the JVM."""


class JvmLaunch:
    """One start of a JVM, as `pyspark.java_gateway.launch_gateway` does it. `end` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = self._completed = False

    def run(self, settings: Mapping[str, str], properties: Path | None, log: Path) -> None:
        """Start the JVM, and connect this process to it. What it prints goes into `log`.

        settings: everybody on the machine can read them. properties: a file with others. Raises ConfigError: it does
        not start, or was ended.
        """
        # A launch is made, and ended, where pyspark need not be there.
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
                time.sleep(_SEEN_EVERY)  # noqa: TID251 - another process is waited for
            if not address.exists():
                raise ConfigError("Java ended before Spark could be reached")
            with address.open("rb") as file:
                port = str(read_int(file))  # type: ignore[no-untyped-call]  # pyspark's are untyped
                secret = UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
        # Only so Spark connects to a JVM that runs already.
        os.environ |= {SUBMITTED: port, _SECRET: secret}
        try:
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ[SUBMITTED], os.environ[_SECRET]
        gateway.proc = process  # as long as the gateway, its input is open
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - nothing else takes one

    def _begin(self, command: list[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
        with self._lock, log.open("ab") as file:
            if self._ended:
                raise ConfigError("Spark is not needed any more")
            # It ends with this process, for its input does; a group of its own hears no Ctrl-C.
            self._process = subprocess.Popen(  # noqa: S603 - Spark's own program
                command, stdin=subprocess.PIPE, stdout=file, stderr=file, env=environment, start_new_session=True
            )
            return self._process

    def complete(self) -> None:
        """Let the JVM live as long as this process. Raises ConfigError: it was ended."""
        with self._lock:
            if self._ended:
                raise ConfigError("Spark is not needed any more")
            self._completed = True

    def end(self) -> None:
        """End the JVM, now or as soon as it would start, unless the start is complete."""
        with self._lock:
            if self._completed:
                return
            self._ended = True
            if self._process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def forget(self) -> None:
        """After a start that failed: let the next one of this process begin anew."""
        self.end()
        with self._lock:
            if self._process is None:
                return
        from pyspark import SparkContext  # noqa: PLC0415 - it was imported for the start
        from pyspark.sql import SparkSession  # noqa: PLC0415

        with SparkContext._lock:  # noqa: SLF001 - as above
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
            SparkSession._instantiatedSession = None  # noqa: SLF001
