"""The files of a table: those that a version names, and the actions of a commit that adds or removes files."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Required, TypeAlias, TypedDict
from urllib.parse import quote, unquote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction
from msgspec import Struct, field

from cdk.base.values import JsonValue
from cdk.lake.parquet.partitioning import PartitionValues, text_of
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.table_log import actions_of

_UNENCODED = "!$&'()+,-./:;=@_~"
"""Characters besides letters and digits that delta-rs 1.6 does not encode when it writes a path into the log."""
_ENCODED = r"[^A-Za-z0-9!$&'()+,\-./:;=@_~]"
"""Matches the characters that it encodes."""

Bound: TypeAlias = int | str | date | None
"""A bound of a column's values; None if the log has no bound or none that can be compared."""


class AddEntry(TypedDict, total=False):
    """A file that a commit adds, in the format of Delta's protocol."""

    path: Required[str]
    partitionValues: PartitionValues
    stats: str | None
    deletionVector: Mapping[str, int] | None


class LoggedCommit(Struct, frozen=True):
    """One commit as recorded in the log."""

    info: Mapping[str, JsonValue]
    """The writer's metadata, `commitInfo`."""
    add: Mapping[str, AddEntry]
    """The added files, by path."""
    remove: Collection[str]
    """The paths of the removed files."""
    markers: Mapping[str, int]
    """The transaction versions that it sets, by application id."""
    changes_rows: bool
    """Whether it says that it adds or removes rows, not just moves them from file to file."""

    @property
    def operation(self) -> str:
        """The name that its writer gives the operation; empty if it gives no name."""
        return str(self.info.get("operation", ""))


class TableFile(Struct, frozen=True):
    """A file of the table's current version."""

    path: str
    """The path as spelled in the log."""
    rows: int
    low: Bound = None
    """The lower bound of the first key's values."""
    high: Bound = None
    """The upper bound."""
    partition: PartitionValues = field(default_factory=dict)
    """Its partition in a partitioned table. Not every writer stores the partition columns in the file."""
    size: int = 0
    nulls: int | None = None
    """Number of nulls in the key's columns; None if the log does not count them."""


class FilledColumns(Struct, frozen=True):
    """Which columns of a table have values. Columns whose nulls the log does not count are in neither set."""

    rows: int
    full: Collection[str]
    """Columns with a value in every row."""
    some: Collection[str]
    """Columns with a value in at least one row."""


NO_COLUMNS = FilledColumns(0, (), ())
"""The value for a table without rows."""


class LoggedFile(Struct, frozen=True):
    """A file as recorded in the log. rows: None if the log does not count them. deleted: rows of its deletion vector.

    modified: when it was written, in milliseconds since 1970; 0 where the caller does not need it.
    """

    rows: int | None
    deleted: int = 0
    modified: int = 0

    @property
    def visible_rows(self) -> int | None:
        """The number of rows that a reader of the table sees; None: not counted."""
        return None if self.rows is None else self.rows - self.deleted


def files_of(handle: DeltaTable, *keys: str) -> list[TableFile]:
    """Return the files of the handle's version.

    keys: columns; the bounds of a file are those of the first of them, its nulls are summed over all of them.
    """
    key = keys[0] if keys else None
    rows = _statistics(handle).to_pylist()
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
            _nulls(row, keys, partition_by),
        )
        for row in rows
    ]


def _statistics(handle: DeltaTable) -> pa.Table:
    """Return the log's statistics, a row for each file and a column for each figure of a table column.

    The figures of a column `a.b` and of a field `b` in a column `a` have the same name; both are left out.
    """
    actions = _add_actions(handle, flatten=True)
    times = Counter(actions.column_names)
    return actions.select([n for n, name in enumerate(actions.column_names) if times[name] == 1])


def _add_actions(handle: DeltaTable, *, flatten: bool = False) -> pa.Table:
    # `pa.table` would import pandas for a quarter of a second, to check whether its argument is a data frame.
    return pa.RecordBatchReader.from_stream(handle.get_add_actions(flatten=flatten)).read_all()


def logged_files(handle: DeltaTable) -> dict[str, LoggedFile]:
    """Return the files of the version that the handle is pinned to, by path."""
    files = _add_actions(handle)
    modified = files["modification_time"].cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist()
    rows = zip(files["path"].to_pylist(), files["num_records"].to_pylist(), modified, strict=True)
    deleted = _deleted(handle, files["path"].to_pylist())
    return {path: LoggedFile(count, deleted.get(path, 0), at) for path, count, at in rows}


def _deleted(handle: DeltaTable, paths: Sequence[str]) -> dict[str, int]:
    """Return how many rows of each file its deletion vector deletes, by path."""
    if "deletionVectors" not in (handle.protocol().writer_features or ()):
        return {}
    logged_paths = {unquote(path): path for path in paths}
    counts: dict[str, int] = {}
    for batch in pa.RecordBatchReader.from_stream(handle.deletion_vectors()):
        for uri, selected in zip(batch["filepath"].to_pylist(), batch["selection_vector"], strict=True):
            # The URI is absolute; the path in the log is its end.
            parts = unquote(uri).split("/")
            name = next(name for n in range(len(parts)) if (name := "/".join(parts[n:])) in logged_paths)
            counts[logged_paths[name]] = len(selected.values) - (pc.sum(selected.values).as_py() or 0)
    return counts


def counted_rows(files: Mapping[str, LoggedFile]) -> int | None:
    """Return the total rows of files; None if some file has no row count."""
    return total_rows([file.visible_rows for file in files.values()])


def total_rows(counts: Collection[int | None]) -> int | None:
    """Return the sum; None if a count is missing."""
    return None if None in counts else sum(count for count in counts if count is not None)


def commit_at(root: Folder, version: int) -> LoggedCommit:
    """Return the commit of a version. Raises FileNotFoundError: when it left the log. BrokenLog: when it is damaged."""
    lines = actions_of(root, version)
    infos, adds, removes, transactions = (
        [line[kind] for line in lines if kind in line] for kind in ("commitInfo", "add", "remove", "txn")
    )
    return LoggedCommit(
        next(iter(infos), {}),
        {add["path"]: add for add in adds},
        {remove["path"] for remove in removes},
        {transaction["appId"]: transaction["version"] for transaction in transactions},
        any(file.get("dataChange", True) for file in (*adds, *removes)),
    )


def apply_commit(files: dict[str, LoggedFile], commit: LoggedCommit) -> int | None:
    """Apply a commit to `files`; return the rows it adds minus those it removes, None if some are not counted.

    A file that gets a deletion vector is removed and added; adding an existing file only replaces its entry.
    """
    added_files = {path: _added(add) for path, add in commit.add.items()}
    leaving = {*added_files, *commit.remove} & files.keys()
    removed = total_rows([files.pop(path).visible_rows for path in leaving])
    files.update(added_files)
    added = counted_rows(added_files)
    return None if added is None or removed is None else added - removed


def row_count_of(add: AddEntry) -> int | None:
    """Return the rows of a file, including those in its deletion vector; None if its writer did not count them."""
    rows: int | None = orjson.loads(add.get("stats") or "{}").get("numRecords")
    return rows


def _added(add: AddEntry) -> LoggedFile:
    return LoggedFile(row_count_of(add), int((add.get("deletionVector") or {}).get("cardinality", 0)))


def oldest(root: Folder, handle: DeltaTable) -> tuple[int, dict[str, LoggedFile]]:
    """Return the oldest version whose files are known, and its files; version 0 and no files if the log is complete."""
    now = int(handle.version())
    first = now
    names = set(root.join("_delta_log").names())
    while first >= 0 and f"{first:020}.json" in names:
        first -= 1
    if first < 0:
        return 0, {}
    # A version whose own commit exists may still depend on commits that were cleaned up.
    for version in range(first, now):
        try:
            older = DeltaTable(root.uri, version=version, storage_options=root.storage_options)
        except DeltaError:
            continue
        return version, logged_files(older)
    return now, logged_files(handle)


def damaged_files(root: Folder, files: Sequence[DataFile]) -> list[str]:
    """Return the paths of those files that are missing or do not have the size they were written with."""
    sizes = root.sizes([file.path for file in files]) if files else {}
    return [file.path for file in files if sizes.get(file.path) != file.size]


def missing_files(root: Folder, paths: Sequence[str]) -> list[str]:
    """Return the paths, spelled as in the log, whose files are missing."""
    if root.has(paths):
        return []
    # The log URL-encodes the folder of a partition; the file on disk may have either spelling.
    return [path for path in paths if not root.has([path]) and not root.has([unquote(path)])]


def bounded_columns(handle: DeltaTable) -> tuple[str, ...]:
    """Return the columns whose bounds the log has for at least one file."""
    actions = _statistics(handle)
    lows = ((name, f"min.{name}") for name in pa.schema(handle.schema().to_arrow()).names)
    return tuple(
        name for name, low in lows if low in actions.column_names and actions[low].null_count < actions.num_rows
    )


def filled_columns(handle: DeltaTable) -> FilledColumns:
    """Return which columns have values, by the log, in the version that the handle is pinned to."""
    actions = _statistics(handle)
    rows = actions["num_records"]
    full, some = set(), set()
    for column in actions.column_names:
        kind, _, name = column.partition(".")
        if kind not in ("null_count", "partition"):
            continue
        # All rows of a file have the same value in a partition column, or none.
        nulls = actions[column] if kind == "null_count" else pc.if_else(pc.is_null(actions[column]), rows, 0)
        if pc.any(pc.less(nulls, rows)).as_py():
            some.add(name)
        if nulls.null_count == 0 and not pc.sum(nulls).as_py():
            full.add(name)
    return FilledColumns(pc.sum(rows).as_py() or 0, full, some)


def unnamable_files(handle: DeltaTable) -> list[str]:
    """Return the files, spelled as in the log, that no commit through delta-rs can remove.

    When delta-rs 1.6 removes a file, it decodes the path, encodes it in its own spelling and looks the file up by that
    spelling: a file whose writer spelled it differently stays. So its own DELETE, MERGE and overwrite leave it, too.
    """
    paths = _add_actions(handle)["path"]
    encoded = paths.filter(pc.match_substring_regex(paths, _ENCODED)).to_pylist()
    return [path for path in encoded if quote(unquote(path), safe=_UNENCODED) != path]


def file_actions(
    add: Sequence[DataFile],
    remove: Sequence[TableFile],
    *,
    partition_by: Sequence[str],
    now: datetime,
    rows_change: bool = True,
) -> list[AddAction | RemoveAction]:
    """Return the actions of a commit that adds and removes files. remove: as `files_of` returns them.

    A remove action includes the file's size and partition: readers of change feeds refuse it otherwise.

    rows_change: whether the commit adds or removes rows, rather than only moves them between files; readers of changes
    rely on it.
    """
    actions: list[AddAction | RemoveAction] = []
    for file in add:
        texts = {name: file.partition[name] for name in partition_by}
        stats = file.stats or f'{{"numRecords":{file.rows}}}'
        actions.append(AddAction(file.path, file.size, texts, file.modified, rows_change, stats))
    removed = int(now.timestamp() * 1000)
    return [
        *actions,
        # A path spelled as in the log would be encoded a second time, and the file would stay.
        *(RemoveAction(unquote(file.path), rows_change, removed, file.size, dict(file.partition)) for file in remove),
    ]


def _nulls(row: Mapping[str, object], keys: Sequence[str], partition_by: Sequence[str]) -> int | None:
    total = 0
    for key in keys:
        if key in partition_by:
            count = row["num_records"] if row[f"partition.{key}"] is None else 0
        else:
            count = row.get(f"null_count.{key}")
        if not isinstance(count, int):
            return None
        total += count
    return total


def _bound(value: object) -> Bound:
    """Return a bound if it can be compared: the log rounds bounds of timestamps, and has none for other types."""
    match value:
        case bool() | datetime():
            return None
        case int() | str() | date():
            return value
        case _:
            return None
