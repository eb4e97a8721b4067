"""The meaning of HTTP statuses: the only table from a status to its action and to the error that users see."""

from collections.abc import Callable, Mapping
from http import HTTPStatus

import orjson
from msgspec import Struct

from cdk.base.errors import (
    CdkError,
    ConfigError,
    CredentialsError,
    FatalError,
    Forbidden,
    NotFound,
    RateLimited,
    ServerError,
    Timeout,
)
from cdk.base.wording import cut
from cdk.rest.errors.api_message import find_message
from cdk.rest.errors.error_handler import Action
from cdk.rest.http.messages import PROXY_LOGIN, Response
from cdk.rest.http.origin import Origin, may_follow, origin

_LONGEST = 300

RATE_LIMIT_STATUS = 429


class BadRequest(FatalError):
    """The API rejects the request as invalid (400, 422)."""


class Unauthorized(CredentialsError, FatalError):
    """The API rejects the credentials for a request (401), perhaps only for those of its slice."""


class RetriesFailed(FatalError):
    """The API responds to a request in a way that is no outage and no rate limit, and that retries did not change."""

    failure_type = "transient_error"


class StatusMeaning(Struct, frozen=True):
    """The meaning of a status: the action, and the error and advice if the action does not help."""

    action: Action
    error: type[CdkError]
    advice: str


NOT_MODIFIED = 304
# The transport follows redirects with a URL. A redirect that remains has no records, whatever its body contains.
_NOT_FOLLOWED = StatusMeaning(Action.FAIL, FatalError, "the redirect cannot be followed: check the URL")

_NO_VALIDATORS = (
    "the request had no validators: a cache or proxy between here and the source returns responses of its own"
)

STATUSES: Mapping[int, StatusMeaning] = {
    **dict.fromkeys(range(300, 400), _NOT_FOLLOWED),
    # Valid only as the response to a conditional request.
    NOT_MODIFIED: StatusMeaning(Action.FAIL, FatalError, _NO_VALIDATORS),
    400: StatusMeaning(Action.FAIL, BadRequest, "check the parameters of this stream"),
    401: StatusMeaning(Action.FAIL, Unauthorized, "the credentials were rejected: renew them in the config"),
    403: StatusMeaning(Action.FAIL, Forbidden, "grant the credentials this permission, or leave the stream out"),
    404: StatusMeaning(Action.FAIL, NotFound, "check the address and the ids in it"),
    405: StatusMeaning(Action.FAIL, FatalError, "check `http_method` and the address"),
    407: StatusMeaning(Action.FAIL, ConfigError, PROXY_LOGIN),
    408: StatusMeaning(Action.RETRY, Timeout, "try again later"),
    410: StatusMeaning(Action.FAIL, NotFound, "the source has removed it"),
    422: StatusMeaning(Action.FAIL, BadRequest, "check the parameters of this stream"),
    RATE_LIMIT_STATUS: StatusMeaning(
        Action.RATE_LIMITED, RateLimited, "send fewer requests (`budget`), or try again later"
    ),
}
_SERVER_ERROR = StatusMeaning(Action.RETRY, ServerError, "the source has a problem: try again later")
_REFUSED = (Unauthorized, Forbidden)
_OTHER_HOST = "if that host is right, make it the URL of this request"
_UNKNOWN = StatusMeaning(Action.RETRY, RetriesFailed, "no rule covers this status: add one to `error_handler`")


def error_for(response: Response, *, wait: float | None = None) -> CdkError:
    """Return the error for a response. wait: seconds the API asked to wait, for RateLimited."""
    default = _SERVER_ERROR if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR else _UNKNOWN
    meaning = STATUSES.get(response.status, default)
    kind, advice = meaning.error, meaning.advice
    # After a redirect to another host, credentials were not sent and so were not rejected.
    message = _message(response, _OTHER_HOST if kind in _REFUSED and _redirected_to(response) else advice)
    return RateLimited(message, wait=wait) if kind is RateLimited else kind(message)


def error_text(response: Response) -> str:
    """Return the API's own error message on one line, with secrets masked; empty if there is none."""
    try:
        text = find_message(orjson.loads(response.body))
    except orjson.JSONDecodeError:
        text = response.text if response.headers.get("content-type", "").startswith("text/plain") else ""
    # Masked before the text is changed or truncated: the rest of a secret would not be found.
    text = " ".join(response.request.hide(text or "").split())
    return cut(text, _LONGEST)


def as_error(outcome: Response | CdkError, of: Callable[[Response], CdkError]) -> CdkError:
    """Return the error that ended an attempt, or the result of `of` for a response."""
    match outcome:
        case CdkError():
            return outcome
        case Response():
            return of(outcome)


def exchange_text(outcome: Response | CdkError) -> str:
    """Describe a request and its response, with the API's message if it has one; for an error, return its message."""
    match outcome:
        case CdkError(message=message):
            return message
        case Response(status=status):
            return _with_text(outcome, str(status))


def _message(response: Response, advice: str) -> str:
    try:
        phrase = f" {HTTPStatus(response.status).phrase}"
    except ValueError:
        phrase = ""
    return f"{_with_text(response, f'{response.status}{phrase}')}; {advice}"


def _with_text(response: Response, status: str) -> str:
    text, elsewhere = error_text(response), _redirected_to(response)
    request = str(response.request)
    if elsewhere is not None:
        unsent = ", where its credentials are not sent," if response.request.has_secrets else ""
        request = f"{request} was redirected to {response.request.hide(str(elsewhere))}{unsent} and"
    return f"{request} answered {status}{f': {text}' if text else ''}"


def _redirected_to(response: Response) -> Origin | None:
    """Return the origin to which a request was redirected without its credentials; None if there was none."""
    target = origin(response.url)
    return None if not target.host or may_follow(origin(response.request.url), target) else target
