"""ISO 8601 durations. Days and smaller units are a timedelta; the length of years and months depends on the date."""

from datetime import date, datetime, timedelta
from typing import TypeAlias, TypeVar

from msgspec import Struct

from cdk.base.first_use import lazy_pattern

D = TypeVar("D", bound=date)

_NUMBER = r"(\d+(?:[.,]\d+)?)"
_DURATION = lazy_pattern(
    rf"([+-])?P(?!$)(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?"
    rf"(?:T(?!$)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)
_EXPECTED = "not an ISO 8601 duration such as P1D or PT30M"


class CalendarDuration(Struct, frozen=True):
    """A number of months and a rest. One month after 31 January is the last day of February."""

    months: int
    rest: timedelta = timedelta()

    def __radd__(self, timestamp: D) -> D:
        return _moved(timestamp, self.months) + self.rest

    def __rsub__(self, timestamp: D) -> D:
        return _moved(timestamp, -self.months) - self.rest

    def __neg__(self) -> "CalendarDuration":
        return CalendarDuration(-self.months, -self.rest)

    def __str__(self) -> str:
        years, months = divmod(abs(self.months), 12)
        parts = [f"{years} year{'s' * (years != 1)}"] * bool(years) + [f"{months} month{'s' * (months != 1)}"] * bool(
            months
        )
        return ("-" if self.months < 0 else "") + ", ".join([*parts, str(self.rest)])


Duration: TypeAlias = timedelta | CalendarDuration
"""A duration that can be added to a datetime."""


def parse_duration(text: str) -> Duration:
    """Parse an ISO 8601 duration such as `P1D`, `PT30M`, `P1Y2M`.

    Raises ValueError: it is not one, longer than a timedelta, or has a fraction of a month, whose length is unknown.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(_EXPECTED)
    years, months, weeks, days, hours, minutes, seconds = (
        float(number.replace(",", ".")) if number else 0.0 for number in match.groups()[1:]
    )
    try:
        rest = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise ValueError(_EXPECTED) from None
    if not (total_months := years * 12 + months).is_integer():
        raise ValueError(_EXPECTED)
    duration = CalendarDuration(int(total_months), rest) if total_months else rest
    return -duration if match[1] == "-" else duration


def _moved(timestamp: D, months: int) -> D:
    from calendar import monthrange  # noqa: PLC0415 - brings the locales, which takes 1 ms of each start

    year, month = divmod(timestamp.year * 12 + timestamp.month - 1 + months, 12)
    last = monthrange(year, month + 1)[1]
    return timestamp.replace(year=year, month=month + 1, day=min(timestamp.day, last))


def later(timestamp: datetime, duration: Duration) -> datetime:
    """`timestamp` plus `duration`, at most the end of the calendar."""
    try:
        return timestamp + duration
    except (OverflowError, ValueError):
        return datetime.max.replace(tzinfo=timestamp.tzinfo)


def earlier(timestamp: datetime, duration: Duration) -> datetime:
    """`timestamp` minus `duration`, at least the start of the calendar."""
    try:
        return timestamp - duration
    except (OverflowError, ValueError):
        return datetime.min.replace(tzinfo=timestamp.tzinfo)
