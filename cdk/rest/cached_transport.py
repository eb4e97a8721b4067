"""Cached responses: for parents that several children read, and for development without repeated requests."""

import threading
from collections.abc import MutableMapping
from hashlib import blake2b
from pathlib import Path
from weakref import WeakKeyDictionary

import orjson

from cdk.base.run import current_run
from cdk.base.secret_names import looks_secret
from cdk.base.values import canonical
from cdk.rest.http.messages import Headers, Request, Response
from cdk.rest.http.metrics import current_metrics
from cdk.rest.http.redact import without_params
from cdk.rest.http.transport import Transport

MAX_BYTES = 256 * 2**20

_STRIPES = 64


class CachedResponses:
    """Responses by the digest of their request, in memory or in a folder. Thread-safe."""

    def __init__(self, folder: str | Path | None = None, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._open()

    def _open(self) -> None:
        self._locks = [threading.Lock() for _ in range(_STRIPES)]
        self._opening = threading.Lock()
        self._opened: MutableMapping[str, bytes] | None = None
        self._bytes = 0

    def __getstate__(self) -> tuple[str | Path | None, int]:
        return self._folder, self._max_bytes

    def __setstate__(self, state: tuple[str | Path | None, int]) -> None:
        self._folder, self._max_bytes = state
        self._open()

    def fetch(self, request: Request, transport: Transport) -> Response:
        """Return the cached response to `request`, or send it by `transport` and cache the response if successful."""
        storage, key = self._storage(), _key(request)
        # A thread waits while another one fetches the same response.
        with self._locks[int(key[:8], 16) % _STRIPES]:
            packed = storage.get(key)
            if packed is not None:
                current_metrics().count_cached()
                return _unpack(packed, request)
            response = transport.send(request)
            if response.ok:
                self._store(storage, key, _pack(response))
            return response

    def _store(self, storage: MutableMapping[str, bytes], key: str, packed: bytes) -> None:
        with self._opening:
            if self._bytes + len(packed) > self._max_bytes:
                return
            self._bytes += len(packed)
            storage[key] = packed

    def _storage(self) -> MutableMapping[str, bytes]:
        with self._opening:
            if self._opened is None:
                self._opened = {} if self._folder is None else _file(Path(self._folder))
            return self._opened


class _RunCaches:
    """The responses that a run caches in memory, by the transport that sent the requests, as long as that exists."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._responses: WeakKeyDictionary[Transport, CachedResponses] = WeakKeyDictionary()

    def of(self, transport: Transport, max_bytes: int) -> CachedResponses:
        with self._lock:
            return self._responses.setdefault(transport, CachedResponses(max_bytes=max_bytes))


class CachedTransport:
    """Sends each GET once and returns the same response from then on. Other requests are always sent.

    transport: sends the requests. folder: where responses are stored across runs, in a SQLite file of requests-cache.
    None caches them in memory until the run ends, shared by all users of the same `transport`, so another sync in the
    same process reads fresh data. max_bytes: limit of what this process caches; later responses are not cached.

    Only successes are cached. A request is identified by a digest of everything in it, including credentials; neither
    these nor other secrets of the request are stored in clear. In another process, the transport starts with the
    contents of the folder.
    """

    def __init__(self, transport: Transport, *, folder: str | Path | None = None, max_bytes: int = MAX_BYTES) -> None:
        self._transport, self._max_bytes = transport, max_bytes
        self._responses = None if folder is None else CachedResponses(folder, max_bytes)

    def send(self, request: Request) -> Response:
        """Return the cached response to `request`, or a new one."""
        if request.method != "GET":
            return self._transport.send(request)
        responses = self._responses or current_run().own(_RunCaches).of(self._transport, self._max_bytes)
        return responses.fetch(request, self._transport)


def _file(folder: Path) -> MutableMapping[str, bytes]:
    from requests_cache.backends.sqlite import SQLiteDict  # noqa: PLC0415 - takes 100 ms, and only a folder needs it

    folder.mkdir(parents=True, exist_ok=True)
    # serializer=None: store the bytes unchanged instead of pickling them.
    responses: MutableMapping[str, bytes] = SQLiteDict(
        folder / "responses.sqlite", table_name="responses", fast_save=True, wal=True, serializer=None
    )
    return responses


def _key(request: Request) -> str:
    headers = sorted((name.lower(), value) for name, value in request.headers.items())
    body = None if request.body is None else request.body.hex()
    return blake2b(canonical([request.full_url, headers, body]).encode(), digest_size=20).hexdigest()


def _pack(response: Response) -> bytes:
    request = response.request
    secret = {name.lower() for name in request.params if request.is_secret(name)} | request.secret
    headers = {name: value for name, value in response.headers.items() if not looks_secret(name)}
    return orjson.dumps([response.status, without_params(response.url, secret), headers]) + b"\n" + response.body


def _unpack(packed: bytes, request: Request) -> Response:
    head, _, body = packed.partition(b"\n")
    status, url, headers = orjson.loads(head)
    return Response(status, Headers(headers), body, url, request)
