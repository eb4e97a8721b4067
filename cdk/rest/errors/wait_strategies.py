"""Wait strategies: how long to wait before a request is tried again, by what is said or by what the API says."""

import math
import random as chance
from collections.abc import Callable

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import CdkError, RateLimited
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import Json
from cdk.rest.errors.retry_policy import Wait
from cdk.rest.http.messages import Response

_TWOFOLD = 2.0


def constant(seconds: float, *, jitter: float = 0.0, random: Callable[[], float] = chance.random) -> Wait:
    """Always `seconds`, and up to twice `jitter` seconds more."""

    def wait(outcome: Response | CdkError, attempt: int) -> float:  # noqa: ARG001 - a Wait
        return seconds + _TWOFOLD * jitter * random() if jitter else seconds

    return wait


def exponential(factor: float = 5.0, *, jitter: float = 0.0, random: Callable[[], float] = chance.random) -> Wait:
    """`factor` times 2, 4, 8 ... seconds, and up to twice `jitter` seconds more."""

    def wait(outcome: Response | CdkError, attempt: int) -> float:  # noqa: ARG001 - a Wait
        seconds = factor * _TWOFOLD ** min(attempt, 64)
        return seconds + _TWOFOLD * jitter * random() if jitter else seconds

    return wait


def from_header(name: str, *, pattern: str | None = None, longest: float | None = None) -> Wait:
    """The seconds in a header. pattern: what of the header's beginning is the number.

    The wait raises RateLimited: it is `longest` or longer.
    """
    number = _header_number(name, pattern)

    def wait(outcome: Response | CdkError, attempt: int) -> float | None:  # noqa: ARG001 - a Wait
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
) -> Wait:
    """Until the epoch time, in seconds, in a header. pattern: what of the header's beginning is the number.

    least: the shortest wait, also where there is no such header. A time that has passed says nothing.
    The wait raises RateLimited: it is `longest` or longer, the shortest one, too.
    """
    number = _header_number(name, pattern)

    def wait(outcome: Response | CdkError, attempt: int) -> float | None:  # noqa: ARG001 - a Wait
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
    what = f"{outcome.request} answered {outcome.status}" if isinstance(outcome, Response) else outcome.message
    raise RateLimited(
        f"{what} and asks to wait {seconds:.0f} s, expected less than {longest:.0f} s "
        "(`max_waiting_time_in_seconds`); try again later",
        wait=seconds,
    )


def as_seconds(value: Json) -> float | None:
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
        text = outcome.headers.get(name) if isinstance(outcome, Response) else None
        if text is not None and expression is not None and (match := expression.match(text)):
            text = match.group()
        return as_seconds(text)

    return number
