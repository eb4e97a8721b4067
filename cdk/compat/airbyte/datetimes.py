"""Timestamps as custom components parse and format them."""

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from cdk.base.times.clock import assume_utc, parse_timestamp, write_timestamp
from cdk.compat.airbyte.custom_object import runtime

_FORMATS = ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S%z")
_EPOCHS = ("%s", "%s_as_float", "%ms", "%epoch_microseconds")
_TEN_DIGITS = 10**10
_MONTHS = 12
_YEAR_FIRST = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_YEAR_LAST = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})(?!\d)")
_MONTH_ONLY = re.compile(r"(\d{4})-(0?[1-9]|1[0-2])$")


class AirbyteDateTime(datetime):
    """A timestamp with a time zone, UTC by default; `str` returns ISO 8601."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401 - as datetime takes them
        return assume_utc(super().__new__(cls, *args, **kwargs))

    @classmethod
    def from_datetime(cls, dt: datetime) -> "AirbyteDateTime":
        zone = dt.tzinfo or UTC
        return cls(dt.year, dt.month, dt.day, dt.hour, dt.minute, dt.second,
                   dt.microsecond, zone)  # fmt: skip

    @classmethod
    def from_epoch_millis(cls, milliseconds: int) -> "AirbyteDateTime":
        """The timestamp for milliseconds since 1970."""
        return cls.from_datetime(datetime.fromtimestamp(milliseconds / 1000, UTC))

    @classmethod
    def from_str(cls, text: str) -> "AirbyteDateTime":
        """Parse a string as `ab_datetime_parse` does."""
        return ab_datetime_parse(text)

    def to_datetime(self) -> datetime:
        """The timestamp as a plain datetime."""
        return datetime.fromisoformat(self.isoformat())

    def to_epoch_millis(self) -> int:
        return int(self.timestamp() * 1000)

    def add(self, delta: timedelta) -> "AirbyteDateTime":
        """The timestamp plus `delta`."""
        return self + delta

    def subtract(self, delta: timedelta) -> "AirbyteDateTime":
        """The timestamp minus `delta`."""
        return self - delta

    def __str__(self) -> str:
        return self.isoformat()


def ab_datetime_now() -> AirbyteDateTime:
    """The current time, by the clock of the run."""
    return AirbyteDateTime.from_datetime(runtime().clock())


def ab_datetime_parse(value: object) -> AirbyteDateTime:
    """Parse a timestamp string, or an integer of seconds since 1970. Raises ValueError: the value is neither."""
    if isinstance(value, int) or (isinstance(value, str) and value.removeprefix("-").isdecimal()):
        seconds = int(value)
        # Existing connectors rely on the error, and then try another unit, such as milliseconds.
        if not 0 <= seconds < _TEN_DIGITS:
            raise ValueError(f"found {value!r}, expected seconds since 1970, in ten digits at most")
        return AirbyteDateTime.from_datetime(datetime.fromtimestamp(seconds, UTC))
    dt = None
    if isinstance(value, str):
        dt = parse_timestamp(value, _FORMATS) or parse_timestamp(_iso(value), _FORMATS)
    if dt is None:
        raise ValueError(f"found {value!r}, expected a timestamp, such as '2024-01-31T00:00:00Z'")
    return AirbyteDateTime.from_datetime(dt)


def _iso(text: str) -> str:
    """Rewrite other notations of a date into one closer to ISO 8601."""
    text = re.sub(r"\s*(?:UTC|GMT|Z)$", "+00:00", text.strip(), flags=re.IGNORECASE)
    text = re.sub(r"(?<=[T ])(?=\d:)", "0", text)
    if date := _YEAR_FIRST.match(text):
        year, month, day = date.groups()
    elif date := _YEAR_LAST.match(text):
        month, day, year = date.groups()
        if int(month) > _MONTHS:
            month, day = day, month
    elif date := _MONTH_ONLY.match(text):
        # dateutil, with which existing connectors parse, fills in today's day, or the last one of a shorter month.
        year, month = date.groups()
        day = min(runtime().clock().day, monthrange(int(year), int(month))[1])
    else:
        return text
    return f"{year}-{int(month):02}-{int(day):02}{text[date.end() :]}"


def ab_datetime_try_parse(value: object) -> AirbyteDateTime | None:
    """As `ab_datetime_parse`, but return None if the value is not a timestamp."""
    try:
        return ab_datetime_parse(value)
    except ValueError:
        return None


def ab_datetime_format(dt: datetime, format: str | None = None) -> str:
    """Format a timestamp, as ISO 8601 by default; without a zone it is taken as UTC."""
    dt = assume_utc(dt)
    return dt.isoformat() if format is None else dt.strftime(format)


class DatetimeParser:
    """Parses and formats timestamps in the formats of manifests."""

    def parse(self, date: object, format: str) -> datetime:
        """Parse `date`. Raises ValueError: it does not match `format`."""
        dt = parse_timestamp(date, [format])
        if dt is None:
            raise ValueError(f"found {date!r}, expected a timestamp written as {format!r}")
        return dt

    def format(self, dt: datetime, format: str) -> str:
        """Format a timestamp, in its own zone."""
        if format in _EPOCHS:
            return str(write_timestamp(dt, format))
        return dt.strftime(format.replace("%_ms", f"{dt.microsecond // 1000:03d}"))
