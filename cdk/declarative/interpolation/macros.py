"""Macros: the functions that expressions can call."""

import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias
from urllib.parse import quote_plus

from cdk.base.first_use import lazy_pattern
from cdk.base.times.clock import Clock, assume_utc, parse_timestamp, system_clock, write_timestamp
from cdk.base.times.iso_durations import CalendarDuration, parse_duration
from cdk.declarative.interpolation.errors import Refused

Macro: TypeAlias = Callable[..., object]

IMPURE = frozenset(("now_utc", "today_utc", "today_with_timezone", "day_delta", "generate_uuid"))
"""Macros whose result changes from call to call."""

_CAPITAL = lazy_pattern(r"(?<!^)(?=[A-Z])")


def build_macros(clock: Clock = system_clock) -> dict[str, Macro]:
    """Return the macros by name; those about the current time use `clock`."""

    def now_utc() -> datetime:
        return clock().astimezone(UTC)

    def today_utc() -> date:
        return now_utc().date()

    def today_with_timezone(timezone: str) -> date:
        from zoneinfo import ZoneInfo  # noqa: PLC0415 - takes 2 ms, and is only needed here

        return clock().astimezone(ZoneInfo(timezone)).date()

    def day_delta(num_days: int, format: str = "%Y-%m-%dT%H:%M:%S.%f%z") -> str:
        return str(write_timestamp(now_utc() + timedelta(days=num_days), format))

    return {
        "now_utc": now_utc,
        "today_utc": today_utc,
        "today_with_timezone": today_with_timezone,
        "day_delta": day_delta,
        "timestamp": _timestamp,
        "max": max,
        "min": min,
        "duration": _duration,
        "format_datetime": _format_datetime,
        "str_to_datetime": _str_to_datetime,
        "sanitize_url": _sanitize_url,
        "camel_case_to_snake_case": _camel_case_to_snake_case,
        "generate_uuid": _generate_uuid,
    }


# Callers may pass arguments by keyword, so the parameter names are part of the language.
def _timestamp(dt: float | str | datetime) -> float:
    """Return epoch seconds: a number loses its fraction, an ISO 8601 text keeps it."""
    return int(dt) if isinstance(dt, int | float) else _parsed(dt).timestamp()


def _str_to_datetime(s: str | datetime) -> datetime:
    return _parsed(s)


def _duration(datestring: str) -> timedelta | CalendarDuration:
    try:
        return parse_duration(datestring)
    except ValueError as error:
        raise Refused(f"duration() got a string that is {error}") from None


def _format_datetime(dt: float | str | datetime, format: str, input_format: str | None = None) -> str:
    """Return a timestamp in `format`, in UTC. Numbers are epoch seconds unless `input_format` is given."""
    if isinstance(dt, int | float) and input_format is None:
        dt = datetime.fromtimestamp(dt, UTC)
    return str(write_timestamp(_parsed(dt, input_format), format))


def _parsed(value: float | str | date, pattern: str | None = None) -> datetime:
    """Return a timestamp in UTC, parsed from ISO 8601 or `pattern`; without a zone it is taken as UTC."""
    match value:
        case datetime():
            return assume_utc(value).astimezone(UTC)
        case date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        case int() | float():
            spellings: tuple[str, ...] = ("%s",)
        case str():
            spellings = _SHORT
        case _:
            # What stands for a missing name raises Jinja's own error. To import its class here would import Jinja.
            getattr(value, "_fail_with_undefined_error", lambda: None)()
            # Other types than Airbyte takes: a condition then holds, and an added field gets the text of its template.
            raise TypeError(f"a date is a {type(value).__name__}, expected a string or a number")
    timestamp = parse_timestamp(value, [*([pattern] if pattern else []), *spellings])
    if timestamp is None:
        format_ = f"in the format {pattern!r}" if pattern else "in ISO 8601, such as 2024-01-31T01:02:03Z"
        raise Refused(f"a date is not {format_}")
    return timestamp.astimezone(UTC)


_SHORT = ("%Y-%m", "%Y")


def _sanitize_url(value: str) -> str:
    return quote_plus(value)


def _camel_case_to_snake_case(value: str) -> str:
    return _CAPITAL.sub("_", value).lower()


def _generate_uuid() -> str:
    return str(uuid.uuid4())
