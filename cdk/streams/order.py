"""Orders: which of two values of a cursor is greater.

One definition, for the reader that keeps the greatest value, for the state that remembers it and for the table that
keeps the newest row of each key. An order is a plain value: it travels to tasks, where a cursor may not.
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
"""Where a value stands. All ranks of one order are of one type."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Python refuses to read a number of more digits.
_MOST_DIGITS = 4300


class Order(ABC):
    """An order of values. Two values of equal rank are equals, however they are written."""

    kind: ClassVar[type[datetime] | type[int] | None] = None
    """What the values name; None for anything else than timestamps and integers."""
    formats: tuple[str, ...] = ()
    """How timestamps may be written besides ISO 8601."""

    @property
    def expected(self) -> str:
        """What a value is that can be read, in words for an error."""
        return "a value of the stream's cursor"

    @abstractmethod
    def rank(self, value: object) -> Rank | None:
        """The rank of a value; a greater value has a greater one. None: the value cannot be read.

        A value that cannot be read is older than any that can.
        """

    def reaches(self, value: object, limit: object) -> bool:
        """Whether a value is as great as `limit` or greater; never where one of them cannot be read."""
        rank, least = self.rank(value), self.rank(limit)
        return rank is not None and least is not None and rank >= least  # type: ignore[operator] # one type in an order


@dataclass(frozen=True)
class MomentOrder(Order):
    """Moments in time, written in one of `formats` or in ISO 8601; their rank is in microseconds since 1970."""

    kind = datetime

    formats: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        return f"a timestamp written as {' or '.join(dict.fromkeys([*self.formats, 'ISO 8601']))}"

    def rank(self, value: object) -> Rank | None:
        moment = parse_timestamp(json_value(value), self.formats)
        return None if moment is None else (moment - _EPOCH) // _MICROSECOND


@dataclass(frozen=True)
class CountOrder(Order):
    """Whole numbers of any size, and texts of them ("42"); the rank is the number."""

    kind = int

    @property
    def expected(self) -> str:
        return "a whole number"

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
    """For a stream whose cursor field is ordered by nothing but its values.

    Texts of numbers are numbers, texts in ISO 8601 are moments, all others are less than these and stand by their
    characters. Booleans, lists and objects cannot be read.
    """

    def rank(self, value: object) -> Rank | None:
        value = json_value(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        if (number := _decimal(value)) is not None:
            return b"\1" + bytes_of(number)
        if isinstance(moment := MomentOrder().rank(value), int):
            return b"\2" + bytes_of(moment)
        return b"\0" + value.encode(errors="surrogatepass") if isinstance(value, str) else None


def json_value(value: object) -> object:
    """A value of a record as states and requests have it: one of JSON's types; a Decimal is a number or a text of it.

    What JSON has nothing like stays what it is.
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
    """Bytes that are ordered as the numbers are: sign, size, digits."""
    number = Decimal(value)
    if not number:
        return b"\1"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0").encode()
    size = (number.adjusted() + 2**63).to_bytes(8, "big")
    if number > 0:
        return b"\2" + size + digits
    # Of two negative numbers the one of more digits is less, so there is something greater than a digit at the end.
    return b"\0" + bytes(255 - byte for byte in size + digits + b"\0")
