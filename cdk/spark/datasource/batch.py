"""`spark.read.format("cdk")`: a stream read whole, or from a state."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from cdk.spark.datasource.open_stream import OpenStream, masking
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.slice import Slice


class BatchReader(DataSourceReader):
    """Plans every slice of a stream, and reads them in tasks.

    Planned once for each DataFrame that is loaded; each action on it reads the slices again.
    """

    def __init__(self, opened: OpenStream, reading: TaskReader) -> None:
        self._state, self._reading, self._tokens = opened.state, reading, opened.tokens

    def planned(self) -> Iterator[Slice]:
        """Every slice of the stream since the state, in order."""
        return iter(self._reading.stream.checkpoint_reader(self._state).next, None)

    def partitions(self) -> list[InputPartition]:
        """The slices, dealt out to tasks. Parents of a substream are read here."""
        with masking(self._reading.secrets), self._tokens.run().working():
            return self._reading.distribute(list(self.planned()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some slices."""
        return self._reading.batches(partition)
