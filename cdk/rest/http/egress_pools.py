"""Connection pools that wait only so long for a response, and look where a connection leads before it is used."""

import io
import socket
from collections.abc import Callable, Sequence
from http.client import HTTPResponse, RemoteDisconnected
from time import monotonic
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from cdk.rest.http.egress import Egress

_SLOWEST = 1024
"""Bytes of a body a second, on average, that take none of the time: a large download may last."""

_BUFFER = 2**16
"""Bytes that one call of the system brings, at most, until a body is read: most responses come with the first."""


def timed_pools(seconds: float, limits: Sequence[Egress] = ()) -> dict[str, Any]:
    """What `PoolManager.pool_classes_by_scheme` of urllib3 takes: classes of pools, by scheme.

    seconds: how long responses may take, see `timed_response`. limits: a connection must be allowed by each of them;
    it raises ConfigError. They look twice: before connecting, so that not even a failed connection tells which
    inner hosts exist, and at the connected socket, as a name may lead elsewhere a moment later.

    urllib3 makes its connections itself, and passes nothing on to them: so the classes are made anew for each call.
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

    class Plain(HTTPConnection):
        response_class = timed_response(seconds)

        def _new_conn(self) -> socket.socket:
            return connect_where_allowed(self, super()._new_conn)

    class Secure(HTTPSConnection):
        response_class = timed_response(seconds)

        def _new_conn(self) -> socket.socket:
            return connect_where_allowed(self, super()._new_conn)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


def timed_response(seconds: float) -> type[HTTPResponse]:
    """What connections make their responses with: status and headers come within `seconds`, and so does the body.

    A body gets a second more for each KiB that has come. Reading later raises TimeoutError.
    """

    class TimedResponse(HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - http.client's
            self._reads = _TimedReads(sock, seconds)
            super().__init__(_Reading(self._reads), *args, **kwargs)  # type: ignore[arg-type] # all it asks is a file

        def begin(self) -> None:
            super().begin()
            if self._reads.ended:
                # Nothing else reads to the end of a connection here. http.client takes it for the end of the headers,
                # and what follows for a body of no bytes.
                raise RemoteDisconnected("the connection was closed inside of the headers of the response")
            self._reads.body()

    return TimedResponse


class _Reading:
    """Stands for a socket, as far as a response needs one."""

    def __init__(self, reads: "_TimedReads") -> None:
        self._reads = reads

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(self._reads, _BUFFER)


class _TimedReads(io.RawIOBase):
    """Reads of a socket, until a deadline. While status and headers come, what has come moves it no further.

    ended: the connection was read to its end.
    """

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._socket, self._file, self._seconds = sock, sock.makefile("rb", 0), seconds
        self._silence = sock.gettimeout()
        self._deadline, self._gain = monotonic() + seconds, 0.0
        self.ended = False

    def body(self) -> None:
        self._deadline, self._gain = monotonic() + self._seconds, 1 / _SLOWEST

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - any writable buffer
        remaining = self._deadline - monotonic()
        if remaining <= 0:
            raise TimeoutError(self._why())
        patience = remaining if self._silence is None else min(remaining, self._silence)
        # As a rule it is the silence all along, and to set it costs a call of the system.
        if patience != self._socket.gettimeout():
            self._socket.settimeout(patience)
        try:
            count = self._file.readinto(buffer)
        except TimeoutError:
            raise TimeoutError(self._why()) from None
        if count:
            self._deadline += count * self._gain
        else:
            self.ended = True
        return count

    def _why(self) -> str:
        if monotonic() >= self._deadline:
            return f"the response did not come within {self._seconds:g} s"
        return f"the server was silent for {self._silence:g} s"

    def close(self) -> None:
        self._file.close()
        super().close()
