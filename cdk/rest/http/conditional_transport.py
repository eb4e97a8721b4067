"""AskingTransport: lets the reader of a slice say how its requests are sent, wherever the stream was built."""

from contextvars import ContextVar
from typing import Protocol

from cdk.rest.http.messages import Request, Response
from cdk.rest.http.transport import Transport


class Asker(Protocol):
    """How the requests of a slice are sent."""

    def send(self, transport: Transport, request: Request) -> Response:
        """The response to `request`, by way of `transport`."""


asker: ContextVar[Asker | None] = ContextVar("asker", default=None)
"""Of the slice that is read in this thread; None: requests are sent as they are."""


class AskingTransport:
    """Sends as `asker` says. Travels to other processes if what it sends with does."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def send(self, request: Request) -> Response:
        """The response to `request`. Raises what the transport and the asker raise."""
        current = asker.get()
        return self._transport.send(request) if current is None else current.send(self._transport, request)
