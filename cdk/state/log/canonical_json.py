"""Canonical JSON: exactly one text per value, and digests of it. Equal digests mean equal values, types included."""

import hashlib
import math
from collections.abc import Iterator

import orjson

from cdk.base.errors import BadState
from cdk.base.values import JsonValue, Stored, canonical, from_json

_DEEPEST = 200
_SCALARS = (str, int, float, bool, type(None))


def dumps_canonical(value: JsonValue, path: str) -> bytes:
    """Return the canonical text of a value: UTF-8, sorted keys, no whitespace.

    Raises BadState: when JSON cannot represent a part of the value, or not without changing it: NaN and infinities,
    tuples, sets, datetimes, keys that are not strings, more than 200 levels. It names the path of that part.
    """
    try:
        text = canonical(value).encode()
    except TypeError:
        raise _first_flaw(value, path) from None
    # orjson writes NaN as null, a tuple as a list, a datetime as a string: only what survives a round trip is JSON.
    if from_json(text) != value:
        raise _first_flaw(value, path)
    return text


def loads_canonical(text: bytes, path: str) -> Stored:
    """Parse a JSON text. Raises BadState: when it is not valid JSON."""
    try:
        return from_json(text)
    except orjson.JSONDecodeError as error:
        raise BadState(path, f"{text[:80]!r} ({error})", "JSON") from error


def digest(*parts: bytes) -> str:
    """Return `sha256:` and the hexadecimal digest of the concatenated parts."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part)
    return f"sha256:{sha.hexdigest()}"


def leaves(value: JsonValue, path: str) -> Iterator[tuple[str, JsonValue]]:
    """Yield every scalar and every key inside a JSON value with its path, such as `path.users[2].id`."""
    match value:
        case dict():
            for key, item in value.items():
                yield f"{path}.{key}", key
                yield from leaves(item, f"{path}.{key}")
        case list():
            for i, item in enumerate(value):
                yield from leaves(item, f"{path}[{i}]")
        case _:
            yield path, value


def _first_flaw(value: JsonValue, path: str) -> BadState:
    return next(_flaws(value, path, 0), BadState(path, type(value).__name__, "JSON"))


def _flaws(value: JsonValue, path: str, depth: int) -> Iterator[BadState]:
    if depth > _DEEPEST:
        yield BadState(path, "a value inside itself, or very deep", f"at most {_DEEPEST} levels")
    elif type(value) is dict:
        for key, item in value.items():
            if not isinstance(key, str):
                yield BadState(path, key, "a string as a key")
            yield from _flaws(item, f"{path}.{key}", depth + 1)
    elif type(value) is list:
        for i, item in enumerate(value):
            yield from _flaws(item, f"{path}[{i}]", depth + 1)
    elif not isinstance(value, _SCALARS):
        text = "JSON: an object, a list, a string, a number, a boolean or null"
        yield BadState(path, f"{type(value).__name__} {value!r}", text)
    elif isinstance(value, float) and not math.isfinite(value):
        yield BadState(path, value, "a finite number")
    else:
        try:
            canonical(value)
        except TypeError:
            yield BadState(path, value, "a string that is valid UTF-8")
