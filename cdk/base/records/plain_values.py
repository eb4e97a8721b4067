"""Conversion of Python values to JSON. `read` writes records in this form, and `sync` builds columns from the same.

| Python | JSON |
|---|---|
| datetime, date, time | text in ISO 8601 |
| UUID | text |
| Decimal | number with every digit; infinite or NaN: as a float is |
| Enum | its value |
| tuple; any Mapping; dataclass | array; object |
"""

import json
import math
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum

import orjson

from cdk.base.records.exact_json import WrittenNumber
from cdk.base.values import FieldValue, NotJson

ALREADY = frozenset({str, int, float, bool, type(None), list, dict})
"""The Python types of JSON values."""


def plain(value: object) -> FieldValue:  # noqa: PLR0911 - one for each kind
    """Convert `value` to a JSON type, without the values inside it. A finite Decimal stays, to retain its digits.

    Raises NotJson: JSON has no counterpart.
    """
    if type(value) in ALREADY:
        return value
    match value:
        case Enum():
            return plain(value.value)
        case str():
            return str.__str__(value)
        case bool() | int() | float() | list() | dict():
            return value
        case Decimal():
            return value if value.is_finite() else float(str(value).replace("s", ""))
        case tuple():
            return list(value)
        case Mapping():
            return dict(value)
        case _:
            return _as_orjson(value)


def json_of(value: object, path: str = "", *, special: str | None = None) -> str:
    """The JSON text of a value that orjson rejects; slow. A lone surrogate, half a character, becomes an escape.

    special: the JSON text for NaN and infinities; by default their JavaScript names.
    Raises NotJson, which names the place, prefixed with `path`.
    """
    try:
        if _holds_written_number(value):  # `json` would write only the double
            return _json_of(value, path, special)
        # Supports twice the nesting of the code below.
        text = json.dumps(value, separators=(",", ":"), allow_nan=special is None, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        pass
    else:
        return text
    try:
        return _json_of(value, path, special)
    except RecursionError:
        raise NotJson("found a value that is nested more deeply than Python can write as JSON") from None


def _json_of(value: object, path: str, special: str | None) -> str:
    try:
        value = plain(value)
    except NotJson as error:
        raise NotJson(f"field {path} holds {error}" if path else f"found {error}") from None
    match value:
        case dict():
            # A name that is not a string is converted to one.
            items = (
                f"{_string(str(key))}:{_json_of(item, f'{path}.{key}' if path else str(key), special)}"
                for key, item in value.items()
            )
            return f"{{{','.join(items)}}}"
        case list():
            return f"[{','.join(_json_of(item, f'{path}[{i}]', special) for i, item in enumerate(value))}]"
        case str():
            return _string(value)
        case Decimal() | WrittenNumber():
            return str(value)
        case float() if not math.isfinite(value) and special is not None:
            return special
        case _:
            return json.dumps(value)


def _holds_written_number(value: object) -> bool:
    values, searched = [value], set[int]()
    for each in values:  # grows
        if isinstance(each, WrittenNumber):
            return True
        if id(each) in searched:  # a list may hold itself
            continue
        searched.add(id(each))
        if isinstance(each, Mapping):
            values += each.values()
        elif isinstance(each, list | tuple):
            values += each
    return False


def _string(text: str) -> str:
    try:
        return orjson.dumps(text).decode()
    except TypeError:
        return json.dumps(text)


def _as_orjson(value: object) -> object:
    try:
        return orjson.loads(orjson.dumps(value))
    except TypeError:
        if isinstance(value, date | time):  # of a class of its own, or with an odd zone
            return value.isoformat()
        raise NotJson(f"a {type(value).__name__}, which JSON cannot hold") from None
