"""Half-open time intervals and sets of them: an interval includes its start, but not its end. Pure; all times are UTC.

A set of intervals is normal when it is sorted, no interval is empty, and no interval touches the next. All functions
that return sets return normal ones.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from msgspec import Struct

from cdk.base.errors import ConfigError

_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
"""A timestamp at which a week, a day and an hour start."""


class Interval(Struct, frozen=True, order=True):
    """The time from `start` up to but excluding `end`, both with a time zone."""

    start: datetime
    end: datetime


Intervals: TypeAlias = tuple[Interval, ...]
"""A normal set of intervals."""


def normal(intervals: Iterable[Interval]) -> Intervals:
    """Return intervals as a normal set that covers the same time."""
    merged: list[Interval] = []
    for interval in sorted(intervals):
        if interval.start >= interval.end:
            continue
        if merged and interval.start <= merged[-1].end:
            merged[-1] = Interval(merged[-1].start, max(merged[-1].end, interval.end))
        else:
            merged.append(interval)
    return tuple(merged)


def minus(intervals: Intervals, others: Intervals) -> Intervals:
    """Return the time in `intervals` that is not in `others`."""
    remaining: list[Interval] = []
    for interval in intervals:
        start = interval.start
        for other in others:
            if other.end <= start or interval.end <= other.start:
                continue
            remaining.append(Interval(start, other.start))
            start = other.end
        remaining.append(Interval(start, interval.end))
    return normal(remaining)


def floor(timestamp: datetime, bucket: timedelta) -> datetime:
    """Return the start of the bucket that contains `timestamp`."""
    return timestamp - (timestamp - _MONDAY) % bucket


def ceiling(timestamp: datetime, bucket: timedelta) -> datetime:
    """Return the first bucket start at or after `timestamp`."""
    return timestamp + (_MONDAY - timestamp) % bucket


def outward(interval: Interval, bucket: timedelta) -> Interval:
    """Extend an interval to the whole buckets that it touches."""
    return Interval(floor(interval.start, bucket), ceiling(interval.end, bucket))


def inward(intervals: Intervals, bucket: timedelta) -> Intervals:
    """Shrink each interval to the whole buckets inside it."""
    return normal(Interval(ceiling(interval.start, bucket), floor(interval.end, bucket)) for interval in intervals)


def require_zone(timestamp: datetime, what: str) -> datetime:
    """Convert a timestamp to UTC. Raises ConfigError: when it has no time zone."""
    if timestamp.tzinfo is None:
        why = f"found {timestamp.isoformat()} without a time zone, expected a timestamp with one"
        raise ConfigError(why, path=what)
    return timestamp.astimezone(UTC)
