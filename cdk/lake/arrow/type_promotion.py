"""Type promotion: the type that a column gets when its schema changes, which holds the values of both types."""

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from cdk.lake.arrow.columns import BIG_INTEGER, JSON_TEXT, TIMESTAMP_NTZ, TIMESTAMP_UTC, ColumnType

_SIMPLE_TYPES = (pa.string(), pa.bool_(), pa.float64(), BIG_INTEGER, pa.date32(), TIMESTAMP_UTC, TIMESTAMP_NTZ)
# Integers of this size are exact in a double, which has 53 bits for an integer.
_SURELY_EXACT_BITS = 32


def common_type(old: pa.DataType, new: pa.DataType, *, exact: bool = False) -> pa.DataType | None:
    """Return the narrowest type that holds both without loss; None if there is none, as `old` is not a type of the kit.

    Integer -> double (string if `exact`: the column has integers that a double would round) or decimal; date ->
    timestamp; structs field by field, the old fields first; lists by their elements; anything else -> string.
    """
    if old == new or pa.types.is_string(old):
        return old
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return _struct(old, new, exact=exact)
    if pa.types.is_list(old) and pa.types.is_list(new):
        element = common_type(old.value_type, new.value_type, exact=exact)
        return element if element is None else pa.list_(element)
    return (_scalar(old, new, exact=exact) or pa.string()) if _readable(old) else None


def keeps_spelling(old: ColumnType, new: ColumnType) -> bool:
    """Whether old values of a column whose type has changed equal the same values when the source sends them again.

    Timestamps become strings as the kit writes them, not as the source does, and doubles were rounded. JSON text has
    quotes, and numbers as the source spells them.
    """
    if old is JSON_TEXT or new is JSON_TEXT:
        return old is new
    has_one_spelling = old == pa.date32() or pa.types.is_signed_integer(old) or pa.types.is_boolean(old)
    return bool(old == new or has_one_spelling or not pa.types.is_string(new))


def writable(kind: pa.DataType) -> bool:
    """Whether the kit writes values of this type; tables of other programs may have other types."""
    return all(part in _SIMPLE_TYPES or pa.types.is_signed_integer(part) for part in leaves(kind))


def leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the scalar types inside a type of structs and lists, or the type itself."""
    if pa.types.is_struct(kind):
        yield from chain.from_iterable(leaves(field.type) for field in kind)
    elif pa.types.is_list(kind):
        yield from leaves(kind.value_type)
    else:
        yield kind


def only_gains(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether `new` is `old`, possibly with more fields in structs: old files are then readable without a rewrite."""
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return all(_has_field(new, field.name) and only_gains(field.type, new.field(field.name).type) for field in old)
    if pa.types.is_list(old) and pa.types.is_list(new):
        return only_gains(old.value_type, new.value_type)
    return bool(old == new)


def _readable(kind: pa.DataType) -> bool:
    """Whether `cdk.lake.arrow.cast` can convert this type to strings."""
    parts = leaves(kind)
    return all(writable(part) or pa.types.is_float32(part) or pa.types.is_decimal(part) for part in parts)


def _struct(old: pa.StructType, new: pa.StructType, *, exact: bool) -> pa.DataType | None:
    added = [field for field in new if not _has_field(old, field.name)]
    names = [field.name.lower() for field in chain(old, added)]
    if len(set(names)) < len(names):  # names that differ only in case, which a table cannot hold
        return pa.string() if _readable(old) else None
    common = [
        (f.name, common_type(f.type, new.field(f.name).type, exact=exact) if _has_field(new, f.name) else f.type)
        for f in old
    ]
    if any(kind is None for _, kind in common):
        return None
    return pa.struct([*common, *((field.name, field.type) for field in added)])


def _has_field(kind: pa.StructType, name: str) -> bool:
    return bool(kind.get_field_index(name) >= 0)


def _scalar(old: pa.DataType, new: pa.DataType, *, exact: bool) -> pa.DataType | None:
    """Return the scalar type that holds both; None: only a string does."""
    for first, second in ((old, new), (new, old)):
        signed = pa.types.is_signed_integer(first)
        if (
            (signed and pa.types.is_signed_integer(second) and first.bit_width <= second.bit_width)
            or (signed and second == BIG_INTEGER)
            or (pa.types.is_floating(first) and second == pa.float64())
            or (first == pa.date32() and second in (TIMESTAMP_UTC, TIMESTAMP_NTZ))
        ):
            return second
        if signed and pa.types.is_floating(second):
            return None if exact and first.bit_width > _SURELY_EXACT_BITS else pa.float64()
    return None
