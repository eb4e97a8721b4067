"""Authenticator: the protocol of what adds credentials to requests, and helpers for those in `cdk.rest.auth`."""

from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias, runtime_checkable

from cdk.rest.http.messages import Request, Response

Setting: TypeAlias = str | Callable[[], str]
"""A string, or a function that returns it each time it is needed."""

Learn: TypeAlias = Callable[[str], None]
"""A callback for each secret that a run obtains, called before its use, so that logs and errors can mask it."""


@runtime_checkable
class Authenticator(Protocol):
    """Turns a request into the requests to send for it: send, inspect the response, possibly send again.

    Contract: no I/O inside. The flow yields at least one request, receives the response to each, and returns when the
    last response is the one to use; the caller closes it when sending fails. It marks everything it adds as secret, and
    raises only CdkErrors. An authenticator is thread-safe, and its tokens are shared by all threads; it is picklable if
    its fields are; its repr shows no secret.
    """

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Yield `request` with credentials, and any request that must be sent before or after it."""


@runtime_checkable
class Renewable(Protocol):
    """An authenticator that obtains its token itself, and can therefore drop one that has become invalid."""

    def forget(self) -> None:
        """Drop the token, so that the next request obtains a new one. May be called from any thread."""


def text_of(setting: Setting) -> str:
    """Return the current value of a setting."""
    return setting if isinstance(setting, str) else setting()


def ignore(_: str) -> None:
    """The `Learn` callback of a run that masks nothing."""


def response_to(request: Request, authenticator: Authenticator | None) -> Generator[Request, Response, Response]:
    """Send `request` from within another flow, with the credentials of `authenticator`, and return its last response.

    For logins: `response = yield from response_to(request, authenticator)`.
    """
    if authenticator is None:
        return (yield request)
    flow = authenticator.flow(request)
    try:
        response = yield next(flow)
        while True:
            try:
                following = flow.send(response)
            except StopIteration:
                return response
            response = yield following
    finally:
        flow.close()
