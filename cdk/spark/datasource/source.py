"""The data source that Spark knows as `cdk`, and how it gets to know it."""

import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from cdk.base.errors import ConfigError
from cdk.spark.cluster.driver import finding_the_kit, translate_lost
from cdk.spark.datasource.batch import BatchReader, PushdownReader
from cdk.spark.datasource.open_stream import OpenStream
from cdk.spark.datasource.options import DataSourceOptions
from cdk.spark.datasource.streaming import StreamReader
from cdk.spark.datasource.task_reader import TaskReader


class CdkDataSource(DataSource):
    """A stream of a connector as a DataFrame.

    folder: what relative paths are relative to. path: where else than in its own places Python finds modules.
    """

    folder: ClassVar[str] = "."
    path: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Check the options by themselves. Raises ConfigError."""
        super().__init__(options)
        self._options = DataSourceOptions.of(options, Path(self.folder))

    @classmethod
    def name(cls) -> str:
        """The name that `spark.read.format` takes."""
        return "cdk"

    def schema(self) -> StructType:
        """The columns of the table that `sync` would write. Raises ConfigError, StateError and errors of the source."""
        return self._opened()[1].schema

    def reader(self, schema: StructType) -> BatchReader:
        """A read of everything, or of what is new since a state."""
        opened, reading = self._read(schema)
        options = self._options
        if not options.push_down:
            return BatchReader(opened, reading, concurrency=options.concurrency)
        return PushdownReader(
            opened, reading, concurrency=options.concurrency, partition_columns=options.partition_columns
        )

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """A read that goes on. Raises ConfigError: Spark would show a secret of the config."""
        opened, reading = self._read(schema)
        options = self._options
        if options.shown and opened.config_secrets:
            raise ConfigError(
                "option config: holds a secret, and Spark shows this option in the plans of streaming queries; "
                "name the option secret_config, which it hides, or use config_file"
            )
        return StreamReader(
            opened, reading, concurrency=options.concurrency, lag=options.lag, slices=options.slices_per_batch
        )

    def _read(self, schema: StructType) -> tuple[OpenStream, TaskReader]:
        opened, reading = self._opened()
        if schema != reading.schema:
            raise ConfigError(
                f"{opened.stream.name}: found the schema {schema.simpleString()}, expected the stream's own; "
                "leave out .schema(...), and cast or select columns afterwards"
            )
        return opened, reading

    def _opened(self) -> tuple[OpenStream, TaskReader]:
        # Spark's processes start where its JVM was started, and know nothing of the notebook's folder.
        sys.path.extend(folder for folder in (self.folder, *self.path) if folder not in sys.path)
        # The file of the config may have got new tokens since Spark made this object.
        opened = OpenStream.of(DataSourceOptions.of(self.options, Path(self.folder)))
        return opened, TaskReader.of(opened)


def register(session: SparkSession) -> None:
    """Let `session.read.format("cdk")` and `session.readStream.format("cdk")` read streams.

    Relative paths are from now on relative to the present folder, and connectors are looked for where this process
    finds its modules. Sets nothing else of the session.
    Raises ConfigError: the Python workers of a cluster do not find the kit.
    """
    data_source = type("CdkDataSource", (CdkDataSource,), {"folder": str(Path.cwd()), "path": tuple(sys.path)})
    if is_remote():
        session.dataSource.register(data_source)
        return
    with finding_the_kit(session):
        _check_workers(session)
        session.dataSource.register(data_source)


def _check_workers(session: SparkSession) -> None:
    """Raise ConfigError where workers on other machines do not find the kit."""
    context = session.sparkContext
    if str(context.master).startswith("local"):
        return

    # By value: what stands in a module of the kit is not found where the kit is not.
    def without_kit(_: int) -> str | None:
        from importlib.util import find_spec  # noqa: PLC0415 - runs elsewhere

        return sys.executable if find_spec("cdk") is None else None

    with translate_lost("start a Python worker", "see to the Python of the cluster, and PYSPARK_PYTHON"):
        (python,) = context.parallelize([0], 1).map(without_kit).collect()
    if python is not None:
        raise ConfigError(
            f"the Python workers of {context.master} run {python}, which does not find the package `cdk`; install "
            "spark-cdk there, or set PYSPARK_PYTHON, before the session starts, to a Python that has it"
        )
