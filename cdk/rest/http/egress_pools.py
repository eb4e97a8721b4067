"""Connection pools that wait only so long for a response, and look where a connection leads before it is used."""

import socket
from collections.abc import Callable, Sequence
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from cdk.rest.http.deadline import timed_response
from cdk.rest.http.egress import Egress


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
