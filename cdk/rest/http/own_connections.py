"""Own connections: those that a connector's code opens beside the kit, by whatever library, seen below all of these.

Nothing that stands for the network answers them, and no transport looks where they lead. So they may be refused, all
or those that lead where no request may go, or noticed. An audit hook of Python sees them, before anything is sent. It
sees neither other processes nor libraries that are not written in Python, such as the object stores of the kit and the
drivers of most databases.
"""

import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import FrameType

from cdk.base.errors import ConfigError, FatalError
from cdk.base.process.connector_line import calling_line
from cdk.base.process.unseen_refusals import note_unseen
from cdk.rest.http.egress import Egress, process_egress

_ALLOWED = ("cdk.rest.http.requests_adapter", "cdk.rest.http.egress", "cdk.state.stores.sql", "py4j.", "pyspark.")
"""Modules that may connect: what sends the kit's requests and its states, and what talks to Spark on this machine."""


class OwnConnection(FatalError):
    """A connection that the kit does not open, while something stands for the network."""


@dataclass(frozen=True, slots=True)
class _Connection:
    """A connection that is about to be made, or the look-up of a name before one.

    port: None where a look-up has none. sends: whether it alone makes sure that something is sent: to connect a
    datagram socket sends nothing, it is how programs find out their own address.
    """

    host: str
    port: int | None
    lookup: bool
    sends: bool

    def __str__(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"


class _Limit:
    """Where own connections may lead.

    A connection is made to an address, and the name that it belongs to was looked up before: names that are allowed
    are remembered.
    """

    def __init__(self, egress: Egress) -> None:
        self._egress, self._names = egress, dict[str, None]()

    def check(self, connection: _Connection) -> None:
        """Raise ConfigError: it leads where no request may go."""
        host, port = connection.host, connection.port
        if not connection.lookup:
            self._egress.check_connection(host, port or 0, tuple(self._names))
        else:
            if port is not None:
                self._egress.check_host(host, port)
            self._names[host] = None


@dataclass(slots=True)
class _Process:
    """What happens to own connections in this process.

    refusals: how many blocks refuse them. limits: of each block that limits them. notices: of each block that wants to
    know of them, by what opens them.
    """

    refusals: int = 0
    limits: tuple[_Limit, ...] = ()
    notices: list[dict[str, str]] = field(default_factory=list)
    watched: bool = False
    changing: threading.Lock = field(default_factory=threading.Lock)


_PROCESS = _Process()


@contextmanager
def refusing() -> Iterator[None]:
    """Have each own connection that is tried meanwhile, in any thread, raise OwnConnection."""
    _watch()
    with _PROCESS.changing:
        _PROCESS.refusals += 1
    try:
        yield
    finally:
        with _PROCESS.changing:
            _PROCESS.refusals -= 1


@contextmanager
def limiting() -> Iterator[None]:
    """Have each own connection that is tried meanwhile, in any thread, raise ConfigError where no request may go.

    See `process_egress`; nothing happens where that is no limit. Raises ConfigError: the environment's is wrong.
    """
    egress = process_egress()
    if egress is None:
        yield
        return
    _watch()
    limit = _Limit(egress)
    with _PROCESS.changing:
        _PROCESS.limits += (limit,)
    try:
        yield
    finally:
        with _PROCESS.changing:
            _PROCESS.limits = tuple(each for each in _PROCESS.limits if each is not limit)


@contextmanager
def noticing() -> Iterator[Mapping[str, str]]:
    """Gather where own connections of this block lead, and the lines that open them: a text for each line."""
    _watch()
    notices: dict[str, str] = {}
    _PROCESS.notices.append(notices)
    try:
        yield notices
    finally:
        _PROCESS.notices = [each for each in _PROCESS.notices if each is not notices]


def _watch() -> None:
    """Add the hook, once: there is no way to remove one."""
    with _PROCESS.changing:
        if not _PROCESS.watched:
            sys.addaudithook(_audit)
            _PROCESS.watched = True


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if not event.startswith("socket.") or not (_PROCESS.refusals or _PROCESS.limits or _PROCESS.notices):
        return
    connection = _connection(event, arguments)
    frame = sys._getframe(1)  # noqa: SLF001 - what `inspect` gives, for ten times as much
    if connection is None or _is_allowed(frame):
        return
    try:
        _check(connection, frame)
    except (OwnConnection, ConfigError) as refusal:
        if not _runs_in_kit(frame):
            note_unseen(refusal)
        if isinstance(arguments[0], socket.SocketType):
            arguments[0].close()  # libraries do that for errors of the system, and for no others
        raise
    if connection.sends:
        for notices in _PROCESS.notices:
            line = calling_line(frame)
            notices.setdefault(line or str(connection), f"{connection}{line}")


def _check(connection: _Connection, frame: FrameType) -> None:
    """Raise what refuses a connection, if anything does."""
    if _PROCESS.refusals and connection.sends:
        raise OwnConnection(
            f"found a connection to {connection} that the kit does not open{calling_line(frame)}, expected requests by "
            "the kit, which alone a cassette, a simulation or a mock API answers; send them with `HttpStream` or "
            "`HttpClient` of `cdk.rest`, or read without these"
        )
    for limit in _PROCESS.limits:
        try:
            limit.check(connection)
        except ConfigError as error:
            raise ConfigError(f"{error}{calling_line(frame)}") from None


def _connection(event: str, arguments: tuple[object, ...]) -> _Connection | None:
    """What is about to be connected to; None: the event is none, or stays on this machine without a port."""
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
    """The port of a look-up, which may be that of a service by name; None: it has none."""
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
    """Whether nobody has to be asked for the address of a host."""
    try:
        return host in {"", "localhost"} or bool(ip_address(host.partition("%")[0]))
    except ValueError:
        return False


def _runs_in_kit(frame: FrameType) -> bool:
    """Whether the kit is what an error gets to, in the end: no thread of the connector's own runs this."""
    return any(each.f_globals.get("__name__", "").startswith("cdk.") for each, _ in traceback.walk_stack(frame))


def _is_allowed(frame: FrameType) -> bool:
    """Whether it is not the connector that connects: what the kit, or who runs it, does beyond the call is its own."""
    for each, _ in traceback.walk_stack(frame):
        module = each.f_globals.get("__name__", "")
        if module.startswith(_ALLOWED):
            return True
        if module.startswith("cdk."):
            break
    return False
