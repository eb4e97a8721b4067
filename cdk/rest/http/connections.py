"""Sends requests by urllib3: pools of connections, certificates, and the kit's errors for what fails.

`requests` would take 14 ms of each start and 10 us of each request.
"""

import os
import re
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from ssl import SSLContext, SSLError
from typing import NoReturn

import certifi
import urllib3
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.util.ssl_ import create_urllib3_context

from cdk.base.errors import ConfigError, DecodeError, Timeout, TransientError
from cdk.base.first_use import lazy_pattern
from cdk.base.process.request_lease import current_lease
from cdk.rest.http.by_requests import proxy_manager, proxy_of, requoted, send_patched, url_for_proxy
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

_EXTRAS = {"br": "brotli", "zstd": "zstd"}
"""Content encodings that urllib3 decodes only with another package, and the names of its extras that install them."""

_OK, _PARTIAL, _REDIRECT = 200, 206, 300
_WITHOUT_BODY = {204, 304}
_BYTES = lazy_pattern(r"bytes 0-(?P<last>\d{1,18})/(?P<size>\d{1,18})")

_ENDED = lazy_pattern(r"\w+/(?:[^;\s]+\+)?(?:json|xml)\s*(?:;|$)", re.IGNORECASE)
"""Content types of bodies that cannot be parsed without their end."""

_HOST = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/?#]*")
_CLEAN_URL = lazy_pattern(
    r"(?i)(?:[A-Z0-9._~:/?&=+,@;$!*'()\[\]\-]++|%(?:[01][0-9A-F]|2[0-9A-CF]|3[A-F]|[46]0|5[B-E]|7[B-DF]|[89A-F][0-9A-F]))+"
)
"""URLs that `requoted` would return unchanged: characters that need no escape, and escapes of those that do."""

_NEEDS_LOGIN = "407 "
"""In the text of the error with which a proxy refuses to open a tunnel: the status of its response."""

_AUTHORITIES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Environment variables that name the certificates of trusted authorities."""

_PATCHED = (("requests.sessions", "Session"), ("requests.adapters", "HTTPAdapter"))
"""The classes whose `send` mock libraries replace: requests-mock that of the first, `responses` of the second."""

_ONCE = urllib3.Retry(total=False, redirect=False)
"""No retries of urllib3's own: it raises the first error as it is."""

_OWN_AUTHORITY = "if the certificate is one of your own, name its authority in REQUESTS_CA_BUNDLE"
_UNKNOWN_HOST = "; check the host, or, if only a proxy resolves it, set HTTP_PROXY and HTTPS_PROXY"

_DEFAULTS = {"User-Agent": "spark-cdk", "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}


class Connections:
    """Pools of connections to all hosts that `limits` allow. Thread-safe.

    limits: where it may send. The address of a host is checked when a connection is opened. With a proxy, the
    connection leads to the proxy, which is always allowed, so only the host name of the URL is checked.
    """

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
        self._response_seconds, self._limits = response_seconds, limits
        self._managers: dict[str | None, urllib3.PoolManager] = {}
        self._pools: dict[str, tuple[HTTPConnectionPool, bool]] = {}

    def send(self, request: Request) -> Response:
        """Send `request` unchanged, without following redirects, and read the whole response unless it is a stream.

        Raises RequestsSpent: when the run, or its task, may send no more requests.
        """
        current_lease().count()
        try:
            url = _url(request)
            raw = self._exchange(request, url)
            status, fields = raw.status, Headers(dict(raw.headers.itermerged()))
            if _OK <= status < _REDIRECT:
                _check_coding(request, raw)
            if request.stream and _OK <= status < _REDIRECT:
                # Only successes are streamed: of an error response, the caller needs the status and the text.
                pieces = _Pieces(request, raw)
                current_metrics().count_response(status, 0)
                return StreamedResponse(status, fields, pieces, url, request, max_bytes=self._max_bytes)
            try:
                body = joined(_body(raw, fields), self._max_bytes, request)
                _check_end(request, raw)
            except BaseException:
                raw.close()
                raise
            finally:
                raw.release_conn()
        except (urllib3.exceptions.HTTPError, ValueError, OSError) as error:
            current_metrics().count_failure()
            _translate(request, error)
        current_metrics().count_response(status, len(body))
        return Response(status, fields, body, url, request)

    def _exchange(self, request: Request, url: str) -> urllib3.BaseHTTPResponse:
        """Return the response to a request, of which only the headers have been read."""
        headers = _sent_headers(request)
        if _is_patched():
            return send_patched(request, url, headers)
        pool, by_proxy = self._pool(url)
        path = url[len(_host(url)) :]
        return pool.urlopen(
            request.method,
            url_for_proxy(url) if by_proxy else path if path.startswith("/") else f"/{path}",
            request.body,
            headers,
            _ONCE,
            redirect=False,
            assert_same_host=False,
            timeout=self._timeout,
            preload_content=False,
        )

    def _pool(self, url: str) -> tuple[HTTPConnectionPool, bool]:
        """Return the connections to the host of a URL, and whether they lead to a proxy that gets the whole URL.

        Looked up once for each host, since the environment may set proxies for some hosts only.
        """
        host = _host(url)
        known = self._pools.get(host)
        if known is None:
            if not _HOST.match(url):
                raise urllib3.exceptions.LocationValueError
            if self._limits:
                # A proxy gets the full URL and parses it itself. An ambiguous URL has no origin and is refused here.
                target = origin(url)
                for limit in self._limits:
                    limit.check_host(target.host, target.port)
            secure = _is_secure(host)
            proxy = proxy_of(url) if _may_use_proxy() else None
            manager = self._manager(proxy)
            checks = {"ssl_context": self._tls} if secure or _is_secure(proxy) else None
            pool = manager.connection_from_url(host, checks)
            if len(self._pools) >= _HOSTS:
                # The pool manager now closes its least recently used pools.
                self._pools.clear()
            known = self._pools[host] = pool, isinstance(manager, urllib3.ProxyManager) and not secure
        return known

    def _manager(self, proxy: str | None) -> urllib3.PoolManager:
        manager = self._managers.get(proxy)
        if manager is None:
            if proxy is None:
                manager, limits = urllib3.PoolManager(_HOSTS, maxsize=_CONNECTIONS), self._limits
            else:
                tls = self._tls if _is_secure(proxy) else None
                manager, limits = proxy_manager(proxy, _CONNECTIONS, _HOSTS, tls), ()
            manager.pool_classes_by_scheme = timed_pools(manager.pool_classes_by_scheme, self._response_seconds, limits)
            self._managers[proxy] = manager
        return manager

    @cached_property
    def _tls(self) -> SSLContext:
        """The certificate checks of all connections: reading the authorities takes 10 ms."""
        variable = next((name for name in _AUTHORITIES if os.environ.get(name)), "")
        path = Path(os.environ[variable] if variable else certifi.where())
        context = create_urllib3_context()
        try:
            context.load_verify_locations(**{"capath" if path.is_dir() else "cafile": str(path)})
        except OSError as error:
            raise ConfigError(
                f"the certificates {path} of {variable} cannot be read: {error.strerror or error}; name a file, or a "
                "folder, with certificates of authorities in PEM"
            ) from None
        return context


class _Pieces:
    """A body as it arrives, in pieces. Closes its connection at the end, and when reading fails."""

    def __init__(self, request: Request, raw: urllib3.BaseHTTPResponse) -> None:
        self._request, self._raw = request, raw
        self._pieces = _pieces(raw)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            piece = next(self._pieces)
        except StopIteration:
            self._raw.release_conn()
            _check_end(self._request, self._raw)
            raise
        except (urllib3.exceptions.HTTPError, ValueError, OSError) as error:
            self.close()
            _translate(self._request, error)
        current_metrics().count_bytes(len(piece))
        return piece

    def close(self) -> None:
        self._raw.close()
        self._raw.release_conn()


def _body(raw: urllib3.BaseHTTPResponse, fields: Headers) -> Iterable[bytes]:
    """Return the body: in one piece, which takes a third of the time for 370 KB, unless it may be too large."""
    length = fields.get("content-length", "")
    longest = _MAX_WHOLE_BODY.get(fields.get("content-encoding"), 0)
    if length.isdecimal() and len(length) <= len(str(longest)) and int(length) <= longest:
        return [raw.read(decode_content=True)]
    return _pieces(raw)


def _pieces(raw: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    if raw.status in _WITHOUT_BODY and "transfer-encoding" in raw.headers:
        # urllib3 would wait for a chunk. If there is one, the next response must not begin with it.
        raw.close()
        return iter(())
    return raw.stream(_PIECE_BYTES, decode_content=True)


def _check_coding(request: Request, raw: urllib3.BaseHTTPResponse) -> None:
    """Raise DecodeError if a body has a content encoding that cannot be decoded here: as text, it might look whole."""
    coding = raw.headers.get("content-encoding", "").lower()
    if coding in _EXTRAS and coding not in raw.CONTENT_DECODERS and raw.length_remaining != 0:
        raw.close()
        raise DecodeError(
            f"{request} answered with the Content-Encoding {coding}, which cannot be decoded; remove it from "
            f"the header Accept-Encoding of the request, or pip install 'urllib3[{_EXTRAS[coding]}]'"
        )


def _check_end(request: Request, raw: urllib3.BaseHTTPResponse) -> None:
    """Check that a body is complete.

    Raises Timeout: when a compressed body is truncated, or other bytes follow it, which urllib3 does not report. Raises
    DecodeError: when the status says that it is a part of the body, although the request had no range.
    """
    decoder = getattr(raw, "_decoder", None)
    packed = [getattr(each, "_obj", None) for each in getattr(decoder, "_decoders", [decoder])]
    # An empty body may be labelled as compressed, too. `tell` does not count a chunked body, so it cannot detect this.
    if not all(getattr(each, "eof", True) for each in packed) and getattr(raw, "_has_decoded_content", False):
        raise Timeout(f"{request}: the connection failed (the compressed body is truncated, or other bytes follow it)")
    if raw.status != _PARTIAL or "range" in Headers(request.headers):
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


def _is_secure(url: str | None) -> bool:
    return url is not None and url[:6].lower() == "https:"


@lru_cache(maxsize=_CONNECTIONS)  # called four times per request
def _host(url: str) -> str:
    """Return the scheme and host of a URL: `https://api.example.com`."""
    match = _HOST.match(url)
    return match.group() if match else url


def _may_use_proxy() -> bool:
    """Whether the environment sets a proxy; on some systems their settings do."""
    return sys.platform in {"darwin", "win32"} or any(name.lower().endswith("_proxy") for name in os.environ)


def _is_patched() -> bool:
    """Whether a mock library, such as `responses` or requests-mock, answers requests."""
    for module, name in _PATCHED:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and kind.send.__module__ != module:
            return True
    return False


def _sent_headers(request: Request) -> dict[str, str]:
    """Return the headers of a request and those that every request has; the case of a name makes no difference."""
    fields = {name.lower(): (name, value) for name, value in (*_DEFAULTS.items(), *request.headers.items())}
    if request.body is not None:
        fields["content-length"] = "Content-Length", str(len(request.body))
    return dict(fields.values())


def _url(request: Request) -> str:
    """Return the URL of a request as it is sent: the host in lower case, and with the escapes of `requests`."""
    url = request.full_url
    # Host names are case-insensitive; servers, logs and caches expect lower case.
    if not (host := _host(url)).islower():
        url = host.lower() + url[len(host) :]
    return url if _CLEAN_URL.fullmatch(url) else requoted(url)


def _translate(request: Request, error: Exception) -> NoReturn:
    """Raise the kit's error for `error`. Shows only its cause, as its own text contains the URL with its secrets."""
    if not _HOST.match(request.url):
        raise ConfigError(f"{request}: the URL has no scheme; check the URL, https:// or http:// is missing") from None
    cause = _cause(error)
    why = request.hide(f"{type(cause).__name__}: {cause}")
    if isinstance(cause, TimeoutError):
        raise Timeout(f"{request}: no response in time ({why})") from None
    match error:
        case urllib3.exceptions.DecodeError():
            # Transient: observed once with a server under load, and not in its next 30,000 responses.
            raise Timeout(
                f"{request}: the connection failed (the body does not match Content-Encoding: {why})"
            ) from None
        case urllib3.exceptions.ProxyError():
            raise _proxy_error(f"{request}: the proxy failed ({why})", why, cause) from None
        case urllib3.exceptions.SSLError():
            raise TransientError(f"{request}: no secure connection ({why}); {_OWN_AUTHORITY}") from None
        case ValueError():
            # Its text may contain the URL or a header, including credentials.
            kind = type(error).__name__
            raise ConfigError(f"{request}: this cannot be requested ({kind}); check the URL and the headers") from None
        # To urllib3, a connection that cannot be opened is a timeout, too.
        case urllib3.exceptions.TimeoutError() if not isinstance(error, urllib3.exceptions.NewConnectionError):
            raise Timeout(f"{request}: no response in time ({why})") from None
        case urllib3.exceptions.HTTPError() | ConnectionError():
            hint = _UNKNOWN_HOST if isinstance(cause, socket.gaierror) else ""
            raise Timeout(f"{request}: the connection failed ({why}){hint}") from None
        case _:
            raise ConfigError(f"{request}: {why}") from None


def _proxy_error(text: str, why: str, cause: BaseException) -> ConfigError | TransientError:
    if _NEEDS_LOGIN in why:
        return ConfigError(f"{text}: {PROXY_LOGIN}")
    if isinstance(cause, SSLError | urllib3.exceptions.SSLError):
        return TransientError(f"{text}; {_OWN_AUTHORITY}")
    return TransientError(f"{text}; check HTTP_PROXY and HTTPS_PROXY, or list the host in NO_PROXY")


def _cause(error: BaseException) -> BaseException:
    """Return the innermost error: those of urllib3 wrap those of the socket."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error
