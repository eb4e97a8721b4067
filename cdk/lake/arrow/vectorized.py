"""Values -> an Arrow array in one go, where each of them is what the column holds. Nearly all values are.

The types are looked at first: Arrow takes True for 1.0, and 1 for 1.0 beside it, "abc" for a list, and drops what a
struct does not declare. Whatever is in doubt is left to `cdk.lake.arrow.coerce`, which takes a value at a time and ten
times as long, so both must agree on what they do with a value.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from orjson import dumps

from cdk.base.records.plain_values import ALREADY
from cdk.base.values import Json, NotJson
from cdk.lake.arrow.columns import BIG_INTEGER, LOCAL_TIME, MOMENT, ColumnType, JsonText
from cdk.lake.arrow.json_text import json_text

_ALIKE: Mapping[pa.DataType, frozenset[type]] = {
    pa.int64(): frozenset({int, NoneType}),
    pa.float64(): frozenset({float, int, NoneType}),
    pa.bool_(): frozenset({bool, NoneType}),
    pa.string(): frozenset({str, NoneType}),
    pa.date32(): frozenset({str, NoneType}),
    MOMENT: frozenset({str, NoneType}),
    LOCAL_TIME: frozenset({str, NoneType}),
    BIG_INTEGER: frozenset({int, NoneType}),
}
# Arrow reads a year 0, which a value beside one that Arrow does not read would not be.
_FIRST_DAY = datetime(1, 1, 1, tzinfo=UTC)
_EARLIEST: Mapping[pa.DataType, Json] = {
    pa.date32(): _FIRST_DAY.date(),
    MOMENT: _FIRST_DAY,
    LOCAL_TIME: _FIRST_DAY.replace(tzinfo=None),
}


def to_array(values: Sequence[Json], kind: ColumnType) -> pa.Array | None:
    """The values as `kind`; None if one of them may not fit as it is."""
    try:
        if isinstance(kind, JsonText):
            return _texts(values, quoted=True)
        if pa.types.is_struct(kind):
            return _structs(values, kind)
        if pa.types.is_list(kind):
            return _lists(values, kind)
        return _scalars(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, NotJson, TypeError):
        return None


def by_field(objects: Sequence[Mapping[str, Json]]) -> Mapping[str, Sequence[Json]] | None:
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


def _scalars(values: Sequence[Json], kind: pa.DataType) -> pa.Array | None:
    if not _ALIKE.get(kind, frozenset()).issuperset(map(type, values)):
        return _texts(values, quoted=False) if kind == pa.string() else None
    return to_timestamps(pa.array(values, pa.string()), kind) if kind in _EARLIEST else pa.array(values, kind)


def to_timestamps(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Texts as dates or moments; None if one of them is too early. Raises ArrowException: one of them is none."""
    timestamps = texts.cast(kind)
    return None if pc.any(pc.less(timestamps, _earliest(kind))).as_py() else timestamps


@cache
def _earliest(kind: pa.DataType) -> pa.Scalar:
    # Arrow imports pandas for its first value: where none is made, that saves 0.8 s of CPU on slow cores.
    return pa.scalar(_EARLIEST[kind], kind)


def _texts(values: Sequence[Json], *, quoted: bool) -> pa.Array | None:
    """Values as JSON. quoted: texts, too; otherwise they stay what they are."""
    if not ALREADY.issuperset(map(type, values)):
        return None
    texts: list[bytes | None] = [
        None if value is None else dumps(value) if quoted or type(value) is not str else value.encode()
        for value in values
    ]
    for value, text in zip(values, texts, strict=True):
        # orjson writes NaN as null.
        if text is not None and b"null" in text and json_text(value) is None:
            return None
    # What orjson writes is UTF-8, and so is a text that was encoded.
    return pa.array(texts, pa.binary()).view(pa.string())


def _structs(values: Sequence[Json], kind: pa.StructType) -> pa.Array | None:
    types = set(map(type, values))
    if not types <= {dict, NoneType}:
        return None
    objects: Sequence[Mapping[str, Json]] = values
    missing = None
    if NoneType in types:
        objects = [{} if value is None else value for value in values]
        missing = pa.array([value is None for value in values])
    names = [field.name for field in kind]
    fields = by_field(objects)
    if not set(names).issuperset(chain.from_iterable(objects) if fields is None else fields):
        return None
    arrays = []
    for field in kind:
        if fields is None:
            array = to_array([record.get(field.name) for record in objects], field.type)
        elif field.name in fields:
            array = to_array(fields[field.name], field.type)
        else:
            array = pa.nulls(len(values), field.type)
        if array is None:
            return None
        arrays.append(array)
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=missing) if arrays else None


def _lists(values: Sequence[Json], kind: pa.ListType) -> pa.Array | None:
    if not {list, NoneType}.issuperset(map(type, values)):
        return None
    items: list[Any] = []
    offsets: list[int | None] = []
    for value in values:
        offsets.append(None if value is None else len(items))
        if value is not None:
            items += value
    array = to_array(items, kind.value_type)
    if array is None:
        return None
    return pa.ListArray.from_arrays(pa.array([*offsets, len(items)], pa.int32()), array, type=kind)
