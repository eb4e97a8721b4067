"""Servers on 127.0.0.1, for tests of what a connection really carries."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import Any, TypeVar

S = TypeVar("S", bound=TCPServer)


class QuietHandler(BaseHTTPRequestHandler):
    """Writes no log."""

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send an answer; its length is said, unless `headers` say another."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def answering(server: S) -> Iterator[S]:
    """Have the server answer within the block; then it is closed."""
    with server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, poll_interval=0.01)
        try:
            yield server
        finally:
            server.shutdown()
