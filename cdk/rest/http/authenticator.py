"""Authenticator: adds credentials to requests. What the authenticators of `cdk.rest.auth` share is here as well."""

from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias, runtime_checkable

from cdk.rest.http.messages import Request, Response

Setting: TypeAlias = str | Callable[[], str]
"""A string, or what gives it each time it is needed."""

Learn: TypeAlias = Callable[[str], None]
"""Called with each secret that a run obtains, before it is used, so that logs and errors can mask it."""


class Authenticator(Protocol):
    """Turns a request into the requests to send for it: send, look at the response, perhaps send again.

    Contract: no I/O inside. The flow yields at least one request, is sent the response to each, and ends when the last
    response is the one to use; it is closed where sending fails. It marks what it adds as secret, and raises CdkErrors
    only. An authenticator is safe to use from several threads, which share its tokens; picklable, if what it is made of
    is; and shows no secret in its repr.
    """

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Yield `request` with credentials, and whatever must be sent before or after it."""


@runtime_checkable
class Renewable(Protocol):
    """An authenticator that obtains its token itself, so that it can let go of one that has become useless."""

    def forget(self) -> None:
        """Drop the token: the next request obtains a new one. Safe to call from any thread."""


def text_of(setting: Setting) -> str:
    """What a setting is now."""
    return setting if isinstance(setting, str) else setting()


def ignore(_: str) -> None:
    """The `Learn` of a run that hides nothing."""


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
