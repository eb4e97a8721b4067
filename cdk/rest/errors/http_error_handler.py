"""The error handler of HTTP: rules that say what responses mean, then the table of statuses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from cdk.base.errors import CdkError, TransientError
from cdk.rest.errors.error_handler import IGNORE, SUCCESS, Action, ErrorHandler, Verdict, fail
from cdk.rest.errors.outcome import Outcome, final_error
from cdk.rest.errors.retry_policy import RetryPolicy
from cdk.rest.errors.status_errors import NOT_MODIFIED, STATUSES
from cdk.rest.http.messages import Response

Rule: TypeAlias = Callable[[Response], Outcome | None]
"""What a response means; None when this rule is not about it. Successes are asked about, too."""

_OUTCOMES = {action: Outcome(action) for action in Action}
_USUAL = {status: meaning.action for status, meaning in STATUSES.items()}
# What ends the search through several handlers. The rest, such as a failure, may still be something else to the next.
_CONCLUSIVE = frozenset(
    (
        Action.SUCCESS,
        Action.RETRY,
        Action.IGNORE,
        Action.RESET_PAGINATION,
        Action.REDUCE_PAGE_SIZE,
        Action.SPLIT_REQUEST_WINDOW,
    )
)


class OutcomeHandler(ErrorHandler, Protocol):
    """An error handler that tells the meaning of an outcome apart from how often and when to try again."""

    @property
    def retry_policy(self) -> RetryPolicy:
        """How often, and when, it tries again."""

    def find(self, outcome: Response | CdkError) -> Outcome:
        """What an outcome means, whatever the attempt."""


class HttpErrorHandler:
    """Asks its rules in order; where none knows, the status decides.

    Responses below 300, and 304 to a conditional request, are successes; other 304s, redirects that name no URL, 400,
    401, 403, 404, 405, 410 and 422 fail at once; 429 waits; everything else, and every TransientError of the transport,
    is tried again.

    actions: what to do with other statuses, or differently: `{404: Action.IGNORE}`. rules: asked before.
    retry_policy: how often, and when, a request is tried again. Picklable when its rules and waits are.

    Airbyte: DefaultErrorHandler, except that connection errors and statuses without a rule end as transient errors.
    """

    def __init__(
        self,
        actions: Mapping[int, Action] | None = None,
        *,
        rules: Sequence[Rule] = (),
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self._actions = {**_USUAL, **(actions or {})}
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
    """Asks handlers in order: the first whose outcome is conclusive is followed, else the last.

    A success, another attempt, an ignored response and other pages are conclusive; a failure or a limit is not, the
    next handler may see something else in it. Attempts are counted as the first handler says; waits come from all.

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
    """What to do about what an outcome means after the `attempt`th try."""
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
