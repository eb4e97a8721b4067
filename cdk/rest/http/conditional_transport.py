"""SliceSenderTransport: lets the reader of a slice decide how its requests are sent, wherever the stream was built."""

from contextvars import ContextVar
from typing import Protocol

from cdk.rest.http.messages import Request, Response
from cdk.rest.http.transport import Transport


class SliceSender(Protocol):
    """Decides how the requests of a slice are sent."""

    def send(self, transport: Transport, request: Request) -> Response:
        """Send `request` by `transport`, possibly with conditions, and return the response."""


slice_sender: ContextVar[SliceSender | None] = ContextVar("slice_sender", default=None)
"""The SliceSender of the slice that is read in this thread; None if requests are sent unchanged."""


class SliceSenderTransport:
    """Sends requests by the current `slice_sender`, if any. Picklable if its transport is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def send(self, request: Request) -> Response:
        """Return the response to `request`. Raises what the transport and the slice_sender raise."""
        current = slice_sender.get()
        return self._transport.send(request) if current is None else current.send(self._transport, request)
