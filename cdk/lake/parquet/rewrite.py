"""Rewriting the files of a table: with wider columns, without some rows, or many small files as few large ones.

One task writes one new file, or several if that would be too large; one commit names them all.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby

import pyarrow as pa
from msgspec import Struct

from cdk.base.task_map import TaskMap
from cdk.lake.arrow.cast import cast_batch, rounded_columns
from cdk.lake.parquet.table_files import TableFile
from cdk.lake.parquet.table_rows import read_rows
from cdk.lake.parquet.writer import DataFile, TableWriter
from cdk.lake.storage.folder import Folder

SMALL_BYTES, MANY = 16 * 2**20, 20
"""The size below which a file is small, and how many small files are worth a rewrite as large ones."""
LARGE_BYTES = 128 * 2**20


class TableLayout(Struct, frozen=True):
    """A table's folder, and the columns that new files of it are written with. Immutable; it is sent to tasks."""

    root: Folder
    schema: pa.Schema
    bounded: tuple[str, ...] = ()
    """Columns whose bounds go into the log."""
    partition_by: tuple[str, ...] = ()
    """The partition columns; a row whose value changes moves to another partition."""

    def rows(self, file: TableFile | DataFile, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file with all columns, or only those in `names`; columns that it lacks are null."""
        names = self.schema.names if names is None else names
        schema = pa.schema([self.schema.field(name) for name in names])
        for batch in read_rows(self.root, file.path, file.partition, self.schema, names):
            yield cast_batch(batch, schema)

    def uncast_rows(self, file: TableFile | DataFile) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file as they were written, with those columns of the table that the file has.

        A file of another writer may have additional columns; readers of Delta ignore them.
        """
        return read_rows(self.root, file.path, file.partition, self.schema, self.schema.names)

    def write(self, batches: Iterable[pa.RecordBatch], *, new: bool = False) -> list[DataFile]:
        """Write rows, cast to the table's columns, to new files; these are invisible until a commit names them.

        new: whether all rows were just read. If reading or writing a batch fails, no file remains.
        """
        writer = TableWriter(self.root, self.schema, self.bounded, self.partition_by, new=new)
        try:
            for batch in batches:
                writer.write([cast_batch(batch, self.schema)])
            return writer.close()
        except BaseException:
            writer.discard()
            raise

    def rounded_columns(self, files: Sequence[TableFile | DataFile], spread: TaskMap) -> frozenset[str]:
        """Return the columns with a number, in some file, that a double would round."""
        columns: list[frozenset[str]] = spread(partial(_rounded_columns, self), files)
        return frozenset().union(*columns)

    def rewrite(self, files: Sequence[TableFile | DataFile], spread: TaskMap) -> list[DataFile]:
        """Rewrite the rows of each file."""
        return self.join([[file] for file in files], spread)

    def join(self, groups: Sequence[Sequence[TableFile | DataFile]], spread: TaskMap) -> list[DataFile]:
        """Write the rows of each group to one file, or to as many as they fill."""
        return flat(spread(partial(_joined, self), groups))


def flat(file_lists: Sequence[Sequence[DataFile]]) -> list[DataFile]:
    """Return the files that several tasks wrote as one list."""
    return [file for files in file_lists for file in files]


def small_file_groups(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """Return the small files of each partition with many, in groups to join. A group has at least two files."""
    groups: list[list[TableFile]] = []
    small = sorted((file for file in files if file.size < SMALL_BYTES), key=_partition)
    for _, alike in groupby(small, _partition):
        partition_files = list(alike)
        if len(partition_files) >= MANY:
            groups += (group for group in _groups_by_size(partition_files) if len(group) > 1)
    return groups


def _partition(file: TableFile) -> tuple[tuple[str, bool, str], ...]:
    return tuple((name, text is None, text or "") for name, text in sorted(file.partition.items()))


def _groups_by_size(files: Sequence[TableFile]) -> Iterator[list[TableFile]]:
    group, size = list[TableFile](), 0
    for file in files:
        if size + file.size > LARGE_BYTES:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    yield group


def _rounded_columns(layout: TableLayout, file: TableFile | DataFile) -> frozenset[str]:
    return frozenset().union(*(rounded_columns(batch, layout.schema) for batch in layout.uncast_rows(file)))


def _joined(layout: TableLayout, group: Sequence[TableFile | DataFile]) -> list[DataFile]:
    return layout.write(batch for file in group for batch in layout.uncast_rows(file))
