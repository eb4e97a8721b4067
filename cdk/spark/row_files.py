"""RowFiles: the rows of a data frame in Parquet files of a place, written and read by Spark's tasks.

What counts is the list of the files, which is written last: a file of a task that was tried again, or copied, is not on
it, and a folder without a list was never finished. Spark itself has no way into stores here, so the tasks go through
the place, as they do for tables. The driver sees names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from cdk.lake.parquet.writer import TableWriter
from cdk.lake.storage.folder import Place
from cdk.spark.cluster.driver import unless_lost

_LIST = "files.json"
_BATCH_ROWS = 64_000


@dataclass(frozen=True)
class RowFiles:
    """The files of one folder. place: the folder; the driver and all executors see it. Methods raise what it raises."""

    place: Place

    @property
    def there(self) -> bool:
        """Whether the files were written to the end."""
        return self.place.has([_LIST])

    @property
    def rows(self) -> int:
        """How many rows they hold."""
        return sum(self._listed()[0].values())

    def write(self, rows: DataFrame) -> None:
        """Write the rows, by Spark's tasks. Raises TransientError: Spark could not finish the job."""
        self.place.make()
        with unless_lost("write the rows", "they do not count: run it again", str(self.place)):
            made = rows.mapInArrow(partial(_write, self.place), "name string, rows long").collect()
        self._finish(rows.schema, {row.name: row.rows for row in made})

    def save(self, tables: Iterable[pa.Table], schema: StructType) -> int:
        """Write what the driver has, a file for each table that has rows; returns how many rows these are."""
        self.place.make()
        names: dict[str, int] = {}
        for table in tables:
            if table.num_rows:
                with self.place.explaining():
                    with self.place.open(name := f"{len(names)}.parquet") as sink:
                        pq.write_table(table, sink)
                    self.place.settle(name)
                names[name] = table.num_rows
        self._finish(schema, names)
        return sum(names.values())

    def read(self, session: SparkSession) -> DataFrame:
        """The rows, read by a task for each file.

        Spark takes them for very few, and would send them to all machines where it joins something with them: where
        they are many, give them the hint `merge`.
        """
        listed, schema = self._listed()
        names = list(listed)
        if not names:
            return session.createDataFrame([], schema)
        numbers = session.range(0, len(names), 1, len(names))
        return numbers.mapInArrow(partial(_read, self.place, names), schema)

    def tables(self, rows: int) -> Iterator[pa.Table]:
        """The rows, read by the driver: at most so many at a time."""
        for name in self._listed()[0]:
            for batch in _batches(self.place, name, rows):
                yield pa.Table.from_batches([batch])

    def _listed(self) -> tuple[dict[str, int], StructType]:
        content = orjson.loads(self.place.read(_LIST))
        return content["files"], StructType.fromJson(content["schema"])

    def _finish(self, schema: StructType, names: Mapping[str, int]) -> None:
        fields = [StructField(field.name, field.dataType) for field in schema.fields]
        self.place.write(_LIST, orjson.dumps({"files": dict(names), "schema": StructType(fields).jsonValue()}))


def _write(place: Place, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    writer: TableWriter | None = None
    try:
        for batch in batches:
            writer = writer or TableWriter(place, batch.schema)
            writer.write([batch])
        files = writer.close() if writer else []
    except BaseException:
        if writer:
            writer.discard()
        raise
    names, rows = [file.path for file in files], [file.rows for file in files]
    yield pa.RecordBatch.from_arrays([pa.array(names, pa.string()), pa.array(rows, pa.int64())], ["name", "rows"])


def _read(place: Place, names: Sequence[str], numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from _batches(place, names[number], _BATCH_ROWS)


def _batches(place: Place, name: str, rows: int) -> Iterator[pa.RecordBatch]:
    with place.explaining(), place.reader(name) as source:
        yield from pq.ParquetFile(source).iter_batches(batch_size=rows)
