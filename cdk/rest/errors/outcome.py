"""Outcome: what a response means, whatever the attempt, and the error to raise if it is not retried.

A signal is an error that asks the reader of the pages to send other requests; the reader handles it or lets it fail.
"""

from collections.abc import Mapping
from http import HTTPStatus

from msgspec import Struct

from cdk.base.errors import CdkError, ConfigError, FailureType, FatalError, RateLimited, TransientError
from cdk.rest.errors.error_handler import Action
from cdk.rest.errors.status_errors import RATE_LIMIT_STATUS, STATUSES, RetriesFailed, as_error, error_for, exchange_text
from cdk.rest.http.messages import Response


class PagingSignal(FatalError):
    """The same request will fail again, but the slice can be read with other requests."""


class ResetPagination(PagingSignal):
    """The slice must be read again from its first page."""


class ReducePageSize(PagingSignal):
    """The page is too large for the API: request fewer records."""

    failure_type = "config_error"


class SplitWindow(PagingSignal):
    """The window is too large for the API: request its halves."""


class ConfigRejected(ConfigError, FatalError):
    """The API rejects a request, and the error handler declares that the config is the reason."""


_KINDS: Mapping[FailureType, type[CdkError]] = {
    "config_error": ConfigRejected,
    "transient_error": TransientError,
    "system_error": FatalError,
}
_SIGNALS: Mapping[Action, tuple[type[PagingSignal], str]] = {
    Action.RESET_PAGINATION: (ResetPagination, "the pages must be read again from the first one"),
    Action.REDUCE_PAGE_SIZE: (ReducePageSize, "the page is too large: set a smaller `page_size`"),
    Action.SPLIT_REQUEST_WINDOW: (SplitWindow, "the window is too large: set a smaller `step`"),
}


class Outcome(Struct, frozen=True):
    """The meaning of a response, or of the error raised instead of one."""

    action: Action
    text: str = ""
    """The message of the error; empty for the default message."""
    failure_type: FailureType | None = None
    """The failure type of a FAIL; None for that of its status."""
    error: CdkError | None = None
    """The error to raise, if it is already known."""
    wait: float = 0.0
    """Seconds to wait if no strategy returns a wait."""


def final_error(meaning: Outcome, outcome: Response | CdkError, *, wait: float | None = None) -> CdkError:
    """Return the error to raise when a request is not retried, or no longer. Shows no secret of the request.

    For RESET_PAGINATION, REDUCE_PAGE_SIZE and SPLIT_REQUEST_WINDOW it is the signal for the reader of the pages.
    wait: seconds the API asked to wait, for RateLimited.
    """
    return meaning.error or as_error(outcome, lambda response: _error_of(meaning, response, wait))


def _error_of(meaning: Outcome, response: Response, wait: float | None) -> CdkError:
    if meaning.action in _SIGNALS:
        signal, advice = _SIGNALS[meaning.action]
        exchange, text = exchange_text(response), response.request.hide(meaning.text)
        return signal(text or f"{exchange}; {advice}", detail=exchange if text else "")
    default = _default_error(meaning.action, response, wait)
    failure_type = meaning.failure_type if meaning.action is Action.FAIL else None
    kind = type(default) if failure_type in (None, default.failure_type) else _KINDS[failure_type or "system_error"]
    if kind is type(default) and not meaning.text:
        return default
    text = response.request.hide(meaning.text)
    message, detail = text or default.message, default.message if text else ""
    return RateLimited(message, wait=wait, detail=detail) if kind is RateLimited else kind(message, detail=detail)


def _default_error(action: Action, response: Response, wait: float | None) -> CdkError:
    known = response.status in STATUSES or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    # Some APIs report rate limits by a 403, whose default message would make users check their permissions in vain.
    if response.status == RATE_LIMIT_STATUS or (known and action is not Action.RATE_LIMITED):
        return error_for(response, wait=wait)
    exchange = exchange_text(response)
    match action:
        case Action.FAIL:
            return FatalError(f"{exchange}, which the error handler treats as a failure")
        case Action.RATE_LIMITED:
            text = f"{exchange}, which the error handler treats as a rate limit; try again later"
            return RateLimited(text, wait=wait)
        case _:
            return RetriesFailed(f"{exchange} to every attempt, which the error handler retries; try again later")
