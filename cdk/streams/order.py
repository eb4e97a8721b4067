"""Orders: which of two cursor values is greater.

The reader that tracks the greatest value, the state that saves it and the table that retains the newest row of each key
share this one definition. An order is a plain value and can be sent to tasks, unlike some cursors.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import ClassVar, TypeAlias

from cdk.base.records.plain_values import plain
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import NotJson

Rank: TypeAlias = int | bytes
"""The sort key of a value. All ranks of one order have the same type."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Python refuses to parse integers with more digits.
_MOST_DIGITS = 4300


class Order(ABC):
    """An order of values. Two values of equal rank are equal, however they are written."""

    kind: ClassVar[type[datetime] | type[int] | None] = None
    """The type of the values, if they are timestamps or integers; None for others."""
    formats: tuple[str, ...] = ()
    """The formats of timestamps besides ISO 8601."""

    @property
    def expected(self) -> str:
        """A description of valid values, for errors."""
        return "a value of the stream's cursor"

    @abstractmethod
    def rank(self, value: object) -> Rank | None:
        """The rank of a value; a greater value has a greater rank. None: the value does not parse.

        A value that does not parse is older than any that does.
        """

    def reaches(self, value: object, limit: object) -> bool:
        """Whether a value is at least `limit`; False if one of them does not parse."""
        rank, least = self.rank(value), self.rank(limit)
        return rank is not None and least is not None and rank >= least  # type: ignore[operator] # one type in an order


@dataclass(frozen=True)
class TimestampOrder(Order):
    """Timestamps, written in one of `formats` or in ISO 8601; the rank is in microseconds since 1970."""

    kind = datetime

    formats: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        return f"a timestamp written as {' or '.join(dict.fromkeys([*self.formats, 'ISO 8601']))}"

    def rank(self, value: object) -> Rank | None:
        timestamp = parse_timestamp(json_value(value), self.formats)
        return None if timestamp is None else (timestamp - _EPOCH) // _MICROSECOND


@dataclass(frozen=True)
class CountOrder(Order):
    """Integers of any size, also as strings ("42"); the rank is the number."""

    kind = int

    @property
    def expected(self) -> str:
        return "an integer"

    def rank(self, value: object) -> Rank | None:
        value = json_value(value)
        if type(value) is int:
            return value
        if isinstance(value, str):
            try:
                return int(value)
            except ValueError:
                pass
        number = _decimal(value)
        is_integer = number is not None and number.adjusted() < _MOST_DIGITS and number == number.to_integral_value()
        return int(number) if number is not None and is_integer else None


@dataclass(frozen=True)
class NaturalOrder(Order):
    """For a cursor field without a declared type, where only the values themselves define an order.

    Strings of numbers count as numbers, strings in ISO 8601 as timestamps. All other strings are less than those, and
    ordered by their characters. Booleans, lists and objects do not parse.
    """

    def rank(self, value: object) -> Rank | None:
        value = json_value(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        if (number := _decimal(value)) is not None:
            return b"\1" + bytes_of(number)
        if isinstance(timestamp := TimestampOrder().rank(value), int):
            return b"\2" + bytes_of(timestamp)
        return b"\0" + value.encode(errors="surrogatepass") if isinstance(value, str) else None


def json_value(value: object) -> object:
    """Convert a value of a record to a JSON type, for states and requests; a Decimal becomes an integer or a string.

    A value without a counterpart in JSON is returned as it is.
    """
    try:
        value = plain(value)
    except NotJson:
        return value
    match value:
        case Decimal():
            is_integer = value.adjusted() < _MOST_DIGITS and value == value.to_integral_value()
            return int(value) if is_integer else str(value)
        case _:
            return value


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = Decimal(str(value) if isinstance(value, float) else value)
    except (InvalidOperation, ValueError):
        return None
    return number if number.is_finite() else None


def bytes_of(value: Decimal | int) -> bytes:
    """Bytes that sort in the order of the numbers: sign, size, digits."""
    number = Decimal(value)
    if not number:
        return b"\1"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0").encode()
    size = (number.adjusted() + 2**63).to_bytes(8, "big")
    if number > 0:
        return b"\2" + size + digits
    # Of two negative numbers, the one with more digits is less, so the text ends with a byte greater than any digit.
    return b"\0" + bytes(255 - byte for byte in size + digits + b"\0")
