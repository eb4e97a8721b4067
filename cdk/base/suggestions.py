"""The nearest spelling, for errors that meet an unknown name."""

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """The known name that `name` is probably a slip for, if any. least: how alike they are, from 0 to 1."""
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    return next(iter(get_close_matches(name, sorted(set(known)), 1, least)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'users'?` when a known name is near, else the known names, else nothing."""
    names = sorted(set(known))
    if (near := nearest(name, names)) is not None:
        return f"; did you mean {near!r}?"
    return f"; there is {', '.join(map(repr, names))}" if names else ""
