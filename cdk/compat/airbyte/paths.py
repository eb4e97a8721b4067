"""Two functions of `dpath`, for custom code on machines without that package."""

from collections.abc import Sequence

from cdk.base.values import Json
from cdk.rest import path

_UNSET = object()


def get(obj: Json, glob: str | Sequence[str], separator: str = "/", default: Json = _UNSET) -> Json:
    """The value at a path. Raises KeyError: there is none, and no default."""
    node = obj
    for step in _steps(glob, separator):
        if isinstance(node, dict) and step in node:
            node = node[step]
        elif isinstance(node, list) and step.lstrip("-").isdecimal() and -len(node) <= int(step) < len(node):
            node = node[int(step)]
        elif default is _UNSET:
            raise KeyError(str(glob))
        else:
            return default
    return node


def values(obj: Json, glob: str | Sequence[str], separator: str = "/") -> list[Json]:
    """All values at a path, in which `*` is any key or index."""
    steps = _steps(glob, separator)
    if "*" not in steps:
        value = get(obj, steps, default=None)
        return [] if value is None else [value]
    at = steps.index("*")
    node = path(*steps[:at])(obj)
    below = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [value for item in below for value in ([item] if not steps[at + 1 :] else values(item, steps[at + 1 :]))]


def _steps(glob: str | Sequence[str], separator: str) -> list[str]:
    parts = glob.strip(separator).split(separator) if isinstance(glob, str) else [str(step) for step in glob]
    return [step for step in parts if step]
