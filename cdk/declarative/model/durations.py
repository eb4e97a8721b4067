"""Durations of manifests, and moments that they lead to."""

from datetime import datetime, timedelta
from typing import TypeAlias

from cdk.base.errors import ManifestError
from cdk.base.times.iso_durations import CalendarDuration
from cdk.base.times.iso_durations import parse_duration as parse

Duration: TypeAlias = timedelta | CalendarDuration
"""What can be added to a moment."""


def parse_duration(text: str, where: str) -> Duration:
    """The duration that `text` names (`P1D`, `PT1H`, `P1M`). Raises ManifestError at `where`: it names none."""
    try:
        return parse(text)
    except ValueError:
        raise ManifestError(f"{where}: found {text!r}, expected a duration such as P1D, PT1H or P1M") from None


def later(moment: datetime, duration: Duration) -> datetime:
    """`moment` plus `duration`; the end of the calendar when it lies beyond."""
    try:
        return moment + duration
    except (OverflowError, ValueError):
        return datetime.max.replace(tzinfo=moment.tzinfo)


def earlier(moment: datetime, duration: Duration) -> datetime:
    """`moment` minus `duration`; the beginning of the calendar when it lies before."""
    try:
        return moment - duration
    except (OverflowError, ValueError):
        return datetime.min.replace(tzinfo=moment.tzinfo)
