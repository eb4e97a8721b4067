"""Own connections: those that a connector's code opens itself, by any library, bypassing the kit's transports.

A simulated network does not answer them, and no transport checks where they lead. Therefore they can be refused, either
all or only those to hosts that are not allowed, or merely noticed. An audit hook of Python detects them before anything
is sent. It does not see other processes, or libraries that are not written in Python, such as the object stores of the
kit and the drivers of most databases.
"""

import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from ipaddress import ip_address
from types import FrameType
from typing import Generic, TypeVar

from msgspec import Struct

from cdk.base.errors import ConfigError, FatalError
from cdk.base.process.connector_line import calling_line
from cdk.base.process.unseen_refusals import note_unseen
from cdk.rest.http.egress import Egress, process_egress

T = TypeVar("T")
_ALLOWED = ("cdk.rest.http.connections", "cdk.rest.http.egress", "cdk.state.stores.sql", "py4j.", "pyspark.")
"""Modules that may connect: they send the kit's requests and states, or communicate with Spark on this machine."""


class OwnConnection(FatalError):
    """Code outside the kit opens a connection while the network is simulated."""


class _Connection(Struct, frozen=True):
    """A connection that is about to be opened, or the lookup of a name before one.

    port: None for a lookup without a port. sends: whether this alone means that something is sent. Connecting a
    datagram socket sends nothing: programs do so to find out their own address.
    """

    host: str
    port: int | None
    lookup: bool
    sends: bool

    def __str__(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"


class _Limit:
    """The hosts to which own connections may lead.

    A connection is opened to an address, whose name was looked up before. So allowed names are remembered.
    """

    def __init__(self, egress: Egress) -> None:
        self._egress, self._names = egress, dict[str, None]()

    def check(self, connection: _Connection) -> None:
        """Raise ConfigError if the connection leads to a host that is not allowed."""
        host, port = connection.host, connection.port
        if not connection.lookup:
            self._egress.check_connection(host, port or 0, tuple(self._names))
        else:
            if port is not None:
                self._egress.check_host(host, port)
            self._names[host] = None


class _Blocks(Generic[T]):
    """The active blocks of one kind, as the item that each has added. Thread-safe."""

    def __init__(self) -> None:
        self.items: tuple[T, ...] = ()

    @contextmanager
    def active(self, item: T) -> Iterator[T]:
        """Watch connections during this block, with `item` among those of its kind."""
        with _CHANGING:
            _watch()
            self.items += (item,)
        try:
            yield item
        finally:
            with _CHANGING:
                self.items = tuple(each for each in self.items if each is not item)


_CHANGING = threading.Lock()
_REFUSING = _Blocks[object]()
_LIMITS = _Blocks[_Limit]()
_NOTICES = _Blocks[dict[str, str]]()


def refusing() -> AbstractContextManager[object]:
    """Make each own connection during this block, in any thread, raise OwnConnection."""
    return _REFUSING.active(object())


def limiting() -> AbstractContextManager[object]:
    """Make each own connection during this block, in any thread, to a host that is not allowed raise ConfigError.

    The limit is `process_egress`; does nothing if there is none. Raises ConfigError: when that of the environment is
    invalid.
    """
    egress = process_egress()
    return nullcontext() if egress is None else _LIMITS.active(_Limit(egress))


def noticing() -> AbstractContextManager[Mapping[str, str]]:
    """Collect the targets of own connections during this block: a text for each line of code that opens one."""
    return _NOTICES.active({})


@cache
def _watch() -> None:
    """Add the audit hook, only once, because hooks cannot be removed."""
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if not event.startswith("socket.") or not (_REFUSING.items or _LIMITS.items or _NOTICES.items):
        return
    connection = _connection(event, arguments)
    frame = sys._getframe(1)  # noqa: SLF001 - ten times as fast as `inspect`
    if connection is None or _is_allowed(frame):
        return
    try:
        _check(connection, frame)
    except (OwnConnection, ConfigError) as refusal:
        if not _runs_in_kit(frame):
            note_unseen(refusal)
        if isinstance(arguments[0], socket.SocketType):
            arguments[0].close()  # libraries close their socket only after an OSError
        raise
    if connection.sends:
        for notices in _NOTICES.items:
            line = calling_line(frame)
            notices.setdefault(line or str(connection), f"{connection}{line}")


def _check(connection: _Connection, frame: FrameType) -> None:
    """Raise OwnConnection or ConfigError if a connection is refused."""
    if _REFUSING.items and connection.sends:
        raise OwnConnection(
            f"found a connection to {connection} that the kit does not open{calling_line(frame)}, expected requests by "
            "the kit only, because a cassette, a simulation or a mock API answers no others; send them with "
            "`HttpStream` or `HttpClient` of `cdk.rest`, or read from the network"
        )
    for limit in _LIMITS.items:
        try:
            limit.check(connection)
        except ConfigError as error:
            raise ConfigError(f"{error}{calling_line(frame)}") from None


def _connection(event: str, arguments: tuple[object, ...]) -> _Connection | None:
    """Return the connection of an audit event; None if it is none, or if it is local and has no port."""
    match event, arguments:
        case (
            "socket.connect" | "socket.sendto" | "socket.sendmsg",
            (socket.SocketType() as opened, (str() | bytes() as host, int() as port, *_)),
        ):
            return _Connection(_text(host), port, lookup=False, sends=opened.type == socket.SOCK_STREAM)
        case "socket.getaddrinfo", (str() | bytes() as host, port, *_) if not _is_address(_text(host)):
            return _Connection(_text(host), _port(port), lookup=True, sends=True)
        case "socket.gethostbyname", (str() | bytes() as host, *_):
            return _Connection(_text(host), None, lookup=True, sends=False)
        case _:
            return None


def _port(port: object) -> int | None:
    """Return the port of a lookup, which may be given as the name of a service; None if it has none."""
    text = _text(port) if isinstance(port, str | bytes) else str(port or "")
    if text.isdecimal():
        return int(text) or None
    try:
        return socket.getservbyname(text)
    except (OSError, ValueError):
        return None


def _text(host: str | bytes) -> str:
    return host.decode(errors="replace") if isinstance(host, bytes) else host


def _is_address(host: str) -> bool:
    """Whether a host is an address, or local, so that it needs no lookup."""
    try:
        return host in {"", "localhost"} or bool(ip_address(host.partition("%")[0]))
    except ValueError:
        return False


def _runs_in_kit(frame: FrameType) -> bool:
    """Whether an error would propagate to the kit: this does not run in a thread that the connector started."""
    return any(each.f_globals.get("__name__", "").startswith("cdk.") for each, _ in traceback.walk_stack(frame))


def _is_allowed(frame: FrameType) -> bool:
    """Whether the kit, not the connector, opens the connection. Ignores frames outside of the innermost kit frame."""
    for each, _ in traceback.walk_stack(frame):
        module = each.f_globals.get("__name__", "")
        if module.startswith(_ALLOWED):
            return True
        if module.startswith("cdk."):
            break
    return False
