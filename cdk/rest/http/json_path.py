"""Paths into JSON, compiled once: `path("data", "items")` returns a function from a body to the value at that path."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from cdk.base.errors import ConfigError, DecodeError
from cdk.base.values import JsonValue, Record, json_kind
from cdk.base.wording import nearest

Extract: TypeAlias = Callable[[JsonValue], JsonValue]
"""Returns the value at a path of a decoded body, or None if it is missing."""

ANY = "*"

_SHOWN = 30
"""How many fields of an object an error lists when one is missing."""


@lru_cache(maxsize=1024)
def path(*names: str) -> Extract:
    """Return the function that follows `names` through objects, and through lists by index (`"0"`).

    `"*"` matches every element of a list or value of an object. The result is then the list of all matches of the rest
    of the path, with lists among them joined. For a missing path the function returns None, or an empty list after `*`.
    """
    if ANY in names:
        find = matches(*names)
        return lambda body: [
            item
            for value in find(body)
            for item in (value if type(value) is list else () if value is None else (value,))
        ]
    if not names:
        return _identity
    if len(names) == 1:
        return _field(names[0])
    return _many(names)


def records_at(value: JsonValue, where: Sequence[str], source: object) -> Sequence[Record]:
    """Return the value at a records path as records: a list unchanged, an object as a list of one, null as none.

    source: what errors name, such as the request. Raises DecodeError: when the value is of another type.
    """
    if value is None:
        return ()
    if type(value) is dict:
        return (value,)
    if type(value) is list:
        # Elements usually have the same type; checking each would cost more than reading them.
        if not value or type(value[0]) is dict:
            return value
        kind = f"a list that begins with {json_kind(value[0])}"
    else:
        kind = json_kind(value)
    location = " > ".join(where) or "the top of the body"
    raise DecodeError(f"{source}: found {kind} at {location}, expected a list of objects; check `records_path`")


def absence(body: JsonValue, where: Sequence[str], parent: str = "the body") -> str:
    """Describe where a path ends early, with the fields that exist there; empty if it does not.

    Also empty if the path reaches an empty or null value, whose fields are unknown, or exists in one of the elements
    that `*` matches.
    """
    for at, name in enumerate(where):
        if not body:
            return ""
        if name == ANY and isinstance(body, dict | list):
            elements, rest = list(body.values()) if isinstance(body, dict) else body, where[at + 1 :]
            why = absence(elements[0], rest, f"an element of {parent}")
            return why if why and all(absence(each, rest) for each in elements) else ""
        if type(body) is list and name.isdecimal():
            body, parent = _element(body, name), f"element {name} of {parent}"
            continue
        if type(body) is not dict:
            return f"no {name!r} in {parent}, which is {json_kind(body)}"
        if name not in body:
            return _missing(name, parent, tuple(islice(body, _SHOWN)))
        body, parent = body[name], repr(name)
    return ""


@lru_cache(maxsize=64)
def _missing(name: str, parent: str, fields: tuple[str, ...]) -> str:
    # Cached: the single pages of ten thousand slices may lack the same field, and finding the nearest name is slow.
    listed, near, parts = ", ".join(map(repr, fields)), nearest(name, fields), name.split(".")
    hint = f" (is it {near!r}?)" if near is not None else ""
    if len(parts) > 1 and parts[0] in fields:
        hint = f" (a path has a name for each step: {', '.join(map(repr, parts))})"
    return f"no {name!r} in {parent}, whose fields are {listed}{hint}"


def as_path(where: object, what: str) -> tuple[str, ...]:
    """Return the path that an author wrote as a sequence of names or as a single name.

    what: the option, for the error. Raises ConfigError: when it is something else.
    """
    names = (where,) if isinstance(where, str) else where
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f'{what}: found {where!r}, expected the names of its path, each a string: "meta", "next"')
    return tuple(names)


def path_exists(body: JsonValue, where: Sequence[str]) -> bool:
    """Whether a path exists in a body, even if its value is null. Always True for a path with a wildcard."""
    if ANY in where:
        return True
    *outer, last = where or ("",)
    parent = path(*outer)(body)
    return type(parent) is dict and last in parent


def _identity(body: JsonValue) -> JsonValue:
    return body


def _field(name: str) -> Extract:
    def extract(body: JsonValue) -> JsonValue:
        return body.get(name) if type(body) is dict else _element(body, name)

    return extract


def _many(names: tuple[str, ...]) -> Extract:
    def extract(body: JsonValue) -> JsonValue:
        for name in names:
            body = body.get(name) if type(body) is dict else _element(body, name)
            if body is None:
                return None
        return body

    return extract


def _element(body: JsonValue, name: str) -> JsonValue:
    if type(body) is list and name.isdecimal() and int(name) < len(body):
        item: JsonValue = body[int(name)]
        return item
    return None


def matches(*names: str) -> Callable[[JsonValue], list[JsonValue]]:
    """Return the function that lists all values at a path: one or, with `"*"`, any number. Joins no nested lists."""
    if ANY not in names:
        follow = path(*names)
        return lambda body: [follow(body)]
    i = names.index(ANY)
    head, rest = path(*names[:i]), matches(*names[i + 1 :])

    def find(body: JsonValue) -> list[JsonValue]:
        held = head(body)
        parts = held.values() if type(held) is dict else held if type(held) is list else ()
        return [match for part in parts for match in rest(part)]

    return find
