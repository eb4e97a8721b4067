"""Guards: what would take gigabytes or hours is refused before it begins."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cdk.base.values import Json
from cdk.declarative.interpolation.errors import Refused

MAX_SIZE = 1_000_000
"""Elements, or characters of padding, that one operation may make."""

MAX_TEXT = 100_000_000
"""Characters that replacing, joining and filling in may make."""

_MAX_BITS = 10_000
_WIDE = re.compile(r"\d{6}|\*")


def multiply(left: Json, right: Json) -> Json:
    """`left * right`, unless that is huge."""
    if isinstance(left, int) and isinstance(right, int):
        _small(left.bit_length() + right.bit_length() <= _MAX_BITS)
    elif isinstance(right, int) and hasattr(left, "__len__"):
        _small(len(left) * right <= MAX_SIZE)
    elif isinstance(left, int) and hasattr(right, "__len__"):
        _small(len(right) * left <= MAX_SIZE)
    return left * right


def power(base: Json, exponent: Json) -> Json:
    """`base ** exponent`, unless that is huge."""
    if isinstance(base, int) and isinstance(exponent, int):
        _small(base.bit_length() * exponent <= _MAX_BITS)
    return base**exponent


def modulo(left: Json, right: Json) -> Json:
    """`left % right`, unless it pads a text to a huge width."""
    if isinstance(left, str):
        check_growth(left, right if isinstance(right, tuple) else (right,))
    return left % right


BINARY: Mapping[str, Callable[[Json, Json], Json]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": multiply,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": modulo,
    "**": power,
}

GROWING = frozenset(
    (
        "batch",
        "center",
        "expandtabs",
        "format",
        "format_map",
        "indent",
        "join",
        "ljust",
        "replace",
        "rjust",
        "slice",
        "zfill",
    )
)
"""Methods and filters whose result can be far larger than what they are given."""


def check_growth(subject: Json, given: Iterable[Json]) -> None:
    """Refuse to call a growing method or filter of `subject` with arguments that make its result huge."""
    size, largest = _length(subject), 1
    for value in given:
        if isinstance(value, int):
            _small(abs(value) <= MAX_SIZE)
        else:
            largest = max(largest, _length(value))
    _small(size * largest <= MAX_TEXT)
    if isinstance(subject, str):
        _small(_WIDE.search(subject) is None or ("%" not in subject and "{" not in subject))


def guarded_filter(call: Callable[..., Json]) -> Callable[..., Json]:
    """A filter of Jinja that refuses arguments that make its result huge."""

    def guarded(*args: Any, **kwargs: Any) -> Json:  # noqa: ANN401 - whatever the filter takes
        values = [value for value in (*args, *kwargs.values()) if isinstance(value, str | int | list | tuple | dict)]
        check_growth(values[0] if values else "", values[1:])
        return call(*args, **kwargs)

    return guarded


def _length(value: Json) -> int:
    """Characters of a text, or of all texts in a list."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list | tuple):
        return sum(len(item) if isinstance(item, str) else 1 for item in value)
    return 1


def _small(fits: bool) -> None:  # noqa: FBT001 - reads like an assertion
    if not fits:
        raise Refused("the result would be too large")
