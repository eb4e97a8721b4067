"""`spark.read.format("cdk")`: a stream read whole, or from a state."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from cdk.spark.datasource.filter_pushdown import FilterPushdown
from cdk.spark.datasource.open_stream import OpenStream, masking
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.slice import Slice


class BatchReader(DataSourceReader):
    """Plans every slice of a stream, and reads them in tasks.

    Planned once for each DataFrame that is loaded; each action on it reads the slices again.
    """

    def __init__(self, opened: OpenStream, reading: TaskReader, *, concurrency: int) -> None:
        self._state, self._reading, self._concurrency = opened.state, reading, concurrency
        self._tokens = opened.tokens

    def planned(self) -> Iterator[Slice]:
        """Every slice of the stream since the state, in order."""
        return iter(self._reading.stream.checkpoint_reader(self._state).next, None)

    def partitions(self) -> list[InputPartition]:
        """The slices, dealt out to as many tasks as may read at once. Parents of a substream are read here."""
        with masking(self._reading.secrets), self._tokens.run().working():
            return self._reading.distribute(list(self.planned()), self._concurrency)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some slices. An empty plan arrives as a partition of None."""
        return self._reading.batches(partition)


class PushdownReader(BatchReader):
    """Leaves out slices that hold no row the query wants.

    Spark plans a DataFrame with the filters of the first query on it, and keeps the plan for all others (4.1 and 4.3).
    So this reader is used only where a person asks for it, who then runs one query on each DataFrame.
    """

    def __init__(
        self, opened: OpenStream, reading: TaskReader, *, concurrency: int, partition_columns: tuple[str, ...]
    ) -> None:
        super().__init__(opened, reading, concurrency=concurrency)
        self._pushdown = FilterPushdown(reading.stream, reading.declared, partition_columns)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Learn what the query wants. All filters are returned: Spark applies them to what is read."""
        self._pushdown.add_filters(filters)
        return filters

    def planned(self) -> Iterator[Slice]:
        return self._pushdown.apply(self._reading.stream, super().planned())
