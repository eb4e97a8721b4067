"""Explains why an expression failed, in words that reveal no value it read."""

from collections.abc import Mapping, Sequence

from cdk.base.first_use import lazy_pattern
from cdk.base.wording import did_you_mean, nearest
from cdk.declarative.interpolation.errors import Refused
from cdk.declarative.interpolation.macros import build_macros
from cdk.declarative.interpolation.missing import missing

_QUOTED = lazy_pattern(r"'([^']*)'|\"([^\"]*)\"")
_ATTRIBUTE = lazy_pattern(r" has no attribute '([^']+)'")
_TYPE = lazy_pattern(
    r"(?:datetime\.)?(?:bool|bytes|date|datetime|dict|dict_(?:items|keys|values)|float|function|int|list|method|None|"
    r"NoneType|set|str|timedelta|tuple|Undefined|builtin_function_or_method|CalendarDuration|\w+ object)"
)
_REASONS = {
    "SecurityError": "it uses what expressions may not use: names that begin with `_`, or Python internals",
    "RecursionError": "it is nested too deeply",
    "ZeroDivisionError": "it divides by zero",
}


def why(
    error: Exception,
    text: str,
    names: frozenset[str],
    scope: Mapping[str, object],
    paths: Sequence[tuple[str, ...]] = (),
) -> str:
    """Return the reason in words: an unknown name and its nearest spelling, a missing value, or incompatible types."""
    for name in sorted(names):
        if name not in scope:
            near = nearest(name, build_macros())
            return f"{name!r} is not defined here" + (
                f"; did you mean {near!r}?" if near else did_you_mean(name, scope)
            )
    if isinstance(error, Refused):
        return str(error)
    match type(error).__name__:
        case "UndefinedError":
            field = _ATTRIBUTE.search(str(error))
            where = missing(paths, scope, field[1]) if field else ""
            return f"it reads from {where}" if where else _with("it reads from a missing value", error, text)
        case "TypeError":
            return _with("the types are incompatible", error, text)
        case name:
            return _REASONS.get(name, f"a value is invalid ({name})")


def _with(reason: str, error: Exception, text: str) -> str:
    """Return the reason and Python's message, unless the message may quote a value."""
    words = str(error)
    pieces = [single or double for single, double in _QUOTED.findall(words)]
    quotable = all(piece in text or _TYPE.fullmatch(piece) for piece in pieces)
    return f"{reason}: {words}" if quotable and "no element" not in words else reason
