"""CallRatePolicy: how often requests that match a RequestMatcher may be sent. FixedWindow: for limits that reset.

Times are seconds since 1970, and the current time is an argument. `reserve` counts a call and returns the time at which
it may be sent: the caller waits until then, once, and later calls get later times.
"""

import math
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct, field

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import ConfigError
from cdk.rest.http.messages import Request, query_of
from cdk.rest.limits.task_share import Rates


class RequestMatcher(Struct, frozen=True):
    """Matches requests that have all of these parts; without parts, every request."""

    method: str = ""
    url_base: str = ""
    """Scheme and host: `https://api.example.com`."""
    path: Pattern | None = None
    """A pattern that is searched for in the URL's path."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Query parameters that the request must have, among others."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers that the request must have, among others. Names are case-insensitive."""
    weight: int = 1
    """The number of calls that a matching request counts as."""

    def matches(self, request: Request) -> bool:
        """Whether `request` has all of these parts."""
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


class CallRatePolicy(Struct, frozen=True):
    """How often some requests may be sent. Raises ConfigError: when a rate is zero or allows less than one request."""

    rates: Rates | None = None
    """Calls per number of seconds; empty to follow only the API's reports; None for no limit, whatever it reports."""
    matchers: tuple[RequestMatcher, ...] = ()
    """The requests that it applies to; empty for all."""
    fixed_window: bool = False
    """Whether calls are counted in fixed windows, whose ends the API may report, instead of a moving window."""

    def __post_init__(self) -> None:
        for limit, period in self.rates or ():
            if limit < 1:
                raise ConfigError(f"found a limit of {limit} calls, expected at least 1")
            if period <= 0 or not math.isfinite(period):
                raise ConfigError(f"found a period of {period:g} s, expected more than 0")
            if self.heaviest > limit:
                why = f"a request of weight {self.heaviest} never fits a limit of {limit} calls; raise the limit"
                raise ConfigError(why)

    @property
    def heaviest(self) -> int:
        """The maximum number of calls that a request counts as."""
        return max((matcher.weight for matcher in self.matchers), default=1)

    def weight(self, request: Request) -> int | None:
        """Return the number of calls that a request counts as; None if the policy does not apply to it."""
        if not self.matchers:
            return 1
        return next((matcher.weight for matcher in self.matchers if matcher.matches(request)), None)


class FixedWindow:
    """Allows `limit` calls per window of `period` seconds. Windows are consecutive, from the first call on.

    If the API reports when its window ends, that time is used. Not thread-safe.

    Airbyte: the first window lasts ten days unless the API reports when it ends.
    """

    closed = 0.0

    def __init__(self, limit: int, period: float) -> None:
        self._limit, self._period, self._start, self._end, self._used = limit, period, 0.0, 0.0, 0

    def reserve(self, now: float, weight: int, max_wait_seconds: float = math.inf) -> float:
        """Count a call of `weight`, and return the time, `now` or later, at which it may be sent."""
        del max_wait_seconds  # ignored: any other request would have to wait as long
        self._move(now)
        if self._used + weight > self._limit:
            self._open(self._end)
        self._used += weight
        return max(now, self._start)

    def learn(self, now: float, calls_left: int | None, reset: float | None) -> None:
        """Apply what a response reports. Calls left only ever decrease, as responses may arrive out of order."""
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
