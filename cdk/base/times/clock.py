"""Clocks and sleeps, which code receives as arguments, so that tests can replace both."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from threading import Event
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct

from cdk.base.first_use import lazy_pattern
from cdk.base.process.interruption import Interrupted, Interruption
from cdk.base.run import current_run
from cdk.base.values import FieldValue

Timestamp = TypeVar("Timestamp", bound=datetime)

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current time, with a time zone."""

Sleep: TypeAlias = Callable[[float], None]
"""Waits for a number of seconds."""


class SimulatedTime(Protocol):
    """Replaces the machine's time in tests. Thread-safe."""

    def __call__(self) -> datetime:
        """The current time, with a time zone."""

    def sleep(self, seconds: float) -> None:
        """Advance the time by `seconds`."""


class _Process(Struct):
    """The replacement of the machine's time in this process, if any."""

    time: SimulatedTime | None = None


_PROCESS = _Process()


@contextmanager
def simulated_time(other: SimulatedTime | None) -> Iterator[None]:
    """Use `other` for all clocks and waits of this process; None uses the machine's time."""
    before, _PROCESS.time = _PROCESS.time, other
    try:
        yield
    finally:
        _PROCESS.time = before


def system_clock() -> datetime:
    """Return the machine's current time in UTC."""
    other = _PROCESS.time
    return datetime.fromtimestamp(time.time(), UTC) if other is None else other()


class Stopped(BaseException):
    """Ends a wait because its run is ending. Not an Exception, so that error handlers do not catch it."""


_stop: ContextVar[Event | None] = ContextVar("stop", default=None)


_STEP = 0.25
"""Seconds between two checks of whether a wait should end."""


_UNINTERRUPTED = 10.0
"""A wait of at most so many seconds is finished even if the run is interrupted: most such waits let a page succeed."""


def sleep(seconds: float) -> None:
    """Wait. Raises Stopped, within a quarter of a second, once the result is no longer wanted.

    Raises Interrupted: when the run is interrupted while more than ten seconds of the wait are left.
    Every wait uses `time.sleep`, also on threads, so connector tests that replace it do not wait.
    """
    stop, other, interruption = _stop.get(), _PROCESS.time, current_run().own(Interruption)
    if other is not None:
        other.sleep(seconds)
        seconds = 0
    while seconds > 0 and not (stop is not None and stop.is_set()):
        if seconds > _UNINTERRUPTED and (why := interruption.why):
            raise Interrupted(why)
        step = seconds if stop is None and seconds <= _UNINTERRUPTED else min(seconds, _STEP)
        time.sleep(step)  # noqa: TID251 - the one place that really sleeps
        seconds -= step
    if stop is not None and stop.is_set():
        raise Stopped


def interruptible(stop: Event) -> None:
    """End the waits of the current context when `stop` is set."""
    _stop.set(stop)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_UNITS = {
    "%s": timedelta(seconds=1),
    "%s_as_float": timedelta(seconds=1),
    "%ms": timedelta(milliseconds=1),
    "%epoch_microseconds": timedelta(microseconds=1),
}
_PARTS = lazy_pattern(r"%[-_0^#:]*\d*[EO]?.?")


def parse_timestamp(value: FieldValue, formats: Sequence[str]) -> datetime | None:
    """Parse a timestamp in one of `formats` or in ISO 8601; None if no format matches.

    A string without a time zone is UTC. Epoch formats (`%s`, `%ms`, `%s_as_float`, `%epoch_microseconds`) accept
    numbers and strings.
    """
    for pattern in formats:
        unit = _EPOCH_UNITS.get(pattern)
        timestamp = _from_text(value, pattern) if unit is None else _from_epoch(value, unit)
        if timestamp is not None:
            return timestamp
    if isinstance(value, str):
        try:
            return assume_utc(datetime.fromisoformat(value))
        except ValueError:
            return None
    return None


def format_problem(pattern: str) -> str:
    """Return why `pattern` is no format of timestamps, for errors; an empty string if it is one."""
    parts = [] if pattern in _EPOCH_UNITS else _PARTS.findall(pattern.replace("%_ms", "%f"))
    # Python writes what it does not know unchanged, into each request.
    unknown = [part for part in parts if _EPOCH.strftime(part) == part]
    expected = f"found {pattern!r}, expected the parts of a timestamp, such as %Y-%m-%dT%H:%M:%SZ"
    return f"{expected}; {unknown[0]!r} is none" if unknown else "" if "%" in pattern else expected


# Cached: the windows of thousands of partitions have the same bounds.
@lru_cache(maxsize=1024)
def write_timestamp(timestamp: datetime, pattern: str) -> str | float:
    """Format a timestamp, in UTC, by `pattern`; epoch patterns return a number."""
    timestamp = timestamp.astimezone(UTC)
    match pattern:
        case "%s_as_float":
            return timestamp.timestamp()
        case "%s" | "%ms" | "%epoch_microseconds":
            return (timestamp - _EPOCH) // _EPOCH_UNITS[pattern]
        case _:
            # %f has six digits; APIs with milliseconds expect three (`%_ms` in Airbyte).
            return timestamp.strftime(pattern.replace("%_ms", f"{timestamp.microsecond // 1000:03d}"))


def _from_text(value: FieldValue, pattern: str) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        # fromisoformat is thirty times faster than strptime, and parses what the usual patterns write.
        if pattern in ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"):
            return assume_utc(datetime.fromisoformat(value))
        return assume_utc(datetime.strptime(value, pattern.replace("%_ms", "%f")))  # noqa: DTZ007 - made UTC here
    except ValueError:
        return None


def _from_epoch(value: FieldValue, unit: timedelta) -> datetime | None:
    if isinstance(value, bool):
        return None
    try:
        return _EPOCH + unit * float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def assume_utc(timestamp: Timestamp) -> Timestamp:
    """Return a timestamp with the time zone UTC if it has none, else unchanged."""
    return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
