"""ErrorHandler: what to do with a response, or with the error that came instead of one."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from cdk.base.errors import CdkError
from cdk.rest.http.messages import Response


class Action(Enum):
    """What becomes of an attempt.

    RESET_PAGINATION, REDUCE_PAGE_SIZE and SPLIT_REQUEST_WINDOW end the request, and tell the reader of pages to ask
    differently. REFRESH_TOKEN_THEN_RETRY is RETRY with new credentials, where the authenticator can renew them.
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do now. IGNORE uses the response as it is; where its status is no success, there are no records."""

    action: Action
    wait: float = 0.0
    """Seconds before the next attempt (RETRY, RATE_LIMITED, REFRESH_TOKEN_THEN_RETRY)."""
    error: CdkError | None = None
    """What to raise (FAIL), or the PagingSignal (RESET_PAGINATION, REDUCE_PAGE_SIZE, SPLIT_REQUEST_WINDOW)."""


SUCCESS = Verdict(Action.SUCCESS)
IGNORE = Verdict(Action.IGNORE)


def retry(wait: float) -> Verdict:
    """Ask again after `wait` seconds."""
    return Verdict(Action.RETRY, wait)


def rate_limited(wait: float) -> Verdict:
    """Ask again after `wait` seconds, because the API is asked too often."""
    return Verdict(Action.RATE_LIMITED, wait)


def fail(error: CdkError) -> Verdict:
    """The verdict that ends the read with `error`, without another attempt."""
    return Verdict(Action.FAIL, error=error)


class ErrorHandler(Protocol):
    """Judges the outcome of an attempt.

    Contract: no waiting and no I/O; safe to use from several threads; picklable. Decides by `attempt`, from 1, when
    to give up. A FAIL carries an error whose message a person can act on.
    """

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:
        """What to do after the `attempt`th try of a request ended like this."""


def ignores(handler: ErrorHandler, response: Response) -> bool:
    """Whether a handler takes a response for one that has nothing to say, an error in its body included."""
    return handler.judge(response, 1).action is Action.IGNORE
