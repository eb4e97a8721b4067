"""ErrorHandler: decides what to do about a response, or about the error raised instead of one."""

from enum import Enum, auto
from typing import Protocol, runtime_checkable

from msgspec import Struct

from cdk.base.errors import CdkError
from cdk.rest.http.messages import Response


class Action(Enum):
    """What to do after an attempt.

    RESET_PAGINATION, REDUCE_PAGE_SIZE and SPLIT_REQUEST_WINDOW end the request, and tell the reader of pages to send
    different requests. REFRESH_TOKEN_THEN_RETRY is RETRY with new credentials, if the authenticator can renew them.
    """

    SUCCESS = auto()
    RETRY = auto()
    RATE_LIMITED = auto()
    FAIL = auto()
    IGNORE = auto()
    RESET_PAGINATION = auto()
    REFRESH_TOKEN_THEN_RETRY = auto()
    REDUCE_PAGE_SIZE = auto()
    SPLIT_REQUEST_WINDOW = auto()


class Verdict(Struct, frozen=True):
    """A decision about an attempt. IGNORE accepts the response; if its status is an error, it has no records."""

    action: Action
    wait: float = 0.0
    """Seconds before the next attempt (RETRY, RATE_LIMITED, REFRESH_TOKEN_THEN_RETRY)."""
    error: CdkError | None = None
    """The error to raise (FAIL), or the PagingSignal (RESET_PAGINATION, REDUCE_PAGE_SIZE, SPLIT_REQUEST_WINDOW)."""


SUCCESS = Verdict(Action.SUCCESS)
IGNORE = Verdict(Action.IGNORE)


def retry(wait: float) -> Verdict:
    """Return the verdict that retries after `wait` seconds."""
    return Verdict(Action.RETRY, wait)


def rate_limited(wait: float) -> Verdict:
    """Return the verdict that retries after `wait` seconds, because of a rate limit."""
    return Verdict(Action.RATE_LIMITED, wait)


def fail(error: CdkError) -> Verdict:
    """Return the verdict that ends the read with `error`, without another attempt."""
    return Verdict(Action.FAIL, error=error)


@runtime_checkable
class ErrorHandler(Protocol):
    """Judges the outcome of an attempt.

    Contract: no waiting and no I/O; thread-safe; picklable. Decides by `attempt`, which starts at 1, when to give up. A
    FAIL has an error whose message tells users what to do.
    """

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:
        """Return what to do after attempt number `attempt` of a request had this outcome."""


def ignores(handler: ErrorHandler, response: Response) -> bool:
    """Whether a handler ignores a response, even if its body contains an error."""
    return handler.judge(response, 1).action is Action.IGNORE
