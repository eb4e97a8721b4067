"""Values as JSON text, whatever they hold."""

import json

import orjson

from cdk.base.values import Json, NotJson

NO_JSON = "NaN and infinity are no JSON"


def json_text(value: Json) -> str | None:
    """`value` as JSON, None when it holds NaN or infinity.

    Raises NotJson: it is not made of JSON's types, or is too deep for any writer of JSON.
    """
    try:
        text = orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits, a lone surrogate, many levels
        return _slow(value, special=False)
    # orjson writes NaN as null.
    if b"null" in text and orjson.loads(text) != value and _slow(value, special=False) is None:
        return None
    return text.decode()


def shown(value: Json) -> str:
    """`value` as a person reads it: a text as it is, anything else as JSON, with NaN and Infinity. Raises NotJson."""
    if isinstance(value, str) and valid(value) == value:
        return value
    return json_text(value) or _slow(value, special=True) or ""


def valid(text: str) -> str:
    """The text as UTF-8 can hold it: a lone surrogate is written as its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def _slow(value: Json, *, special: bool) -> str | None:
    try:
        return json.dumps(value, allow_nan=special)
    except ValueError:
        return None
    except TypeError as error:
        raise NotJson(f"{error}; expected what JSON is made of") from None
    except RecursionError:
        raise NotJson("found a value of too many levels, more than Python can write as JSON") from None
