"""Guards that refuse expressions which would take gigabytes or hours.

Four rules hold for every expression. The result of an operator, a filter, a method or a macro has a maximum size
(`sized`). A single call that would make something huge from little is refused before it runs (`check_growth`). Loops,
calls and outputs of one evaluation share a budget (`EvaluationBudget`). And nothing else can make something large: an
expression without a loop performs at most as many operations as it has characters.
"""

import operator
import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence, Sized

from cdk.declarative.interpolation.errors import Refused

MAX_SIZE = 1_000_000
"""The maximum number of elements, or characters of padding, that one operation may produce."""

MAX_TEXT = 100_000_000
"""The maximum number of characters that replacing, joining and formatting may produce."""

_LETTERS = 100
"""The number of characters that count as one element."""

_SCALARS = frozenset((int, float, bool, type(None)))
_CALL = 1_000
"""The number of characters that a call counts as: calling takes as long as writing that many."""

_MAX_BITS = 10_000
_MAX_DIGITS = 400
"""The maximum number of digits to round to; a float has 17."""

# A width of six digits, a width taken from an argument, or a width that is itself a field.
_WIDE = re.compile(r"\d{6}|\*|\{[^{}]*:[^}]*\{")


def measure(value: object) -> int:
    """Return the number of elements of a value at any depth. Raises Refused: when too large or self-containing."""
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
            # `tojson` and `escape` return instances of a subclass of str.
            if isinstance(inner, str | bytes):
                total += len(inner) // _LETTERS
            elif type(inner) not in _SCALARS:
                rest.append(inner)
    _small(total <= MAX_SIZE)
    return total


def sized(value: object) -> object:
    """Return `value`. Raises Refused: when it is huge."""
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
    """Yield lazily generated `values`. Raises Refused: when their total size becomes huge."""
    total = 0
    for value in values:
        total += measure(value)
        _small(total <= MAX_SIZE)
        yield value


class EvaluationBudget:
    """The budget that the loops, calls and outputs of one evaluation share. Used by the evaluating thread only."""

    def __init__(self, text: str) -> None:
        """text: the template; each step may output all of its literal text."""
        self._left, self._step = MAX_SIZE, 1 + len(text) // _LETTERS

    def steps(self, items: Iterable[object]) -> Iterator[object]:
        """Yield `items`, spending a step for each."""
        for item in items:
            self.spend()
            yield item

    def call(self, size: int) -> None:
        """Spend the steps of a call whose arguments have this `size`."""
        self.spend(size * _LETTERS + _CALL)

    def spend(self, size: int = 0) -> None:
        """Spend a step that handles `size` characters. Raises Refused: when the budget is used up."""
        self._left -= self._step + size // _LETTERS
        if self._left < 0:
            raise Refused("its loops take too many steps")


def add(first: object, second: object) -> object:
    """Return `left + right`. Raises Refused: when the result is huge."""
    return sized(operator.add(first, second))


def join_texts(*parts: object) -> str:
    """Return the concatenated texts of the values, as `~` does. Raises Refused: when the result is huge."""
    text = "".join(str(sized(part)) for part in parts)
    return str(sized(text))


def multiply(first: object, second: object) -> object:
    """Return `left * right`. Raises Refused: when the result is huge."""
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
    """Return `base ** exponent`. Raises Refused: when the result is huge."""
    if isinstance(base, int) and isinstance(exponent, int):
        _small(base.bit_length() * exponent <= _MAX_BITS)
    result: object = operator.pow(base, exponent)
    return result


def modulo(first: object, second: object) -> object:
    """Return `left % right`. Raises Refused: when it pads a string to a huge width."""
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
"""Methods and filters whose result can be far larger than their input."""


def check_growth(subject: object, arguments: Iterable[object], *, by_number: bool = False) -> None:
    """Raise Refused: when a growing method or filter of `subject` would return something huge with these arguments.

    by_number: a number is applied many times, such as the indentation of each line.
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
    """Raise Refused: when a format string, such as `%9d` or `{:9}`, may ask for huge widths."""
    _small(_WIDE.search(form) is None or ("%" not in form and "{" not in form))


def guarded(name: str, call: Callable[..., object]) -> Callable[..., object]:
    """Return the filter, wrapped so that it refuses to produce something huge."""
    if name in _NUMBERS:
        return call
    if name not in GROWING:
        return lambda *args, **kwargs: sized(call(*args, **kwargs))

    def bounded(*args: object, **kwargs: object) -> object:
        # Some filters take the environment as their first argument.
        values = [value for value in (*args, *kwargs.values()) if isinstance(value, _ARGUMENTS)]
        check_call(name, values[0] if values else "", values[1:])
        return sized(call(*args, **kwargs))

    return bounded


_NUMBERS = frozenset(("float", "int"))
"""Filters that return a number, or the default passed to them."""
_ARGUMENTS = (str, int, float, list, tuple, dict)


def check_call(name: str, subject: object, arguments: Sequence[object]) -> None:
    """Raise Refused: when a growing method or filter of `subject` would return something huge with these arguments."""
    if name == "round":
        _small(all(abs(value) <= _MAX_DIGITS for value in arguments if isinstance(value, int)))
    elif name == "sum":
        # Summing lists would copy them once for each element.
        _small(not any(isinstance(value, list | tuple | dict) for value in arguments))
    else:
        check_growth(subject, arguments, by_number=name in {"indent", "expandtabs"})
        if name in {"format", "format_map"} and isinstance(subject, str):
            _check_widths(subject)


def _length(value: object) -> int:
    """Return the number of characters of a string, or of all strings in a list."""
    if isinstance(value, str):
        return len(value)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [None]
    return sum(len(item) if isinstance(item, str) else 1 for item in items)


def _small(fits: bool) -> None:  # noqa: FBT001 - reads like an assertion
    if not fits:
        raise Refused("the result would be too large")
