"""Values as JSON text, whatever they hold."""

import json
import math

import orjson

from cdk.base.records.exact_json import exact_json
from cdk.base.records.plain_values import json_of, plain
from cdk.base.values import fragment

NO_JSON = "NaN and infinity are no JSON"
_NAN = "\0"
"""Stands for NaN and infinities where they are looked for: no JSON text has it."""


def json_text(value: object) -> str | None:
    """`value` as JSON, None when it holds NaN or infinity.

    Raises NotJson: JSON has nothing like it, or it is too deep for any writer of JSON.
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
    """`value` with the texts NaN, Infinity and -Infinity where JSON has no number. Raises NotJson."""
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
    """The value that `json_text` wrote. Other decoders refuse the lone surrogates that it escapes."""
    return json.loads(text)


def shown(value: object) -> str:
    """`value` as a person reads it: a text as it is, anything else as JSON, with NaN and Infinity. Raises NotJson."""
    value = plain(value)
    if isinstance(value, str) and valid(value) == value:
        return value
    return json_text(value) or json_of(value)


def valid(text: str) -> str:
    """The text as UTF-8 can hold it: a lone surrogate is written as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
