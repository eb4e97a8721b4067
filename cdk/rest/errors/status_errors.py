"""From a response that is no success to an error that says what to do about it."""

from collections.abc import Mapping
from http import HTTPStatus

import orjson

from cdk.base.errors import (
    CdkError,
    CredentialsError,
    FatalError,
    Forbidden,
    NotFound,
    RateLimited,
    ServerError,
    Timeout,
    TransientError,
)
from cdk.rest.errors.api_message import find_message
from cdk.rest.http.messages import Response

_LONGEST = 300


class BadRequest(FatalError):
    """The API does not accept what it was asked (400, 422)."""


_MEANINGS: Mapping[int, tuple[type[CdkError], str]] = {
    400: (BadRequest, "check the parameters of this stream"),
    401: (CredentialsError, "the credentials were refused: renew them in the config"),
    403: (Forbidden, "grant the credentials this permission, or leave the stream out"),
    404: (NotFound, "check the address and the ids in it"),
    405: (FatalError, "check `http_method` and the address"),
    408: (Timeout, "try again later"),
    410: (NotFound, "the source has removed it"),
    422: (BadRequest, "check the parameters of this stream"),
}


def error_for(response: Response, *, wait: float | None = None) -> CdkError:
    """The error that a response means. wait: seconds the API asked to wait, for RateLimited."""
    if response.status == HTTPStatus.TOO_MANY_REQUESTS:
        return RateLimited(_message(response, "ask less often (`budget`), or try again later"), wait=wait)
    kind, advice = _MEANINGS.get(response.status) or (
        (ServerError, "the source has a problem: try again later")
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        else (TransientError, "no rule says what this means: add one to `error_handler`")
    )
    return kind(_message(response, advice))


def error_text(response: Response) -> str:
    """The API's own words for what went wrong, on one line, without secrets; empty when there are none."""
    try:
        text = find_message(orjson.loads(response.body))
    except orjson.JSONDecodeError:
        text = response.text if response.headers.get("content-type", "").startswith("text/plain") else ""
    # Hidden before anything is changed or cut: what is left of a secret would not be found.
    text = " ".join(response.request.hide(text or "").split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _message(response: Response, advice: str) -> str:
    try:
        phrase = f" {HTTPStatus(response.status).phrase}"
    except ValueError:
        phrase = ""
    detail = error_text(response)
    return f"{response.request} answered {response.status}{phrase}{f': {detail}' if detail else ''}; {advice}"
