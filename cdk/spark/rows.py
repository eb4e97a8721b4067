"""Records -> Arrow batches. Bad data never stops a sync and never vanishes.

A value that does not fit its column becomes null and is kept, as text, in `_airbyte_meta.changes`; what the schema
does not declare is kept as JSON text in `_airbyte_additional`. pyarrow alone would not do: it turns 1.5 into 1 for an
integer column, "abc" into ["a", "b", "c"] for a list, and drops undeclared fields of a struct.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import TypeAlias
from uuid import uuid4

import orjson
import pyarrow as pa

from cdk.base.times import Clock, parse_moment, system_clock
from cdk.base.values import Json, Record
from cdk.spark.schema import (
    ADDITIONAL,
    EXTRACTED_AT,
    GENERATION,
    META,
    MOMENT,
    RAW_ID,
    ColumnType,
    JsonText,
    table_schema,
)

Change: TypeAlias = dict[str, str]
"""What was done to a value: `field`, `change` (NULLED, LEFT_OUT), `reason`, and `original` as text."""


_DOUBLE_LIMIT = 2**1023


class Rows:
    """Turns pages of records into batches of one table's schema."""

    def __init__(
        self,
        declared: Mapping[str, ColumnType],
        *,
        generation: int,
        clock: Clock = system_clock,
        unique: str | None = None,
    ) -> None:
        """Give rows of `generation` ids that begin with `unique`, by default a new random text."""
        self.schema = table_schema(declared)
        self._declared = declared
        self._names = frozenset(declared)
        self._generation, self._clock = generation, clock
        self._unique = unique or uuid4().hex
        self._numbers = count()

    def batch(self, records: Sequence[Record]) -> pa.RecordBatch:
        """One row per record, in order."""
        changes: dict[int, list[Change]] = {}
        additional: list[dict[str, Json] | None] = [self._undeclared(record) for record in records]
        arrays: dict[str, pa.Array] = {}
        for name, kind in self._declared.items():
            values = [record.get(name) for record in records]
            arrays[name] = _text(values) if isinstance(kind, JsonText) else _column(name, values, kind, changes)
        size = len(records)
        arrays[ADDITIONAL] = _text(additional)
        arrays[RAW_ID] = pa.array([f"{self._unique}{n:010x}" for _, n in zip(range(size), self._numbers, strict=False)])
        arrays[EXTRACTED_AT] = pa.array([self._clock()] * size, MOMENT)
        arrays[META] = pa.array([{"changes": changes.get(i, [])} for i in range(size)], self.schema.field(META).type)
        arrays[GENERATION] = pa.array([self._generation] * size, pa.int64())
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)

    def _undeclared(self, record: Record) -> dict[str, Json] | None:
        if self._names.issuperset(record):
            return None
        return {name: value for name, value in record.items() if name not in self._names}


def _text(values: Sequence[Json]) -> pa.Array:
    return pa.array([None if value is None else _json(value) for value in values], pa.string())


def _json(value: Json) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(value)


def _column(name: str, values: list[Json], kind: pa.DataType, changes: dict[int, list[Change]]) -> pa.Array:
    """The values as `kind`: at once where Arrow agrees, else one by one."""
    if not pa.types.is_nested(kind):
        try:
            array = pa.array(values)  # Arrow's own idea of the type: a column that is not quite `kind` shows here
            return array if array.type == kind else _cast(array, kind)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):
            pass
    fitted = []
    for i, value in enumerate(values):
        noted: list[Change] = []
        fitted.append(_fit(value, kind, name, noted))
        if noted:
            changes.setdefault(i, []).extend(noted)
    return pa.array(fitted, kind)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_null(array.type) or (pa.types.is_string(array.type) and kind == MOMENT):
        return array.cast(kind)
    if pa.types.is_integer(array.type) and kind == pa.float64():
        return array.cast(kind)
    raise pa.ArrowInvalid("look at each value")


class _Misfit(Exception):
    """A value cannot be held by its column."""


def _fit(value: Json, kind: pa.DataType, path: str, noted: list[Change]) -> Json:
    """`value` as `kind` without loss, or None and a note of what it was."""
    if value is None:
        return None
    try:
        if pa.types.is_struct(kind):
            return _fit_struct(value, kind, path, noted)
        if pa.types.is_list(kind):
            return _fit_list(value, kind, path, noted)
        return _fit_scalar(value, kind)
    except _Misfit as misfit:
        noted.append(_change(path, "NULLED", str(misfit), value))
        return None


def _fit_struct(value: Json, kind: pa.StructType, path: str, noted: list[Change]) -> Json:
    if not isinstance(value, Mapping):
        raise _Misfit("not an object")
    names = {field.name for field in kind}
    if not names.issuperset(value):
        noted.extend(_change(f"{path}.{n}", "LEFT_OUT", "not declared", v) for n, v in value.items() if n not in names)
    return {field.name: _fit(value.get(field.name), field.type, f"{path}.{field.name}", noted) for field in kind}


def _fit_list(value: Json, kind: pa.ListType, path: str, noted: list[Change]) -> Json:
    if not isinstance(value, list):
        raise _Misfit("not an array")
    return [_fit(item, kind.value_type, f"{path}[{i}]", noted) for i, item in enumerate(value)]


def _fit_scalar(value: Json, kind: pa.DataType) -> Json:
    if pa.types.is_string(kind):
        return _valid(value) if isinstance(value, str) else _json(value)
    if kind == MOMENT:
        return _moment(value)
    if pa.types.is_boolean(kind):
        if isinstance(value, bool):
            return value
        raise _Misfit("not a boolean")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Misfit("not a number")
    return _floating(value) if pa.types.is_floating(kind) else _integer(value)


def _floating(value: float) -> float:
    if abs(value) >= _DOUBLE_LIMIT or int(float(value)) != int(value):
        raise _Misfit("more digits than a double holds")
    return float(value)


def _integer(value: float) -> int:
    if value != int(value):
        raise _Misfit("not a whole number")
    if not -(2**63) <= value < 2**63:
        raise _Misfit("more than 64 bits")
    return int(value)


def _moment(value: Json) -> datetime:
    moment = parse_moment(value, ())
    if moment is None:
        raise _Misfit("not a date-time")
    return moment


def _valid(text: str) -> str:
    """The text as UTF-8 can hold it: a lone surrogate is written as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _change(path: str, change: str, reason: str, value: Json) -> Change:
    original = value if isinstance(value, str) else _json(value)
    return {"field": path, "change": change, "reason": reason, "original": _valid(original)}
