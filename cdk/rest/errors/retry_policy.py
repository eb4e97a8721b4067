"""RetryPolicy: how often a request is tried again, and how long it waits before that."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from cdk.base.errors import CdkError, RateLimited
from cdk.base.times.clock import Clock, system_clock
from cdk.rest.errors.backoff import Backoff, retry_after
from cdk.rest.http.messages import Response

Wait: TypeAlias = Callable[[Response | CdkError, int], float | None]
"""Seconds to wait after the nth attempt (from 1) ended like this; None or 0 when this strategy cannot tell.

Raises RateLimited: the wait would be longer than is worth it.
"""

_ENDLESS = timedelta(days=1)
"""A wait this long is no wait: the read ends and says so."""

_MARGIN = 1.0
"""Seconds that are added to what a strategy says, as clocks differ (Airbyte adds the same)."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and after which waits, requests are tried again.

    retries: attempts after the first. waits: strategies; the first that can tell is followed. Where none can, the
    API's Retry-After is, up to `longest`, and where there is none, `usual` is.
    """

    retries: int = 5
    waits: tuple[Wait, ...] = ()
    usual: Backoff = field(default_factory=Backoff)
    longest: timedelta = timedelta(minutes=10)
    clock: Clock = system_clock

    def seconds(self, outcome: Response | CdkError, attempt: int, default: float = 0.0) -> float:
        """How long to wait after the `attempt`th try. default: what is waited when no strategy can tell, if not 0.

        Raises RateLimited: a strategy says that the wait is too long, or it is a day or longer.
        """
        seconds = self._seconds(outcome, attempt, default)
        if seconds < _ENDLESS.total_seconds():
            return seconds
        what = f"{outcome.request} answered {outcome.status}" if isinstance(outcome, Response) else outcome.message
        raise RateLimited(f"{what}; the next attempt would be in {seconds:.0f} s: try again later", wait=seconds)

    def _seconds(self, outcome: Response | CdkError, attempt: int, default: float) -> float:
        for wait in self.waits:
            if seconds := wait(outcome, attempt):
                return max(0.0, seconds + _MARGIN)
        if default:
            return default
        requested = retry_after(outcome, self.clock) if isinstance(outcome, Response) else None
        return self.usual.seconds(attempt) if requested is None else min(requested, self.longest.total_seconds())
