"""The history of a table that is merged into: a table beside it with every row as it came.

It follows: the commit to the table names the files that belong to the history, then they are added there, once. A sync
that is cut in between is made good by the next one. Until then the rows are in the table and not yet in its history.
"""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from cdk.spark.crash import crash_point
from cdk.spark.files import DataFile
from cdk.spark.receipt import row_count
from cdk.spark.saved import Saved
from cdk.spark.tables import StreamTable


class History:
    """The table of all rows. Its state is the version of the state of the table it follows."""

    def __init__(self, table: StreamTable) -> None:
        self.table = table

    def follow(self, version: int | None, files: Sequence[DataFile]) -> None:
        """Add what the commit that moved the followed table's state to `version` named, unless that is done.

        Raises StateError of the table.
        """
        before = self.table.saved or Saved("incremental", "append")
        if not files or before.state == version:
            return
        crash_point("before_history")
        rows = before.records + row_count(files)
        self.table.commit(replace(before, state=version, records=rows), files)

    def add(self, columns: Sequence[pa.Field]) -> None:
        """Give the history columns that the table has gained."""
        self.table.add([column for column in columns if column.name not in self.table.schema.names])
