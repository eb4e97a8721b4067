"""The JSON of a source, with every digit of its numbers, where a double has fewer.

A double holds 15 digits of a number, whatever they are, so only what has more is looked at closely.
"""

import re
from decimal import Decimal, InvalidOperation
from functools import partial
from json import JSONDecodeError, loads
from math import isinf
from typing import Self

import msgspec
import orjson

from cdk.base.values import FieldValue, SerializedJson, from_odd_json

# A number from its point on that may have more than 15 digits: nine before the point, or eight behind it.
_LONG = re.compile(rb"\.\d(?:\d{7}|(?<=\d{9}\.\d))\d*(?:[eE][+-]?\d+)?")
_MOST_BEFORE_POINT = 24
"""Digits of a number's whole part that are looked at. What has as many is not how a double is written."""
_DIGITS = frozenset(b"0123456789")
# Of an integer, what is beyond the 4,300 digits that msgspec and Python read; what stays is an escape's, too.
_BEYOND_INTEGERS = re.compile(rb"(?<=\d{18})\d{4283,}")
_ONLY_NUMBERS = bytes(byte if byte in b"0123456789+-.eE" else ord(" ") for byte in range(256))


class WrittenNumber(float, SerializedJson):
    """A double, and the text of the JSON number that it was read from, which is another number.

    Computations use the double, which may be infinite; what is written is the text.
    """

    text: str

    def __new__(cls, text: str) -> Self:
        """Take the text of a number in JSON."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    @property
    def exact(self) -> Decimal:
        """The number that the text says, or one that is beyond any column's, too."""
        try:
            return Decimal(self.text)
        except InvalidOperation:  # the exponent has more digits than a Decimal's
            return Decimal("1E+999999" if isinf(self) else "1E-999999").copy_sign(Decimal(self))

    def json_text(self) -> bytes:
        return self.text.encode()

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.text,)


def exact_json(body: bytes) -> FieldValue:
    """As `from_json`; a number that no double holds, or an integer that Python does not read, is a WrittenNumber.

    A number beyond the smallest double, such as 1e-400, may be 0. Raises json.JSONDecodeError.
    """
    try:
        value = _decode(body)
        # What is written as it came has lost no digit: of a page that was written so that costs less than a look at it.
        if orjson.dumps(value) == body or not has_written_numbers(body):
            return value
    except (msgspec.DecodeError, TypeError, UnicodeError, RecursionError):
        pass
    try:
        return _exact_decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            return from_odd_json(body, _exact_decode, _loads)
        except JSONDecodeError:
            readable = _BEYOND_INTEGERS.sub(b"", body)
            if readable == body:
                raise
            from_odd_json(readable, _exact_decode, _loads)  # what else is wrong with it
            return _loads(body)


def has_written_numbers(text: bytes) -> bool:
    """Whether a number in valid JSON, or one in its strings, has digits that no double holds."""
    points = list(_LONG.finditer(text))
    if not points:
        return False
    # Sources write doubles with as many digits as it takes: one look at all of them takes a third of one at each.
    numbers = [
        text[max(point.start() - _MOST_BEFORE_POINT, 0) : point.end()].translate(_ONLY_NUMBERS).rpartition(b" ")[2]
        for point in points
    ]
    listed = b"[%s]" % b",".join(numbers)
    try:
        if orjson.dumps(orjson.loads(listed)) == listed:
            return False
    except orjson.JSONDecodeError:
        pass
    return any(_is_written(text, point) for point in points)


def _is_written(text: bytes, point: re.Match[bytes]) -> bool:
    begin = point.start()
    while begin and text[begin - 1] in _DIGITS:
        begin -= 1
    return isinstance(written_number(text[begin : point.end()].decode()), WrittenNumber)


def written_number(text: str) -> float:
    """The number of a JSON text: a double, where it holds that number, or is one that is written so."""
    number = float(text)
    if repr(number) == text:
        return number
    try:
        is_held = Decimal(text) in (Decimal(repr(number)), Decimal(number))
    except InvalidOperation:
        is_held = False
    return number if is_held else WrittenNumber(text)


def written_integer(text: str) -> float:
    """The integer of a JSON text; a WrittenNumber where it has more digits than Python reads."""
    try:
        return int(text)
    except ValueError:
        return WrittenNumber(text)


_loads = partial(loads, parse_float=written_number, parse_int=written_integer)
_decode = msgspec.json.Decoder().decode
_exact_decode = msgspec.json.Decoder(float_hook=written_number).decode
