"""The Spark session of a sync."""

import os
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession

from cdk.base.errors import ConfigError
from cdk.spark.java import java_home
from cdk.spark.pipeline import SparkOptions

# Measured on short jobs: the first compiler tier and the serial collector start a local session a quarter faster and
# take a quarter less memory. A cluster's own settings win.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def open_session(name: str, options: SparkOptions, log: Path) -> SparkSession:
    """Start a session, or take the one that runs (in a notebook, under spark-submit).

    log: where a JVM that is started here writes what it has to say; people watch the sync, not Spark's start.
    Raises ConfigError: no Java, or Spark does not start with these options.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    os.environ["JAVA_HOME"] = str(java_home(os.environ))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # `local[N]` gives a task a single attempt; a worker that dies would end the sync.
    master = options.master or f"local[{os.cpu_count() or 1},4]"
    builder = SparkSession.Builder().master(master).appName(f"spark-cdk {name}")
    settings: dict[str, str] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    if master.startswith("local["):
        settings["spark.driver.extraJavaOptions"] = _QUICK_JVM
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    settings.update({key: str(value) for key, value in options.conf.items()})
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _stderr_into(log):
        try:
            return builder.getOrCreate()
        except Exception as error:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
            raise ConfigError(
                f"Spark did not start with master {master!r}: {error}", detail=tail, path=str(log)
            ) from error


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """Let a process that is started meanwhile write its errors into a file; it keeps that file for its life."""
    sys.stderr.flush()
    ours = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def ship(session: SparkSession, modules: Iterable[str]) -> None:
    """Bring the code of `modules`, and the kit itself, to where slices are read.

    A module that is a single file, as a connector that was named by its path, travels inside each job. Packages are
    sent once to the executors of a cluster; a local session shares the driver's installation.
    """
    packages = {"cdk"}
    for name in modules:
        module, top = sys.modules[name], name.partition(".")[0]
        if name == top and top != "__main__" and module.__spec__ and not module.__spec__.submodule_search_locations:
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        else:
            packages.add(top)
    if str(session.conf.get("spark.master", "")).startswith("local["):
        return
    folder = Path(mkdtemp(prefix="spark-cdk-"))
    for package in sorted(packages - {"__main__"}):
        if (archive := _zip(package, folder)) is not None:
            session.addArtifacts(str(archive), pyfile=True)


def _zip(package: str, folder: Path) -> Path | None:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    root = Path(next(iter(spec.submodule_search_locations)))
    archive = folder / f"{package}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                out.write(path, path.relative_to(root.parent))
    return archive
