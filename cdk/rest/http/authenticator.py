"""Authenticator: adds credentials to requests."""

from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias, runtime_checkable

from cdk.rest.http.messages import Request, Response

Setting: TypeAlias = str | Callable[[], str]
"""A text, or what gives it each time it is needed."""

Learn: TypeAlias = Callable[[str], None]
"""Is told of each secret that a run learns, before it is used, to hide it where texts leave."""


class Authenticator(Protocol):
    """Turns a request into the requests to send for it: send, look at the response, perhaps send again.

    Contract: no I/O inside. The flow yields at least one request, is sent the response to each, and ends when the last
    response is the one to use. It marks what it adds as secret. Safe to use from several threads, which share its
    tokens; picklable, if what it is given is; its repr shows no secret. It is closed when sending fails. Raises
    CdkErrors only.
    """

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Yield `request` with credentials, and whatever must be sent before or after it."""


@runtime_checkable
class Renewable(Protocol):
    """An authenticator that obtains its token itself, so that it can let go of one that has become useless."""

    def forget(self) -> None:
        """Drop the token: the next request obtains a new one. Safe to call from any thread."""


def text_of(setting: Setting) -> str:
    """The text that is meant now."""
    return setting if isinstance(setting, str) else setting()


def ignore(_: str) -> None:
    """Learn a secret, and do nothing about it."""


def response_to(request: Request, authenticator: Authenticator | None) -> Generator[Request, Response, Response]:
    """Send `request` with credentials of its own, from within another flow, and give the response to use."""
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
