"""Guards: what would take gigabytes or hours is refused.

Four rules hold whatever an expression is made of. What an operator, a filter, a method or a macro gives has a limit
(`sized`). What would make far more out of little in one call is refused before it begins (`check_growth`). Loops, calls
and outputs of one evaluation share a budget (`EvaluationBudget`). And there is no other way to make something large: an
expression that has no loop does as many operations as it has letters.
"""

import operator
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence, Sized

from cdk.declarative.interpolation.errors import Refused

MAX_SIZE = 1_000_000
"""Elements, or characters of padding, that one operation may make."""

MAX_TEXT = 100_000_000
"""Characters that replacing, joining and filling in may make."""

_LETTERS = 100
"""Letters that count as one element."""

_SCALARS = frozenset((int, float, bool, type(None)))
_CALL = 1_000
"""Letters that a call counts as: one with its frame takes as long as it takes to write so many."""

_MAX_BITS = 10_000
_MAX_DIGITS = 400
"""Digits behind the point that are rounded to; numbers have 17."""

# A width of six digits, one that is an argument, or one that is a field itself.
_WIDE = re.compile(r"\d{6}|\*|\{[^{}]*:[^}]*\{")


def measure(value: object) -> int:
    """Elements of a value at any depth. Raises Refused: they are too many, or it contains itself."""
    total, rest = 1, [value]
    items: Collection[object]
    while rest:
        item = rest.pop()
        match item:
            case str() | bytes():
                total += 1 + len(item) // _LETTERS
                continue
            case Mapping():
                total += len(item)
                items = item.values()
            case list() | tuple() | set() | frozenset():
                items = item
            case _:
                continue
        total += len(items)
        _small(total <= MAX_SIZE)
        for inner in items:
            # `tojson` and `escape` make strings of a class of their own.
            if isinstance(inner, str | bytes):
                total += len(inner) // _LETTERS
            elif type(inner) not in _SCALARS:
                rest.append(inner)
    _small(total <= MAX_SIZE)
    return total


def sized(value: object) -> object:
    """`value`, unless it is huge."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, str):
        _small(len(value) <= MAX_TEXT)
    elif isinstance(value, Generator):
        return _counted(value)
    else:
        measure(value)
    return value


def _counted(values: Iterable[object]) -> Iterator[object]:
    """`values`, which are made one by one, unless all of them together are huge."""
    total = 0
    for value in values:
        total += measure(value)
        _small(total <= MAX_SIZE)
        yield value


class EvaluationBudget:
    """What the loops, calls and outputs of one evaluation may take together. Of the thread that evaluates."""

    def __init__(self, text: str) -> None:
        """text: the template, whose plain parts may be put out by each step."""
        self._left, self._step = MAX_SIZE, 1 + len(text) // _LETTERS

    def steps(self, items: Iterable[object]) -> Iterator[object]:
        """`items`, each of which is a step."""
        for item in items:
            self.spend()
            yield item

    def call(self, size: int) -> None:
        """Take the steps of a call with arguments of `size`."""
        self.spend(size * _LETTERS + _CALL)

    def spend(self, size: int = 0) -> None:
        """Take a step that handles so many letters. Raises Refused: there were too many."""
        self._left -= self._step + size // _LETTERS
        if self._left < 0:
            raise Refused("its loops do not end soon enough")


def add(first: object, second: object) -> object:
    """`left + right`, unless that is huge."""
    return sized(operator.add(first, second))


def join_texts(*parts: object) -> str:
    """The texts of values, one behind the other, as `~` makes them; unless that is huge."""
    text = "".join(str(sized(part)) for part in parts)
    return str(sized(text))


def multiply(first: object, second: object) -> object:
    """`left * right`, unless that is huge."""
    if type(first) is float and type(second) in _SCALARS:
        return operator.mul(first, second)
    if isinstance(first, int) and isinstance(second, int):
        _small(first.bit_length() + second.bit_length() <= _MAX_BITS)
    else:
        for many, times in ((first, second), (second, first)):
            if isinstance(times, int) and isinstance(many, Sized):
                _small(len(many) * times <= MAX_SIZE)
    return sized(operator.mul(first, second))


def power(base: object, exponent: object) -> object:
    """`base ** exponent`, unless that is huge."""
    if isinstance(base, int) and isinstance(exponent, int):
        _small(base.bit_length() * exponent <= _MAX_BITS)
    result: object = operator.pow(base, exponent)
    return result


def modulo(first: object, second: object) -> object:
    """`left % right`, unless it pads a text to a huge width."""
    if isinstance(first, str):
        check_growth(first, second if isinstance(second, tuple) else (second,))
        _check_widths(first)
    return sized(operator.mod(first, second))


BINARY: Mapping[str, Callable[[object, object], object]] = {
    "+": add,
    "-": operator.sub,
    "*": multiply,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": modulo,
    "**": power,
}

# fmt: off
GROWING = frozenset(
    (
        "batch", "center", "expandtabs", "format", "format_map", "indent", "join", "ljust", "replace", "rjust",
        "round", "slice", "sum", "tojson", "translate", "truncate", "wordwrap", "xmlattr", "zfill",
    )
)
# fmt: on
"""Methods and filters whose result can be far larger than what they are given."""


def check_growth(subject: object, arguments: Iterable[object], *, by_number: bool = False) -> None:
    """Refuse to call a growing method or filter of `subject` with arguments that make its result huge.

    by_number: a number is put in many times, as a width of each line is.
    """
    size, largest = _length(subject), 1
    for value in arguments:
        if isinstance(value, int):
            _small(abs(value) <= MAX_SIZE)
            largest = max(largest, abs(value)) if by_number else largest
        else:
            largest = max(largest, _length(value))
    _small(size * largest <= MAX_TEXT)


def _check_widths(form: str) -> None:
    """Refuse a text that is filled in, such as `%9d` or `{:9}`, where it may ask for huge widths."""
    _small(_WIDE.search(form) is None or ("%" not in form and "{" not in form))


def guarded(name: str, call: Callable[..., object]) -> Callable[..., object]:
    """A filter that refuses to make something huge."""
    if name in _NUMBERS:
        return call
    if name not in GROWING:
        return lambda *args, **kwargs: sized(call(*args, **kwargs))

    def bounded(*args: object, **kwargs: object) -> object:
        # Some get the environment first.
        values = [value for value in (*args, *kwargs.values()) if isinstance(value, _ARGUMENTS)]
        check_call(name, values[0] if values else "", values[1:])
        return sized(call(*args, **kwargs))

    return bounded


_NUMBERS = frozenset(("float", "int"))
"""Filters that give a number, or the default that they were given."""
_ARGUMENTS = (str, int, float, list, tuple, dict)


def check_call(name: str, subject: object, arguments: Sequence[object]) -> None:
    """Refuse to call a growing method or filter of `subject` with arguments that make its result huge."""
    if name == "round":
        _small(all(abs(value) <= _MAX_DIGITS for value in arguments if isinstance(value, int)))
    elif name == "sum":
        # Lists would be copied for each element.
        _small(not any(isinstance(value, list | tuple | dict) for value in arguments))
    else:
        check_growth(subject, arguments, by_number=name in {"indent", "expandtabs"})
        if name in {"format", "format_map"} and isinstance(subject, str):
            _check_widths(subject)


def _length(value: object) -> int:
    """Characters of a text, or of all texts in a list."""
    if isinstance(value, str):
        return len(value)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [None]
    return sum(len(item) if isinstance(item, str) else 1 for item in items)


def _small(fits: bool) -> None:  # noqa: FBT001 - reads like an assertion
    if not fits:
        raise Refused("the result would be too large")
