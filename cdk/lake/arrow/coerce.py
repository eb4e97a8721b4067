"""One value into a column's type, without loss, or null and a note of what it was."""

import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from cdk.base.records.plain_values import plain
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import Json
from cdk.lake.arrow.columns import LOCAL_TIME, MOMENT, ColumnType, JsonText
from cdk.lake.arrow.json_text import NO_JSON, json_text, shown, valid

Change: TypeAlias = dict[str, str]
"""What was done to a value: `field`, `change`, `reason`, and `original` as text, JSON unless it was a text.

change: NULLED; LEFT_OUT, a field of an object; TRUNCATED, a moment; ESCAPED, a text.
"""

_BIG_DIGITS = 38
# Digits behind the microseconds.
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INTEGER = re.compile(r"[+-]?[0-9]+")


def coerce_value(value: Json, kind: ColumnType, path: str, noted: list[Change]) -> Json:
    """`value` as `kind`, or what comes nearest and a note in `noted`. Raises NotJson: it is no JSON."""
    value = plain(value)
    if value is None:
        return None
    try:
        if isinstance(kind, JsonText):
            return _json_string(value)
        if pa.types.is_struct(kind):
            return _struct(value, kind, path, noted)
        if pa.types.is_list(kind):
            return _list(value, kind, path, noted)
        return _scalar(value, kind)
    except _CoercionError as error:
        noted.append(change(path, error.change, str(error), value))
        return error.instead


def change(path: str, what: str, reason: str, value: Json) -> Change:
    """The note of a change. path: the column, and where in it."""
    return {"field": valid(path), "change": what, "reason": reason, "original": shown(value)}


class _CoercionError(Exception):
    """A value cannot be held by its column as it is. instead: what the column gets."""

    def __init__(self, reason: str, change: str = "NULLED", instead: Json = None) -> None:
        super().__init__(reason)
        self.change, self.instead = change, instead


def _struct(value: Json, kind: pa.StructType, path: str, noted: list[Change]) -> Json:
    if not isinstance(value, Mapping):
        raise _CoercionError("not an object")
    names = {field.name for field in kind}
    if not names.issuperset(value):
        noted.extend(change(f"{path}.{n}", "LEFT_OUT", "not declared", v) for n, v in value.items() if n not in names)
    return {
        field.name: coerce_value(value.get(field.name), field.type, f"{path}.{field.name}", noted) for field in kind
    }


def _list(value: Json, kind: pa.ListType, path: str, noted: list[Change]) -> Json:
    if not isinstance(value, list):
        raise _CoercionError("not an array")
    return [coerce_value(item, kind.value_type, f"{path}[{i}]", noted) for i, item in enumerate(value)]


def _scalar(value: Json, kind: pa.DataType) -> Json:  # noqa: PLR0911 - one for each kind
    if pa.types.is_string(kind):
        return _text(value) if isinstance(value, str) else _json_string(value)
    if kind == MOMENT:
        return _timestamp(value)
    if kind == LOCAL_TIME:
        return _local_time(value)
    if pa.types.is_date(kind):
        return _date(value)
    if pa.types.is_boolean(kind):
        if isinstance(value, bool):
            return value
        raise _CoercionError("not a boolean")
    if pa.types.is_decimal(kind):
        return _big_integer(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _CoercionError("not a number")
    return _floating(value) if pa.types.is_floating(kind) else _integer(value, kind.bit_width)


def _floating(value: float | Decimal) -> float:
    try:
        number = float(value)
    except OverflowError:
        raise _CoercionError("more than a double holds") from None
    if isinstance(value, Decimal) and math.isinf(number):
        raise _CoercionError("more than a double holds")
    if isinstance(value, int | Decimal) and _is_integral(value) and int(number) != value:
        raise _CoercionError("more digits than a double holds")
    return number


def _integer(value: float | Decimal, bits: int) -> int:
    if not _is_integral(value):
        raise _CoercionError("not a whole number")
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise _CoercionError(f"more than {bits} bits")
    return int(value)


def _big_integer(value: Json) -> Decimal:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        digits = value.lstrip("+-").lstrip("0") or "0"
        # Counted first: Python refuses to read a number of thousands of digits.
        number = int(digits) if len(digits) <= _BIG_DIGITS else 10**_BIG_DIGITS
        value = -number if value.startswith("-") else number
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not _is_integral(value):
        raise _CoercionError("not a whole number")
    if abs(value) >= 10**_BIG_DIGITS:
        raise _CoercionError(f"more than {_BIG_DIGITS} digits")
    return Decimal(int(value))


def _is_integral(value: float | Decimal) -> bool:
    # A Decimal has no remainder where it has more digits than its context.
    return value == value.to_integral_value() if isinstance(value, Decimal) else not value % 1


def _date(value: Json) -> date:
    try:
        # fromisoformat reads 20240102 and 2024-W01-2 as well, which the quick way of a column does not.
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise _CoercionError("not a date")


def _timestamp(value: Json) -> datetime:
    timestamp = parse_timestamp(value, ())
    if timestamp is None:
        raise _CoercionError("not a date-time")
    if _FINER.search(value):
        raise _CoercionError("finer than microseconds", "TRUNCATED", timestamp)
    return timestamp


def _local_time(value: Json) -> datetime:
    """What the clock on the wall shows."""
    try:
        timestamp = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        timestamp = None
    if timestamp is None:
        raise _CoercionError("not a date-time")
    shows = timestamp.replace(tzinfo=None)
    if timestamp.tzinfo is not None:
        raise _CoercionError("a zone, which the column does not hold", "TRUNCATED", shows)
    if _FINER.search(value):
        raise _CoercionError("finer than microseconds", "TRUNCATED", shows)
    return shows


def _text(value: str) -> str:
    escaped = valid(value)
    if escaped != value:
        raise _CoercionError("half a character, a lone surrogate", "ESCAPED", escaped)
    return value


def _json_string(value: Json) -> str:
    text = json_text(value)
    if text is None:
        raise _CoercionError(NO_JSON)
    return text
