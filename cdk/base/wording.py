"""Helpers for the wording of errors and reports: types and values, suggestions for names, shortened lists, counts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

_Item = TypeVar("_Item")

TYPE_WORDS = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
"""What an error expected, by the Python type of the JSON value."""

_LONGEST = 60
_MOST_NAMES = 8


def nearest(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """The known name that `name` is probably a typo of, if any. least: the minimal similarity, from 0 to 1."""
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    return next(iter(get_close_matches(name, sorted(set(known)), 1, least)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'users'?` if a known name is similar, else the known names, else an empty text."""
    names = sorted(set(known))
    if (near := nearest(name, names)) is not None:
        return f"; did you mean {near!r}?"
    return f"; there is {', '.join(map(repr, names))}" if names else ""


def listed(items: Iterable[_Item], most: int | None, show: Callable[[_Item], str] = str) -> str:
    """The first `most` items, or all, on one line, with the number of the others: `a, b and 3 more`."""
    rest = iter(items)
    shown = ", ".join(map(show, islice(rest, most)))
    return f"{shown} and {more:,} more" if (more := sum(1 for _ in rest)) else shown


def first_few(items: Iterable[_Item], most: int, show: Callable[[_Item], str] = str) -> Iterator[str]:
    """The first `most` items as separate texts, then the number of the others: `and 3 more`."""
    rest = iter(items)
    yield from map(show, islice(rest, most))
    if more := sum(1 for _ in rest):
        yield f"and {more:,} more"


def cut(text: str, most: int) -> str:
    """Truncate a text to `most` characters, the last of which is then `…`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def counted(number: int, noun: str) -> str:
    """A number and what it counts: `1 slice`, `2 slices`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown(value: object) -> str:
    """A value for errors: the names of an object, the length of a list, the beginning of a long string."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value) if len(value) < _LONGEST else f"{value[: _LONGEST - 3]!r}..."
        case Mapping():
            return f"an object with {listed(value, _MOST_NAMES)}" if value else "an empty object"
        case list():
            return f"a list of {len(value)}" if value else "an empty list"
        case _:
            return repr(value)


def reason_of(error: Exception) -> str:
    """The reason of an error of a file, without its path, which the message of a `CdkError` already begins with."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
