"""Call-rate policies: when the next call of some requests is allowed. Without clocks: the moment is an argument.

Moments are seconds of the epoch. `reserve` counts a call and gives the moment at which it may be sent: the caller
waits that long, once, and those who ask after it come after it.
"""

import math
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from cdk.base.errors import ConfigError
from cdk.rest.http.messages import Request
from cdk.rest.limits.request_matcher import RequestMatcher
from cdk.rest.limits.task_share import Rates


class CallRatePolicy(Protocol):
    """How often some requests may be sent. Used by one thread at a time.

    rates: what the policy limits, for the tasks of a sync to share. renews: whether the API says when it counts anew.
    """

    matchers: Sequence[RequestMatcher]
    rates: Rates
    renews: bool

    def reserve(self, now: float, weight: int) -> float:
        """Count a call of `weight`; the moment, `now` or later, at which it may be sent."""

    def learn(self, now: float, calls_left: int | None, reset: float | None) -> None:
        """What the API says: how many calls are left, and when there are more."""


def heaviest(policy: CallRatePolicy) -> int:
    """How many calls a request counts for at most."""
    return max((matcher.weight for matcher in policy.matchers), default=1)


def weight_of(policy: CallRatePolicy, request: Request) -> int | None:
    """How many calls a request counts for; None when the policy is not about it. No matchers: it is about all."""
    if not policy.matchers:
        return 1
    return next((matcher.weight for matcher in policy.matchers if matcher.matches(request)), None)


class Unlimited:
    """Requests that are never held back."""

    rates: Rates = ()
    renews = False

    def __init__(self, matchers: Sequence[RequestMatcher] = ()) -> None:
        self.matchers: Sequence[RequestMatcher] = tuple(matchers)

    def reserve(self, now: float, weight: int) -> float:
        return now

    def learn(self, now: float, calls_left: int | None, reset: float | None) -> None: ...


class FixedWindow:
    """At most `limit` calls in a window of `period`; windows follow one another, the first begins with the first call.

    Where the API says when its window ends, that is followed.

    Airbyte: the first window lasts ten days unless the API says when it ends.
    """

    renews = True

    def __init__(self, limit: int, period: timedelta, matchers: Sequence[RequestMatcher] = ()) -> None:
        self.matchers: Sequence[RequestMatcher] = tuple(matchers)
        self._limit, self._period = _at_least_one(limit), _positive(period)
        self.rates: Rates = ((self._limit, self._period),)
        _check_weights(self.matchers, limit)
        self._start, self._end, self._used = 0.0, 0.0, 0

    def reserve(self, now: float, weight: int) -> float:
        self._move(now)
        if self._used + weight > self._limit:
            self._open(self._end)
        self._used += weight
        return max(now, self._start)

    def learn(self, now: float, calls_left: int | None, reset: float | None) -> None:
        """Calls left can only be fewer than known: answers overtake one another."""
        self._move(now)
        waited_for = self._start > now
        if calls_left is not None and not waited_for:
            self._used = max(self._used, self._limit - calls_left)
        if reset is None:
            return
        if waited_for:
            self._start, self._end = reset, reset + self._period
        else:
            self._end = reset

    def _move(self, now: float) -> None:
        if self._end <= 0:
            self._open(now)
        elif now >= self._end:
            self._open(self._end + (now - self._end) // self._period * self._period)

    def _open(self, start: float) -> None:
        self._start, self._end, self._used = start, start + self._period, 0


class MovingWindow:
    """At most so many calls in any stretch of so long, for each of several rates."""

    renews = False

    def __init__(self, rates: Sequence[tuple[int, timedelta]], matchers: Sequence[RequestMatcher] = ()) -> None:
        if not rates:
            raise ConfigError("a moving window needs at least one rate")
        self.matchers: Sequence[RequestMatcher] = tuple(matchers)
        self._rates = sorted((_positive(period), _at_least_one(limit)) for limit, period in rates)
        self.rates: Rates = tuple((limit, period) for period, limit in self._rates)
        _check_weights(self.matchers, min(limit for _, limit in self._rates))
        self._taken: deque[float] = deque(maxlen=max(limit for _, limit in self._rates))
        self._closed_until = 0.0

    def reserve(self, now: float, weight: int) -> float:
        taken = self._taken
        at = max(now, self._closed_until, taken[-1] if taken else now)
        for period, limit in self._rates:
            # This call and the `limit - weight` before it may lie in one stretch, the one before those may not.
            if (before := len(taken) - limit + weight - 1) >= 0:
                at = max(at, taken[before] + period)
        taken.extend([at] * weight)
        return at

    def learn(self, now: float, calls_left: int | None, reset: float | None) -> None:
        """Only that no calls are left is of use: until when, or for the shortest stretch."""
        if calls_left is not None and calls_left <= 0:
            self._closed_until = max(self._closed_until, now + self._rates[0][0] if reset is None else reset)


def _check_weights(matchers: Sequence[RequestMatcher], limit: int) -> None:
    heaviest = max((matcher.weight for matcher in matchers), default=1)
    if heaviest > limit:
        raise ConfigError(f"a request of weight {heaviest} never fits a limit of {limit} calls; raise the limit")


def _at_least_one(limit: int) -> int:
    if limit < 1:
        raise ConfigError(f"found a limit of {limit} calls, expected at least 1")
    return limit


def _positive(period: timedelta) -> float:
    seconds = period.total_seconds()
    if seconds <= 0 or not math.isfinite(seconds):
        raise ConfigError(f"found a period of {seconds:g} s, expected more than 0")
    return seconds
