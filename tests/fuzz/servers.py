"""A server that speaks raw HTTP, wrongly."""

import gzip
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

Speak: TypeAlias = Callable[[socket.socket, str, str], None]
"""Answers one request: the connection, the path, and the server's own address."""

_PIECE = b"x" * 2**16


@dataclass
class RawServer:
    """Answers by path; every connection is closed after one answer."""

    socket: socket.socket
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"


@contextmanager
def raw_server(answers: dict[str, Speak]) -> Iterator[RawServer]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = RawServer(listening)

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                head = b""
                while b"\r\n\r\n" not in head and (more := connection.recv(2**16)):
                    head += more
                path = head.split(b" ", 2)[1].decode() if head.count(b" ") > 1 else "/"
                server.asked.append(path)
                answers[path.partition("?")[0]](connection, path, server.url)

    thread = threading.Thread(target=serve)  # noqa: TID251 - a server to talk to
    thread.start()
    try:
        yield server
    finally:
        # Closing alone does not wake who waits in `accept`.
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def says(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> Speak:
    told = len(body) if length is None else length
    lines = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {told}", *headers, ""))

    def speak(connection: socket.socket, _: str, __: str) -> None:
        connection.sendall(lines.encode("latin-1") + body)

    return speak


def raw(data: bytes) -> Speak:
    def speak(connection: socket.socket, _: str, __: str) -> None:
        connection.sendall(data)

    return speak


def redirects(target: str) -> Speak:
    """To `target`, in which `{here}` is the server's own address."""

    def speak(connection: socket.socket, path: str, here: str) -> None:
        says(b"", f"Location: {target.format(here=here)}", status="302 Found")(connection, path, here)

    return speak


def bomb(megabytes: int, times: int = 1) -> Speak:
    """Zeros, packed so many times; only where they are asked for, as packing takes a second."""

    def speak(connection: socket.socket, path: str, here: str) -> None:
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        body = b"".join(packer.compress(bytes(2**20)) for _ in range(megabytes)) + packer.flush()
        for _ in range(times - 1):
            body = gzip.compress(body)
        says(body, f"Content-Encoding: {', '.join(['gzip'] * times)}")(connection, path, here)

    return speak


def endless(head: bytes) -> Speak:
    """The head, then chunks without end."""

    def speak(connection: socket.socket, _: str, __: str) -> None:
        connection.sendall(head)
        piece = b"%x\r\n%s\r\n" % (len(_PIECE), _PIECE)
        while True:
            connection.sendall(piece)

    return speak
