"""Authenticator: adds credentials to requests."""

from collections.abc import Generator
from typing import Protocol

from cdk.rest.message import Request, Response


class Authenticator(Protocol):
    """Turns a request into the requests to send for it: send, look at the answer, perhaps send again.

    Contract: no I/O inside. The flow yields at least one request, is sent the answer to each, and ends when the last
    answer is the one to use. It marks what it adds as secret. Safe to use from several threads, which share its
    tokens; picklable; its repr shows no secret. It is closed when sending fails. Raises CdkErrors only.
    """

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Yield `request` with credentials, and whatever must be sent before or after it."""
