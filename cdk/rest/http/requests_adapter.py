"""Sends requests by the adapters of `requests`, without its slow Session. The only module that imports `requests`.

A Session spends 250 us per request on cookies, hooks, merging and proxy lookup. The adapter below it does the work.
Mock libraries patch the adapter's `send`, as `responses` does, or that of the Session, as requests-mock does.
"""

import os
import re
import socket
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NoReturn

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_environ_proxies, requote_uri
from urllib3 import HTTPHeaderDict
from urllib3.connectionpool import ConnectionPool

from cdk.base.errors import ConfigError, DecodeError, Timeout, TransientError
from cdk.base.first_use import lazy_pattern
from cdk.base.process.request_lease import current_lease
from cdk.base.values import Json
from cdk.rest.http.egress import Egress
from cdk.rest.http.egress_pools import timed_pools
from cdk.rest.http.messages import PROXY_LOGIN, Headers, Request, Response
from cdk.rest.http.metrics import current_metrics
from cdk.rest.http.origin import origin
from cdk.rest.http.streamed_response import MAX_BYTES, StreamedResponse, joined

_CONNECTIONS = 64
"""Connections kept open per host. Further ones are opened when needed, and closed after use."""

_HOSTS = 64
"""The number of hosts whose connections stay open."""

_PIECE_BYTES = 2**18
"""Bytes of a body that are read at once, so that a decompression bomb expands one piece at a time."""

_MAX_WHOLE_BODY: Mapping[str | None, int] = {None: 2**24, "gzip": 2**16, "deflate": 2**16}
"""Maximum bytes of a body that is read in one call, by content encoding: 64 KiB decompress to at most 64 MiB."""

_OK, _PARTIAL, _REDIRECT = 200, 206, 300
_BYTES = lazy_pattern(r"bytes 0-(?P<last>\d{1,18})/(?P<size>\d{1,18})")

_ENDED = lazy_pattern(r"\w+/(?:[^;\s]+\+)?(?:json|xml)\s*(?:;|$)", re.IGNORECASE)
"""Content types of bodies that cannot be parsed without their end."""

_HOST = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/?#]*")
_CLEAN_URL = lazy_pattern(r"(?:[A-Za-z0-9._~:/?&=+,@;$!*'()\-]++|%(?:2[0-9A-CF]|3[A-F]|40|[89A-F][0-9A-F]))+")
"""URLs that `requote_uri` would return unchanged: characters that need no escape, and escapes of those that do."""

_NEEDS_LOGIN = "407 "
"""In the text of the error with which a proxy refuses to open a tunnel: the status of its response."""

_UNKNOWN_HOST = "; check the host, or, if only a proxy resolves it, set HTTP_PROXY and HTTPS_PROXY"

_DEFAULTS = {"User-Agent": "spark-cdk", "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}


class Connections:
    """A pool of connections to all hosts that `limits` allow. Thread-safe."""

    def __init__(
        self,
        connect_seconds: float,
        read_seconds: float,
        max_bytes: int = MAX_BYTES,
        *,
        response_seconds: float = 600.0,
        limits: Sequence[Egress] = (),
    ) -> None:
        self._timeout, self._max_bytes = urllib3.Timeout(connect=connect_seconds, read=read_seconds), max_bytes
        self._adapter = _Adapter(response_seconds, limits)
        self._verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        self._proxies: dict[str, dict[str, str]] = {}

    def send(self, request: Request) -> Response:
        """Send `request` unchanged, without following redirects, and read the whole response unless it is a stream.

        Raises RequestsSpent: when the run, or its task, may send no more requests.
        """
        current_lease().count()
        try:
            prepared = _prepared(request)
            raw = self._exchange(
                prepared,
                stream=True,
                timeout=self._timeout,
                verify=self._verify,
                proxies=self._proxies_for(prepared.url or ""),
            )
            url, status, fields = prepared.url or request.url, raw.status_code, _headers(raw)
            if request.stream and _OK <= status < _REDIRECT:
                # Only successes are streamed: of an error response, the caller needs the status and the text.
                pieces = _Pieces(request, raw)
                current_metrics().count_response(status, 0)
                return StreamedResponse(status, fields, pieces, url, request, max_bytes=self._max_bytes)
            try:
                body = joined(raw.iter_content(_chunk_size(fields)), self._max_bytes, request)
                _check_end(request, raw)
            finally:
                # Returns the connection to the pool after the body was read, and closes it if reading failed.
                raw.close()
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError, OSError) as error:
            current_metrics().count_failure()
            _translate(request, error)
        current_metrics().count_response(status, len(body))
        return Response(status, fields, body, url, request)

    def _exchange(self, prepared: requests.PreparedRequest, **options: Json) -> requests.Response:
        """Return the adapter's response, or that of a Session if a mock library has patched `Session.send`."""
        if requests.Session.send.__module__ == requests.sessions.__name__:
            return self._adapter.send(prepared, **options)
        session = requests.Session()
        for scheme in ("https://", "http://"):
            session.mount(scheme, self._adapter)
        prepared.prepare_cookies({})
        return session.send(prepared, allow_redirects=False, **options)

    def _proxies_for(self, url: str) -> dict[str, str]:
        """Return the proxies that the environment sets for a host. Cached, because the lookup takes 30 us."""
        host = _host(url)
        proxies = self._proxies.get(host)
        if proxies is None:
            proxies = self._proxies[host] = get_environ_proxies(url)
        return proxies


class _Pieces:
    """A body as it arrives, in pieces. Closes its connection at the end, and when reading fails."""

    def __init__(self, request: Request, raw: requests.Response) -> None:
        self._request, self._raw = request, raw
        self._pieces: Iterator[bytes] = raw.iter_content(_PIECE_BYTES)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            piece = next(self._pieces)
        except StopIteration:
            self.close()
            _check_end(self._request, self._raw)
            raise
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError, OSError) as error:
            self.close()
            _translate(self._request, error)
        current_metrics().count_bytes(len(piece))
        return piece

    def close(self) -> None:
        self._raw.close()


class _Fields(CaseInsensitiveDict[str]):
    """The headers of a request. `copy`, which urllib3 calls to send them, returns a dict: a tenth of the work."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._store = OrderedDict([(name.lower(), (name, value)) for name, value in fields.items()])

    def copy(self) -> dict[str, str]:  # type: ignore[override] # see above
        return dict(self._store.values())


class _Adapter(HTTPAdapter):
    """An adapter that looks up a host's pool and sets up its certificate checks once, and stores no cookies.

    limits: where it may send. The address of a host is checked when a connection is opened. With a proxy, the
    connection leads to the proxy, which is always allowed, so only the host name of the URL is checked.
    """

    def __init__(self, response_seconds: float, limits: Sequence[Egress]) -> None:
        super().__init__(pool_connections=_HOSTS, pool_maxsize=_CONNECTIONS)
        self._pools: dict[str, ConnectionPool] = {}
        self._response_seconds, self._limits = response_seconds, limits
        self.poolmanager.pool_classes_by_scheme = timed_pools(response_seconds, limits)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Json) -> Json:
        """Return the pool manager for a proxy."""
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        manager.pool_classes_by_scheme = timed_pools(self._response_seconds)
        return manager

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: bool | str | None,  # noqa: FBT001 - the signature is that of `requests`
        proxies: Mapping[str, str] | None = None,
        cert: tuple[str, str] | str | None = None,
    ) -> ConnectionPool:
        url = request.url or ""
        host = _host(url)
        pool = self._pools.get(host)
        if pool is None:
            if self._limits:
                # A proxy gets the full URL and parses it itself. An ambiguous URL has no origin and is refused here.
                target = origin(url)
                for limit in self._limits:
                    limit.check_host(target.host, target.port)
            pool = super().get_connection_with_tls_context(request, verify, proxies, cert)
            super().cert_verify(pool, url, verify, cert)  # type: ignore[no-untyped-call] # not typed there
            if len(self._pools) >= _HOSTS:
                # The pool manager now closes its least recently used pools.
                self._pools.clear()
            self._pools[host] = pool
        return pool

    def cert_verify(self, *_: object) -> None:
        """Do nothing: certificate checks are set up when a pool is created."""

    def request_url(self, request: requests.PreparedRequest, proxies: Mapping[str, str] | None) -> str:
        if proxies:
            return super().request_url(request, proxies)
        url = request.url or ""
        path = url[len(_host(url)) :]
        return path if path.startswith("/") else f"/{path}"

    def build_response(self, req: requests.PreparedRequest, resp: urllib3.BaseHTTPResponse) -> requests.Response:
        response = requests.Response()
        response.status_code = resp.status
        # The headers of urllib3 are case-insensitive, too; copying them would cost 10 us.
        response.headers = resp.headers  # type: ignore[assignment] # a mapping of the same behaviour
        response.raw = resp
        response.reason = resp.reason or ""
        response.url = req.url or ""
        response.request = req
        return response


def _chunk_size(fields: Headers) -> int | None:
    """Return how much of a body to read per call; None for all at once, which takes a third of the time for 370 KB."""
    length = fields.get("content-length", "")
    longest = _MAX_WHOLE_BODY.get(fields.get("content-encoding"), 0)
    return None if length.isdecimal() and len(length) <= len(str(longest)) and int(length) <= longest else _PIECE_BYTES


def _headers(raw: requests.Response) -> Headers:
    """Return the headers of a response. The values of a repeated header are joined, as HTTP specifies."""
    fields = raw.headers
    return Headers(dict(fields.itermerged()) if isinstance(fields, HTTPHeaderDict) else fields)


def _check_end(request: Request, raw: requests.Response) -> None:
    """Check that a body is complete.

    Raises Timeout: when a compressed body is truncated, or other bytes follow it, which urllib3 does not report. Raises
    DecodeError: when the status says that it is a part of the body, although the request had no range.
    """
    decoder = getattr(raw.raw, "_decoder", None)
    packed = [getattr(each, "_obj", None) for each in getattr(decoder, "_decoders", [decoder])]
    # An empty body may be labelled as compressed, too. `tell` does not count a chunked body, so it cannot detect this.
    if not all(getattr(each, "eof", True) for each in packed) and getattr(raw.raw, "_has_decoded_content", False):
        raise Timeout(f"{request}: the connection failed (the compressed body is truncated, or other bytes follow it)")
    if raw.status_code != _PARTIAL or "range" in Headers(request.headers):
        return
    described = raw.headers.get("content-range", "")
    part = _BYTES.fullmatch(described)
    # Units other than bytes are used for pagination: PostgREST counts rows. Lines of text, such as CSV, may look whole
    # without their end.
    is_ended = _ENDED.match(raw.headers.get("content-type", "")) is not None and not request.stream
    is_part = described.startswith("bytes") if described else not is_ended
    if is_part and (part is None or int(part["last"]) + 1 < int(part["size"])):
        raise DecodeError(
            f"{request} answered {_PARTIAL} with a part of the body ({described or 'no Content-Range'}), although all "
            "of it was requested: a server or a proxy truncates long responses; request smaller pages"
        )


@lru_cache(maxsize=_CONNECTIONS)  # called four times per request
def _host(url: str) -> str:
    """Return the scheme and host of a URL: `https://api.example.com`."""
    match = _HOST.match(url)
    return match.group() if match else url


def _prepared(request: Request) -> requests.PreparedRequest:
    url = request.full_url
    # Host names are case-insensitive; servers, logs and caches expect lower case.
    if not (host := _host(url)).islower():
        url = host.lower() + url[len(host) :]
    prepared = requests.PreparedRequest()
    prepared.method = request.method
    prepared.url = url if _CLEAN_URL.fullmatch(url) else requote_uri(url)
    headers = _Fields({**_DEFAULTS, **request.headers})
    if request.body is not None:
        headers["Content-Length"] = str(len(request.body))
    prepared.headers = headers
    prepared.body = request.body
    return prepared


def _translate(request: Request, error: Exception) -> NoReturn:
    """Raise the kit's error for `error`. Shows only its cause, as its own text contains the URL with its secrets."""
    if not _HOST.match(request.url):
        raise ConfigError(f"{request}: the URL has no scheme; check the URL, https:// or http:// is missing") from None
    cause = _cause(error)
    why = request.hide(f"{type(cause).__name__}: {cause}")
    if isinstance(cause, TimeoutError):
        raise Timeout(f"{request}: no response in time ({why})") from None
    match error:
        case requests.exceptions.ContentDecodingError() | urllib3.exceptions.DecodeError():
            # Transient: observed once with a server under load, and not in its next 30,000 responses.
            raise Timeout(
                f"{request}: the connection failed (the body does not match Content-Encoding: {why})"
            ) from None
        case requests.exceptions.ProxyError():
            raise _proxy_error(f"{request}: the proxy failed ({why})", why) from None
        case requests.exceptions.SSLError() | urllib3.exceptions.SSLError():
            hint = "if the certificate is one of your own, name its authority in REQUESTS_CA_BUNDLE"
            raise TransientError(f"{request}: no secure connection ({why}); {hint}") from None
        case ValueError():
            # Its text may contain the URL or a header, including credentials.
            kind = type(error).__name__
            raise ConfigError(f"{request}: this cannot be requested ({kind}); check the URL and the headers") from None
        case requests.exceptions.Timeout() | urllib3.exceptions.TimeoutError():
            raise Timeout(f"{request}: no response in time ({why})") from None
        case requests.RequestException() | urllib3.exceptions.HTTPError() | ConnectionError():
            hint = _UNKNOWN_HOST if isinstance(cause, socket.gaierror) else ""
            raise Timeout(f"{request}: the connection failed ({why}){hint}") from None
        case _:
            # The error of `requests` when REQUESTS_CA_BUNDLE points to certificates that do not exist.
            raise ConfigError(f"{request}: {why}") from None


def _proxy_error(text: str, why: str) -> ConfigError | TransientError:
    if _NEEDS_LOGIN in why:
        return ConfigError(f"{text}: {PROXY_LOGIN}")
    return TransientError(f"{text}; check HTTP_PROXY and HTTPS_PROXY, or list the host in NO_PROXY")


def _cause(error: BaseException) -> BaseException:
    """Return the innermost error: errors of `requests` wrap those of urllib3, which wrap those of the socket."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error
