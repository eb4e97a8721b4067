"""Casts rows of old files to the table's new schema, without loss. Needs no Spark; also runs in its tasks.

As strings, numbers become the shortest text that parses to the same number, booleans `true` and `false`, timestamps RFC
3339 (`Z` if the column was in UTC), structs and lists JSON. NaN and infinity, which JSON lacks, become the strings NaN,
Infinity and -Infinity.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cdk.base.errors import BugError
from cdk.lake.arrow.json_text import finite, shown

_EXACT = 2**53


def cast_batch(batch: pa.RecordBatch, to: pa.Schema) -> pa.RecordBatch:
    """Return `batch` with the columns of `to`, in their order; columns that it lacks are null.

    Raises BugError: when it has a column that `to` lacks, or values that the new type cannot hold (see
    `rounded_columns`).
    """
    if lost := [name for name in batch.schema.names if name not in to.names]:
        raise BugError(f"columns {', '.join(lost)} of a file are not in the schema it is to be written with")
    arrays = []
    for field in to:
        if field.name not in batch.schema.names:
            arrays.append(pa.nulls(batch.num_rows, field.type))
            continue
        try:
            arrays.append(_as(batch.column(field.name), field.type))
        except pa.ArrowException as error:
            old = batch.schema.field(field.name).type
            raise BugError(f"column {field.name!r} cannot be widened from {old} to {field.type}: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=to)


def rounded_columns(batch: pa.RecordBatch, to: pa.Schema) -> frozenset[str]:
    """Return the columns of `batch` that cannot be widened to `to`, because a double would round one of their integers.

    Pass them to `plan` as `exact`. A double holds every integer up to 2^53.
    """
    both = [field for field in to if field.name in batch.schema.names]
    return frozenset(f.name for f in both if not all(_exact_pairs(batch.column(f.name), f.type)))


def _exact_pairs(array: pa.Array, to: pa.DataType) -> Iterator[bool]:
    kind = array.type
    if pa.types.is_struct(kind) and pa.types.is_struct(to):
        for i, field in enumerate(kind):
            yield from _exact_pairs(array.flatten()[i], to.field(field.name).type)
    elif pa.types.is_list(kind) and pa.types.is_list(to):
        yield from _exact_pairs(array.flatten(), to.value_type)
    elif pa.types.is_integer(kind) and pa.types.is_floating(to):
        ends = pc.min_max(array).as_py()
        yield ends["min"] is None or (ends["min"] >= -_EXACT and ends["max"] <= _EXACT)


def _as(array: pa.Array, to: pa.DataType) -> pa.Array:
    kind = array.type
    if kind == to:
        return array
    if pa.types.is_string(to):
        return as_texts(array)
    if pa.types.is_struct(kind) and pa.types.is_struct(to):
        inner = dict(zip((field.name for field in kind), array.flatten(), strict=True))
        fields = [
            _as(inner[field.name], field.type) if field.name in inner else pa.nulls(len(array), field.type)
            for field in to
        ]
        return pa.StructArray.from_arrays(fields, fields=list(to), mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(to):
        return _list(array, _as(array.flatten(), to.value_type))
    return array.cast(to)


def _list(array: pa.ListArray, values: pa.Array) -> pa.ListArray:
    """Return a list array with the lengths and nulls of `array`, and the items `values`, concatenated."""
    ends = pc.cumulative_sum(pc.list_value_length(array).fill_null(0)).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, values, mask=array.is_null())


def as_texts(array: pa.Array) -> pa.Array:
    """Return a column's values as a string column holds them. Raises ArrowException: when that is impossible."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        return pc.strftime(array, format="%Y-%m-%dT%H:%M:%SZ" if kind.tz else "%Y-%m-%dT%H:%M:%S")
    if pa.types.is_floating(kind) or pa.types.is_nested(kind):
        values = _dated(array).to_pylist()
        return pa.array([None if value is None else shown(finite(value)) for value in values], pa.string())
    return array.cast(pa.string())


def _dated(array: pa.Array) -> pa.Array:
    """Return the array with dates and timestamps as strings: Python cannot represent those before year 1."""
    kind = array.type
    if pa.types.is_struct(kind):
        fields = [_dated(inner) for inner in array.flatten()]
        return pa.StructArray.from_arrays(fields, names=[field.name for field in kind], mask=array.is_null())
    if pa.types.is_list(kind):
        return _list(array, _dated(array.flatten()))
    return as_texts(array) if pa.types.is_temporal(kind) else array
