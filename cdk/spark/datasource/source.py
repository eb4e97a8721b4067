"""The data source that Spark knows as `cdk`, and how it gets to know it."""

import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from cdk.base.errors import ConfigError
from cdk.spark.datasource.batch import BatchReader
from cdk.spark.datasource.given import Given
from cdk.spark.datasource.opened import Opened
from cdk.spark.datasource.reading import Reading
from cdk.spark.datasource.streaming import StreamReader

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_REDACTION = "spark.sql.redaction.options.regex"
_HIDDEN = "(?i)^(config|state)$"


class CdkDataSource(DataSource):
    """A stream of a connector as a DataFrame.

    folder: what relative paths are relative to. path: where else than in its own places Python finds modules.
    """

    folder: ClassVar[str] = "."
    path: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Check the options by themselves. Raises ConfigError."""
        super().__init__(options)
        self._given = Given.of(options, Path(self.folder))

    @classmethod
    def name(cls) -> str:
        """What stands in `format`."""
        return "cdk"

    def schema(self) -> StructType:
        """The columns of the table that `sync` would write. Raises ConfigError, StateError and errors of the source."""
        return self._opened()[1].schema

    def reader(self, schema: StructType) -> BatchReader:
        """A read of everything, or of what is new since a state."""
        opened, reading = self._read(schema)
        given = self._given
        return BatchReader(opened, reading, concurrency=given.concurrency, partition_columns=given.partition_columns)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """A read that goes on."""
        opened, reading = self._read(schema)
        given = self._given
        return StreamReader(
            opened, reading, concurrency=given.concurrency, lag=given.lag, slices=given.slices_per_batch
        )

    def _read(self, schema: StructType) -> tuple[Opened, Reading]:
        opened, reading = self._opened()
        if schema != reading.schema:
            raise ConfigError(
                f"{opened.stream.name}: found the schema {schema.simpleString()}, expected the stream's own; "
                "leave out .schema(...), and cast or select columns afterwards"
            )
        return opened, reading

    def _opened(self) -> tuple[Opened, Reading]:
        # Spark's processes start where its JVM was started, and know nothing of the notebook's folder.
        sys.path.extend(place for place in (self.folder, *self.path) if place not in sys.path)
        opened = Opened.of(self._given)
        return opened, Reading.of(opened)


def register(session: SparkSession) -> None:
    """Let `session.read.format("cdk")` and `session.readStream.format("cdk")` read streams.

    Relative paths are from now on relative to the present folder, and connectors are looked for where this process
    finds its modules. Turns on Spark's filter push-down for Python data sources in this session, and keeps the options
    `config` and `state` out of its query plans. Uses nothing of the JVM, as Spark Connect has none.
    """
    here = type("CdkDataSource", (CdkDataSource,), {"folder": str(Path.cwd()), "path": tuple(sys.path)})
    session.dataSource.register(here)
    session.conf.set(_PUSHDOWN, True)
    known = session.conf.get(_REDACTION, "")
    if _HIDDEN not in str(known):
        session.conf.set(_REDACTION, f"({known})|{_HIDDEN}" if known else _HIDDEN)
