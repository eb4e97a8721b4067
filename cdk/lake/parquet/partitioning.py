"""The partitions of a table: how Delta's log spells partition values, and which rows belong to which partition.

All rows of a file of a partitioned table have the same value in each partition column, and the log stores these values
as strings: Delta, "Partition Value Serialization". The kit also writes the columns to the files, so that programs that
read the files alone miss nothing; other writers leave them out, and `with_partition_values` adds them back.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from cdk.base.errors import BugError, ConfigError
from cdk.base.wording import did_you_mean
from cdk.lake.arrow.coerce import change
from cdk.lake.arrow.columns import META, OWN_COLUMNS

_PARTITIONABLE = (
    pa.types.is_string,
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_timestamp,
    lambda kind: pa.types.is_decimal(kind) and kind.scale == 0,
)

PartitionValues: TypeAlias = Mapping[str, str | None]
"""The partition of a file: the value of each partition column as a string, None for null."""


def check_columns(schema: pa.Schema, names: Sequence[str], where: str) -> None:
    """Raise ConfigError when a new table with the columns of `schema` cannot be partitioned by `names`.

    Each value of a partition column must have exactly one spelling: a double may have several, and Delta defines none
    for structs and lists.
    """
    declared = [name for name in schema.names if name not in OWN_COLUMNS]
    for name in names:
        if name not in declared:
            near = did_you_mean(name, declared)
            raise ConfigError(f"the stream's schema does not declare {name!r}{near}", path=where)
        kind = schema.field(name).type
        if not any(is_partitionable(kind) for is_partitionable in _PARTITIONABLE):
            raise ConfigError(f"{name!r} is {kind}; expected a string, integer, date, timestamp or boolean", path=where)


def check_same(actual: Sequence[str], expected: Sequence[str], where: str, path: str) -> None:
    """Raise ConfigError when the partition columns of the table differ from those of the pipeline."""
    if tuple(actual) == tuple(expected):
        return
    columns = ", ".join(actual)
    raise ConfigError(
        f"{where}: the table is {f'partitioned by {columns}' if columns else 'not partitioned'}, but the pipeline sets "
        f"{', '.join(expected) or 'nothing'}. The partition columns of a table cannot change: "
        f"{f'set [{columns}]' if columns else 'leave the setting out'}, sync into another path, or move the table away "
        "to read the stream from its start",
        path=path,
    )


def check_fillable(names: Sequence[str], schema: pa.Schema, columns: Collection[str], stream: str, path: str) -> None:
    """Raise ConfigError when the kit does not write one of the partition columns. columns: those that it writes."""
    for name in names:
        if name not in columns:
            raise ConfigError(
                f"the table is partitioned by {name!r}, which is {schema.field(name).type} there, a type that the kit "
                "does not write. Sync into another path, or move the table away",
                path=path,
                stream=stream,
            )


def text_of(value: object) -> str | None:
    """Return a value as spelled in the log: timestamps in UTC with a `Z`, an empty string as null."""
    match value:
        case None | str():
            return value or None
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            zone = None if value.tzinfo is None else UTC
            text = (value if zone is None else value.astimezone(zone)).isoformat(timespec="microseconds")
            return text.replace("+00:00", "Z") if zone else text.replace("T", " ")
        case date():
            return value.isoformat()
        case _:
            raise BugError(f"a partition cannot be named by a value of type {type(value).__name__}")


def value_of(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """Return the value for a string that `text_of` returned."""
    return pa.scalar(text, pa.string()).cast(kind)


def split(batch: pa.RecordBatch, by: Sequence[str]) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Yield the strings of the columns `by` and the rows of each partition, in their order. Batches share no memory."""
    if not batch.num_rows:
        return
    codes = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
    for name in by:
        coded = batch.column(name).dictionary_encode(null_encoding="encode")
        # Re-encoded in each round, there are at most as many codes as rows, so the product stays far below 64 bits.
        codes = pc.add(pc.multiply(codes, len(coded.dictionary)), coded.indices.cast(pa.int64()))
        codes = codes.dictionary_encode().indices.cast(pa.int64())
    order = pc.sort_indices(codes)
    start = 0
    for end in pc.run_end_encode(codes.take(order)).run_ends.to_pylist():
        # Copied, not sliced: a small buffered part must not keep the whole batch in memory.
        part = batch.take(order.slice(start, end - start))
        yield tuple(text_of(part.column(name)[0].as_py()) for name in by), part
        start = end


def with_partition_values(batch: pa.RecordBatch, texts: PartitionValues, schema: pa.Schema) -> pa.RecordBatch:
    """Return `batch` with the partition columns of its file set to `texts`, whether the file has them or not.

    Delta: the log's values are authoritative, whatever the file contains.
    """
    for name, text in texts.items():
        field = pa.field(name, schema.field(name).type)
        column = pa.repeat(value_of(text, field.type), batch.num_rows)
        at = batch.schema.get_field_index(name)
        batch = batch.append_column(field, column) if at < 0 else batch.set_column(at, field, column)
    return batch


def without_empty(batch: pa.RecordBatch, by: Sequence[str]) -> pa.RecordBatch:
    """Return `batch` with null for each empty string in the columns `by`, and a note of that in `_airbyte_meta`.

    The log cannot distinguish empty from null: some readers would read a string left in the file as empty, others as
    null.
    """
    for name in by:
        at = batch.schema.get_field_index(name)
        column = batch.column(at)
        if not pa.types.is_string(column.type):
            continue
        empty = pc.fill_null(pc.equal(column, ""), fill_value=False)
        if not pc.any(empty).as_py():
            continue
        noted = change(name, "NULLED", "an empty string, which is null in a partition column", "")
        metas = [
            {"changes": [*meta["changes"], noted]} if was else meta
            for meta, was in zip(batch.column(META).to_pylist(), empty.to_pylist(), strict=True)
        ]
        cleared = pc.if_else(empty, pa.scalar(None, column.type), column)
        batch = batch.set_column(at, batch.schema.field(at), cleared)
        meta_index = batch.schema.get_field_index(META)
        field = batch.schema.field(meta_index)
        batch = batch.set_column(meta_index, field, pa.array(metas, field.type))
    return batch
