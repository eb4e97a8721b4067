"""The usual error handler: a table from status to action, a few retries, the waits the API asks for."""

from collections.abc import Mapping
from datetime import timedelta

from cdk.base.errors import CdkError, RateLimited, TransientError
from cdk.base.times.clock import Clock, system_clock
from cdk.rest.errors.backoff import Backoff, retry_after
from cdk.rest.errors.error_handler import IGNORE, SUCCESS, Action, Verdict, fail
from cdk.rest.errors.outcome import Outcome, signal
from cdk.rest.errors.status_errors import error_for
from cdk.rest.http.messages import Response

_USUAL: Mapping[int, Action] = {
    **dict.fromkeys((400, 401, 403, 404, 405, 410, 422), Action.FAIL),
    429: Action.RATE_LIMITED,
}
_ACCEPTED = {Action.SUCCESS: SUCCESS, Action.IGNORE: IGNORE}


class StatusErrorHandler:
    """Decides by the status; errors that trying again may help are tried again.

    Answers below 400 are successes; 400, 401, 403, 404, 405, 410 and 422 fail at once; 429 waits; everything else, and
    every TransientError of the transport, is tried again.

    actions: what to do with other statuses, or differently: `{404: Action.IGNORE}`.
    retries: attempts after the first. backoff: the waits between them, where the API names none (Retry-After).
    max_wait: the longest wait that is worth it; when the API asks for a longer one the read ends with RateLimited,
        and goes on from its state another time.

    Airbyte: the same table, except that connection errors and statuses without a rule end as transient errors.
    """

    def __init__(
        self,
        actions: Mapping[int, Action] | None = None,
        *,
        retries: int = 5,
        backoff: Backoff | None = None,
        max_wait: timedelta = timedelta(minutes=10),
        clock: Clock = system_clock,
    ) -> None:
        self._actions = {**_USUAL, **(actions or {})}
        self._retries, self._clock = retries, clock
        self._backoff = backoff or Backoff()
        self._max_wait = max_wait.total_seconds()

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:
        if isinstance(outcome, CdkError):
            if not isinstance(outcome, TransientError):
                return fail(outcome)
            wait = outcome.wait if isinstance(outcome, RateLimited) else None
            return self._again(Action.RETRY, outcome, wait, attempt)
        action = self._actions.get(outcome.status)
        if action is None:
            action = Action.SUCCESS if outcome.ok else Action.RETRY
        if (accepted := _ACCEPTED.get(action)) is not None:
            return accepted
        match action:
            case Action.FAIL:
                return fail(error_for(outcome))
            case Action.RESET_PAGINATION | Action.REDUCE_PAGE_SIZE | Action.SPLIT_REQUEST_WINDOW:
                return Verdict(action, error=signal(Outcome(action), outcome))
            case _:
                wait = retry_after(outcome, self._clock)
                return self._again(action, error_for(outcome, wait=wait), wait, attempt)

    def _again(self, action: Action, error: CdkError, requested: float | None, attempt: int) -> Verdict:
        if attempt > self._retries or (requested is not None and requested > self._max_wait):
            return fail(error)
        wait = self._backoff.seconds(attempt) if requested is None else requested
        return Verdict(action, wait)
