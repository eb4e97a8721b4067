"""Outcome: what an answer means, whatever the attempt; and the error that it ends with, if it comes to that."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from cdk.base.errors import CdkError, ConfigError, FailureType, FatalError, RateLimited, TransientError
from cdk.rest.errors.error_handler import Action
from cdk.rest.errors.signals import PagingSignal, ReducePageSize, ResetPagination, SplitWindow
from cdk.rest.errors.status_errors import error_for, error_text
from cdk.rest.http.messages import Response

_KINDS: Mapping[FailureType, type[CdkError]] = {
    "config_error": ConfigError,
    "transient_error": TransientError,
    "system_error": FatalError,
}
_SIGNALS: Mapping[Action, tuple[type[PagingSignal], str]] = {
    Action.RESET_PAGINATION: (ResetPagination, "the pages are to be read again from the first"),
    Action.REDUCE_PAGE_SIZE: (ReducePageSize, "the page is too large: set a smaller `page_size`"),
    Action.SPLIT_REQUEST_WINDOW: (SplitWindow, "the window is too large: set a smaller `step`"),
}
# The statuses that say by themselves what went wrong.
_PLAIN = frozenset((400, 401, 403, 404, 405, 408, 410, 422, 429))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an outcome means.

    text: what people are told instead of the usual words. failure_type: what a FAIL is, when not what its status says.
    error: what to raise, when that is known already. wait: seconds, where no strategy tells.
    """

    action: Action
    text: str = ""
    failure_type: FailureType | None = None
    error: CdkError | None = None
    wait: float = 0.0


def final_error(finding: Outcome, outcome: Response | CdkError) -> CdkError:
    """The error to raise when an outcome is not tried again, or not any more. Shows no secret of the request."""
    if finding.error is not None:
        return finding.error
    if isinstance(outcome, CdkError):
        return outcome
    usual = _usual(finding.action, outcome)
    failure_type = finding.failure_type if finding.action is Action.FAIL else None
    kind = type(usual) if failure_type in (None, usual.failure_type) else _KINDS[failure_type or "system_error"]
    if kind is type(usual) and not finding.text:
        return usual
    text = outcome.request.hide(finding.text)
    return kind(text or usual.message, detail=usual.message if text else "")


def signal(finding: Outcome, outcome: Response | CdkError) -> CdkError:
    """The signal that a RESET_PAGINATION, REDUCE_PAGE_SIZE or SPLIT_REQUEST_WINDOW is for whoever reads pages."""
    if finding.error is not None or isinstance(outcome, CdkError):
        return final_error(finding, outcome)
    kind, advice = _SIGNALS[finding.action]
    answered = _answered(outcome)
    text = outcome.request.hide(finding.text)
    return kind(text or f"{answered}; {advice}", detail=answered if text else "")


def _usual(action: Action, response: Response) -> CdkError:
    if response.status in _PLAIN or (
        response.status >= HTTPStatus.INTERNAL_SERVER_ERROR and action is not Action.RATE_LIMITED
    ):
        return error_for(response)
    answered = _answered(response)
    match action:
        case Action.FAIL:
            return FatalError(f"{answered}, which the error handler calls a failure")
        case Action.RATE_LIMITED:
            return RateLimited(f"{answered}, which the error handler calls a rate limit; try again later")
        case _:
            return TransientError(f"{answered} to every attempt, which the error handler tries again; try again later")


def _answered(response: Response) -> str:
    words = error_text(response)
    return f"{response.request} answered {response.status}{f': {words}' if words else ''}"
