"""Durations as people write them in files: `500ms`, `30s`, `90m`, `6h`, `2d`, `1w`; `1.5h`, too."""

from datetime import timedelta

from cdk.base.first_use import lazy_pattern

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_TEXT = lazy_pattern(r"(\d{1,9}(?:\.\d{1,9})?)\s*(ms|[smhdw])")


def duration(value: object) -> timedelta:
    """Parse a duration, or pass one through. Raises ValueError: the value is not a duration, or negative."""
    if isinstance(value, timedelta) and value >= timedelta():
        return value
    try:
        if isinstance(value, str) and (match := _TEXT.fullmatch(value.strip())):
            return float(match[1]) * _UNITS[match[2]]
    except OverflowError:
        pass
    raise ValueError("expected a duration such as 500ms, 30s, 90m, 6h or 2d")
