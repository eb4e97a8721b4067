"""An S3 store for tests: moto's server, a process of its own, which can be told to misbehave.

A process, because delta-rs holds Python's lock while it waits for some answers. Requests below `/_trouble` are for the
server itself: a JSON list of rules, each applied to the requests that match it until it is used up.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any
from urllib.request import Request, urlopen

BUCKET = "lake"
SECRET = "not-to-be-shown"
DENIED = "<Error><Code>AccessDenied</Code><Message>No.</Message></Error>"


@dataclass(frozen=True)
class Trouble:
    """Answers of the store that are errors. pattern: searched in `METHOD path?query`. after, times: how many matching
    requests pass before, and how many get the error. done: the request is carried out all the same.
    """

    pattern: str
    status: int = 503
    body: str = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
    after: int = 0
    times: int = 1_000_000
    done: bool = False


@dataclass(frozen=True)
class ObjectStore:
    """A running store with an empty bucket. address: its endpoint."""

    address: str

    @property
    def storage(self) -> Mapping[str, str]:
        """The options of a pipeline that lead here."""
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ALLOW_HTTP": "true",
        }

    def misbehave(self, *troubles: Trouble) -> None:
        """From now on; without any, the store is well again."""
        self._send("/_trouble", "POST", json.dumps([asdict(trouble) for trouble in troubles]).encode())

    def put(self, path: str, content: bytes = b"") -> None:
        """Make a bucket, or an object in one."""
        self._send(f"/{path}", "PUT", content)

    def asked(self) -> list[str]:
        """The requests since the last time, as `METHOD path?query`."""
        answer: list[str] = json.loads(self._send("/_asked", "GET"))
        return answer

    def _send(self, path: str, method: str, body: bytes | None = None) -> bytes:
        with urlopen(Request(self.address + path, data=body, method=method)) as answer:  # noqa: S310
            content: bytes = answer.read()
            return content


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Start a store on a free port, and stop it."""
    command = [sys.executable, "-m", "tests.spark.object_store"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            store = ObjectStore(f"http://127.0.0.1:{int(process.stdout.readline())}")
            store.put(BUCKET)
            yield store
        finally:
            process.kill()


Environ = dict[str, Any]
Respond = Callable[..., Any]


class _Troubled:
    """A WSGI application in front of another."""

    def __init__(self, inner: Callable[[Environ, Respond], Iterable[bytes]]) -> None:
        self._inner = inner
        self._troubles: list[dict[str, Any]] = []
        self._asked: list[str] = []
        self._lock = Lock()

    def __call__(self, environ: Environ, respond: Respond) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/_trouble":
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            with self._lock:
                self._troubles = json.loads(body)
            respond("200 OK", [])
            return [b""]
        if path == "/_asked":
            with self._lock:
                asked, self._asked = self._asked, []
            respond("200 OK", [])
            return [json.dumps(asked).encode()]
        query = environ.get("QUERY_STRING", "")
        request = f"{environ['REQUEST_METHOD']} {path}" + (f"?{query}" if query else "")
        trouble = self._for(request)
        if trouble is None:
            return self._inner(environ, respond)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if trouble["done"]:
            list(self._inner(environ, lambda *_: None))
        else:
            environ["wsgi.input"].read(length)
        respond(f"{trouble['status']} Trouble", [("Content-Type", "application/xml"), ("Connection", "close")])
        return [b"" if request.startswith("HEAD") else trouble["body"].encode()]

    def _for(self, request: str) -> dict[str, Any] | None:
        with self._lock:
            self._asked.append(request)
            for trouble in self._troubles:
                if re.search(trouble["pattern"], request):
                    trouble["after"] -= 1
                    if trouble["after"] < 0 and trouble["times"] > 0:
                        trouble["times"] -= 1
                        return trouble
        return None


def _serve() -> None:
    import logging  # noqa: PLC0415

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415 - dear to import
    from werkzeug.serving import make_server  # noqa: PLC0415

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = make_server("127.0.0.1", 0, _Troubled(DomainDispatcherApplication(create_backend_app)), threaded=True)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve()
