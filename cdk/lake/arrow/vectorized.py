"""Converts values to an Arrow array all at once, if each fits the column as it is. Nearly all values do.

The types are checked first, against `cdk.lake.arrow.conversions`: Arrow would accept values of other types, and drop
undeclared fields of structs. Doubtful values are left to `cdk.lake.arrow.coerce`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from types import NoneType

import pyarrow as pa
from orjson import dumps

from cdk.base.records.plain_values import ALREADY
from cdk.base.values import FieldValue, JsonValue, NotJson
from cdk.lake.arrow.columns import JSON_TEXT, ColumnType
from cdk.lake.arrow.conversions import NeedsCoercion, conversion, list_array
from cdk.lake.arrow.json_text import json_text, shown

_LISTS = frozenset({list, NoneType})


def to_array(values: Sequence[object], kind: ColumnType) -> pa.Array | None:
    """Return the values as `kind`; None if one of them may not fit as it is."""
    try:
        return _array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, NotJson, TypeError, NeedsCoercion):
        return None


def by_field(objects: Sequence[Mapping[str, JsonValue]]) -> Mapping[str, Sequence[JsonValue]] | None:
    """Return the values of each field, in the order of the objects, if all have the same fields; else None.

    Takes two thirds of the time of getting each field from each object.
    """
    names = tuple(objects[0]) if objects else ()
    # With one name, `itemgetter` would not return tuples. Equal numbers of fields and all names present: same fields.
    if len(names) < 2 or not {len(names)}.issuperset(map(len, objects)):  # noqa: PLR2004
        return None
    try:
        return dict(zip(names, zip(*map(itemgetter(*names), objects), strict=True), strict=True))
    except KeyError:
        return None


def _array(values: Sequence[FieldValue], kind: ColumnType) -> pa.Array:
    if kind is JSON_TEXT:
        return _texts(values, quoted=True)
    if pa.types.is_struct(kind):
        return _structs(values, kind)
    if pa.types.is_list(kind):
        if not _LISTS.issuperset(map(type, values)):
            raise NeedsCoercion
        return list_array(values, kind, partial(_array, kind=kind.value_type))
    scalar = conversion(kind)
    if scalar.python.issuperset(map(type, values)):
        return scalar.array(values)
    if kind == pa.string():
        return _texts(values, quoted=False)
    raise NeedsCoercion


def _texts(values: Sequence[object], *, quoted: bool) -> pa.Array:
    """Return values as JSON. quoted: strings, too; otherwise strings stay as they are."""
    if not ALREADY.issuperset(map(type, values)):
        raise NeedsCoercion
    spelled = dumps if quoted else _string
    texts: list[bytes | None] = [None if value is None else spelled(value) for value in values]
    for value, text in zip(values, texts, strict=True):
        # orjson writes NaN as null.
        if text is not None and b"null" in text and json_text(value) is None:
            raise NeedsCoercion
    # orjson writes UTF-8, and the strings were encoded as UTF-8.
    return pa.array(texts, pa.binary()).view(pa.string())


def _string(value: object) -> bytes:
    if type(value) is str:
        return value.encode()
    # Most numbers are no integers, and have their one spelling already.
    return shown(value).encode() if type(value) is float and value % 1 == 0 else dumps(value)


def _structs(values: Sequence[FieldValue], kind: pa.StructType) -> pa.Array:
    types = set(map(type, values))
    if not types <= {dict, NoneType}:
        raise NeedsCoercion
    objects: Sequence[Mapping[str, JsonValue]] = values
    missing = None
    if NoneType in types:
        objects = [{} if value is None else value for value in values]
        missing = pa.array([value is None for value in values])
    names = [field.name for field in kind]
    fields = by_field(objects)
    if not set(names).issuperset(chain.from_iterable(objects) if fields is None else fields):
        raise NeedsCoercion
    arrays = []
    for field in kind:
        if fields is None:
            arrays.append(_array([record.get(field.name) for record in objects], field.type))
        elif field.name in fields:
            arrays.append(_array(fields[field.name], field.type))
        else:
            arrays.append(pa.nulls(len(values), field.type))
    if not arrays:
        raise NeedsCoercion
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=missing)
