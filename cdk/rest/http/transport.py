"""Transport: the one place where requests leave the process. Tests and caches put another in its stead."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Protocol
from urllib.parse import urljoin

from cdk.base.errors import FatalError
from cdk.base.run import setting
from cdk.rest.http.egress import Egress, process_egress
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.origin import may_follow, neutral, origin
from cdk.rest.http.own_connections import refusing
from cdk.rest.http.streamed_response import MAX_BYTES

_REDIRECTS = {301, 302, 303, 307, 308}
_KEEP_BODY = {307, 308}
_SEE_OTHER = 303
_FOLLOWED = 10


class Transport(Protocol):
    """Sends one request and gives its response, whatever the status.

    Contract: safe to call from several threads; picklable; follows redirects, without credentials to another host;
    `response.request` is the request given; a success answers a `request.stream` with a body that is fetched as it is
    read, which may then raise the same errors. Raises CdkErrors only: Timeout and other TransientErrors when no
    response came, ConfigError when the URL cannot be one.
    """

    def send(self, request: Request) -> Response:
        """Send `request` and wait for its response."""


class Offline(Transport):
    """What a transport inherits that answers by itself.

    alone: while it stands for the network, code of this process that goes around it reaches no network either.
    """

    alone: bool = True


@dataclass(slots=True)
class _Process:
    """What stands for the network in this process, if anything does."""

    network: Transport | None = None


_PROCESS = _Process()


@contextmanager
def simulated_network(other: Transport | None) -> Iterator[None]:
    """Let `other` answer what transports of this process would send, redirects one by one; None: the network."""
    before, _PROCESS.network = _PROCESS.network, other
    try:
        with refusing() if isinstance(other, Offline) and other.alone else nullcontext():
            yield
    finally:
        _PROCESS.network = before


def outgoing() -> Callable[[Request], Response]:
    """What answers a request that leaves this process now: what is simulated, or the network; redirects one by one."""
    return _simulated() or RequestsTransport().send_once


_ANSWERS: ContextVar[bool] = ContextVar("answers", default=False)
"""Whether what stands for the network answers here: what it sends itself, such as a cache, leaves the process."""


def _simulated() -> Callable[[Request], Response] | None:
    network = None if _ANSWERS.get() else _PROCESS.network
    return None if network is None else partial(_answer, network)


def _answer(network: Transport, request: Request) -> Response:
    with setting(_ANSWERS, True):
        return network.send(request)


class RequestsTransport:
    """HTTP through the adapters of `requests`, which mock libraries and proxies know; one pool of connections.

    Connections are made when they are first needed, so the transport travels to other processes. Proxies come from
    the environment (`HTTPS_PROXY`, `NO_PROXY`), certificates from `REQUESTS_CA_BUNDLE` or the usual ones.

    connect_timeout: how long to wait for a connection. read_timeout: how long the source may be silent.
    max_bytes: how much of a body is read into memory at once, after content encoding is undone.
    response_timeout: how long status and headers may take in all, and then the body, for which each KiB that has come
        adds a second.
    egress: where requests may go, redirects included, besides what the process allows; None for anywhere.
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

        Raises FatalError: the redirects do not end, or would carry a body to another host. Raises ConfigError: the
        request, or a redirect, goes where it may not.
        """
        send = _simulated() or self.send_once
        current = request
        for _ in range(_FOLLOWED + 1):
            response = send(current)
            location = response.headers.get("location") if response.status in _REDIRECTS else None
            if location is None:
                return response if current is request else response.with_request(request)
            target = _target(response, location)
            current = _redirected(current, response.status, target, reveals=request.reveals(target))
        raise FatalError(f"{request}: more than {_FOLLOWED} redirects, the last to {current}; check the URL")

    def send_once(self, request: Request) -> Response:
        """Send `request` over the network, whatever stands for that, and follow no redirect. Raises as `send`."""
        send = self._one_hop
        if send is None or self._process is not process_egress():
            send = self._connect()
        return send(request)

    def _connect(self) -> Callable[[Request], Response]:
        with self._opening:
            process = process_egress()
            if self._one_hop is None or self._process is not process:
                from cdk.rest.http.requests_adapter import Connections  # noqa: PLC0415 - `requests` takes 60 ms that `spec` can save

                limits = [limit for limit in (self._egress, process) if limit is not None]
                connections = Connections(*self._limits, response_seconds=self._response_seconds, limits=limits)
                self._one_hop, self._process = connections.send, process
            return self._one_hop


def _target(response: Response, location: str) -> str:
    try:
        return urljoin(response.url, location)
    except ValueError:
        raise FatalError(f"{response.request} was redirected to what is no URL; check the URL") from None


def _redirected(request: Request, status: int, url: str, *, reveals: bool) -> Request:
    """The request that follows a redirect to `url`. reveals: a secret of the first request is in it."""
    keeps = status in _KEEP_BODY or (request.method in {"GET", "HEAD"} and status != _SEE_OTHER)
    method = request.method if keeps or request.method == "HEAD" else "GET"
    body = request.body if keeps else None
    headers: Mapping[str, str] = request.headers
    if body is None:
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    if not may_follow(origin(request.url), origin(url)):
        headers = neutral(headers)
        if body is not None or reveals:
            target = Request(method, url, secret=request.secret)
            what = "a secret in its URL" if reveals else "a body, which may hold secrets,"
            raise FatalError(
                f"{request.hide(str(request))} was redirected to another host, {request.hide(str(target))}: {what} is "
                f"not sent there; if that host is right, make it the URL of this stream"
            )
    return replace(request, method=method, url=url, params={}, headers=headers, body=body)
