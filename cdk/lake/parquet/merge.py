"""Merges new rows into a table with one row per key: finds the files that contain these keys and rewrites only those.

The new rows are staged in files that no version of the table names yet. For each key one staged row wins
(`cdk.lake.parquet.dedup`). Files of the table that may hold a winner's key are compared with the winners, one task per
file, and rewritten without the rows that these replace. The result is the files to add and remove in one commit.
Without that commit, the table stays as it is.

A task reads the key columns of a file as a whole, and its rows one row group at a time.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct, field
from msgspec.structs import replace

from cdk.base.errors import ConfigError, TransientError
from cdk.base.process.crash_points import crash_point
from cdk.base.task_map import TaskMap, run_inline
from cdk.lake.arrow.cast import cast_batch
from cdk.lake.arrow.columns import OWN_COLUMNS
from cdk.lake.parquet.dedup import DELETED, FILE, KEYLESS_ID, NUMBER, ROW, Identity, keyed, latest_rows, superseded
from cdk.lake.parquet.keyless_rows import HIDDEN, NULL
from cdk.lake.parquet.partitioning import PartitionValues
from cdk.lake.parquet.table_files import TableFile
from cdk.lake.parquet.table_rows import TableLayout, flat, read_rows
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder

SMALL_ROWS = 1_000_000
"""Up to this many rows to compare, the driver does the work.

Measured (benchmarks/spark/merges.py): the driver then needs half the CPU of Spark's tasks, and less than 600 MB.
"""

_BATCH_ROWS = 64_000
_SCRATCH = "_cdk_merge"


class Merged(Struct, frozen=True):
    """The result of a merge: the files to commit, and row counts."""

    add: tuple[DataFile, ...]
    remove: tuple[TableFile, ...]
    added: int = 0
    """Rows that the table gains."""
    replaced: int = 0
    """Rows that the table loses."""
    stale: int = 0
    """Staged rows that are older than the table's row of their key."""
    superseded: int = 0
    """Staged rows that are older than another staged row of their key."""
    deleted: int = 0
    """Staged rows that mark their key as deleted."""
    keyless: int = 0
    """Staged rows without a key (`cdk.lake.parquet.dedup`)."""
    compared: int = 0
    """Number of the table's files that were read."""
    orphans: tuple[str, ...] = ()
    """Staged files that are orphans after the commit."""


class TableMerge(Struct, frozen=True):
    """Merges staged rows into the files of one table."""

    table: TableLayout
    identity: Identity
    spark: TaskMap
    """Runs tasks on executors."""
    staged: Folder | None = None
    """The folder of the staged files, if not the table's; the files stay there."""
    small_rows: int = SMALL_ROWS

    def __call__(self, staged: Sequence[DataFile], table: Sequence[TableFile]) -> Merged:
        """Merge the rows of the files `staged` into the table's files.

        Both have the keys and the cursor in columns of the schema's types. Raises what the folder raises.
        """
        read = [self.keyed(self.source, file.path) for file in staged]
        winners = latest_rows(read, len(self.identity.keys))
        candidates = list(_candidates(winners, table))
        run = run_inline if sum(file.rows for file in candidates) <= self.small_rows else self.spark
        scratch = self.table.root.join(_SCRATCH)
        name = f"{uuid4().hex}.parquet"
        if candidates:
            self._save(scratch, name, winners)
        try:
            compared: list[_Compared] = run(partial(_compare, self._for_task(), name), candidates)
        finally:
            scratch.delete(name)
        lost = pc.unique(pa.concat_arrays([pa.array([], pa.int64()), *(comparison.lost for comparison in compared)]))
        stale = pc.is_in(winners[NUMBER], value_set=lost)
        added = self._files_of_winners(staged, winners, lost, run)
        add = (*(file for comparison in compared for file in comparison.files), *added)
        return Merged(
            add,
            tuple(comparison.file for comparison in compared if comparison.replaced),
            sum(file.rows for file in added),
            sum(comparison.replaced for comparison in compared),
            len(lost),
            sum(part.num_rows for part in read) - winners.num_rows,
            pc.sum(pc.and_not(winners[DELETED], stale)).as_py() or 0,
            sum(part.num_rows - part[KEYLESS_ID].null_count for part in read),
            len(compared),
            () if self.staged else tuple(file.path for file in staged if file not in add),
        )

    @property
    def source(self) -> Folder:
        """The folder of the staged files."""
        return self.staged or self.table.root

    def keyed(self, folder: Folder, path: str, partition: PartitionValues | None = None) -> pa.Table:
        """Return the rows of a file as `cdk.lake.parquet.dedup` compares them. partition: the file's partition."""
        return self.keyed_rows(partial(read_rows, folder, path, partition or {}, self.table.schema))

    def keyed_rows(self, read: Callable[[Sequence[str]], Iterable[pa.RecordBatch]]) -> pa.Table:
        """Return rows as `cdk.lake.parquet.dedup` compares them. read: yields rows with the columns that exist."""

        def read_columns(names: Sequence[str] | None, mask: pa.Array | None) -> pa.Table:
            names = schema.names if names is None else names
            columns = pa.schema([fields[name] for name in names])
            batches, start = [], 0
            for batch in read(names):
                selected = batch if mask is None else batch.filter(mask.slice(start, batch.num_rows))
                batches.append(cast_batch(selected, columns))
                start += batch.num_rows
            return pa.Table.from_batches(batches, columns)

        schema = self.table.schema
        fields = {field.name: field for field in (*map(pa.field, OWN_COLUMNS, OWN_COLUMNS.values()), *schema)}
        return keyed(read_columns(self.identity.columns(schema), None), self.identity, read_columns)

    def _for_task(self) -> "TableMerge":
        """Return this merge for use in a task, which starts no tasks of its own."""
        return replace(self, spark=run_inline)

    def _save(self, scratch: Folder, name: str, winners: pa.Table) -> None:
        """Write the winners to a scratch file for the tasks. They are sorted by key: each task reads its own range."""
        scratch.make()
        with self.table.root.explaining():
            with scratch.open(name) as sink:
                pq.write_table(winners.drop_columns([FILE, ROW, DELETED]), sink, row_group_size=_BATCH_ROWS)
            scratch.make_durable(name)

    def _files_of_winners(
        self, staged: Sequence[DataFile], winners: pa.Table, lost: pa.Array, run: TaskMap
    ) -> list[DataFile]:
        """Return the files with the winners. A staged file is used as it is if all its rows are winners."""
        retained = winners.filter(pc.invert(pc.or_(winners[DELETED], pc.is_in(winners[NUMBER], value_set=lost))))
        unchanged: list[DataFile] = []
        parts: list[_Part] = []
        for n, file in enumerate(staged):
            rows = retained.filter(pc.equal(retained[FILE], n))[ROW].combine_chunks()
            if len(rows) == file.rows and self.staged is None:
                unchanged.append(file)
            elif len(rows):
                parts.append(_Part(file.path, rows))
        return [*unchanged, *flat(run(partial(_write_winners, self._for_task()), parts))]


class _Part(Struct, frozen=True):
    """Some rows of a file."""

    path: str
    rows: pa.Array


class _Compared(Struct, frozen=True):
    """A compared file. replaced: how many rows it loses. lost: numbers of the winners that are older than its rows."""

    file: TableFile
    replaced: int
    lost: pa.Array
    files: list[DataFile] = field(default_factory=list)


def remove_scratch(root: Folder, before: datetime) -> None:
    """Remove the scratch files of killed merges that are older than `before`, since they contain keys."""
    for scratch, name in scratch_files(root):
        # Another run may remove the file at this moment, or the store may refuse: then it stays for a later sync.
        with suppress(FileNotFoundError, ConfigError, TransientError):
            if scratch.make_durable(name).modified < before.timestamp() * 1000:
                scratch.delete(name)


def scratch_files(root: Folder) -> Iterator[tuple[Folder, str]]:
    """Return the temporary files of merges of a table, each with its folder."""
    scratch = root.join(_SCRATCH)
    return ((scratch, name) for name in scratch.names())


def _candidates(winners: pa.Table, table: Sequence[TableFile]) -> Iterator[TableFile]:
    """Yield the files that may hold a winner's key, or a keyless row that may equal a keyless winner."""
    first = winners["_k0"].drop_null().to_pylist()
    kinds = [None if mark is None else mark[:1] for mark in winners[KEYLESS_ID].unique().to_pylist()]
    for file in table:
        if HIDDEN in kinds or (NULL in kinds and file.nulls != 0):
            yield file
        elif file.low is None or file.high is None or file.nulls != 0:
            # Null may stand for a key that did not fit its column then, but fits since the column was widened.
            if first:
                yield file
        else:
            position = bisect_left(first, file.low)
            if position < len(first) and first[position] <= file.high:
                yield file


def _compare(merge: TableMerge, name: str, file: TableFile) -> _Compared:
    """Find the rows of a file that winners replace, and rewrite the file without them."""
    root = merge.table.root
    existing = merge.keyed(root, file.path, file.partition)
    filters: pc.Expression | None = None
    if file.low is not None and file.high is not None and file.nulls == 0:
        filters = ((pc.field("_k0") >= file.low) & (pc.field("_k0") <= file.high)) | pc.field(KEYLESS_ID).is_valid()
    with root.explaining(), root.join(_SCRATCH).reader(name) as source:
        winners = pq.read_table(source, filters=filters)
    replaced, lost = superseded(existing, winners, len(merge.identity.keys))
    if not len(replaced):
        return _Compared(file, 0, lost)
    rows = merge.table.uncast_rows(file)
    files = merge.table.write(_selected(rows, lambda numbers: pc.invert(pc.is_in(numbers, value_set=replaced))))
    crash_point("merge_compared")
    return _Compared(file, len(replaced), lost, files)


def _write_winners(merge: TableMerge, part: _Part) -> list[DataFile]:
    rows = read_rows(merge.source, part.path, {}, merge.table.schema)
    return merge.table.write(_selected(rows, lambda numbers: pc.is_in(numbers, value_set=part.rows)), new=True)


def _selected(batches: Iterator[pa.RecordBatch], which: Callable[[pa.Array], pa.Array]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that `which` selects by row number."""
    start = 0
    for batch in batches:
        yield batch.filter(which(pa.array(range(start, start + batch.num_rows), pa.int64())))
        start += batch.num_rows
