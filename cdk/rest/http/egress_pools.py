"""Connection pools that limit the time of a response, and check where a connection leads before using it."""

import io
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, RemoteDisconnected, parse_headers
from time import monotonic
from typing import Any

from urllib3.connection import HTTPConnection

from cdk.rest.http.egress import Egress

_MIN_BYTES_PER_SECOND = 1024
"""Bytes of a body per second, on average, at which the time limit is never reached, so that large downloads succeed."""

_BUFFER = 2**16
"""Maximum bytes of one system call, until the body is read: most responses arrive with the first one."""


def timed_pools(pools: Mapping[str, type[Any]], seconds: float, limits: Sequence[Egress] = ()) -> dict[str, Any]:
    """Return pool classes by scheme, for `PoolManager.pool_classes_by_scheme` of urllib3, derived from `pools`.

    seconds: how long responses may take, see `timed_response`. limits: each must allow a connection; otherwise opening
    it raises ConfigError. They are checked twice: before connecting, so that not even a failed connection reveals which
    internal hosts exist, and on the connected socket, as a name may resolve to another address a moment later.

    urllib3 creates its connections itself and passes no arguments on to them, so each call creates new classes.
    """

    def connect_where_allowed(connection: HTTPConnection, connect: Callable[[], socket.socket]) -> socket.socket:
        host, port = connection.host, connection.port or connection.default_port
        for limit in limits:
            limit.check_host(host, port)
            limit.check_name(host, port)
        connected = connect()
        try:
            address = str(connected.getpeername()[0])
            for limit in limits:
                limit.check_address(host, port, address)
        except BaseException:
            connected.close()
            raise
        return connected

    response = timed_response(seconds)

    def timed(pool: type[Any]) -> type[Any]:
        kind = pool.ConnectionCls

        def connect(connection: HTTPConnection) -> socket.socket:
            return connect_where_allowed(connection, partial(kind._new_conn, connection))  # noqa: SLF001 - its override

        methods = {"response_class": response, "_new_conn": connect}
        return type(pool.__name__, (pool,), {"ConnectionCls": type(kind.__name__, (kind,), methods)})

    return {scheme: timed(pool) for scheme, pool in pools.items()}


def timed_response(seconds: float) -> type[HTTPResponse]:
    """Return the response class of connections. Status and headers must arrive within `seconds`, and so must the body.

    Each KiB received extends the limit of the body by a second. Reading after the limit raises TimeoutError.
    """

    class TimedResponse(HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - http.client's
            self._reads = _TimedReads(sock, seconds)
            super().__init__(_SocketReads(self._reads), *args, **kwargs)  # type: ignore[arg-type] # it only calls makefile

        def _read_status(self) -> tuple[str, int, str]:
            # http.client skips only 100. The response to the request follows 102 and 103, too: if these were it, that
            # response would be taken for the one to the next request of the connection.
            while True:
                line: tuple[str, int, str] = super()._read_status()  # type: ignore[misc] # typeshed does not list it
                if not HTTPStatus.SWITCHING_PROTOCOLS < line[1] < HTTPStatus.OK:
                    return line
                parse_headers(self.fp)

        def begin(self) -> None:
            super().begin()
            if self._reads.ended:
                # Only a closed connection ends here. http.client would take it for the end of the headers, followed by
                # an empty body.
                raise RemoteDisconnected("the connection was closed within the headers of the response")
            self._reads.body()

        def _safe_read(self, amt: int) -> bytes:
            # urllib3 passes the length of a chunk. With -1, http.client would read the framing of all chunks as a body.
            if amt < 0:
                raise HTTPException("the length of a chunk is negative")
            body: bytes = super()._safe_read(amt)  # type: ignore[misc] # typeshed does not list it
            return body

    return TimedResponse


class _SocketReads:
    """The part of a socket's interface that a response needs."""

    def __init__(self, reads: "_TimedReads") -> None:
        self._reads = reads

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(self._reads, _BUFFER)


class _TimedReads(io.RawIOBase):
    """Reads from a socket until a deadline. Received bytes extend the deadline only in the body.

    ended: whether the connection was read to its end.
    """

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._socket, self._file, self._seconds = sock, sock.makefile("rb", 0), seconds
        self._read_timeout = sock.gettimeout()
        self._deadline, self._seconds_per_byte = monotonic() + seconds, 0.0
        self.ended = False

    def body(self) -> None:
        self._deadline, self._seconds_per_byte = monotonic() + self._seconds, 1 / _MIN_BYTES_PER_SECOND

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - any writable buffer
        remaining = self._deadline - monotonic()
        if remaining <= 0:
            raise TimeoutError(self._why())
        timeout = remaining if self._read_timeout is None else min(remaining, self._read_timeout)
        # Set only if changed: it usually stays the socket's own timeout, and setting it costs a system call.
        if timeout != self._socket.gettimeout():
            self._socket.settimeout(timeout)
        try:
            count = self._file.readinto(buffer)
        except TimeoutError:
            raise TimeoutError(self._why()) from None
        if count:
            self._deadline += count * self._seconds_per_byte
        else:
            self.ended = True
        return count

    def _why(self) -> str:
        if monotonic() >= self._deadline:
            return f"the response did not arrive within {self._seconds:g} s"
        return f"the server sent nothing for {self._read_timeout:g} s"

    def close(self) -> None:
        self._file.close()
        super().close()
