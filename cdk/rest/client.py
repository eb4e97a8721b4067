"""HttpClient: sends a request until it succeeds, its error is ignored, or the error handler gives up."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from itertools import count
from typing import Protocol, TypeVar

from msgspec.structs import replace

from cdk.base.errors import BugError, CdkError
from cdk.base.logs import logger, retries
from cdk.base.process.concurrency import note_complaint
from cdk.base.times.clock import Sleep, sleep
from cdk.rest.errors.error_handler import Action, ErrorHandler, Verdict
from cdk.rest.errors.http_error_handler import HttpErrorHandler
from cdk.rest.errors.status_errors import Unauthorized, as_error, exchange_text
from cdk.rest.http.activity import note_wait
from cdk.rest.http.authenticator import Authenticator, Renewable
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.metrics import current_metrics
from cdk.rest.http.streamed_response import StreamedResponse
from cdk.rest.http.transport import Transport
from cdk.rest.limits.budget import Budget
from cdk.rest.pagination.page_url import restore_secrets
from cdk.rest.tracing import TRACE

T = TypeVar("T")

_RETRIED = frozenset((Action.RETRY, Action.RATE_LIMITED))


class Sender(Protocol):
    """Sends requests, with retries where these help: an `HttpClient`, or custom code that sends requests itself."""

    authenticator: Authenticator | None
    error_handler: ErrorHandler

    def send(self, request: Request) -> Response:
        """Return the first response that the error handler accepts as a success or ignores. Raises CdkErrors."""


class HttpClient:
    """Sends requests with credentials, within a budget, with retries where these help. Thread-safe.

    on_rate_limited: called before each wait for a rate limit of the API, with its duration in seconds.
    sleep: waits between attempts; an error that it raises, to stop a read, ends the request.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        authenticator: Authenticator | None = None,
        error_handler: ErrorHandler | None = None,
        budget: Budget | None = None,
        sleep: Sleep = sleep,
        on_rate_limited: Callable[[float], None] | None = None,
    ) -> None:
        self._transport, self.authenticator, self._budget, self._sleep = transport, authenticator, budget, sleep
        self.error_handler = error_handler or HttpErrorHandler()
        self._on_rate_limited = on_rate_limited

    def send(self, request: Request) -> Response:
        """Return the first response to `request` that the error handler accepts as a success or ignores.

        A streamed body that breaks off is requested again, and continues behind what was read of it.

        Raises the CdkError with which the error handler gives up. Raises PagingSignal: when it wants other pages.
        Raises ForeignHost: when secrets would leave the request's scope.
        """
        response = self._accepted(request)
        if not isinstance(response, StreamedResponse):
            return response
        return response.continued(partial(self._send_again, request, response.status, count(1)))

    def _send_again(self, request: Request, status: int, attempts: Iterator[int], error: CdkError) -> Response:
        """Return another response with a status to a request whose body broke off. Raises `error` if there is none."""
        attempt = next(attempts)
        verdict = self.error_handler.judge(error, attempt)
        if verdict.action not in _RETRIED:
            raise error
        self._wait(error.message, verdict, attempt)
        try:
            response = self._accepted(request)
        except CdkError as other:
            raise error from other
        if response.status != status:
            response.close()
            raise error
        return response

    def _accepted(self, request: Request) -> Response:
        attempt, renewed = 1, False
        while True:
            outcome = self._outcome(request)
            verdict = self.error_handler.judge(outcome, attempt)
            action = verdict.action
            match outcome:
                case Response() if action is Action.SUCCESS:
                    return outcome
                case Response() if action is Action.IGNORE:
                    logger.info("%s answered %s, which is ignored", request, outcome.status)
                    return outcome
                case _ if action is Action.REFRESH_TOKEN_THEN_RETRY:
                    renewed = self._renew(outcome, renewed=renewed)
                case _ if action not in _RETRIED:
                    raise _error(outcome, verdict)
                case _:
                    pass
            self._wait(_retry_reason(request, outcome), verdict, attempt)
            attempt += 1

    def obtain(self, flow: Callable[[], Generator[Request, Response, T]]) -> T:
        """Return the result of a flow of requests, such as one that obtains a token; retries the whole flow if useful.

        The flow judges its responses itself; the error handler only judges the errors that it raises. Raises CdkErrors.
        """
        attempt = 1
        while True:
            try:
                return self._run_flow(flow())
            except CdkError as error:
                verdict = self.error_handler.judge(error, attempt)
                if verdict.action not in _RETRIED:
                    raise _error(error, verdict) from None
                self._wait(error.message, verdict, attempt)
            attempt += 1

    def _run_flow(self, flow: Generator[Request, Response, T]) -> T:
        with closing(flow):
            try:
                request = next(flow)
                while True:
                    request = flow.send(self._send(request))
            except StopIteration as end:
                value: T = end.value
                return value

    def _outcome(self, request: Request) -> Response | CdkError:
        try:
            return (
                self._send(request)
                if self.authenticator is None
                else self._send_authorized(self.authenticator, request)
            )
        except CdkError as error:
            return error

    def _send_authorized(self, authenticator: Authenticator, request: Request) -> Response:
        # Closing the flow releases what it holds, also when sending failed.
        with closing(authenticator.flow(request)) as flow:
            following = next(flow)
            while True:
                if (following.method, following.url) != (request.method, request.url):
                    following = replace(following, login=True)
                response = self._send(following, authorized=following != request)
                try:
                    following = flow.send(response)
                except StopIteration:
                    return response

    def _send(self, request: Request, *, authorized: bool = False) -> Response:
        request = restore_secrets(request).outgoing(authorized=authorized)
        if self._budget is not None:
            self._budget.acquire(request)
        trace, send = TRACE.get(), self._transport.send
        response = send(request) if trace is None else trace.send(send, request)
        if self._budget is not None:
            self._budget.observe(response)
        return response

    def _renew(self, outcome: Response | CdkError, *, renewed: bool) -> bool:
        """Make the authenticator forget its token, once per request. Returns whether it obtains a new one."""
        if not isinstance(self.authenticator, Renewable):
            return False
        if renewed:
            advice = "check what the credentials may read, or renew them in the config"
            text = f"{exchange_text(outcome)}, even with a new access token; {advice}"
            raise as_error(outcome, lambda _: Unauthorized(text))
        self.authenticator.forget()
        return True

    def _wait(self, why: str, verdict: Verdict, attempt: int) -> None:
        limited = ", rate limited" if verdict.action is Action.RATE_LIMITED else ""
        retries.info("%s%s; waiting %.1f s to try again, after attempt %d", why, limited, verdict.wait, attempt)
        if limited and self._on_rate_limited is not None:
            self._on_rate_limited(verdict.wait)
        current_metrics().count_retry(verdict.wait, limited=bool(limited))
        if verdict.action in _RETRIED:
            note_complaint()
        note_wait(verdict.wait, why)
        self._sleep(verdict.wait)


def _retry_reason(request: Request, outcome: Response | CdkError) -> str:
    """Return why there is another attempt. Closes the response, which is not needed any more."""
    match outcome:
        case CdkError(message=message):
            return message
        case Response(status=status):
            outcome.close()
            return f"{request} answered {status}"


def _error(outcome: Response | CdkError, verdict: Verdict) -> CdkError:
    handler = f"the error handler returned {verdict.action.name} without an error"
    return verdict.error or as_error(outcome, lambda r: BugError(f"{r.request} answered {r.status}: {handler}"))
