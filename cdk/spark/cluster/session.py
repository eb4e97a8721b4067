"""The Spark session of a sync, in this process or on a Spark Connect server."""

import atexit
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, takewhile
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from cdk.base.errors import ConfigError
from cdk.base.values import Location
from cdk.lake.storage.folder import cache_folder
from cdk.spark.cluster import warm_daemon
from cdk.spark.cluster.class_data_sharing import archive_options
from cdk.spark.cluster.code_archives import Code, archived, neighbours, package
from cdk.spark.cluster.driver import Driver, driver_of, translate_lost
from cdk.spark.cluster.java_home import java_home
from cdk.spark.cluster.jvm_launch import ENDED, SUBMITTED, JvmLaunch
from cdk.spark.cluster.spark_versions import Ability, require
from cdk.sync.settings.pipeline_file import SparkOptions

SCHEME = "sc://"
"""The scheme of addresses of Spark Connect servers."""

_MASTER = Location(keys=("spark", "master"))
_TIMEOUT_SECONDS = 20.0  # seconds; without a limit, the client tries a wrong address for ten minutes
_ENVIRONMENT = "spark.executorEnv."
_IN_LOG = re.compile(r" ERROR |Exception|^(?:Error|Invalid)\b")
"""The line of a log that tells why Java, or the context, has ended."""


def connect(
    name: str, address: str, conf: Mapping[str, str], *, timeout_seconds: float = _TIMEOUT_SECONDS
) -> SparkSession:
    """Open a session on the server at `address`: `sc://HOST:PORT`, with parameters after `/;`.

    Errors do not show the parameters, which may have a token.
    Raises ConfigError: when the address is invalid, the server does not respond, it refuses a setting, or Spark is too
    old.
    """
    require(Ability.CONNECT)
    host = SCHEME + re.split("[;/?#]", address.removeprefix(SCHEME))[0].rpartition("@")[2]
    try:
        _expect_answer(address, timeout_seconds)
        session = SparkSession.Builder().remote(address).appName(f"spark-cdk {name}").getOrCreate()
    except ImportError as error:
        raise ConfigError(f"{host} needs the extra `connect`: {error}", path=_MASTER) from error
    except ValueError:  # from pyspark, or from the standard library for a port that is not a number
        why = f"found {host!r}, expected sc://HOST:PORT, with parameters as /;NAME=VALUE after it"
        raise ConfigError(why, path=_MASTER) from None
    except (PySparkException, TimeoutError) as error:
        why = f"no session of Spark Connect at {host}: {error}; start the server, or correct the address"
        raise ConfigError(why, path=_MASTER) from error
    for key, value in conf.items():
        _set(session, key, value)
    return session


def _expect_answer(address: str, timeout_seconds: float) -> None:
    import grpc  # noqa: PLC0415 - an extra
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - it needs grpc

    if address == SCHEME:
        raise ValueError(address)  # pyspark 4.0 would take it for this machine

    with DefaultChannelBuilder(address).toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout_seconds)
        except grpc.FutureTimeoutError:
            raise TimeoutError(f"no response for {timeout_seconds:g} seconds") from None


def _set(session: SparkSession, key: str, value: str) -> None:
    if session.conf.get(key, None) == value:
        return
    refused: Exception | None = None
    try:
        # Spark would accept such a setting, but no executor would ever see it.
        if not key.startswith(_ENVIRONMENT):
            session.conf.set(key, value)
            return
    except PySparkException as error:
        refused = error
    why = f"{key} cannot be set under Spark Connect; set it where the server is started, to the same value"
    raise ConfigError(why, path=Location(keys=("spark", "conf")), detail=str(refused or "")) from refused


# Measured on short jobs: with the first compiler tier and the serial collector, a local session starts a quarter faster
# and takes a quarter less memory. On a cluster, its own settings apply.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def open_session(name: str, options: SparkOptions, log: Path, launch: JvmLaunch | None = None) -> SparkSession:
    """Start a session, or return the running one (in a notebook, under spark-submit).

    With a master `sc://HOST:PORT`, a Spark Connect server, nothing is started here and no Java is needed.
    log: the file for the output of a JVM that is started here, which would only distract from the sync.
    launch: lets another thread end the start.
    Raises ConfigError: when there is no Java, Spark is too old, or it does not start with these options.
    """
    launch = launch or JvmLaunch()
    running = SparkSession.getActiveSession()
    if running is not None:
        if is_remote():
            require(Ability.CONNECT)
        return running
    conf = {key: str(value) for key, value in options.conf.items()}
    if options.master is not None and options.master.startswith(SCHEME):
        return connect(name, options.master, conf)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().appName(f"spark-cdk {name}")
    settings = {} if SUBMITTED in os.environ else _own_settings(options.master)
    if options.master is not None:
        settings["spark.master"] = options.master
    own = {key: value for key, value in settings.items() if key not in conf}
    for key, value in {**own, **conf}.items():
        builder = builder.config(key, value)
    running_jvm = SUBMITTED in os.environ or SparkContext._gateway is not None  # noqa: SLF001 - no public API
    try:
        if not running_jvm:
            # Everyone on the machine can read the arguments of a JVM, so the pipeline's settings, which may contain the
            # keys of a store, are passed in a file.
            with _properties(conf) as properties:
                launch.run({**own, "spark.app.name": f"spark-cdk {name}"}, properties, log)
        with _keeping_sigint_handler():
            session = builder.getOrCreate()
        session.conf.get("spark.app.name")  # the first access refuses settings of SQL that are not valid
    except Exception as error:
        reason = _reason(error)
        launch.reset_pyspark()
        tail = log.read_text(errors="replace").splitlines()[-20:] if log.exists() else []
        if reason == ENDED or "stopped SparkContext" in reason:
            reason += "".join(f": {line}" for line in islice(filter(_IN_LOG.search, tail), 1))
        why = f"Spark did not start with master {settings.get('spark.master', 'of spark-submit')!r}: {reason}"
        raise ConfigError(why, detail="\n".join(tail), path=str(log)) from error
    return session


def _reason(error: Exception) -> str:
    """Return an error's text without Java's stack trace. Call it while Java runs, which keeps its exceptions' texts."""
    try:
        lines = str(error).splitlines()
    except (OSError, Py4JError):
        return ENDED
    return " ".join(takewhile(lambda line: line and not line.startswith("\tat "), lines)).strip()


@contextmanager
def _keeping_sigint_handler() -> Iterator[None]:
    """Keep the program's own handler for Ctrl-C, if any: that of a new context cancels all jobs and raises."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if before is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


@contextmanager
def _properties(settings: Mapping[str, str]) -> Iterator[Path | None]:
    """Write a file with these settings that only the user can read, and yield its path; None if there are none."""
    if not settings:
        yield None
        return
    with NamedTemporaryFile("wb", suffix=".conf") as file:
        # Spark reads this file instead of its defaults, so these are copied first; later settings override them.
        file.write(_spark_defaults())
        for key, value in settings.items():
            file.write(f"{_property(key)}={_property(value)}\n".encode())
        file.flush()
        yield Path(file.name)


def _spark_defaults() -> bytes:
    """Return the content of Spark's `spark-defaults.conf`; empty if there is no such file."""
    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf")
    file = Path(folder, "spark-defaults.conf")
    return file.read_bytes() + b"\n" if file.is_file() else b""


def _property(text: str) -> str:
    """Escape a text for a Java properties file: all characters but ASCII letters and digits as Unicode escapes."""
    return "".join(letter if letter.isascii() and letter.isalnum() else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _own_settings(master: str | None) -> dict[str, str]:
    """Return the settings of a new session that the user has not set."""
    home = java_home(os.environ)
    os.environ["JAVA_HOME"] = str(home)
    # `local[N]` gives a task a single attempt; a worker that dies would end the sync.
    master = master or f"local[{os.cpu_count() or 1},4]"
    settings = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if master.startswith("local["):
        settings["spark.driver.extraJavaOptions"] = f"{_QUICK_JVM} {_archive_options(home)}".rstrip()
        # Not on clusters, where executors may receive the kit only after their first workers have started.
        settings["spark.python.daemon.module"] = warm_daemon.__name__
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _archive_options(java: Path) -> str:
    """Return the JVM options for the class archive; empty if the environment already configures an archive."""
    java_options = "".join(os.environ.get(name, "") for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"))
    return "" if "Archive" in java_options or "-Xshare" in java_options else archive_options(java, cache_folder())


def ship(session: SparkSession, modules: Iterable[str]) -> None:
    """Send the code of `modules`, and the kit itself, to where slices are read.

    A module that is a single file, such as a connector named by its path, is pickled into each job; the files and
    packages beside it that it imports are sent. Packages are sent to the executors of a cluster; a local session shares
    the driver's installation. Code that has not changed since it was last sent to this session is not sent again.
    Raises ConfigError: under Spark Connect, when the code has changed. TransientError: when Spark was lost.
    """
    packages, files = {"cdk"}, list[Path]()
    for name in modules:
        if pickled_by_value(name):
            files.extend([Path(file)] if (file := sys.modules[name].__file__) else [])
        else:
            packages.add(name.partition(".")[0])
    beside = [neighbours(file, packages) for file in files]
    driver = driver_of(session)
    sent = [] if driver.shares_installation else [package(name) for name in sorted(packages - {"__main__"})]
    _send(driver, [code for code in (*sent, *beside) if code is not None])


def pickled_by_value(name: str) -> bool:
    """Whether a module is a single file, which executors cannot import; if so, registers it to be pickled by value."""
    module = sys.modules[name]
    if "." in name or name == "__main__" or not module.__spec__ or module.__spec__.submodule_search_locations:
        return False
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return True


def _send(driver: Driver, codes: Sequence[Code]) -> None:
    if not codes:
        return
    with translate_lost():
        known = driver.sent
    folder = Path(mkdtemp(prefix="spark-cdk-"))
    # Executors fetch an archive from this folder when they first need it, including those that join later.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archives = [archived(code, known, folder) for code in codes]
    with translate_lost():
        for archive in archives:
            if archive is not None:
                driver.send(archive)
        driver.begin(" ".join(code.digest for code in codes))
