"""Error handlers of rules: an ordered list that says what answers mean, then a table of statuses."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from cdk.base.errors import CdkError, RateLimited, TransientError
from cdk.rest.errors.error_handler import IGNORE, SUCCESS, Action, ErrorHandler, Verdict, fail
from cdk.rest.errors.outcome import Outcome, final_error, signal
from cdk.rest.errors.retry_policy import RetryPolicy
from cdk.rest.http.messages import Response

Rule: TypeAlias = Callable[[Response], Outcome | None]
"""What an answer means; None when this rule is not about it. Successes are asked about, too."""

_SUCCESS = Outcome(Action.SUCCESS)
_RETRY = Outcome(Action.RETRY)
_FAIL = Outcome(Action.FAIL)
_TABLE: Mapping[int, Outcome] = {
    **dict.fromkeys((400, 401, 403, 404, 405), _FAIL),
    429: Outcome(Action.RATE_LIMITED),
}
# What ends the search through several handlers. The rest, such as a failure, may still be something else to the next.
_SETTLED = frozenset(
    (
        Action.SUCCESS,
        Action.RETRY,
        Action.IGNORE,
        Action.RESET_PAGINATION,
        Action.REDUCE_PAGE_SIZE,
        Action.SPLIT_REQUEST_WINDOW,
    )
)


class RuleHandler:
    """Asks its rules in order; where none knows, answers below 400 are successes and a table knows the others.

    400, 401, 403, 404 and 405 fail at once, 429 waits, and every other status, like every TransientError of the
    transport, is tried again. Picklable when its rules and waits are.

    Airbyte: DefaultErrorHandler.
    """

    def __init__(self, rules: Sequence[Rule] = (), patience: RetryPolicy | None = None) -> None:
        self._rules = tuple(rules)
        self.patience: RetryPolicy = patience or RetryPolicy()

    def find(self, outcome: Response | CdkError) -> Outcome:
        """What an outcome means, whatever the attempt."""
        if isinstance(outcome, CdkError):
            return _RETRY if isinstance(outcome, TransientError) else _FAIL
        for rule in self._rules:
            if (match := rule(outcome)) is not None:
                return match
        return _SUCCESS if outcome.ok else _TABLE.get(outcome.status, _RETRY)

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:
        return decide(self.find(outcome), outcome, attempt, self.patience)


class CompositeHandler:
    """Asks handlers in order, each of which always has an answer: the first that settles it is followed, else the last.

    A success, another attempt, an ignored answer and other pages are settled; a failure or a limit is not, the next
    handler may see something else in it. Attempts are counted as the first handler says; waits come from all.

    Airbyte: CompositeErrorHandler.
    """

    def __init__(self, handlers: Sequence[ErrorHandler]) -> None:
        self._handlers = tuple(handlers)
        known = [handler for handler in self._handlers if isinstance(handler, RuleHandler | CompositeHandler)]
        waits = tuple(wait for handler in known for wait in handler.patience.waits)
        first = known[0].patience if known and known[0] is self._handlers[0] else RetryPolicy()
        self.patience: RetryPolicy = RetryPolicy(first.retries, waits, first.usual, first.longest, first.clock)

    def find(self, outcome: Response | CdkError) -> Outcome:
        """What an outcome means, whatever the attempt."""
        match = _FAIL
        for handler in self._handlers:
            match = _outcome_of(handler, outcome)
            if match.action in _SETTLED:
                break
        return match

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:
        return decide(self.find(outcome), outcome, attempt, self.patience)


def decide(finding: Outcome, outcome: Response | CdkError, attempt: int, patience: RetryPolicy) -> Verdict:
    """What to do about a finding after the `attempt`th try."""
    match finding.action:
        case Action.SUCCESS:
            return SUCCESS
        case Action.IGNORE:
            return IGNORE
        case Action.FAIL:
            return fail(final_error(finding, outcome))
        case Action.RESET_PAGINATION | Action.REDUCE_PAGE_SIZE | Action.SPLIT_REQUEST_WINDOW:
            return Verdict(finding.action, error=signal(finding, outcome))
        case Action.RETRY | Action.RATE_LIMITED | Action.REFRESH_TOKEN_THEN_RETRY:
            return _again(finding, outcome, attempt, patience)


def _again(finding: Outcome, outcome: Response | CdkError, attempt: int, patience: RetryPolicy) -> Verdict:
    if attempt > patience.retries:
        return fail(final_error(finding, outcome))
    try:
        wait = patience.seconds(outcome, attempt, finding.wait)
    except RateLimited as error:
        return fail(error)
    return Verdict(finding.action, wait)


def _outcome_of(handler: ErrorHandler, outcome: Response | CdkError) -> Outcome:
    if isinstance(handler, RuleHandler | CompositeHandler):
        return handler.find(outcome)
    verdict = handler.judge(outcome, 1)
    return Outcome(verdict.action, error=verdict.error, wait=verdict.wait)
