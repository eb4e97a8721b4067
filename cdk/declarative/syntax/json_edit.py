"""Edits of JSON values at a path, shared by the transformations of records and of configs.

A path is a list of names. A string of digits is also an index into a list, and `-1` denotes its last element. In a
pointer, `*`, `?` and `[ab]` match names as in file names, and `**` matches any number of names. Airbyte: the same, by
way of dpath.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import TypeAlias

from cdk.base.values import JsonObject, JsonValue, json_kind, walk

Path: TypeAlias = Sequence[str]
Keys: TypeAlias = Sequence[str | int]
Edit: TypeAlias = Callable[[JsonObject], None]

_ANY = "**"
_GLOBS = frozenset("*?[")


def part_at(value: JsonValue, keys: Keys) -> JsonValue:
    """Return the value reached by following the keys. Raises LookupError: when a key does not exist."""
    for key in keys:
        if isinstance(value, Mapping) and key in value:
            value = value[key]  # type: ignore[index] # a name that the mapping contains
        elif isinstance(value, list) and isinstance(key, int):
            value = value[key]
        else:
            raise LookupError(key)
    return value


def set_at(target: JsonValue, path: Path, value: JsonValue) -> None:
    """Put `value` at `path`, replacing any value there.

    Creates missing objects on the way, or lists if the next name is an index; lists are padded with null.
    Raises ValueError: when a value on the way cannot hold the next name.
    """
    for name, following in pairwise(path):
        target = _below(target, name, make=[] if following.isdecimal() else {})
    _put(target, path[-1], value)


def replace_at(target: JsonValue, pointer: Path, value: JsonValue) -> bool:
    """Put `value` at every place that a pointer matches; return whether there was one.

    Raises ValueError: when the pointer has more than one `**`.
    """
    places = [path for path, _ in _matches(target, _checked(pointer))]
    for path in reversed(places):  # innermost places first
        set_at(target, path, value)
    return bool(places)


def setter(path: Path) -> Callable[[JsonObject, JsonValue], None]:
    """Return the function that puts a value at `path` of an object, as `set_at` does."""
    if len(path) == 1:
        only = path[0]

        def put(target: JsonObject, value: JsonValue) -> None:
            target[only] = value

        return put
    return lambda target, value: set_at(target, path, value)


def matches_at(value: JsonValue, pointer: Path) -> list[JsonValue]:
    """Return the values that a pointer matches, in order."""
    return [item for _, item in _matches(value, _checked(pointer))]


def remover(pointer: Path) -> Edit:
    """Return the function that removes what a pointer matches.

    Only the last element of a list is removed; others become null, so that the remaining indexes stay valid.
    Raises ValueError: when the pointer has more than one `**`.
    """
    parts = _checked(pointer)
    if not parts:
        return lambda _: None
    if any(_is_glob(part) for part in parts):
        return lambda target: _remove_all(target, [path for path, _ in _matches(target, parts)])
    # Most pointers lead through objects only, and are applied to each record.
    *way, last = parts

    def pop(target: JsonObject) -> None:
        target.pop(last, None)

    def remove(target: JsonObject) -> None:
        parent: JsonValue = target
        for name in way:
            if type(parent) is not dict:
                break
            parent = parent.get(name)
        if type(parent) is dict:
            parent.pop(last, None)
        else:
            _remove_all(target, [parts])

    return remove if way else pop


def remove_leaves(target: JsonValue, predicate: Callable[[JsonValue], bool]) -> None:
    """Remove every value that `predicate` accepts, at any depth; objects and lists themselves are never removed."""
    _remove_all(target, [tuple(map(str, keys)) for keys, value in walk(target) if keys and predicate(value)])


def _below(target: JsonValue, name: str, make: JsonValue) -> JsonValue:
    """Return the value under a name; if there is none, put `make` there and return it."""
    below = make
    if isinstance(target, dict) and name in target:
        below = target[name]
    elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
        below = target[int(name)]
    else:
        _put(target, name, make)
    return below


def _put(target: JsonValue, name: str, value: JsonValue) -> None:
    if isinstance(target, dict):
        target[name] = value
    elif isinstance(target, list) and name.isdecimal():
        index = int(name)
        target.extend([None] * (index + 1 - len(target)))
        target[index] = value
    else:
        why = f"found {json_kind(target)} where {name!r} belongs, expected an object or, for an index, a list"
        raise ValueError(why)


def _remove_all(target: JsonValue, paths: Sequence[tuple[str, ...]]) -> None:
    for *way, last in paths:
        parent = target
        for name in way:
            if isinstance(parent, dict):
                parent = parent.get(name)
            elif isinstance(parent, list) and (index := _index(parent, name)) is not None:
                parent = parent[index]
            else:
                parent = None
        _remove(parent, last)


def _remove(parent: JsonValue, name: str) -> None:
    if isinstance(parent, dict):
        parent.pop(name, None)
    elif isinstance(parent, list) and (index := _index(parent, name)) is not None:
        if index == len(parent) - 1:
            parent.pop()
        else:
            parent[index] = None


def _index(items: list[JsonValue], name: str) -> int | None:
    """Return the list index that a name denotes; None if it denotes no existing element."""
    if not name.removeprefix("-").isdecimal():
        return None
    index = int(name)
    index = index + len(items) if index < 0 else index
    return index if 0 <= index < len(items) else None


def _checked(pointer: Path) -> tuple[str, ...]:
    if list(pointer).count(_ANY) > 1:
        raise ValueError(f"found {list(pointer)!r}, expected at most one `**` in a pointer")
    return tuple(pointer)


def _is_glob(part: str) -> bool:
    return not _GLOBS.isdisjoint(part)


def _matches(value: JsonValue, pointer: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """Yield the matching paths with their values; a parent comes before its children."""
    if not pointer:
        return
    first, *rest = pointer
    if first == _ANY:
        yield from _matches(value, tuple(rest))
        for name, child in _children(value):
            if not rest:
                yield (name,), child
            yield from (((name, *path), item) for path, item in _matches(child, pointer))
        return
    for name, child in _named(value, first):
        # `**` also matches zero names.
        if rest in ([], [_ANY]):
            yield (name,), child
        yield from (((name, *path), item) for path, item in _matches(child, tuple(rest)))


def _named(value: JsonValue, part: str) -> Iterator[tuple[str, JsonValue]]:
    """Yield the children that one part of a pointer matches."""
    if _is_glob(part):
        yield from ((name, child) for name, child in _children(value) if fnmatchcase(name, part))
    elif isinstance(value, dict):
        if part in value:
            yield part, value[part]
    elif isinstance(value, list) and (index := _index(value, part)) is not None:
        yield str(index), value[index]


def _children(value: JsonValue) -> list[tuple[str, JsonValue]]:
    if isinstance(value, dict):
        return list(value.items())
    return [(str(i), item) for i, item in enumerate(value)] if isinstance(value, list) else []
