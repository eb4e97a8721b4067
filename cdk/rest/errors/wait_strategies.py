"""Wait strategies: how long to wait before a request is tried again, by what is set or by what the API says."""

import math
import random as chance
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import CdkError, RateLimited
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue
from cdk.rest.errors.status_errors import exchange_text
from cdk.rest.http.messages import Response

WaitStrategy: TypeAlias = Callable[[Response | CdkError, int], float | None]
"""Seconds to wait after the nth attempt (from 1) ended like this; None, or nothing above 0, when it cannot tell.

Raises RateLimited: the wait would be longer than is worth it.
"""

_TWOFOLD = 2.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow: `first`, then `factor` times the one before, up to `cap`."""

    first: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(minutes=2)
    jitter: float = 0.1
    """The share of a wait by which it may be longer, so that parallel readers do not come back at once."""
    random: Callable[[], float] = chance.random
    """Gives numbers from 0 to below 1."""

    def seconds(self, attempt: int) -> float:
        """How long to wait after the `attempt`th try (from 1) failed."""
        wait: float = self.first.total_seconds() * self.factor ** min(attempt - 1, 64)
        return min(self.cap.total_seconds(), wait) * (1 + self.jitter * self.random())


def constant(seconds: float, *, jitter: float = 0.0, random: Callable[[], float] = chance.random) -> WaitStrategy:
    """Always `seconds`, and up to twice `jitter` seconds more."""

    def wait(outcome: Response | CdkError, attempt: int) -> float:  # noqa: ARG001 - a WaitStrategy
        return seconds + _TWOFOLD * jitter * random() if jitter else seconds

    return wait


def exponential(
    factor: float = 5.0, *, jitter: float = 0.0, random: Callable[[], float] = chance.random
) -> WaitStrategy:
    """`factor` times 2, 4, 8 ... seconds, and up to twice `jitter` seconds more."""

    def wait(outcome: Response | CdkError, attempt: int) -> float:  # noqa: ARG001 - a WaitStrategy
        seconds = factor * _TWOFOLD ** min(attempt, 64)
        return seconds + _TWOFOLD * jitter * random() if jitter else seconds

    return wait


def from_header(name: str, *, pattern: str | None = None, longest: float | None = None) -> WaitStrategy:
    """The seconds in a header. pattern: what of the header's beginning is the number.

    The wait raises RateLimited: it is `longest` or longer.
    """
    number = _header_number(name, pattern)

    def wait(outcome: Response | CdkError, attempt: int) -> float | None:  # noqa: ARG001 - a WaitStrategy
        seconds = number(outcome)
        # To ask for no wait is nothing that a limit could refuse.
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
    """Until the epoch time, in seconds, in a header. pattern: what of the header's beginning is the number.

    least: the shortest wait, also where there is no such header. A time that has passed says nothing.
    The wait raises RateLimited: it is `longest` or longer, the shortest one, too.
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
    """`seconds`, as a strategy found them in an outcome. Raises RateLimited: they are `longest` or more."""
    if seconds is None or longest is None or seconds < longest:
        return seconds
    raise RateLimited(
        f"{exchange_text(outcome)} and asks to wait {seconds:.0f} s, expected less than {longest:.0f} s "
        "(`max_waiting_time_in_seconds`); try again later",
        wait=seconds,
    )


def as_seconds(value: JsonValue) -> float | None:
    """A number, or a text that is one, as seconds; None for anything else."""
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
    """The seconds that the header Retry-After asks to wait, given as seconds or as a date; None without a usable one.

    Never negative.
    """
    value = response.headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value)) if float(value) < float("inf") else None
    except ValueError:
        moment = http_date(value)
    return None if moment is None else max(0.0, (moment - clock()).total_seconds())


def http_date(value: str) -> datetime | None:
    """The moment an HTTP date names (`Wed, 21 Oct 2015 07:28:00 GMT`); None when it is none."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - brings the mail package, which few runs need

    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
