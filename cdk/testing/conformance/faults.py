"""Transports between a connector under test and its API, which observe requests or fail on purpose."""

import threading

from cdk.base.values import from_json, to_json
from cdk.rest import HttpTransport, Request, Response, Transport
from cdk.testing.routes import json_response

_LONGEST_WAIT = 0.02
"""Seconds that a request waits for a concurrent one."""


class Network(HttpTransport):
    """The real network, beneath any simulation."""

    def send(self, request: Request) -> Response:
        return self.send_once(request)


class Failing:
    """Fails all requests after the first `fails_after` ones with a status, and a body that repeats all it was sent.

    fails_after: None means that no request fails. empty: the body is instead the requested page without its rows.
    requests: how many arrived. retried_at: for each URL requested twice in a row, how many requests preceded the
    second. secrets: those in request headers, such as access tokens; parameters are not searched, since they also hold
    page tokens.
    """

    def __init__(self, api: Transport, *, fails_after: int | None, status: int = 500, empty: bool = False) -> None:
        self._api, self._fails_after, self._status, self._empty = api, fails_after, status, empty
        self._counting = threading.Lock()
        self.requests = 0
        self.retried_at: dict[str, int] = {}
        self._last = ""
        self.secrets: set[str] = set()

    def send(self, request: Request) -> Response:
        """Return the API's response, or the failure."""
        with self._counting:
            if request.url == self._last:
                self.retried_at.setdefault(request.url, self.requests)
            self.requests, self._last = self.requests + 1, request.url
            self.secrets.update(
                text.rpartition(" ")[2] for name, text in request.headers.items() if request.is_secret(name)
            )
            fails = self._fails_after is not None and self.requests > self._fails_after
        if not fails:
            return self._api.send(request)
        if self._empty:
            page = self._api.send(request)
            return Response(self._status, page.headers, _without_rows(page.body), page.url, request)
        echo = {"message": f"refused: {request.full_url} {dict(request.headers)} {(request.body or b'').decode()}"}
        return json_response(request, self._status, to_json(echo))


def _without_rows(body: bytes) -> bytes:
    """Return a body with empty lists; an empty body if it is not JSON."""
    try:
        value = from_json(body)
    except ValueError:
        return b""
    if isinstance(value, dict):
        return to_json({name: [] if isinstance(inner, list) else inner for name, inner in value.items()})
    return b"[]"


class Overlapping:
    """Makes requests wait briefly for each other, so that slices that are read concurrently really overlap."""

    def __init__(self, api: Transport) -> None:
        self._api, self._meeting = api, threading.Barrier(2)

    def send(self, request: Request) -> Response:
        """Return the API's response, once a second request has arrived or the wait for one has ended."""
        try:
            self._meeting.wait(_LONGEST_WAIT)
        except threading.BrokenBarrierError:
            self._meeting.reset()
        return self._api.send(request)
