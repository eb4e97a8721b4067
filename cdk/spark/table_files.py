"""The files of a table: which ones a version names, and what a commit says of those that come and go."""

from collections.abc import Sequence
from datetime import date, datetime
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from cdk.base.values import Json
from cdk.spark.files import DataFile
from cdk.spark.merge import TableFile
from cdk.spark.partitions import text_of
from cdk.spark.place import Place


def files_of(handle: DeltaTable, key: str | None = None) -> list[TableFile]:
    """The files of the version that the handle is pinned to, with the bounds of column `key`."""
    rows = pa.table(handle.get_add_actions(flatten=True)).to_pylist()
    partition_by = handle.metadata().partition_columns
    low, high = (f"partition.{key}",) * 2 if key in partition_by else (f"min.{key}", f"max.{key}")
    return [
        TableFile(
            row["path"],
            row["num_records"] or 0,
            _bound(row.get(low)),
            _bound(row.get(high)),
            {name: text_of(row[f"partition.{name}"]) for name in partition_by},
            row["size_bytes"],
        )
        for row in rows
    ]


def row_counts(handle: DeltaTable) -> dict[str, int | None]:
    """The rows of each file of the version that the handle is pinned to; None where the log does not say."""
    files = pa.table(handle.get_add_actions(flatten=False))
    return dict(zip(files["path"].to_pylist(), files["num_records"].to_pylist(), strict=True))


def missing_files(root: Place, paths: Sequence[str]) -> list[str]:
    """Those of these files, as the log spells them, that are gone."""
    if root.has(paths):
        return []
    # The log writes the folder of a partition as a URL does; the file may be called by either.
    return [path for path in paths if not root.has([path]) and not root.has([unquote(path)])]


def bounded_columns(handle: DeltaTable) -> tuple[str, ...]:
    """The columns whose bounds the log has, of some file at least."""
    known = pa.table(handle.get_add_actions(flatten=True))
    lows = ((name, f"min.{name}") for name in pa.schema(handle.schema().to_arrow()).names)
    return tuple(name for name, low in lows if low in known.column_names and known[low].null_count < known.num_rows)


def file_actions(
    add: Sequence[DataFile],
    remove: Sequence[TableFile],
    *,
    partition_by: Sequence[str],
    now: datetime,
    rows_change: bool = True,
) -> list[AddAction | RemoveAction]:
    """What a commit says of files. remove: as `files_of` gives them.

    Files that leave are described by size and partition too: readers of change feeds refuse them otherwise.

    rows_change: rows come or go, and do not just move from file to file; readers of changes look at this.
    """
    actions: list[AddAction | RemoveAction] = []
    for file in add:
        texts = {name: file.partition[name] for name in partition_by}
        stats = file.stats or f'{{"numRecords":{file.rows}}}'
        actions.append(AddAction(file.path, file.size, texts, file.modified, rows_change, stats))
    removed = int(now.timestamp() * 1000)
    return [
        *actions,
        *(RemoveAction(file.path, rows_change, removed, file.size, dict(file.partition)) for file in remove),
    ]


def _bound(value: Json) -> Json:
    """A bound of the log that can be compared; those of moments are rounded there, those of the rest not told."""
    return value if type(value) in (int, str, date) else None
