"""Wait strategies: how long to wait before a request is retried, by settings or as the API asks."""

import math
import random as chance
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import Struct

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import CdkError, RateLimited
from cdk.base.times.clock import Clock, assume_utc, system_clock
from cdk.base.values import JsonValue
from cdk.rest.errors.status_errors import exchange_text
from cdk.rest.http.messages import Response

WaitStrategy: TypeAlias = Callable[[Response | CdkError, int], float | None]
"""Returns the seconds to wait after an outcome of attempt n (from 1); None, or 0 or less, if it has no answer.

Raises RateLimited: when the wait would exceed its limit.
"""

_TWOFOLD = 2.0


class Backoff(Struct, frozen=True):
    """Growing waits: `first`, then `factor` times the previous one, up to `cap`."""

    first: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(minutes=2)
    jitter: float = 0.1
    """The maximum fraction by which a wait is extended at random, so that parallel readers do not retry all at once."""
    random: Callable[[], float] = chance.random
    """Returns numbers from 0 (inclusive) to 1 (exclusive)."""

    def seconds(self, attempt: int) -> float:
        """Return how long to wait after attempt number `attempt` (from 1) failed."""
        wait: float = self.first.total_seconds() * self.factor ** min(attempt - 1, 64)
        return min(self.cap.total_seconds(), wait) * (1 + self.jitter * self.random())


def constant(seconds: float, *, jitter: float = 0.0, random: Callable[[], float] = chance.random) -> WaitStrategy:
    """Wait `seconds`, plus up to twice `jitter` seconds at random."""
    return lambda _outcome, _attempt: seconds + _TWOFOLD * jitter * random()


def exponential(
    factor: float = 5.0, *, jitter: float = 0.0, random: Callable[[], float] = chance.random
) -> WaitStrategy:
    """Wait `factor` times 2, 4, 8 ... seconds, plus up to twice `jitter` seconds at random."""
    return lambda _outcome, attempt: factor * _TWOFOLD ** min(attempt, 64) + _TWOFOLD * jitter * random()


def from_header(name: str, *, pattern: str | None = None, longest: float | None = None) -> WaitStrategy:
    """Wait the seconds in a header. pattern: matches the number at the start of the header.

    The strategy raises RateLimited: when the wait is `longest` or longer.
    """
    number = _header_number(name, pattern)

    def wait(outcome: Response | CdkError, attempt: int) -> float | None:  # noqa: ARG001 - a WaitStrategy
        seconds = number(outcome)
        # The limit does not apply if the API asks for no wait.
        return bounded(seconds, longest, outcome) if seconds else seconds

    return wait


def until_header(
    name: str,
    *,
    pattern: str | None = None,
    least: float | None = None,
    longest: float | None = None,
    clock: Clock = system_clock,
) -> WaitStrategy:
    """Wait until the epoch time, in seconds, in a header. pattern: matches the number at the start of the header.

    least: the shortest wait, also used if the header is missing. Without it, a time in the past is no answer.
    The strategy raises RateLimited: when the wait, even if it is `least`, is `longest` or longer.
    """
    number = _header_number(name, pattern)

    def wait(outcome: Response | CdkError, attempt: int) -> float | None:  # noqa: ARG001 - a WaitStrategy
        until = number(outcome)
        seconds = None if until is None else until - clock().timestamp()
        if least is not None:
            seconds = least if seconds is None else max(seconds, least)
        return None if seconds is None or seconds < 0 else bounded(seconds, longest, outcome)

    return wait


def bounded(seconds: float | None, longest: float | None, outcome: Response | CdkError) -> float | None:
    """Return `seconds`, the wait for an outcome. Raises RateLimited: when it is `longest` or longer."""
    if seconds is None or longest is None or seconds < longest:
        return seconds
    raise RateLimited(
        f"{exchange_text(outcome)} and asks to wait {seconds:.0f} s, expected less than {longest:.0f} s "
        "(`max_waiting_time_in_seconds`); try again later",
        wait=seconds,
    )


def as_seconds(value: JsonValue) -> float | None:
    """Parse a number, or a string with one, as seconds; None for anything else."""
    if not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None


def _header_number(name: str, pattern: str | None) -> Callable[[Response | CdkError], float | None]:
    expression = Pattern(pattern) if pattern else None

    def number(outcome: Response | CdkError) -> float | None:
        match outcome:
            case CdkError():
                return None
            case response:
                text = response.headers.get(name)
        if text is not None and expression is not None and (digits := expression.match(text)):
            text = digits.group()
        return as_seconds(text)

    return number


def retry_after(response: Response, clock: Clock) -> float | None:
    """Return the wait in the header Retry-After, which may be seconds or a date; None if it is missing or unusable.

    In seconds, never negative.
    """
    value = response.headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value)) if float(value) < float("inf") else None
    except ValueError:
        timestamp = http_date(value)
    return None if timestamp is None else max(0.0, (timestamp - clock()).total_seconds())


def http_date(value: str) -> datetime | None:
    """Parse an HTTP date (`Wed, 21 Oct 2015 07:28:00 GMT`); None if it is invalid."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - brings the mail package, which few runs need

    try:
        timestamp = parsedate_to_datetime(value)
    except ValueError:
        return None
    return assume_utc(timestamp)
