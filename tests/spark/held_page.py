"""An API on this machine that answers nobody who asks for one of its pages, and sees that they go away."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Held:
    """The API. asked: somebody has asked for the page. gone: whoever asked has closed the connection."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked, self.gone = threading.Event(), threading.Event()


@contextmanager
def holding(path: str) -> Iterator[Held]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == path:
                held.asked.set()
                # A client that lives and waits sends nothing; one that is killed closes.
                if not self.connection.recv(1):
                    held.gone.set()
                return
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as api, ThreadPoolExecutor(1) as pool:
        held = Held(f"http://127.0.0.1:{api.server_port}")
        pool.submit(api.serve_forever, poll_interval=0.02)
        try:
            yield held
        finally:
            api.shutdown()
