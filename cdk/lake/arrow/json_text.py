"""Conversion of values to JSON text and back, including NaN, lone surrogates and numbers of any size."""

import json
import math

import orjson

from cdk.base.records.exact_json import exact_json
from cdk.base.records.plain_values import json_of, plain
from cdk.base.values import fragment

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


def from_json_text(text: str) -> object:
    """Parse text that `json_text` wrote. Other decoders refuse the escaped lone surrogates in it."""
    return json.loads(text)


def shown(value: object) -> str:
    """Return `value` for display: a string as it is, anything else as JSON, with NaN and Infinity. Raises NotJson."""
    value = plain(value)
    if isinstance(value, str) and valid(value) == value:
        return value
    return json_text(value) or json_of(value)


def valid(text: str) -> str:
    """Return the text in a form that UTF-8 can encode: a lone surrogate as an escape sequence."""
    return text.encode("utf-8", "backslashreplace").decode()
