"""CallRatePolicy: how often the requests of a RequestMatcher may be sent. FixedWindow: for an API that counts anew.

Moments are seconds of the epoch, and the moment is an argument. `reserve` counts a call and gives the moment at which
it may be sent: the caller waits that long, once, and those who ask after it come after it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import ConfigError
from cdk.rest.http.messages import Request, query_of
from cdk.rest.limits.task_share import Rates


@dataclass(frozen=True, slots=True)
class RequestMatcher:
    """Requests that have all of these parts; without one, every request."""

    method: str = ""
    url_base: str = ""
    """Scheme and host: `https://api.example.com`."""
    path: Pattern | None = None
    """Is searched for in the URL's path."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Some of the request's."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Some of the request's, with names in any case."""
    weight: int = 1
    """Calls that one such request counts for."""

    def matches(self, request: Request) -> bool:
        """Whether `request` is one of these."""
        if self.method and self.method.upper() != request.method.upper():
            return False
        if self.url_base or self.path is not None:
            url = urlsplit(request.url)
            if self.url_base and self.url_base.rstrip("/") != f"{url.scheme}://{url.netloc}":
                return False
            if self.path is not None and self.path.search(url.path) is None:
                return False
        if self.params:
            sent = dict(query_of(request.full_url))
            if any(sent.get(name) != value for name, value in self.params.items()):
                return False
        if self.headers:
            fields = {name.lower(): value for name, value in request.headers.items()}
            return all(fields.get(name.lower()) == value for name, value in self.headers.items())
        return True


@dataclass(frozen=True, slots=True)
class CallRatePolicy:
    """How often some requests may be sent. Raises ConfigError: a rate allows nothing, or less than one request."""

    rates: Rates | None = None
    """How many calls in how many seconds; empty: as the API reports; None: without a limit, whatever it reports."""
    matchers: tuple[RequestMatcher, ...] = ()
    """Which requests; without one, all."""
    renews: bool = False
    """Whether calls are counted in fixed windows, whose ends the API may say, and not in any stretch of time."""

    def __post_init__(self) -> None:
        for limit, period in self.rates or ():
            if limit < 1:
                raise ConfigError(f"found a limit of {limit} calls, expected at least 1")
            if period <= 0 or not math.isfinite(period):
                raise ConfigError(f"found a period of {period:g} s, expected more than 0")
            if self.heaviest > limit:
                raise ConfigError(
                    f"a request of weight {self.heaviest} never fits a limit of {limit} calls; raise the limit"
                )

    @property
    def heaviest(self) -> int:
        """How many calls a request counts for at most."""
        return max((matcher.weight for matcher in self.matchers), default=1)

    def weight(self, request: Request) -> int | None:
        """How many calls a request counts for; None when the policy is not about it."""
        if not self.matchers:
            return 1
        return next((matcher.weight for matcher in self.matchers if matcher.matches(request)), None)


class FixedWindow:
    """At most `limit` calls in a window of `period`; windows follow one another, the first begins with the first call.

    Where the API reports when its window ends, that is followed. Used by one thread at a time.

    Airbyte: the first window lasts ten days unless the API reports when it ends.
    """

    closed = 0.0

    def __init__(self, limit: int, period: float) -> None:
        self._limit, self._period = limit, period
        self._start, self._end, self._used = 0.0, 0.0, 0

    def reserve(self, now: float, weight: int, longest: float = math.inf) -> float:
        """Count a call of `weight`; the moment, `now` or later, at which it may be sent."""
        del longest  # no other request would wait less
        self._move(now)
        if self._used + weight > self._limit:
            self._open(self._end)
        self._used += weight
        return max(now, self._start)

    def learn(self, now: float, calls_left: int | None, reset: float | None) -> None:
        """Calls left can only be fewer than known: responses overtake one another."""
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
