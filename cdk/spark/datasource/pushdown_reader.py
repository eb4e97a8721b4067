"""`spark.read.format("cdk")` with `push_down`: a stream read as far as the filters of one query want it."""

from collections.abc import Iterable, Iterator

from pyspark.sql import datasource  # 4.0 has no filters: they are named in annotations only

from cdk.spark.datasource.batch import BatchReader
from cdk.spark.datasource.filter_pushdown import FilterPushdown
from cdk.spark.datasource.open_stream import OpenStream
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.slice import Slice


class PushdownReader(BatchReader):
    """Leaves out slices that hold no row the query wants.

    Spark plans a DataFrame with the filters of the first query on it, and keeps the plan for all others (4.1 and 4.3).
    So this reader is used only where a person asks for it, who then runs one query on each DataFrame.
    """

    def __init__(self, opened: OpenStream, reading: TaskReader, *, partition_columns: tuple[str, ...]) -> None:
        super().__init__(opened, reading)
        self._pushdown = FilterPushdown(reading.stream, reading.declared, partition_columns)

    def pushFilters(self, filters: "list[datasource.Filter]") -> "Iterable[datasource.Filter]":  # noqa: N802 - Spark's name
        """Learn what the query wants. All filters are returned: Spark applies them to what is read."""
        self._pushdown.add_filters(filters)
        return filters

    def planned(self) -> Iterator[Slice]:
        return self._pushdown.apply(self._reading.stream, super().planned())
