"""The Spark data source `cdk`."""

import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import ClassVar

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from cdk.base.errors import ConfigError
from cdk.base.values import canonical
from cdk.base.wording import did_you_mean
from cdk.spark.cluster.spark_versions import Ability, require
from cdk.spark.datasource.filter_pushdown import BatchReader, PushdownReader
from cdk.spark.datasource.open_stream import OpenStream
from cdk.spark.datasource.options import DataSourceOptions
from cdk.spark.datasource.task_reader import TaskReader


class CdkDataSource(DataSource):
    """A connector's stream as a DataFrame.

    folder: the base of relative paths. path: additional folders in which Python searches for modules. tasks: how many
    tasks the cluster runs at once, since the process in which Spark plans a read cannot find that out.
    """

    folder: ClassVar[str] = "."
    path: ClassVar[tuple[str, ...]] = ()
    tasks: ClassVar[int] = 1

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Check the options without opening anything. Raises ConfigError."""
        super().__init__(options)
        self._options = DataSourceOptions.of(options, Path(self.folder))

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "cdk"

    def schema(self) -> StructType:
        """Return the columns that `sync` would write. Raises ConfigError, StateError, and errors of the source."""
        return self._opened()[1].schema

    def reader(self, schema: StructType) -> BatchReader:
        """Return a reader of the whole stream, or of the records since a state."""
        opened, reading = self._read(schema)
        options = self._options
        if not options.push_down:
            return BatchReader(opened, reading)
        for name in options.partition_columns:
            if name not in schema.names:
                nearest = did_you_mean(name, schema.names)
                raise ConfigError(f"option partition_columns: {opened.stream.name} has no column {name!r}{nearest}")
        return PushdownReader(opened, reading, partition_columns=options.partition_columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a streaming reader. Raises ConfigError: when Spark is too old or would show a secret of the config."""
        require(Ability.STREAM)
        from cdk.spark.datasource.streaming import StreamReader  # noqa: PLC0415 - 4.1 lacks what it imports

        opened, reading = self._read(schema)
        options = self._options
        if options.config is not None and opened.config_secrets:
            raise ConfigError(
                "option config: holds a secret, and Spark shows this option in the plans of streaming queries; "
                "name the option secret_config, which it hides, or use config_file"
            )
        if options.state is not None and opened.stream.secrets.are_in(canonical(options.state)):
            raise ConfigError(
                "option state: holds a secret of the config, and Spark shows this option in the plans of streaming "
                "queries; name its place in the config instead, such as <secret account_id plain>, as the states of "
                "spark-cdk do"
            )
        return StreamReader(opened, reading, lag=options.lag, slices=options.slices_per_batch)

    def _read(self, schema: StructType) -> tuple[OpenStream, TaskReader]:
        opened, reading = self._opened()
        if schema != reading.schema:
            raise ConfigError(
                f"{opened.stream.name}: found the schema {schema.simpleString()}, expected the stream's own; "
                "leave out .schema(...), and cast or select columns afterwards"
            )
        return opened, reading

    def _opened(self) -> tuple[OpenStream, TaskReader]:
        # Spark's processes start in the folder in which its JVM was started, not in the notebook's folder.
        sys.path.extend(folder for folder in (self.folder, *self.path) if folder not in sys.path)
        opened = OpenStream.of(self._options)
        return opened, TaskReader.of(opened, self.tasks, self._options.concurrency)
