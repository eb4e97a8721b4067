"""The nearest spelling, for errors that meet an unknown name."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'users'?` when a known name is near, else the known names, else nothing."""
    # Imported here: only errors need it.
    from difflib import get_close_matches  # noqa: PLC0415

    names = sorted(set(known))
    if near := get_close_matches(name, names, 1):
        return f"; did you mean {near[0]!r}?"
    return f"; there is {', '.join(map(repr, names))}" if names else ""
