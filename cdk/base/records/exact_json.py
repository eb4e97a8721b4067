"""Parses the JSON of a source with every digit of its numbers, even where a double has fewer.

A double represents any 15 digits exactly, unless the number is tiny, so only longer and tiny numbers are examined:
the same ones on every page.
"""

import re
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import chain
from json import JSONDecodeError, loads
from math import isinf
from typing import Self

import msgspec
import orjson

from cdk.base.first_use import lazy_pattern
from cdk.base.values import FieldValue, SerializedJson, from_odd_json

# The part from the decimal point of a number that may have more than 15 digits: nine before it, or eight after it.
_LONG = lazy_pattern(rb"\.\d(?:\d{7}|(?<=\d{9}\.\d))\d*(?:[eE][+-]?\d+)?")
# The exponent of a number that may be below 1e-307, where doubles have fewer digits, and none at last. It begins with
# its sign, because a pattern that begins with a literal is ten times as fast.
_TINY = lazy_pattern(rb"-(?<=[eE]-)\d{3,}(?=[\s,\]}]|\Z)")
# The exponent of a number of more than 15 digits without a point. A pattern for each letter begins with a literal, too.
_SCALED = lazy_pattern(rb"e(?<=\d{16}e)[+-]?\d+"), lazy_pattern(rb"E(?<=\d{16}E)[+-]?\d+")
# With a zero for each digit, and each point, a search for bytes shows that most pages have no long numbers. It takes a
# fifth of a search for the numbers themselves.
_LONG_RUN, _AS_ZEROS = b"0" * 16, bytes.maketrans(b"123456789.", b"0000000000")
# Integers that orjson rounds have at least so many digits, and no point.
_BEYOND_64_BITS, _WITHOUT_POINT = b"0" * 19, bytes.maketrans(b"123456789", b"000000000")
_START = 200
"""How many bytes show whether there are blanks between names and values."""
_MOST_BEFORE_POINT = 24
"""How many digits of the integer part are examined. Doubles are not written with more."""
_OF_NUMBERS = frozenset(b"0123456789+-.eE")
# The digits of an integer beyond the 4,300 that msgspec and Python parse; the remaining ones may belong to an escape.
_BEYOND_INTEGERS = lazy_pattern(rb"(?<=\d{18})\d{4283,}")
_ONLY_NUMBERS = bytes(byte if byte in b"0123456789+-.eE" else ord(" ") for byte in range(256))


class WrittenNumber(float, SerializedJson):
    """A double with the text of the JSON number that it was parsed from and cannot represent exactly.

    Computations use the double, which may be infinite; output uses the text.
    """

    text: str

    def __new__(cls, text: str) -> Self:
        """text: a JSON number."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    @property
    def exact(self) -> Decimal:
        """The exact number, or a substitute that no column can hold either if the exponent is too long for Decimal."""
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
    """Like `from_json`, but a number that a double cannot represent, or Python cannot parse, becomes a WrittenNumber.

    Raises json.JSONDecodeError.
    """
    try:
        value = orjson.loads(body)
        # orjson writes compact pages without escapes as it has read them. If it does, no digit was lost, and it takes
        # less time than the search.
        if b"\\" not in body and b": " not in body[:_START] and orjson.dumps(value) == body:
            return value
        is_long = _LONG_RUN in body.translate(_AS_ZEROS)
        is_rounded = is_long and _BEYOND_64_BITS in body.translate(_WITHOUT_POINT)
        if not is_rounded and not _has_written_numbers(body, long=is_long):
            return value
    except (orjson.JSONDecodeError, TypeError):
        pass
    try:
        value = _decode(body)
        if not has_written_numbers(body):
            return value
    except (msgspec.DecodeError, UnicodeError, RecursionError):
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
            from_odd_json(readable, _exact_decode, _loads)  # raises if anything else is wrong
            return _loads(body)


def has_written_numbers(text: bytes) -> bool:
    """Whether a number in valid JSON, or inside one of its strings, has digits that a double cannot represent."""
    return _has_written_numbers(text, long=_LONG_RUN in text.translate(_AS_ZEROS))


def _has_written_numbers(text: bytes, *, long: bool) -> bool:
    exponents = chain.from_iterable(part.finditer(text) for part in (_TINY, *(_SCALED if long else ())))
    return any(_is_written(text, exponent) for exponent in exponents) or (long and _has_long_numbers(text))


def _has_long_numbers(text: bytes) -> bool:
    points = list(_LONG.finditer(text))
    if not points:
        return False
    # Most sources write doubles with all their digits: one check of all numbers takes a third of separate checks.
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


def _is_written(text: bytes, part: re.Match[bytes]) -> bool:
    """Whether the number that ends with a match is one that a double cannot represent."""
    begin = part.start()
    while begin and text[begin - 1] in _OF_NUMBERS:
        begin -= 1
    try:
        return isinstance(written_number(text[begin : part.end()].decode()), WrittenNumber)
    except ValueError:  # inside a string
        return False


def written_number(text: str) -> float:
    """Parse a JSON number: a float if that represents it exactly, is written with the same digits, or is not examined.

    Raises ValueError: not a number.
    """
    number = float(text)
    if repr(number) == text or not (isinf(number) or _is_examined(text.encode())):
        return number
    try:
        exact = Decimal(text)
        # Who converts a double to an integer begins with its shortest digits: 1e23 is a one and 23 zeros.
        is_held = exact == Decimal(repr(number)) or (exact == Decimal(number) and not number.is_integer())
    except InvalidOperation:
        is_held = False
    return number if is_held else WrittenNumber(text)


def _is_examined(text: bytes) -> bool:
    return any(part.search(text) for part in (_LONG, _TINY, *_SCALED))


def written_integer(text: str) -> float:
    """Parse a JSON integer; a WrittenNumber if it has more digits than Python parses."""
    try:
        return int(text)
    except ValueError:
        return WrittenNumber(text)


_loads = partial(loads, parse_float=written_number, parse_int=written_integer)
_decode = msgspec.json.Decoder().decode
_exact_decode = msgspec.json.Decoder(float_hook=written_number).decode
