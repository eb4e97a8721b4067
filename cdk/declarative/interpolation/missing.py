"""Names the path of an expression that leads to nothing, and the fields that are there; never a value."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from cdk.base.first_use import lazy_pattern
from cdk.base.wording import listed, nearest

_WITH_FIELDS = frozenset(
    {"config", "parameters", "response", "headers", "record", "last_record", "parent_record", "stream_partition"}
)
"""The variables whose fields may be named."""
_FIELD = lazy_pattern(r"[A-Za-z_][\w.\-]{0,40}")
"""Other names, such as mail addresses, are probably data."""
_MOST = 1000
_SHOWN = 5


def missing(paths: Iterable[Sequence[str]], scope: Mapping[str, object], field: str = "") -> str:
    """Return the first path that is missing: "`config.start_dat`, which is missing; did you mean 'start_date'?".

    paths: those that an expression reads. field: the name at which the path must end; empty for any.
    Empty if no path is missing.
    """
    for path in paths:
        parent: object = scope
        for depth, name in enumerate(path):
            # `config.items` is a method.
            if not isinstance(parent, Mapping) or (depth and name in dir(dict)):
                break
            if name not in parent:
                if depth and field in ("", name):
                    fields = parent if path[0] in _WITH_FIELDS else {}
                    return f"`{'.'.join(path[: depth + 1])}`, which is missing{_instead(name, fields)}"
                break
            parent = parent[name]
    return ""


def _instead(name: str, parent: Mapping[object, object]) -> str:
    """Return the field that is probably meant, or some of those that are there."""
    fields = [field for field in islice(parent, _MOST) if isinstance(field, str) and _FIELD.fullmatch(field)]
    if near := nearest(name, fields):
        return f"; did you mean {near!r}?"
    return f"; there is {listed(fields, _SHOWN, repr)}" if fields else ""
