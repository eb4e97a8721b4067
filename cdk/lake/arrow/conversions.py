"""Conversions of JSON values to columns of each scalar type. Every code path that fills a column uses this table.

`cdk.lake.arrow.vectorized` converts many values at once, `cdk.lake.arrow.typed_json_reader` converts text without
decoding it, `cdk.lake.arrow.coerce` converts one value at a time and takes ten times as long. The first two leave to
the third whatever they would convert differently.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, partial
from itertools import accumulate, chain
from types import NoneType

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from cdk.base.records.exact_json import WrittenNumber
from cdk.base.times.clock import parse_timestamp
from cdk.lake.arrow.columns import BIG_INTEGER, TIMESTAMP_NTZ, TIMESTAMP_UTC
from cdk.lake.arrow.json_text import MOST_DIGITS, NO_JSON, finite, json_text, shown, valid

NOT_A_NUMBER = "not a number"
"""The reason for a value that a numeric column refuses because it is not a number."""

# Nonzero digits beyond microseconds.
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INTEGER = re.compile(r"[+-]?[0-9]+")
# Arrow parses the years 0 and 10,000, but the one-value path, which Arrow's failures fall back to, does not; neither
# can readers in Python represent them.
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_RANGE: Mapping[pa.DataType, tuple[date, date]] = {
    pa.date32(): (date.min, date.max),
    TIMESTAMP_UTC: (_FIRST, _LAST),
    TIMESTAMP_NTZ: (_FIRST.replace(tzinfo=None), _LAST.replace(tzinfo=None)),
}


class NeedsCoercion(Exception):
    """Some value may not fit its column as it is; the values have to be coerced one by one."""


class CoercionError(Exception):
    """A value does not fit its column as it is."""

    def __init__(self, reason: str, change: str = "NULLED", instead: object = None) -> None:
        """change: what is done to the value, see `coerce.Change`. instead: the value that the column gets."""
        super().__init__(reason)
        self.change, self.instead = change, instead


class Conversion(Struct, frozen=True):
    """The conversion of values to a column of one scalar type."""

    kind: pa.DataType
    value: Callable[[object], object]
    """Converts one value that is not null. Raises CoercionError."""
    python: frozenset[type] = frozenset()
    """The Python types of values that are converted all at once: Arrow stores each of them exactly, or raises.

    Checked first, because Arrow takes True for 1.0, and 1 for 1.0 beside it, and "abc" for a list.
    """
    decoded: type | None = None
    """The type that JSON text is parsed as; None: it is not parsed directly, and the record is decoded."""
    exact_below: float | None = None
    """From this absolute value on, a number that was parsed from text may have lost digits."""

    @property
    def direct(self) -> bool:
        """Whether the column holds every value of the right type as it is."""
        return self.exact_below is None and self.kind not in _RANGE

    def array(self, values: Sequence[object]) -> pa.Array:
        """Return a column of values of the types in `python`, or of type `decoded`, and nulls.

        Raises NeedsCoercion, ArrowException: when some value may not fit the column as it is.
        """
        if self.kind not in _RANGE:
            return pa.array(values, self.kind)
        if (timestamps := to_timestamps(pa.array(values, pa.string()), self.kind)) is None:
            raise NeedsCoercion
        return timestamps

    def array_of_decoded(self, values: Sequence[object]) -> pa.Array:
        """Like `array`, for values that were parsed from text."""
        array = self.array(values)
        if self.exact_below is not None:
            largest = pc.max(pc.abs(array)).as_py()
            if largest is not None and largest >= self.exact_below:
                raise NeedsCoercion
        return array


@cache
def conversion(kind: pa.DataType) -> Conversion:
    """Return the conversion to a scalar type; for the other signed integers, which only other programs' tables have."""
    if (known := _CONVERSIONS.get(kind)) is not None:
        return known
    return Conversion(kind, partial(_integer, bits=kind.bit_width))


def list_array(
    values: Sequence[Sequence[object] | None], kind: pa.ListType, array: Callable[[Sequence[object]], pa.Array]
) -> pa.Array:
    """Return a column of lists. array: makes a column of the items of all lists, concatenated."""
    ends = list(accumulate((0 if value is None else len(value) for value in values), initial=0))
    items = list(chain.from_iterable(value for value in values if value is not None))
    # A null offset makes the list null.
    offsets = [None if value is None else begin for value, begin in zip(values, ends, strict=False)]
    return pa.ListArray.from_arrays(pa.array([*offsets, ends[-1]], pa.int32()), array(items), type=kind)


def to_timestamps(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Parse strings as dates or timestamps; None if a year is not in 1 to 9999. Raises ArrowException: if invalid."""
    timestamps = texts.cast(kind)
    first, last = _range(kind)
    outside = pc.or_(pc.less(timestamps, first), pc.greater(timestamps, last))
    return None if pc.any(outside).as_py() else timestamps


@cache
def _range(kind: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    # Arrow imports pandas for the first scalar: creating it only on demand saves 0.8 s of CPU on slow cores.
    first, last = _RANGE[kind]
    return pa.scalar(first, kind), pa.scalar(last, kind)


def json_string(value: object) -> str:
    """Return a value as JSON. Raises CoercionError: when it has NaN or infinity. NotJson: when JSON lacks its type."""
    text = json_text(value)
    if text is None:
        raise CoercionError(NO_JSON)
    return text


def _string(value: object) -> str:
    if not isinstance(value, str):
        # The same string as that of a NaN in a column of doubles that is widened to strings.
        return shown(value if json_text(value) else finite(value))
    escaped = valid(value)
    if escaped != value:
        raise CoercionError("a lone surrogate", "ESCAPED", escaped)
    return value


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise CoercionError("not a boolean")


def _floating(value: object) -> float:
    number = _number(value)
    try:
        as_float = float(number)
    except OverflowError:
        raise CoercionError("beyond the range of a double") from None
    match number:
        case Decimal() if math.isinf(as_float):
            raise CoercionError("beyond the range of a double")
        case int() | Decimal() if _is_integral(number) and int(as_float) != number:
            raise CoercionError("more digits than a double holds")
    return as_float


def _integer(value: object, bits: int) -> int:
    number = _number(value)
    if not _is_integral(number):
        raise CoercionError("not an integer")
    number = _as_written(number)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise CoercionError(f"more than {bits} bits")
    return int(number)


def _number(value: object) -> float | Decimal:
    match value:
        case WrittenNumber():
            return value.exact
        case int() | float() | Decimal() if value is not True and value is not False:
            return value
        case _:
            raise CoercionError(NOT_A_NUMBER)


def _big_integer(value: object) -> Decimal:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        digits = value.lstrip("+-").lstrip("0") or "0"
        # Digits are counted first, because Python refuses to parse a number with thousands of digits.
        size: float | Decimal = int(digits) if len(digits) <= MOST_DIGITS else 10**MOST_DIGITS
        number = -size if value.startswith("-") else size
    elif not _is_integral(number := _as_written(_number(value))):
        raise CoercionError("not an integer")
    # `abs` would round a Decimal to the digits of its context.
    if not -(10**MOST_DIGITS) < number < 10**MOST_DIGITS:
        raise CoercionError(f"more than {MOST_DIGITS} digits")
    return Decimal(int(number))


def _as_written(number: float | Decimal) -> float | Decimal:
    """A number as its JSON says: 1e23 is a one and 23 zeros, not the 99999999999999991611392 of its double."""
    return Decimal(repr(number)) if isinstance(number, float) else number


def _is_integral(value: float | Decimal) -> bool:
    match value:
        case Decimal():  # `%` fails if it has more digits than the context
            return value == value.to_integral_value()
        case _:
            return not value % 1


def _date(value: object) -> date:
    try:
        # fromisoformat also accepts 20240102 and 2024-W01-2, which Arrow's cast does not.
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise CoercionError("not a date")


def _timestamp(value: object) -> datetime:
    timestamp = parse_timestamp(value, ()) if isinstance(value, str) else None
    if timestamp is None or not isinstance(value, str):
        raise CoercionError("not a date-time")
    try:
        timestamp = timestamp.astimezone(UTC)
    except OverflowError:
        raise CoercionError("outside the years 1 to 9999 in UTC") from None
    if _FINER.search(value):
        raise CoercionError("finer than microseconds", "TRUNCATED", timestamp)
    return timestamp


def _local_time(value: object) -> datetime:
    """Return the local time, without its zone."""
    try:
        timestamp = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        timestamp = None
    if timestamp is None or not isinstance(value, str):
        raise CoercionError("not a date-time")
    shows = timestamp.replace(tzinfo=None)
    if timestamp.tzinfo is not None:
        raise CoercionError("a zone, which the column does not store", "TRUNCATED", shows)
    if _FINER.search(value):
        raise CoercionError("finer than microseconds", "TRUNCATED", shows)
    return shows


def _null(_: object) -> None:
    raise CoercionError("not null")


def _of(*types: type) -> frozenset[type]:
    return frozenset({*types, NoneType})


_CONVERSIONS: Mapping[pa.DataType, Conversion] = {
    row.kind: row
    for row in (
        Conversion(pa.int64(), partial(_integer, bits=64), _of(int), int),
        Conversion(pa.float64(), _floating, _of(float, int), float, exact_below=2.0**53),
        Conversion(pa.bool_(), _boolean, _of(bool), bool),
        Conversion(pa.string(), _string, _of(str), str),
        Conversion(pa.date32(), _date, _of(str), str),
        Conversion(TIMESTAMP_UTC, _timestamp, _of(str), str),
        Conversion(TIMESTAMP_NTZ, _local_time, _of(str), str),
        Conversion(BIG_INTEGER, _big_integer, _of(int)),
        Conversion(pa.null(), _null, _of(), NoneType),
    )
}
