"""Transports between a connector under test and its API, that look on or fail on purpose."""

import threading

from cdk.base.values import from_json, to_json
from cdk.rest import Headers, Request, RequestsTransport, Response, Transport

_TOGETHER = 0.02
"""Seconds that a request waits for another one beside it."""


class Network:
    """The network itself, below what is simulated."""

    def __init__(self) -> None:
        self._transport = RequestsTransport()

    def send(self, request: Request) -> Response:
        """Send `request` as it is."""
        return self._transport.send_once(request)


class Failing:
    """Answers requests from the one after `healthy` on with a status, and says in the body all that it was sent.

    healthy: None: none fails. empty: the body is the page that was asked for, without its rows instead. requests: how
    many came. retried_at: by URL that was requested twice in a row, how many requests came before the second. secrets:
    those in their headers, such as access tokens; in parameters are page tokens, too.
    """

    def __init__(self, api: Transport, *, healthy: int | None, status: int = 500, empty: bool = False) -> None:
        self._api, self._healthy, self._status, self._empty = api, healthy, status, empty
        self._counting = threading.Lock()
        self.requests = 0
        self.retried_at: dict[str, int] = {}
        self._last = ""
        self.secrets: set[str] = set()

    def send(self, request: Request) -> Response:
        """The API's response, or the failure."""
        with self._counting:
            if request.url == self._last:
                self.retried_at.setdefault(request.url, self.requests)
            self.requests, self._last = self.requests + 1, request.url
            self.secrets.update(
                text.rpartition(" ")[2] for name, text in request.headers.items() if request.hides(name)
            )
            fails = self._healthy is not None and self.requests > self._healthy
        if not fails:
            return self._api.send(request)
        if self._empty:
            page = self._api.send(request)
            return Response(self._status, page.headers, _without_rows(page.body), page.url, request)
        echo = {"message": f"refused: {request.full_url} {dict(request.headers)} {(request.body or b'').decode()}"}
        return Response(
            self._status, Headers({"Content-Type": "application/json"}), to_json(echo), request.full_url, request
        )


def _without_rows(body: bytes) -> bytes:
    """A body with its lists empty; one that is no JSON without anything."""
    try:
        value = from_json(body)
    except ValueError:
        return b""
    if isinstance(value, dict):
        return to_json({name: [] if isinstance(inner, list) else inner for name, inner in value.items()})
    return b"[]"


class Together:
    """Lets requests wait a moment for each other, so that slices which are read at once really are."""

    def __init__(self, api: Transport) -> None:
        self._api, self._meeting = api, threading.Barrier(2)

    def send(self, request: Request) -> Response:
        """The API's response, after a meeting with another request or the end of the wait for one."""
        try:
            self._meeting.wait(_TOGETHER)
        except threading.BrokenBarrierError:
            self._meeting.reset()
        return self._api.send(request)
