"""The error handlers of HTTP: rules that interpret responses, then the table of statuses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from cdk.base.errors import CdkError, TransientError
from cdk.rest.errors.error_handler import IGNORE, SUCCESS, Action, ErrorHandler, Verdict, fail
from cdk.rest.errors.outcome import Outcome, final_error
from cdk.rest.errors.retry_policy import RetryPolicy
from cdk.rest.errors.status_errors import NOT_MODIFIED, STATUSES
from cdk.rest.http.messages import Response

Rule: TypeAlias = Callable[[Response], Outcome | None]
"""Returns what a response means, None if the rule does not apply. Also called for successful responses."""

_OUTCOMES = {action: Outcome(action) for action in Action}
_DEFAULT_ACTIONS = {status: meaning.action for status, meaning in STATUSES.items()}
# Actions that end the search through several handlers. Others, such as FAIL, the next handler may still override.
_CONCLUSIVE = frozenset(Action) - {Action.FAIL, Action.RATE_LIMITED, Action.REFRESH_TOKEN_THEN_RETRY}


class OutcomeHandler(ErrorHandler, Protocol):
    """An error handler that separates the meaning of an outcome from how often and when to retry."""

    @property
    def retry_policy(self) -> RetryPolicy:
        """How often, and when, requests are retried."""

    def find(self, outcome: Response | CdkError) -> Outcome:
        """Return what an outcome means, whatever the attempt."""


class HttpErrorHandler:
    """Applies its rules in order; if none matches, the status decides.

    Responses below 300, and 304 to a conditional request, are successes; other 304s, redirects without a URL, 400, 401,
    403, 404, 405, 410 and 422 fail at once; 429 waits; everything else, and every TransientError of the transport, is
    retried.

    actions: additional or different actions for statuses: `{404: Action.IGNORE}`. rules: applied before the statuses.
    retry_policy: how often, and when, a request is retried. Picklable if its rules and waits are.

    Airbyte: DefaultErrorHandler, except that connection errors and statuses without a rule end as transient errors.
    """

    def __init__(
        self,
        actions: Mapping[int, Action] | None = None,
        *,
        rules: Sequence[Rule] = (),
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self._actions = {**_DEFAULT_ACTIONS, **(actions or {})}
        self._not_modified = (actions or {}).get(NOT_MODIFIED, Action.SUCCESS)
        self._rules = tuple(rules)
        self.retry_policy = retry_policy or RetryPolicy()

    def find(self, outcome: Response | CdkError) -> Outcome:
        match outcome:
            case Response(status=status):
                for rule in self._rules:
                    if (meaning := rule(outcome)) is not None:
                        return meaning
                if status == NOT_MODIFIED and outcome.request.is_conditional:
                    return _OUTCOMES[self._not_modified]
                return _OUTCOMES[self._actions.get(status) or (Action.SUCCESS if outcome.ok else Action.RETRY)]
            case TransientError():
                return _OUTCOMES[Action.RETRY]
            case CdkError():
                return _OUTCOMES[Action.FAIL]

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:
        return decide(self.find(outcome), outcome, attempt, self.retry_policy)


class HandlerChain:
    """Applies handlers in order and uses the first conclusive outcome, or the last outcome if none is conclusive.

    A success, a retry, an ignored response and a paging signal are conclusive. A failure or a rate limit is not, as the
    next handler may interpret it differently. The first handler sets the number of retries; waits come from all.

    Airbyte: CompositeErrorHandler.
    """

    def __init__(self, handlers: Sequence[OutcomeHandler]) -> None:
        self._handlers = tuple(handlers)
        waits = tuple(wait for handler in self._handlers for wait in handler.retry_policy.waits)
        self.retry_policy = replace(self._handlers[0].retry_policy, waits=waits)

    def find(self, outcome: Response | CdkError) -> Outcome:
        match = _OUTCOMES[Action.FAIL]
        for handler in self._handlers:
            match = handler.find(outcome)
            if match.action in _CONCLUSIVE:
                break
        return match

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:
        return decide(self.find(outcome), outcome, attempt, self.retry_policy)


def decide(meaning: Outcome, outcome: Response | CdkError, attempt: int, retry_policy: RetryPolicy) -> Verdict:
    """Return the verdict for the meaning of an outcome after attempt number `attempt`."""
    match meaning.action:
        case Action.SUCCESS:
            return SUCCESS
        case Action.IGNORE:
            return IGNORE
        case Action.RESET_PAGINATION | Action.REDUCE_PAGE_SIZE | Action.SPLIT_REQUEST_WINDOW:
            return Verdict(meaning.action, error=final_error(meaning, outcome))
        case Action.RETRY | Action.RATE_LIMITED | Action.REFRESH_TOKEN_THEN_RETRY if attempt <= retry_policy.retries:
            try:
                return Verdict(meaning.action, retry_policy.seconds(outcome, attempt, meaning.wait))
            except TransientError as error:
                return fail(error)
        case _:
            return fail(final_error(meaning, outcome, wait=retry_policy.requested(outcome)))
