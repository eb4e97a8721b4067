"""Two functions of the package `dpath`, for custom code on machines where it is not installed."""

from collections.abc import Sequence
from enum import Enum, auto

from cdk.base.values import JsonValue
from cdk.declarative.syntax.json_edit import matches_at


class _Unset(Enum):
    """The absence of a default, which may itself be None."""

    UNSET = auto()


def get(
    obj: JsonValue, glob: str | Sequence[str], separator: str = "/", default: JsonValue | _Unset = _Unset.UNSET
) -> JsonValue:
    """Return the first value at a path. Raises KeyError: nothing is there, and no default was passed."""
    steps = _steps(glob, separator)
    for value in matches_at(obj, steps) if steps else [obj]:
        return value
    if default is _Unset.UNSET:
        raise KeyError(str(glob))
    return default


def values(obj: JsonValue, glob: str | Sequence[str], separator: str = "/") -> list[JsonValue]:
    """Return all values at a path, in which `*` matches any key or index."""
    return matches_at(obj, _steps(glob, separator))


def _steps(glob: str | Sequence[str], separator: str) -> list[str]:
    parts = glob.strip(separator).split(separator) if isinstance(glob, str) else [str(step) for step in glob]
    return [step for step in parts if step]
