"""The rows of a table's files: reads them, of any writer, and rewrites files.

Files are rewritten with wider columns, without some rows, or as few large ones in place of many small ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from cdk.base.task_map import TaskMap
from cdk.lake.arrow.cast import cast_batch, rounded_columns
from cdk.lake.parquet.partitioning import PartitionValues, with_partition_values
from cdk.lake.parquet.table_files import TableFile
from cdk.lake.parquet.writer import DataFile, TableWriter
from cdk.lake.storage.folder import Folder

_BATCH_ROWS = 64_000


def read_rows(
    folder: Folder, path: str, partition: PartitionValues, schema: pa.Schema, names: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in order, with all columns that it has, or those in `names`, and its partition columns.

    path: as spelled in the log. partition: the partition of the file. schema: has the types of the partition columns.
    names: only these columns. Raises what the folder raises.
    """
    texts = {name: text for name, text in partition.items() if names is None or name in names}
    with folder.explaining(), folder.reader(unquote(path)) as source:
        file = pq.ParquetFile(source)
        columns = None if names is None else [name for name in names if name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
            # pyarrow takes `a.b` also for the field `b` of a column `a`.
            own = batch if columns is None else batch.select(columns)
            yield with_partition_values(without_encoding(own), texts, schema)


def schema_of(folder: Folder, path: str, stream: str = "") -> pa.Schema:
    """Return the columns that a file was written with. Raises what the folder raises."""
    with folder.explaining(stream), folder.reader(path) as source:
        return pq.read_schema(source)


def without_encoding(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch without types of other writers for which pyarrow has no `filter` or `take`.

    Measured: delta-rs' UPDATE, DELETE and MERGE (1.6) write strings as string_view, for which pyarrow 26 has neither.
    """
    schema = pa.schema([field.with_type(_type(field.type)) for field in batch.schema])
    return batch if schema.types == batch.schema.types else batch.cast(schema)


def _type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_type(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_type(kind.value_type)))
    return kind


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
