"""Types of rendered texts: a text that is a Python literal becomes the literal's value.

Airbyte renders an expression to text and parses the text as a literal: `10` is a number and `[1, 2]` a list, while
`007` and `true` stay strings. Here, literals are numbers, booleans, null, strings, lists, tuples and maps; sets, bytes,
complex and infinite numbers stay strings, since JSON has none of them.
"""

import ast
import math
from functools import lru_cache
from typing import cast

from cdk.base.first_use import lazy_pattern
from cdk.base.values import JsonValue

STARTS = frozenset(" \t\n\r'\"([{+-.0123456789NTFrRuU")
"""The characters a literal can start with; for most words the first character alone rules a literal out."""

_NUMERIC = frozenset("+-.0123456789")
_NESTED = frozenset((list, dict, tuple))
_READY = frozenset((type(None), int, bool))
_DIGITS = "[0-9](?:_?[0-9])*"
_NUMBER = lazy_pattern(r"[+-]?[ \t]*[0-9.][0-9a-fA-FxXoO_.+-]*[ \t]*")
_INTEGER = lazy_pattern(
    r"[+-]?(?:[1-9](?:_?[0-9])*|0(?:_?0)*|0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+)"
)
_FLOAT = lazy_pattern(
    rf"[+-]?(?:(?:(?:{_DIGITS})?\.{_DIGITS}|{_DIGITS}\.)(?:[eE][+-]?{_DIGITS})?|{_DIGITS}[eE][+-]?{_DIGITS})"
)
_WORD = lazy_pattern(r"(?:None|True|False)\b|[rRuU]['\"]")
_JOINED = lazy_pattern(r"[,#(\n\r]")
_CACHED = 256
_LONG = 4000  # Python refuses to convert more than 4300 digits to an int


class _NotLiteral(Exception):
    """The value cannot be written as a literal."""


def typed(value: object) -> JsonValue:
    """Return what the text of `value` parses to, without writing that text if the result is known.

    Lists and maps are copied, so that callers cannot modify what the expression read.
    """
    # `type` is faster than isinstance.
    if type(value) is str:
        return literal(value) if value[:1] in STARTS else value
    if value is None or type(value) is int or type(value) is bool:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) in _NESTED:
        try:
            return _copy(value)
        except (_NotLiteral, RecursionError):
            pass
    return literal(str(value))


def all_typed(values: list[object]) -> list[JsonValue]:
    """Return the result of `typed` for each value of a column."""
    # Most columns have one type, and checking the types costs a tenth of a call for each value.
    kinds = set(map(type, values))
    if kinds <= _READY or (kinds == {float} and all(map(math.isfinite, cast("list[float]", values)))):
        return cast("list[JsonValue]", values)
    # Most strings are not literals; for these only the first character is checked.
    return [value if type(value) is str and value[:1] not in STARTS else typed(value) for value in values]


def literal(text: str) -> JsonValue:
    """Return the value that a text stands for; the text itself if it is not a literal."""
    first = text[:1]
    if first in _NUMERIC:
        return _number(text, text)
    if first not in STARTS:
        return text
    bare = text.lstrip(" \t")
    if bare[:1] in _NUMERIC:
        return _number(bare, text)
    if bare[:1].isalpha() and _WORD.match(bare) is None:
        return text
    return _parsed(bare, text)


def _number(bare: str, text: str) -> JsonValue:
    if len(bare) < _LONG and bare[0] != "0" and bare.isdecimal() and bare.isascii():
        return int(bare)
    if _NUMBER.fullmatch(bare):
        digits = bare.replace(" ", "").replace("\t", "")
        try:
            if _INTEGER.fullmatch(digits):
                return int(digits, 0)
            if _FLOAT.fullmatch(digits) and math.isfinite(number := float(digits)):
                return number
        except ValueError:  # more digits than Python converts to a number
            pass
    elif _JOINED.search(bare):
        # Dates, versions, addresses: the rest can only be a literal if it has a comma, a comment or a parenthesis.
        return _parsed(bare, text)
    return text


def _parsed(bare: str, text: str) -> JsonValue:
    parsed = _cached_parse(bare) if len(bare) <= _CACHED else _parse(bare)
    return text if parsed is None else _copy(parsed[0])


def _parse(text: str) -> tuple[JsonValue] | None:
    """Return the value that a text spells, in a tuple; None if the text is not a literal."""
    try:
        return (_copy(ast.literal_eval(text)),)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, _NotLiteral):
        return None


_cached_parse = lru_cache(maxsize=4096)(_parse)


def _copy(value: object) -> JsonValue:
    if value is None or type(value) is str or type(value) is int or type(value) is bool:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is list:
        return [item if type(item) is str else _copy(item) for item in value]
    if type(value) is dict:
        return {
            # As in Python, a key may be a number; JSON's keys are strings.
            key if type(key) is str else _copy(key): item if type(item) is str else _copy(item)  # type: ignore[misc]
            for key, item in value.items()
        }
    if type(value) is tuple:
        return tuple([_copy(item) for item in value])
    raise _NotLiteral
