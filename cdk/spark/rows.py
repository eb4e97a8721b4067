"""Records -> Arrow batches. Bad data never stops a sync and never vanishes.

A value that does not fit its column becomes null and is kept, as text, in `_airbyte_meta.changes`; what the schema
does not declare is kept as JSON text in `_airbyte_additional`. A text column takes other values as JSON text. pyarrow
alone would not do: it turns 1.5 into 1 for an integer column, true into 1.0 for a number, "abc" into ["a", "b", "c"]
for a list, and drops undeclared fields of a struct.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count
from types import NoneType
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
"""What was done to a value: `field`, `change`, `reason`, and `original` as text, JSON unless it was a text.

change: NULLED; LEFT_OUT, a field of an object; TRUNCATED, a moment; ESCAPED, a text.
"""

_NO_JSON = "NaN and infinity are no JSON"
# What a column holds as it is. The types must be looked at: Arrow takes True for 1.0, and 1 for 1.0 beside it.
_ALIKE: Mapping[ColumnType, frozenset[type]] = {
    pa.int64(): frozenset({int, NoneType}),
    pa.float64(): frozenset({float, int, NoneType}),
    pa.bool_(): frozenset({bool, NoneType}),
    pa.string(): frozenset({str, NoneType}),
    MOMENT: frozenset({str, NoneType}),
}
# Digits behind the microseconds.
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")


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
        arrays: dict[str, pa.Array] = {}
        for name, kind in self._declared.items():
            values = [record.get(name) for record in records]
            arrays[name] = _column(name, values, kind, changes)
        size = len(records)
        arrays[ADDITIONAL] = pa.array(self._undeclared(records, changes), pa.string())
        arrays[RAW_ID] = pa.array([f"{self._unique}{n:010x}" for _, n in zip(range(size), self._numbers, strict=False)])
        arrays[EXTRACTED_AT] = pa.repeat(pa.scalar(self._clock(), MOMENT), size)
        arrays[META] = self._meta(changes, size)
        arrays[GENERATION] = pa.array([self._generation] * size, pa.int64())
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)

    def _meta(self, changes: Mapping[int, list[Change]], size: int) -> pa.Array:
        kind = self.schema.field(META).type
        if size and not changes:  # as a rule; a quarter of the time of a batch if each row were looked at
            return pa.repeat(pa.scalar({"changes": []}, kind), size)
        return pa.array([{"changes": changes.get(i, [])} for i in range(size)], kind)

    def _undeclared(self, records: Sequence[Record], changes: dict[int, list[Change]]) -> Iterator[str | None]:
        for i, record in enumerate(records):
            if self._names.issuperset(record):
                yield None
                continue
            fields = {name: value for name, value in record.items() if name not in self._names}
            text = _json(fields)
            if text is None:
                left_out = {name: value for name, value in fields.items() if _json(value) is None}
                _note(changes, i, [_change(name, "LEFT_OUT", _NO_JSON, value) for name, value in left_out.items()])
                text = _json({name: value for name, value in fields.items() if name not in left_out})
            yield text


def _column(name: str, values: list[Json], kind: ColumnType, changes: dict[int, list[Change]]) -> pa.Array:
    """The values as `kind`: at once where each is of the right type, else one by one."""
    target = pa.string() if isinstance(kind, JsonText) else kind
    if _ALIKE.get(kind, frozenset()).issuperset(map(type, values)):
        try:
            return pa.array(values, pa.string()).cast(kind) if kind == MOMENT else pa.array(values, target)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):
            pass
    fitted = []
    for i, value in enumerate(values):
        noted: list[Change] = []
        fitted.append(_fit(value, kind, name, noted))
        if noted:
            _note(changes, i, noted)
    return pa.array(fitted, target)


def _note(changes: dict[int, list[Change]], row: int, noted: list[Change]) -> None:
    changes.setdefault(row, []).extend(noted)


class _Misfit(Exception):
    """A value cannot be held by its column as it is. instead: what the column gets."""

    def __init__(self, reason: str, change: str = "NULLED", instead: Json = None) -> None:
        super().__init__(reason)
        self.change, self.instead = change, instead


def _fit(value: Json, kind: ColumnType, path: str, noted: list[Change]) -> Json:
    """`value` as `kind` without loss, or what comes nearest and a note of what it was."""
    if value is None:
        return None
    try:
        if isinstance(kind, JsonText):
            return _whole(_json(value))
        if pa.types.is_struct(kind):
            return _fit_struct(value, kind, path, noted)
        if pa.types.is_list(kind):
            return _fit_list(value, kind, path, noted)
        return _fit_scalar(value, kind)
    except _Misfit as misfit:
        noted.append(_change(path, misfit.change, str(misfit), value))
        return misfit.instead


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
        return _text(value) if isinstance(value, str) else _whole(_json(value))
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
    try:
        number = float(value)
    except OverflowError:
        raise _Misfit("more than a double holds") from None
    if isinstance(value, int) and int(number) != value:
        raise _Misfit("more digits than a double holds")
    return number


def _integer(value: float) -> int:
    if value % 1:
        raise _Misfit("not a whole number")
    if not -(2**63) <= value < 2**63:
        raise _Misfit("more than 64 bits")
    return int(value)


def _moment(value: Json) -> datetime:
    moment = parse_moment(value, ())
    if moment is None:
        raise _Misfit("not a date-time")
    if _FINER.search(value):
        raise _Misfit("finer than microseconds", "TRUNCATED", moment)
    return moment


def _text(value: str) -> str:
    valid = _valid(value)
    if valid != value:
        raise _Misfit("half a character, a lone surrogate", "ESCAPED", valid)
    return value


def _valid(text: str) -> str:
    """The text as UTF-8 can hold it: a lone surrogate is written as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _json(value: Json) -> str | None:
    """`value` as JSON, None when it holds NaN or infinity. Raises TypeError: it is not made of JSON's types."""
    try:
        text = orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits, a lone surrogate, many levels
        return _slow_json(value)
    # orjson writes NaN as null.
    if b"null" in text and orjson.loads(text) != value and _slow_json(value) is None:
        return None
    return text.decode()


def _slow_json(value: Json) -> str | None:
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return None


def _whole(text: str | None) -> str:
    if text is None:
        raise _Misfit(_NO_JSON)
    return text


def _change(path: str, change: str, reason: str, value: Json) -> Change:
    plain = isinstance(value, str) and _valid(value) == value
    original = value if plain else _json(value) or json.dumps(value)
    return {"field": _valid(path), "change": change, "reason": reason, "original": original}
