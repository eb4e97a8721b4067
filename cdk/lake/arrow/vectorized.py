"""Values -> an Arrow array in one go, where each of them is what the column holds. Nearly all values are.

The types are looked at first, as `cdk.lake.arrow.conversions` has them: Arrow would take what another type spells, and
drop what a struct does not declare. Whatever is in doubt is left to `cdk.lake.arrow.coerce`.
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
from cdk.lake.arrow.json_text import json_text

_LISTS = frozenset({list, NoneType})


def to_array(values: Sequence[object], kind: ColumnType) -> pa.Array | None:
    """The values as `kind`; None if one of them may not fit as it is."""
    try:
        return _array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, NotJson, TypeError, NeedsCoercion):
        return None


def by_field(objects: Sequence[Mapping[str, JsonValue]]) -> Mapping[str, Sequence[JsonValue]] | None:
    """The values of each field, object by object, where all have the same fields; else None.

    Two thirds of the time that asking each object for each field takes.
    """
    names = tuple(objects[0]) if objects else ()
    # With one name, `itemgetter` would not give tuples. As many fields, and all of these: the same fields.
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
    """Values as JSON. quoted: texts, too; otherwise they stay what they are."""
    if not ALREADY.issuperset(map(type, values)):
        raise NeedsCoercion
    texts: list[bytes | None] = [
        None if value is None else dumps(value) if quoted or type(value) is not str else value.encode()
        for value in values
    ]
    for value, text in zip(values, texts, strict=True):
        # orjson writes NaN as null.
        if text is not None and b"null" in text and json_text(value) is None:
            raise NeedsCoercion
    # What orjson writes is UTF-8, and so is a text that was encoded.
    return pa.array(texts, pa.binary()).view(pa.string())


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
