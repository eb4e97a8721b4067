"""The adapters of `requests`, without the cost of its Session: the only module that imports `requests`.

A Session spends 250 us a request on cookies, hooks, merging and looking for proxies. The adapter below it does the
work. Mock libraries patch its `send`, as `responses` does, or that of the Session, as requests-mock does.
"""

import os
import re
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
from cdk.base.process.request_lease import current_lease
from cdk.base.values import Json
from cdk.rest.http.egress import Egress
from cdk.rest.http.egress_pools import timed_pools
from cdk.rest.http.messages import Headers, Request, Response
from cdk.rest.http.metrics import current_metrics
from cdk.rest.http.origin import origin
from cdk.rest.http.streamed_response import MAX_BYTES, StreamedResponse, joined

_CONNECTIONS = 64
"""Connections kept open per host; more are opened when needed, and closed after use."""

_HOSTS = 64
"""Hosts whose connections are kept."""

_PIECE = 2**18
"""Bytes of a body that are asked for at once: a bomb unfolds one piece at a time."""

_ALL: Mapping[str | None, int] = {None: 2**24, "gzip": 2**16, "deflate": 2**16}
"""The longest bodies, by their encoding, that are asked for whole: packed, 64 KiB unfold to 64 MiB at most."""

_OK, _PARTIAL, _REDIRECT = 200, 206, 300
_BYTES = re.compile(r"bytes 0-(?P<last>\d{1,18})/(?P<size>\d{1,18})")

_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/?#]*")
_CLEAN_URL = re.compile(r"(?:[A-Za-z0-9._~:/?&=+,@;$!*'()\-]++|%(?:2[0-9A-CF]|3[A-F]|40|[89A-F][0-9A-F]))+")
"""What `requote_uri` leaves as it is: what needs no escape, and escapes of what does."""

_DEFAULTS = {"User-Agent": "spark-cdk", "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}


class Connections:
    """A pool of connections to any number of hosts, or those that `limits` allow. Safe to use from several threads."""

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
        """Send `request` as it is, without following redirects, and read the whole response unless it is a stream.

        Raises RequestsSpent: no more may be sent here.
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
                # Of an error the status and the text are wanted, so that is read at once.
                pieces = _Pieces(request, raw)
                current_metrics().count_response(status, 0)
                return StreamedResponse(status, fields, pieces, url, request, max_bytes=self._max_bytes)
            try:
                body = joined(raw.iter_content(_chunk_size(fields)), self._max_bytes, request)
                _check_end(request, raw)
            finally:
                # Gives the connection back when the body is read, and closes it when that failed.
                raw.close()
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError, OSError) as error:
            current_metrics().count_failure()
            _translate(request, error)
        current_metrics().count_response(status, len(body))
        return Response(status, fields, body, url, request)

    def _exchange(self, prepared: requests.PreparedRequest, **options: Json) -> requests.Response:
        """The response of the adapter, or of a Session where its class has a `send` of its own."""
        if requests.Session.send.__module__ == requests.sessions.__name__:
            return self._adapter.send(prepared, **options)
        session = requests.Session()
        for scheme in ("https://", "http://"):
            session.mount(scheme, self._adapter)
        prepared.prepare_cookies({})
        return session.send(prepared, allow_redirects=False, **options)

    def _proxies_for(self, url: str) -> dict[str, str]:
        """The proxies that the environment names for a host, looked up once: it takes 30 us."""
        host = _host(url)
        proxies = self._proxies.get(host)
        if proxies is None:
            proxies = self._proxies[host] = get_environ_proxies(url)
        return proxies


class _Pieces:
    """A body as it arrives. Closes its connection at the end, and when something goes wrong."""

    def __init__(self, request: Request, raw: requests.Response) -> None:
        self._request, self._raw = request, raw
        self._pieces: Iterator[bytes] = raw.iter_content(_PIECE)

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
        current_metrics().piece(len(piece))
        return piece

    def close(self) -> None:
        self._raw.close()


class _Fields(CaseInsensitiveDict[str]):
    """The headers of a request. What urllib3 copies of them, to send them, is a dict: a tenth of the work."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._store = OrderedDict([(name.lower(), (name, value)) for name, value in fields.items()])

    def copy(self) -> dict[str, str]:  # type: ignore[override] # see above
        return dict(self._store.values())


class _Adapter(HTTPAdapter):
    """An adapter that finds a host's pool and checks its certificates once, and keeps no cookies.

    limits: where it may send. What a name leads to is seen when a connection is made. Behind a proxy that is the proxy,
    which is always allowed: there only the name counts.
    """

    def __init__(self, response_seconds: float, limits: Sequence[Egress]) -> None:
        super().__init__(pool_connections=_HOSTS, pool_maxsize=_CONNECTIONS)
        self._pools: dict[str, ConnectionPool] = {}
        self._response_seconds, self._limits = response_seconds, limits
        self.poolmanager.pool_classes_by_scheme = timed_pools(response_seconds, limits)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Json) -> Json:
        """The pools behind a proxy."""
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
                # A proxy gets the URL whole, and reads it in its own way: one that can be read in two has no origin.
                target = origin(url)
                for limit in self._limits:
                    limit.check_host(target.host, target.port)
            pool = super().get_connection_with_tls_context(request, verify, proxies, cert)
            super().cert_verify(pool, url, verify, cert)  # type: ignore[no-untyped-call] # not typed there
            if len(self._pools) >= _HOSTS:
                # The pool manager now closes the pools it used least.
                self._pools.clear()
            self._pools[host] = pool
        return pool

    def cert_verify(self, *_: object) -> None:
        """Do nothing: it is done when a pool is made."""

    def request_url(self, request: requests.PreparedRequest, proxies: Mapping[str, str] | None) -> str:
        if proxies:
            return super().request_url(request, proxies)
        url = request.url or ""
        path = url[len(_host(url)) :]
        return path if path.startswith("/") else f"/{path}"

    def build_response(self, req: requests.PreparedRequest, resp: urllib3.BaseHTTPResponse) -> requests.Response:
        response = requests.Response()
        response.status_code = resp.status
        # What urllib3 holds them in knows no case either; a copy would cost 10 us.
        response.headers = resp.headers  # type: ignore[assignment] # a mapping of the same behaviour
        response.raw = resp
        response.reason = resp.reason or ""
        response.url = req.url or ""
        response.request = req
        return response


def _chunk_size(fields: Headers) -> int | None:
    """How much of a body to ask for at once; None for all of it: a page of 370 KB takes a third of the time then."""
    length = fields.get("content-length", "")
    longest = _ALL.get(fields.get("content-encoding"), 0)
    return None if length.isdecimal() and len(length) <= len(str(longest)) and int(length) <= longest else _PIECE


def _headers(raw: requests.Response) -> Headers:
    """The fields of a response; one that was sent twice has both values, as HTTP has it."""
    fields = raw.headers
    return Headers(dict(fields.itermerged()) if isinstance(fields, HTTPHeaderDict) else fields)


def _check_end(request: Request, raw: requests.Response) -> None:
    """Raise Timeout: the body is packed, and its end is missing; urllib3 says nothing of that.

    Raises DecodeError: it is a part of the body, as its status says, and no part was asked for.
    """
    packed = getattr(getattr(raw.raw, "_decoder", None), "_obj", None)
    # Nothing at all may be labelled as packed, too. `tell` knows nothing of a body that comes in chunks.
    if packed is not None and not getattr(packed, "eof", True) and getattr(raw.raw, "_has_decoded_content", False):
        raise Timeout(f"{request}: the connection failed (the packed body is cut off)")
    # Other units than bytes are pages: PostgREST counts rows.
    part = _BYTES.fullmatch(raw.headers.get("content-range", "")) if raw.status_code == _PARTIAL else None
    if part is not None and int(part["last"]) + 1 < int(part["size"]) and "range" not in Headers(request.headers):
        raise DecodeError(
            f"{request} answered {_PARTIAL} with bytes up to {part['last']} of {part['size']}, and was asked for all: "
            "a server or a proxy cuts long responses; ask for smaller pages"
        )


@lru_cache(maxsize=_CONNECTIONS)  # it is asked for four times a request
def _host(url: str) -> str:
    """The scheme and host of a URL: `https://api.example.com`."""
    match = _HOST.match(url)
    return match.group() if match else url


def _prepared(request: Request) -> requests.PreparedRequest:
    url = request.full_url
    # Names of hosts have no case; servers, logs and caches expect the lower one.
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
    """Raise the kit's error for what went wrong. The original's text is not used: it holds the URL with its secrets."""
    if not _HOST.match(request.url):
        raise ConfigError(f"{request}: the URL has no scheme; check the URL, https:// or http:// is missing") from None
    cause = _cause(error)
    why = request.hide(f"{type(cause).__name__}: {cause}")
    if isinstance(cause, TimeoutError):
        raise Timeout(f"{request}: no response in time ({why})") from None
    match error:
        case requests.exceptions.ContentDecodingError() | urllib3.exceptions.DecodeError():
            # Seen once of a server under load, and not of its next 30,000 responses.
            raise Timeout(
                f"{request}: the connection failed (the body is not what Content-Encoding says: {why})"
            ) from None
        case requests.exceptions.ProxyError():
            raise TransientError(f"{request}: the proxy failed ({why}); check HTTPS_PROXY and NO_PROXY") from None
        case requests.exceptions.SSLError() | urllib3.exceptions.SSLError():
            hint = "if the certificate is one of your own, name its authority in REQUESTS_CA_BUNDLE"
            raise TransientError(f"{request}: no secure connection ({why}); {hint}") from None
        case ValueError():
            # Its text may hold the URL or a header, credentials included.
            kind = type(error).__name__
            raise ConfigError(f"{request}: this cannot be requested ({kind}); check the URL and the headers") from None
        case requests.exceptions.Timeout() | urllib3.exceptions.TimeoutError():
            raise Timeout(f"{request}: no response in time ({why})") from None
        case requests.RequestException() | urllib3.exceptions.HTTPError() | ConnectionError():
            raise Timeout(f"{request}: the connection failed ({why})") from None
        case _:
            # What requests says of certificates that are not where REQUESTS_CA_BUNDLE points.
            raise ConfigError(f"{request}: {why}") from None


def _cause(error: BaseException) -> BaseException:
    """What the system said first: errors of `requests` wrap those of urllib3, which wrap the socket's."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error
