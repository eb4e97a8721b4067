"""RetryPolicy: how often a request is retried, and the wait before each retry."""

from datetime import timedelta

from msgspec import Struct, field

from cdk.base.errors import CdkError, RateLimited
from cdk.base.times.clock import Clock, system_clock
from cdk.rest.errors.status_errors import as_error, exchange_text
from cdk.rest.errors.wait_strategies import Backoff, WaitStrategy, retry_after
from cdk.rest.http.messages import Response

LONGEST_WAIT = timedelta(days=1)
"""If a wait would be longer, the read ends with an error instead."""

_MARGIN = 1.0
"""Seconds added to the wait of a strategy, because clocks differ (Airbyte adds the same)."""


class RetryPolicy(Struct, frozen=True):
    """How often, and after which waits, requests are retried. Picklable if its strategies are."""

    retries: int = 5
    """The number of attempts after the first."""
    waits: tuple[WaitStrategy, ...] = ()
    """The first strategy that returns a wait decides."""
    backoff: Backoff = field(default_factory=Backoff)
    """The waits if no strategy returns one, and the API sends no Retry-After, or one of 0 for the second time."""
    max_wait: timedelta = timedelta(minutes=10)
    """The longest wait that the API may ask for.

    If it asks for a longer one, the read ends with RateLimited, and can be resumed later from its state.
    """
    caps_retry_after: bool = False
    """Whether a longer Retry-After is shortened to `max_wait` instead."""
    clock: Clock = system_clock

    def seconds(self, outcome: Response | CdkError, attempt: int, default: float = 0.0) -> float:
        """Return how long to wait after attempt number `attempt`. default: the wait if no strategy has one, unless 0.

        Raises TransientError: when the wait would exceed its limit.
        """
        for wait in self.waits:
            if (seconds := wait(outcome, attempt) or 0.0) > 0:
                return _bounded(seconds + _MARGIN, LONGEST_WAIT, outcome)
        if default:
            return _bounded(default, LONGEST_WAIT, outcome)
        requested = self.requested(outcome)
        # A rate limiter that rounds down returns 0 for less than a second, and would do so again and again.
        if requested is None or (requested == 0 and attempt > 1):
            return self.backoff.seconds(attempt)
        match outcome:
            case Response() if self.caps_retry_after:
                return min(requested, self.max_wait.total_seconds())
            case _:
                return _bounded(requested, self.max_wait, outcome)

    def requested(self, outcome: Response | CdkError) -> float | None:
        """Return the wait that the API asks for; None if it asks for none."""
        match outcome:
            case Response():
                return retry_after(outcome, self.clock)
            case CdkError(wait=wait):
                return wait


def _bounded(seconds: float, longest: timedelta, outcome: Response | CdkError) -> float:
    if seconds <= longest.total_seconds():
        return seconds
    advice = f"the next attempt would be in {seconds:.0f} s: try again later"
    raise as_error(outcome, lambda response: RateLimited(f"{exchange_text(response)}; {advice}", wait=seconds))
