"""Rewriting the files of a table: with wider columns, or many small ones as few large ones.

One task writes one new file, or the few that a large one becomes, and one commit names them all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import pyarrow as pa

from cdk.base.task_map import TaskMap
from cdk.lake.arrow.cast import cast_batch, unfit
from cdk.lake.parquet.table_files import TableFile
from cdk.lake.parquet.table_rows import rows_of
from cdk.lake.parquet.writer import DataFile, TableWriter
from cdk.lake.storage.folder import Folder

SMALL_BYTES, MANY = 16 * 2**20, 20
"""The size of small files, and how many of them are worth a rewrite as large ones."""
LARGE_BYTES = 128 * 2**20


@dataclass(frozen=True)
class Rewrite:
    """Files of a table, and the columns that they are to have."""

    root: Folder
    schema: pa.Schema
    bounded: tuple[str, ...] = ()
    """Columns whose bounds go into the log."""
    partition_by: tuple[str, ...] = ()
    """The table's partition columns; rows keep their partition, and files without these columns get them."""

    def unfit(self, files: Sequence[TableFile], spread: TaskMap) -> frozenset[str]:
        """The columns that a double would round in some file."""
        columns: list[frozenset[str]] = spread(partial(_unfit, self), files)
        return frozenset().union(*columns)

    def files(self, files: Sequence[TableFile], spread: TaskMap) -> list[DataFile]:
        """Rewrite each file; nobody sees the new files before a commit names them."""
        return self.joined([[file] for file in files], spread)

    def joined(self, groups: Sequence[Sequence[TableFile]], spread: TaskMap) -> list[DataFile]:
        """Write the rows of each group into one file, or as many as they fill; nobody sees them before a commit."""
        written: list[list[DataFile]] = spread(partial(_rewritten, self), groups)
        return [file for files in written for file in files]


def crowded(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """The small files of each partition that has many, in groups that make a large one. A single file is no group."""
    groups: list[list[TableFile]] = []
    small = sorted((file for file in files if file.size < SMALL_BYTES), key=_partition)
    for _, alike in groupby(small, _partition):
        partition_files = list(alike)
        if len(partition_files) >= MANY:
            groups += (group for group in _filled(partition_files) if len(group) > 1)
    return groups


def _partition(file: TableFile) -> tuple[tuple[str, bool, str], ...]:
    return tuple((name, text is None, text or "") for name, text in sorted(file.partition.items()))


def _filled(files: Sequence[TableFile]) -> Iterator[list[TableFile]]:
    group: list[TableFile] = []
    for file in files:
        if sum(member.size for member in group) + file.size > LARGE_BYTES:
            yield group
            group = []
        group.append(file)
    yield group


def _batches(rewrite: Rewrite, file: TableFile) -> Iterator[pa.RecordBatch]:
    return rows_of(rewrite.root, file.path, file.partition, rewrite.schema)


def _unfit(rewrite: Rewrite, file: TableFile) -> frozenset[str]:
    return frozenset().union(*(unfit(batch, rewrite.schema) for batch in _batches(rewrite, file)))


def _rewritten(rewrite: Rewrite, group: Sequence[TableFile]) -> list[DataFile]:
    writer = TableWriter(rewrite.root, rewrite.schema, rewrite.bounded, rewrite.partition_by)
    try:
        for file in group:
            for batch in _batches(rewrite, file):
                writer.write([cast_batch(batch, rewrite.schema)])
        return writer.close()
    except BaseException:
        writer.discard()
        raise
