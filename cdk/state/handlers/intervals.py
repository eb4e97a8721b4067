"""Spans of time and sets of them, half open: a span has its start and not its end. Pure; all moments are UTC.

A set of spans is normal when they are sorted, none is empty, and none touches the next. All functions give normal sets.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from cdk.base.errors import ConfigError

_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
"""A moment at which weeks, days and hours begin."""


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """From `start` up to, and without, `end`. Moments with a zone."""

    start: datetime
    end: datetime


Spans: TypeAlias = tuple[Interval, ...]
"""A normal set of spans."""


def normal(spans: Iterable[Interval]) -> Spans:
    """The same moments as a normal set."""
    merged: list[Interval] = []
    for span in sorted(spans):
        if span.start >= span.end:
            continue
        if merged and span.start <= merged[-1].end:
            merged[-1] = Interval(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return tuple(merged)


def minus(spans: Spans, others: Spans) -> Spans:
    """The moments of `spans` that are not in `others`."""
    remaining: list[Interval] = []
    for span in spans:
        start = span.start
        for other in others:
            if other.end <= start or span.end <= other.start:
                continue
            remaining.append(Interval(start, other.start))
            start = other.end
        remaining.append(Interval(start, span.end))
    return normal(remaining)


def floor(moment: datetime, bucket: timedelta) -> datetime:
    """The start of the bucket that `moment` is in."""
    return moment - (moment - _MONDAY) % bucket


def ceiling(moment: datetime, bucket: timedelta) -> datetime:
    """The first start of a bucket that is not before `moment`."""
    return moment + (_MONDAY - moment) % bucket


def outward(span: Interval, bucket: timedelta) -> Interval:
    """The whole buckets that a span touches."""
    return Interval(floor(span.start, bucket), ceiling(span.end, bucket))


def inward(spans: Spans, bucket: timedelta) -> Spans:
    """The whole buckets that lie within one of the spans."""
    return normal(Interval(ceiling(span.start, bucket), floor(span.end, bucket)) for span in spans)


def in_utc(moment: datetime, what: str) -> datetime:
    """The moment in UTC. Raises ConfigError: it has no zone."""
    if moment.tzinfo is None:
        raise ConfigError(f"found {moment.isoformat()} without a time zone, expected a moment with one", path=what)
    return moment.astimezone(UTC)
