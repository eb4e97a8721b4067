"""Registers the data source `cdk` with a Spark session."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from cdk.base.errors import ConfigError
from cdk.spark.cluster.driver import driver_of, translate_lost, using_this_python
from cdk.spark.cluster.spark_versions import Ability, require


def register(session: SparkSession) -> None:
    """Let `session.read.format("cdk")` and `session.readStream.format("cdk")` read streams.

    Relative paths are resolved against the folder that is current now, connectors are searched where this process finds
    its modules, and a read has as many tasks as the cluster runs now. Changes nothing else in the session.
    Raises ConfigError: when Spark is too old, or the Python workers of a cluster do not find the kit. TransientError:
    when Spark was lost.
    """
    require(Ability.READ)
    from cdk.spark.datasource.source import CdkDataSource  # noqa: PLC0415 - older versions lack what it imports

    with translate_lost():
        known = {"folder": str(Path.cwd()), "path": tuple(sys.path), "tasks": driver_of(session).task_count}
    data_source = type("CdkDataSource", (CdkDataSource,), known)
    if is_remote():
        session.dataSource.register(data_source)
        return
    with using_this_python(session):
        _check_workers(session)
        try:
            session.dataSource.register(data_source)
        except AnalysisException as error:
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise
            # Spark looks for the name in the active session, where it may be registered already, not in this one.
            with _active(session):
                session.dataSource.register(data_source)


@contextmanager
def _active(session: SparkSession) -> Iterator[None]:
    """Make a session the active one during this block; creating a frame does so."""
    before = SparkSession.getActiveSession()
    session.createDataFrame([], "id int")
    try:
        yield
    finally:
        if before is not None:
            before.createDataFrame([], "id int")


def _check_workers(session: SparkSession) -> None:
    """Raise ConfigError when workers on other machines do not find the kit."""
    context = session.sparkContext
    if str(context.master).startswith("local"):
        return

    # A local function is pickled by value; a function of the kit's module cannot be loaded where the kit is missing.
    def without_kit(_: int) -> str | None:
        from importlib.util import find_spec  # noqa: PLC0415 - runs elsewhere

        return sys.executable if find_spec("cdk") is None else None

    with translate_lost("start a Python worker", "check the Python of the cluster, and PYSPARK_PYTHON"):
        (python,) = context.parallelize([0], 1).map(without_kit).collect()
    if python is not None:
        raise ConfigError(
            f"the Python workers of {context.master} run {python}, which does not find the package `cdk`; install "
            "spark-cdk there, or set PYSPARK_PYTHON, before the session starts, to a Python that has it"
        )
