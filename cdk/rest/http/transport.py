"""Transport: the only place where requests leave the process. Tests and caches replace it."""

import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeAlias
from urllib.parse import unquote, urljoin, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import FatalError
from cdk.base.run import setting
from cdk.rest.http.egress import Egress, process_egress
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.origin import may_follow, neutral_headers, origin
from cdk.rest.http.own_connections import refusing
from cdk.rest.http.streamed_response import MAX_BYTES

_REDIRECTS = {301, 302, 303, 307, 308}
_KEEP_BODY = {307, 308}
_SEE_OTHER = 303
_OF_BODY = {"content-length", "content-type", "transfer-encoding"}
"""Headers of a request that describe its body."""
_MAX_REDIRECTS = 10


class Transport(Protocol):
    """Sends one request and returns its response, whatever the status.

    Contract: thread-safe; picklable; follows redirects, sending no credentials to another host; `response.request` is
    the `request` argument; if `request.stream` is set, the body of a successful response is fetched as it is read,
    which may raise the same errors. Raises only CdkErrors: Timeout and other TransientErrors when there is no response,
    ConfigError when the URL is invalid.
    """

    def send(self, request: Request) -> Response:
        """Send `request` and wait for its response."""


SliceSender: TypeAlias = Callable[[Transport, Request], Response]
"""Sends a request of a slice by a transport, possibly with conditions, and returns the response."""

slice_sender: ContextVar[SliceSender | None] = ContextVar("slice_sender", default=None)
"""The SliceSender of the slice that is read in this thread; None if requests are sent unchanged."""


class SliceSenderTransport:
    """Sends requests by the `slice_sender` of where a slice is read, if any. Picklable if its transport is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def send(self, request: Request) -> Response:
        """Return the response to `request`. Raises what the transport and the slice_sender raise."""
        current = slice_sender.get()
        return self._transport.send(request) if current is None else current(self._transport, request)


class Offline(Transport):
    """Base class of transports that answer requests themselves, without a network.

    blocks_own_connections: whether, while it replaces the network, other code of this process may open no connections.
    """

    blocks_own_connections: bool = True


class _Process(Struct):
    """The transport that replaces the network in this process, if any."""

    network: Transport | None = None


_PROCESS = _Process()


@contextmanager
def simulated_network(other: Transport | None) -> Iterator[None]:
    """Answer all requests of this process by `other`, each redirect on its own; None to use the network."""
    before, _PROCESS.network = _PROCESS.network, other
    try:
        with refusing() if isinstance(other, Offline) and other.blocks_own_connections else nullcontext():
            yield
    finally:
        _PROCESS.network = before


def outgoing() -> Callable[[Request], Response]:
    """Return the function that sends a request now: the simulation, or the network. It does not follow redirects."""
    return _simulated() or HttpTransport().send_once


_ANSWERING: ContextVar[bool] = ContextVar("answers", default=False)
"""Whether the replacement of the network is answering here: its own requests, such as a cache's, use the network."""


def _simulated() -> Callable[[Request], Response] | None:
    network = None if _ANSWERING.get() else _PROCESS.network
    return None if network is None else partial(_send_simulated, network)


def _send_simulated(network: Transport, request: Request) -> Response:
    with setting(_ANSWERING, True):
        return network.send(request)


class HttpTransport:
    """HTTP by urllib3, with the same connections for all requests; mock libraries of `requests` answer them, too.

    Connections are opened on first use, so the transport can be pickled. Proxies come from the environment
    (`HTTPS_PROXY`, `NO_PROXY`), certificates from `REQUESTS_CA_BUNDLE` or the package certifi.

    connect_timeout: how long to wait for a connection. read_timeout: how long the source may send nothing.
    max_bytes: the largest body, decompressed, that is read into memory at once.
    response_timeout: how long status and headers may take in total, and then the body, for which each received KiB
        adds a second.
    egress: where requests and their redirects may go, in addition to the limit of the process; None for no limit.
    """

    def __init__(
        self,
        *,
        connect_timeout: timedelta = timedelta(seconds=15),
        read_timeout: timedelta = timedelta(minutes=2),
        max_bytes: int = MAX_BYTES,
        egress: Egress | None = None,
        response_timeout: timedelta = timedelta(minutes=10),
    ) -> None:
        self._limits = (connect_timeout.total_seconds(), read_timeout.total_seconds(), max_bytes)
        self._response_seconds = response_timeout.total_seconds()
        self._egress = egress
        self._open()

    def with_timeouts(self, *, connect: float | None, read: float | None) -> "HttpTransport":
        """Return a transport with these timeouts in seconds, where they are neither None nor 0, else as this one."""
        transport, (known_connect, known_read, max_bytes) = copy(self), self._limits
        transport._limits = connect or known_connect, read or known_read, max_bytes  # noqa: SLF001 - its own
        return transport

    def _open(self) -> None:
        self._opening = threading.Lock()
        self._one_hop: Callable[[Request], Response] | None = None
        self._process: Egress | None = None

    def __getstate__(self) -> tuple[tuple[float, float, int], float, Egress | None]:
        return self._limits, self._response_seconds, self._egress

    def __setstate__(self, state: tuple[tuple[float, float, int], float, Egress | None]) -> None:
        self._limits, self._response_seconds, self._egress = state
        self._open()

    def send(self, request: Request) -> Response:
        """Send `request`, following up to ten redirects.

        Raises FatalError: when there are more redirects, or when one would send a body or a secret to another host.
        Raises ConfigError: when the request or a redirect goes to a host that is not allowed.
        """
        send = _simulated() or self.send_once
        current = _with_login(request) if "@" in request.url else request
        for _ in range(_MAX_REDIRECTS + 1):
            response = send(current)
            location = response.headers.get("location") if response.status in _REDIRECTS else None
            if location is None:
                return response if current is request else response.with_request(request)
            target = _target(response, location)
            current = _redirected(current, response.status, target, has_secret=request.has_secret_in(target))
        raise FatalError(f"{request}: more than {_MAX_REDIRECTS} redirects, the last to {current}; check the URL")

    def send_once(self, request: Request) -> Response:
        """Send `request` over the network, even if that is simulated, without following redirects. Raises as `send`."""
        send = self._one_hop
        if send is None or self._process is not process_egress():
            send = self._connect()
        return send(request)

    def _connect(self) -> Callable[[Request], Response]:
        with self._opening:
            process = process_egress()
            if self._one_hop is None or self._process is not process:
                from cdk.rest.http.connections import Connections  # noqa: PLC0415 - saves `spec` 60 ms

                limits = [limit for limit in (self._egress, process) if limit is not None]
                connections = Connections(*self._limits, response_seconds=self._response_seconds, limits=limits)
                self._one_hop, self._process = connections.send, process
            return self._one_hop


def _with_login(request: Request) -> Request:
    """Return a request with the login of its URL as a header, like `requests`, unless it has another one."""
    try:
        parts = urlsplit(request.url)
    except ValueError:
        return request
    if parts.password is None or any(name.lower() == "authorization" for name in request.headers):
        return request
    login = f"{unquote(parts.username or '')}:{unquote(parts.password)}"
    return request.with_headers({"Authorization": f"Basic {b64encode(login.encode()).decode()}"})


def _target(response: Response, location: str) -> str:
    with suppress(UnicodeError):
        # Headers are decoded as Latin-1, but most servers that do not escape a URL send UTF-8.
        location = location.encode("latin-1").decode()
    try:
        return urljoin(response.url, location)
    except ValueError:
        raise FatalError(f"{response.request} was redirected to an invalid URL; check the URL") from None


def _redirected(request: Request, status: int, url: str, *, has_secret: bool) -> Request:
    """Return the request for a redirect to `url`. has_secret: whether `url` contains a secret of the first request."""
    keeps_method = status in _KEEP_BODY or (request.method in {"GET", "HEAD"} and status != _SEE_OTHER)
    method = request.method if keeps_method or request.method == "HEAD" else "GET"
    body = request.body if keeps_method else None
    headers: Mapping[str, str] = request.headers
    if body is None:
        headers = {name: value for name, value in headers.items() if name.lower() not in _OF_BODY}
    if not may_follow(origin(request.url), origin(url)):
        headers = neutral_headers(headers)
        if body is not None or has_secret:
            target = Request(method, url, secret=request.secret)
            what = "a secret in its URL" if has_secret else "a body, which may contain secrets,"
            raise FatalError(
                f"{request.hide(str(request))} was redirected to another host, {request.hide(str(target))}: {what} is "
                f"not sent there; if that host is right, make it the URL of this stream"
            )
    return replace(request, method=method, url=url, params={}, headers=headers, body=body)
