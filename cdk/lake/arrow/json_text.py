"""Conversion of values to JSON text, including NaN, lone surrogates and numbers of any size."""

import math
from decimal import Decimal, InvalidOperation

import orjson

from cdk.base.records.exact_json import exact_json
from cdk.base.records.plain_values import json_of, plain
from cdk.base.values import fragment

MOST_DIGITS = 38
"""The most digits of an integer in a column of numbers."""
NO_JSON = "NaN and infinity are not JSON"
_NAN = "\0"
"""A placeholder for NaN and infinities when searching for them: JSON text never contains it."""


def json_text(value: object) -> str | None:
    """Return `value` as JSON; None if it contains NaN or infinity.

    Raises NotJson: when JSON has no such type, or the value is too deep for any JSON writer.
    """
    try:
        text = orjson.dumps(value, fragment).decode()
    except TypeError:  # an integer of more than 64 bits, a lone surrogate, many levels, a Decimal
        text = json_of(value, special=_NAN)
        return None if _NAN in text else text
    # orjson writes NaN as null.
    if "null" in text and exact_json(text.encode()) != value and _NAN in json_of(value, special=_NAN):
        return None
    return text


def finite(value: object) -> object:
    """Return `value` with the strings NaN, Infinity and -Infinity for numbers that JSON lacks. Raises NotJson."""
    match plain(value):
        case dict() as fields:
            return {name: finite(inner) for name, inner in fields.items()}
        case list() as items:
            return [finite(item) for item in items]
        case float() as number if not math.isfinite(number):
            return json_of(number)
        case other:
            return other


def shown(value: object) -> str:
    """Return `value` as a column of strings holds it: a string as it is, anything else as JSON, with NaN and Infinity.

    An integer has one spelling, also if the source writes 5.0 or 5e0: a column of integers does not keep the source's,
    so that its values become these strings when it is widened. Raises NotJson.
    """
    value = plain(value)
    if isinstance(value, str) and valid(value) == value:
        return value
    text = json_text(value) or json_of(value)
    return _integer_text(text) if isinstance(value, Decimal) or (isinstance(value, float) and value % 1 == 0) else text


def _integer_text(text: str) -> str:
    try:
        number = Decimal(text)
    except InvalidOperation:  # the exponent has more digits than a Decimal's
        return text
    is_integer = number.is_finite() and number.adjusted() < MOST_DIGITS and number == number.to_integral_value()
    return f"{int(number)}" if is_integer else text


def valid(text: str) -> str:
    """Return the text in a form that UTF-8 can encode: a lone surrogate as an escape sequence."""
    return text.encode("utf-8", "backslashreplace").decode()
