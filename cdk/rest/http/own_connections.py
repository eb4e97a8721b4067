"""Own connections: those that a connector's code opens beside the kit, by whatever library, seen below all of these.

Nothing that stands for the network answers them, so that they may be refused, or noticed. An audit hook of Python sees
them, before anything is sent. It sees neither other processes nor libraries that are not written in Python, such as
the object stores of the kit and the drivers of most databases.
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

from cdk.base.errors import FatalError
from cdk.base.process.connector_line import calling_line

_ALLOWED = ("cdk.rest.http.requests_adapter", "py4j.", "pyspark.")
"""Modules that may connect: what sends the kit's requests, and what talks to Spark on this machine."""


class OwnConnection(FatalError):
    """A connection that the kit does not open, while something stands for the network."""


@dataclass(slots=True)
class _Process:
    """What happens to own connections in this process.

    refusals: how many blocks refuse them. notices: of each block that wants to know of them, by what opens them.
    """

    refusals: int = 0
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
            sys.addaudithook(_meet)
            _PROCESS.watched = True


def _meet(event: str, arguments: tuple[object, ...]) -> None:
    if not event.startswith("socket.") or not (_PROCESS.refusals or _PROCESS.notices):
        return
    target = _target(event, arguments)
    frame = sys._getframe(1)  # noqa: SLF001 - what `inspect` gives, for ten times as much
    if target is None or _is_allowed(frame):
        return
    line = calling_line(frame)
    if _PROCESS.refusals:
        if isinstance(arguments[0], socket.SocketType):
            arguments[0].close()  # libraries do that for errors of the system, and for no others
        raise OwnConnection(
            f"found a connection to {target} that the kit does not open{line}, expected requests by the kit, which "
            "alone a cassette, a simulation or a mock API answers; send them with `HttpStream` or `HttpClient` of "
            "`cdk.rest`, or read without these"
        )
    for notices in _PROCESS.notices:
        notices.setdefault(line or target, f"{target}{line}")


def _target(event: str, arguments: tuple[object, ...]) -> str | None:
    """Where a connection leads, as `host:port`; None: the event is none, or stays on this machine without a port."""
    match event, arguments:
        case "socket.connect", (socket.SocketType() as opened, (str() | bytes() as host, int() as port, *_)):
            # To connect a datagram socket sends nothing: it is how programs find out their own address.
            return f"{_text(host)}:{port}" if opened.type == socket.SOCK_STREAM else None
        case "socket.getaddrinfo", (str() | bytes() as host, port, *_) if not _is_address(_text(host)):
            return f"{_text(host)}:{port}"
        case _:
            return None


def _text(host: str | bytes) -> str:
    return host.decode(errors="replace") if isinstance(host, bytes) else host


def _is_address(host: str) -> bool:
    """Whether nobody has to be asked for the address of a host."""
    try:
        return host in {"", "localhost"} or bool(ip_address(host.partition("%")[0]))
    except ValueError:
        return False


def _is_allowed(frame: FrameType) -> bool:
    return any(each.f_globals.get("__name__", "").startswith(_ALLOWED) for each, _ in traceback.walk_stack(frame))
