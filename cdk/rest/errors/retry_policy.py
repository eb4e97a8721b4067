"""RetryPolicy: how often a request is tried again, and how long it waits before that."""

from dataclasses import dataclass, field
from datetime import timedelta

from cdk.base.errors import CdkError, RateLimited
from cdk.base.times.clock import Clock, system_clock
from cdk.rest.errors.status_errors import as_error, exchange_text
from cdk.rest.errors.wait_strategies import Backoff, WaitStrategy, retry_after
from cdk.rest.http.messages import Response

LONGEST_WAIT = timedelta(days=1)
"""After a longer wait there is no attempt: the read ends and says so."""

_MARGIN = 1.0
"""Seconds that are added to the wait of a strategy, as clocks differ (Airbyte adds the same)."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and after which waits, requests are tried again. Picklable when its strategies are."""

    retries: int = 5
    """Attempts after the first."""
    waits: tuple[WaitStrategy, ...] = ()
    """The first that can tell a wait is followed."""
    backoff: Backoff = field(default_factory=Backoff)
    """The waits where no strategy can tell, and the API names none (Retry-After), or one of 0 a second time."""
    max_wait: timedelta = timedelta(minutes=10)
    """The longest wait for the API that is worth it.

    When it asks for a longer one, the read ends with RateLimited, and goes on from its state another time.
    """
    shortens: bool = False
    """Whether a longer Retry-After is cut to `max_wait` instead."""
    clock: Clock = system_clock

    def seconds(self, outcome: Response | CdkError, attempt: int, default: float = 0.0) -> float:
        """How long to wait after the `attempt`th try. default: the wait when no strategy can tell, if not 0.

        Raises TransientError: the wait is longer than is worth it.
        """
        for wait in self.waits:
            if (seconds := wait(outcome, attempt) or 0.0) > 0:
                return _worth_it(seconds + _MARGIN, LONGEST_WAIT, outcome)
        if default:
            return _worth_it(default, LONGEST_WAIT, outcome)
        requested = self.requested(outcome)
        # A limiter that rounds down names 0 for less than a second, and would again and again.
        if requested is None or (requested == 0 and attempt > 1):
            return self.backoff.seconds(attempt)
        match outcome:
            case Response() if self.shortens:
                return min(requested, self.max_wait.total_seconds())
            case _:
                return _worth_it(requested, self.max_wait, outcome)

    def requested(self, outcome: Response | CdkError) -> float | None:
        """The wait that the API asks for; None when it does not."""
        match outcome:
            case Response():
                return retry_after(outcome, self.clock)
            case CdkError(wait=wait):
                return wait


def _worth_it(seconds: float, longest: timedelta, outcome: Response | CdkError) -> float:
    if seconds <= longest.total_seconds():
        return seconds
    advice = f"the next attempt would be in {seconds:.0f} s: try again later"
    raise as_error(outcome, lambda response: RateLimited(f"{exchange_text(response)}; {advice}", wait=seconds))
