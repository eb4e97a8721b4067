"""AskingTransport: lets the reader of a slice decide how its requests are sent, wherever the stream was built."""

from contextvars import ContextVar
from typing import Protocol

from cdk.rest.http.messages import Request, Response
from cdk.rest.http.transport import Transport


class Asker(Protocol):
    """Decides how the requests of a slice are sent."""

    def send(self, transport: Transport, request: Request) -> Response:
        """Send `request` by `transport`, possibly with conditions, and return the response."""


asker: ContextVar[Asker | None] = ContextVar("asker", default=None)
"""The Asker of the slice that is read in this thread; None if requests are sent unchanged."""


class AskingTransport:
    """Sends requests by the current `asker`, if any. Picklable if its transport is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def send(self, request: Request) -> Response:
        """Return the response to `request`. Raises what the transport and the asker raise."""
        current = asker.get()
        return self._transport.send(request) if current is None else current.send(self._transport, request)
