"""Reading the rows of a table's files, of any writer: with their partition columns, and in types the kit handles."""

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from cdk.lake.parquet.partitioning import PartitionValues, with_partition_values
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
