"""Connection pools that look where a connection leads before anything is sent over it."""

import socket
from collections.abc import Callable, Sequence
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from cdk.rest.egress import Egress


def limited_pools(limits: Sequence[Egress]) -> dict[str, Any]:
    """The pools by scheme of a pool manager whose connections go only where all of `limits` allow.

    The address is looked at twice: before connecting, so that inner networks cannot be felt out, and on the connected
    socket, as a name may lead elsewhere a moment later.
    """

    def opened(connection: HTTPConnection, connect: Callable[[], socket.socket]) -> socket.socket:
        host, port = connection.host, connection.port or connection.default_port
        for limit in limits:
            limit.check_host(host, port)
            limit.check_name(host, port)
        made = connect()
        try:
            address = str(made.getpeername()[0])
            for limit in limits:
                limit.check_address(host, port, address)
        except BaseException:
            made.close()
            raise
        return made

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return opened(self, super()._new_conn)

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return opened(self, super()._new_conn)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
