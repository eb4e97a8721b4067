"""Widening: writing a table's files again, in columns that hold more."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from cdk.base.task_map import TaskMap
from cdk.lake.delta.pinned_table import FilesGone, TableChanged
from cdk.lake.delta.receipt import Receipt
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Use
from cdk.lake.delta.table_state import TableState


def widen(
    table: StreamTable,
    saved: TableState,
    planned: Callable[[frozenset[str]], pa.Schema],
    bounded: Sequence[str],
    spread: TaskMap,
) -> None:
    """Write the table's files again, by one commit in which the state stays what it is, `saved`.

    planned: the columns; its argument: those with a number that a double would round. bounded: columns whose bounds go
    into the log. Raises TableChanged: another writer came first; plan again. ConfigError: the table has got a feature
    that refuses it. And what `commit` raises.
    """
    table.guard.check([Use.WIDEN])
    layout = replace(table.layout(bounded), schema=planned(frozenset()))
    layout = replace(layout, schema=planned(layout.unfit(table.files(), spread)))
    files = layout.rewrite(table.files(), spread)
    with table.removing_if_changed(files):
        try:
            table.commit(saved, files, overwrite=True, schema=layout.schema, receipt=Receipt())
        except FilesGone as error:
            # VACUUM has removed what no version named yet; the rows are in the files that are there.
            raise TableChanged(error.message, detail=error.detail, path=error.path) from error
