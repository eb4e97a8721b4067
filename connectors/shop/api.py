"""The shop's API: a small real HTTP server with typical habits of APIs. `python -m connectors.shop.api --help`.

GET  /products?page=2                                  numbered pages; each says whether there is more
GET  /orders?since=...&until=...&page=1                by `updated_at`; both ends are inclusive
GET  /customers?page=1
GET  /customers/7/visits?since=...&cursor=...          by `visited_at`; each page names the next one's cursor
GET  /_stats                                           what has been served, and how much of it repeatedly
POST /_add {"orders": [...], "visits": [...], ...}     adds records
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cdk import Json
from connectors.shop.backend import Backend, NoSuchPage, Sizes


@contextmanager
def serving(
    shop: Backend, *, port: int = 0, latency: float | Callable[[], float] = 0, refuse_every: int = 0
) -> Iterator[str]:
    """Serve `shop` on this machine for the length of a `with` block; yields the address.

    port: 0 takes a free one. latency: seconds until a response, or a function that returns them. refuse_every: respond
    to every nth request with `429 Too Many Requests`; 0 refuses none.
    """
    with _Server(shop, port, latency, refuse_every) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, poll_interval=0.02)
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


class _Server(ThreadingHTTPServer):
    def __init__(self, shop: Backend, port: int, latency: float | Callable[[], float], refuse_every: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.shop, self._latency = shop, latency
        self._refuse_every, self._asked = refuse_every, count(1)

    @property
    def latency(self) -> float:
        """Seconds until the response, at present."""
        return self._latency() if callable(self._latency) else self._latency

    def refuses(self) -> bool:
        """Whether to refuse this request; counts it."""
        return bool(self._refuse_every) and next(self._asked) % self._refuse_every == 0

    def handle_error(self, request: Json, client_address: Json) -> None:
        """Ignore clients that were killed in the middle of a response."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """A connection, which stays open between requests, as with any API."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if not url.path.startswith("/_"):
            time.sleep(self.server.latency)  # noqa: TID251 - simulates the network's latency
            if self.server.refuses():
                self._answer(HTTPStatus.TOO_MANY_REQUESTS, {"error": "please slow down"}, {"Retry-After": "1"})
                return
        try:
            self._answer(HTTPStatus.OK, self.server.shop.get(url.path, query))
        except NoSuchPage as error:
            self._answer(HTTPStatus.NOT_FOUND, {"error": str(error)})

    def do_POST(self) -> None:
        self.server.shop.add(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer(HTTPStatus.OK, {})

    def log_message(self, format: str, *args: Json) -> None:
        """Log nothing; the connector has its own log."""

    def _answer(self, status: HTTPStatus, body: Json, headers: Mapping[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is stopped."""
    parser = argparse.ArgumentParser(prog="python -m connectors.shop.api", description="The demo shop's API.")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--port-file", type=Path, help="write the port here once the API answers")
    parser.add_argument(
        "--latency", type=float, default=0.02, help="seconds that a response takes (default: %(default)s)"
    )
    parser.add_argument("--refuse-every", type=int, default=0, help="answer every nth request with 429 (default: none)")
    for kind in fields(Sizes):
        parser.add_argument(f"--{kind.name}", type=int, default=kind.default, help="how many (default: %(default)s)")
    options = parser.parse_args(arguments)
    shop = Backend(Sizes(options.products, options.orders, options.customers, options.visits))
    with serving(shop, port=options.port, latency=options.latency, refuse_every=options.refuse_every) as address:
        if options.port_file is not None:
            written = options.port_file.with_suffix(".new")
            written.write_text(address.rpartition(":")[2])
            written.rename(options.port_file)
        print(address, flush=True)  # noqa: T201 - for the user who started it
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
