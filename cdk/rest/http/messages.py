"""Request and Response: plain values, independent of any HTTP library."""

from base64 import b64decode
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, overload
from urllib.parse import parse_qsl, quote_plus, urldefrag, urlsplit

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from cdk.base.errors import ConfigError, DecodeError
from cdk.base.first_use import lazy_pattern
from cdk.base.records.exact_json import exact_json
from cdk.base.records.raw_json_lines import JsonLines, cut_out
from cdk.base.records.typed_json_lines import RecordType, cut_typed
from cdk.base.secret_names import looks_secret
from cdk.base.values import JsonValue, as_object, from_json, to_json
from cdk.rest.http.json_path import ANY, absence, path
from cdk.rest.http.origin import CredentialScope, ForeignHost, is_relative, neutral_headers, origin
from cdk.rest.http.redact import hide, safe_url

T = TypeVar("T")

RequestPart: TypeAlias = Literal["request_parameter", "header", "body_data", "body_json"]
"""The part of a request that a value goes into: a query parameter, a header, a field of the form or JSON body."""

PROXY_LOGIN = (
    "the proxy requires credentials: put them into its address, HTTPS_PROXY=http://user:password@host:port (HTTP_PROXY "
    "for http://), or list the host in NO_PROXY"
)
"""The advice for the status 407, which a proxy answers in place of the server."""


class Headers(Mapping[str, str]):
    """Header fields with case-insensitive names. Iteration yields lower-case names."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, str] | None = None) -> None:
        self._fields = {name.lower(): value for name, value in fields.items()} if fields else {}

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    @overload
    def get(self, name: str, /) -> str | None: ...
    @overload
    def get(self, name: str, /, default: str | T) -> str | T: ...
    def get(self, name: str, /, default: object = None) -> object:
        """Return the value of a field, or `default`. Faster than `Mapping.get`, which catches a KeyError if missing."""
        return self._fields.get(name.lower(), default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        shown = {name: "****" if looks_secret(name) else value for name, value in self._fields.items()}
        return f"Headers({shown})"


_CONDITIONS = frozenset({"if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range"})
_NO_NUMBER = lazy_pattern(rb"\b(?:NaN|Infinity)\b")
_ADVICE = ". It has NaN or Infinity, which JSON does not allow: `JsonDocument(lenient=True)` reads them as null"


class Request(Struct, frozen=True):
    """One HTTP request.

    url: absolute. If it has a query, `params` are appended to it.
    params: query parameters. None is omitted, a list repeats its name, a boolean is `true` or `false`.
    secret: lower-case names of parameters and headers whose values are never shown, logged or saved. Names that look
        secret (`api_key`, `Authorization`) are always treated so.
    hidden: secrets elsewhere, for example in the body: `hide` masks these values, too.
    stream: whether the body may be larger than memory: it is then fetched while it is read, with `Response.chunks`.
    scope: the origins to which its secrets may go, even if the URL changes; None for the origin of the current URL.
    login: whether it obtains credentials, so that an earlier response to it may have expired.
    """

    method: str
    url: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    secret: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    stream: bool = False
    scope: CredentialScope | None = None
    login: bool = False

    @property
    def full_url(self) -> str:
        """The URL with its query, without a fragment. Contains secrets: never show it to users."""
        url = urldefrag(self.url).url if "#" in self.url else self.url
        if not self.params:
            return url
        query = "&".join([f"{_quote(str(name))}={_quote(text)}" for name, text in _pairs(self.params)])
        if not query:
            return url
        return f"{url}{'&' if '?' in url else '?'}{query}"

    @property
    def body_fields(self) -> tuple[RequestPart | None, Mapping[str, JsonValue]]:
        """The type of its body, a form if it is not JSON, and the fields of the body; None if it has no body."""
        if not self.body:
            return None, {}
        try:
            return "body_json", as_object(from_json(self.body))
        except ValueError:
            return "body_data", dict(parse_qsl(self.body.decode(errors="replace"), keep_blank_values=True))

    def with_params(self, params: Mapping[str, JsonValue], *, secret: bool = False) -> "Request":
        """Return a copy with these query parameters added or replaced. secret: whether their values are."""
        return replace(self, params={**self.params, **params}, secret=self._secret(params, marked=secret))

    def with_body_fields(self, fields: Mapping[str, JsonValue]) -> "Request":
        """Return a copy with these fields added to its JSON body, or replaced there.

        Raises ConfigError: when the body is not a JSON object.
        """
        try:
            body = {} if self.body is None else from_json(self.body)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise ConfigError(
                f"{self}: cannot add {', '.join(fields)} to its body, expected a JSON object there; give the stream a "
                "`body_json` that is one, or have them sent as query parameters"
            )
        headers = {"Content-Type": "application/json", **self.headers} if self.body is None else self.headers
        return replace(self, body=to_json({**body, **fields}), headers=headers)

    def with_headers(self, headers: Mapping[str, str], *, secret: bool = False) -> "Request":
        """Return a copy with these headers added or replaced, whatever their case. secret: whether their values are."""
        new = {name.lower() for name in headers}
        others = {name: value for name, value in self.headers.items() if name.lower() not in new}
        return replace(self, headers={**others, **headers}, secret=self._secret(headers, marked=secret))

    def is_secret(self, name: str) -> bool:
        """Whether a parameter or header of this name holds a secret."""
        return name.lower() in self.secret or looks_secret(name)

    def hide(self, text: str) -> str:
        """Mask the values of this request's secrets in `text`, which an API may have echoed."""
        return hide(text, self.secret_values())

    def secret_values(self) -> Iterator[str]:
        """Yield the secrets of this request as they are sent, and the parts of them that an API may echo."""
        yield from self.hidden
        for name, value in self.secrets():
            text = str(value)
            yield text
            if name.lower() == "cookie":
                yield from (pair.partition("=")[2].strip() for pair in text.split(";"))
            # `Bearer abc`: the API echoes `abc`, or the password that `Basic` holds.
            yield text.rpartition(" ")[2]
            if text[:6].lower() == "basic ":
                yield _password(text)

    def has_secret_in(self, text: str) -> bool:
        """Whether `text` contains a secret of this request or of its scope."""
        return self.hide(text) != text or (self.scope is not None and self.scope.secrets.holds(text))

    def outgoing(self, *, authorized: bool = False) -> "Request":
        """Return this request as it may be sent: outside of its scope, without headers that may identify the sender.

        authorized: whether an authenticator changed it. Raises ForeignHost: when it has secrets or a body and its URL
        is outside of the scope.
        """
        scope, target = self.scope, origin(self.url)
        # A URL without a scheme cannot be sent; the transport raises the error.
        if scope is None or scope.covers(target) or is_relative(self.url):
            return self
        if authorized or self.body is not None or self.has_secrets or scope.secrets.holds(self.full_url):
            shown = scope.secrets.mask(self.hide(str(self)))
            if not target.host:
                raise ForeignHost(f"{shown}: expected http:// or https://, and a host; correct the URL")
            allowed = ", ".join(sorted(map(str, scope.origins))) or "a host that the config or `url_base` names"
            raise ForeignHost(
                f"{shown}: expected a URL on {allowed}; credentials and bodies are not sent elsewhere: if "
                f"{target} is right, name it in the config or as `url_base`"
            )
        return replace(self, headers=neutral_headers(self.headers))

    @property
    def has_secrets(self) -> bool:
        """Whether a parameter, a header, the URL or the body contains something that `hide` would mask."""
        if self.hidden or any(True for _ in self.secrets()):
            return True
        return "?" in self.url and any(value and self.is_secret(name) for name, value in query_of(self.url))

    @property
    def is_conditional(self) -> bool:
        """Whether a header makes the response conditional or requests a range."""
        return any(name.lower() in _CONDITIONS for name in self.headers)

    def secrets(self) -> Iterator[tuple[str, JsonValue]]:
        """Yield the parameters and headers that contain a secret."""
        for name, value in (*self.params.items(), *self.headers.items()):
            if value not in (None, "") and self.is_secret(name):
                yield name, value

    def _secret(self, names: Iterable[str], *, marked: bool) -> frozenset[str]:
        return self.secret | {name.lower() for name in names} if marked else self.secret

    def __str__(self) -> str:
        """The method and the URL, with secrets masked."""
        return self.hide(f"{self.method} {safe_url(self.full_url, self.secret)}")

    __repr__ = __str__


def query_of(url: str) -> list[tuple[str, str]]:
    """Return the query parameters of a URL, including those without a value."""
    return parse_qsl(urlsplit(url).query, keep_blank_values=True)


@dataclass(slots=True, eq=False, repr=False)
class Response:
    """The response to a request.

    body: decompressed, if it had a content encoding (gzip, deflate). url: the final URL, after redirects; contains
    secrets. request: the original request.
    """

    status: int
    headers: Headers
    body: bytes
    url: str
    request: Request
    _decoded: tuple[JsonValue] | None = None
    _rest: tuple[tuple[str, ...], bytes] | None = None

    @property
    def ok(self) -> bool:
        """Whether the status is below 400."""
        return self.status < 400  # noqa: PLR2004 - where HTTP's errors begin

    @property
    def is_stream(self) -> bool:
        """Whether the body is fetched only while it is read."""
        return False

    @property
    def is_decoded(self) -> bool:
        """Whether `json()` has decoded the body."""
        return self._decoded is not None

    def json(self) -> Any:  # noqa: ANN401 - the caller knows what the API answers
        """Return the body as JSON. It is decoded once; later calls return the same objects.

        Raises DecodeError: when the body is not JSON.
        """
        decoded = self._decoded
        if decoded is None:
            try:
                decoded = (exact_json(self.body),)
            except orjson.JSONDecodeError as error:
                try:
                    # JSON is UTF-8, but some servers send, and name, another charset.
                    decoded = (exact_json(self.body.decode(self._charset).encode()),)
                except (LookupError, ValueError):
                    self._not_json(error)
            self._decoded = decoded
        return decoded[0]

    def undecoded_records(self, where: tuple[str, ...], record_type: RecordType | None = None) -> JsonLines | None:
        """Return the undecoded list of objects at a path of a JSON body; None if only `json()` can read the body.

        record_type: the type to parse them to where possible, see `Slice`.
        """
        if self._decoded is not None or ANY in where:
            return None
        parts = cut_typed(self.body, where, record_type) or cut_out(self.body, where)
        if parts is None:
            return None
        lines, rest = parts
        self._rest = (where, rest)
        return lines

    def value_at(self, *names: str) -> Any:  # noqa: ANN401 - as `json`
        """Return the value at a path of a JSON body, None if it is missing. Does not decode records that were cut out.

        Raises DecodeError: when the body is not JSON.
        """
        return path(*names)(self._body_with(names))

    def absence(self, *names: str) -> str:
        """Describe where a path of a JSON body ends early, see `json_path.absence`. Raises as `value_at`."""
        return absence(self._body_with(names), names)

    @property
    def bytes_without_records(self) -> bytes:
        """The text of the body, with an empty list in place of the records if these were cut out."""
        return self.body if self._rest is None else self._rest[1]

    def body_without_records(self) -> JsonValue:
        """Return the body as JSON, with an empty list in place of the records if these were cut out.

        Raises DecodeError: when the body is not JSON.
        """
        if self._rest is not None and self._decoded is None:
            where, rest = self._rest
            body = from_json(rest)
            # Check the place: another list with the same text may have been cut out by mistake.
            if path(*where)(body) == []:
                return body
        return self.json()  # type: ignore[no-any-return] # JSON

    def _body_with(self, names: Sequence[str]) -> JsonValue:
        """Return the decoded body, or only its frame if `names` does not lead into the records that were cut out."""
        where = () if self._rest is None else self._rest[0]
        return self.json() if ANY in names or _meet(names, where) else self.body_without_records()

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield the body in pieces. Close it if not read to the end: `with closing(response.chunks()) as chunks:`."""
        yield self.body

    def close(self) -> None:
        """Release the connection of a body that will not be read."""

    def with_request(self, request: Request) -> "Response":
        """Return a copy with `request`, which led to this response by redirects."""
        return Response(self.status, self.headers, self.body, self.url, request)

    @property
    def text(self) -> str:
        """The body decoded by the charset in the headers, else UTF-8; invalid bytes are replaced."""
        try:
            return self.body.decode(self._charset, errors="replace")
        except LookupError:
            return self.body.decode("utf-8", errors="replace")

    @property
    def _charset(self) -> str:
        named = self.headers.get("content-type", "").lower().partition("charset=")[2].split(";")[0].strip(" \"'")
        return named or "utf-8"

    def _not_json(self, error: orjson.JSONDecodeError) -> NoReturn:
        kind = self.headers.get("content-type", "no content type")
        # Masked before it is truncated: half a secret would not be found.
        start = self.request.hide(self.text)[:80]
        raise DecodeError(
            f"{self.request} answered {self.status} with a body that is not JSON ({kind}, {len(self.body)} bytes, "
            f"it begins {start!r}): {error}; check the path, or set the decoder that reads this format"
            f"{_ADVICE if _NO_NUMBER.search(self.body) else ''}"
        ) from None

    def __repr__(self) -> str:
        return f"<{self.status} to {self.request}, {len(self.body)} bytes>"


def _password(header: str) -> str:
    """Return the password of a Basic header, or the user if it is empty: many APIs take a key as the user."""
    try:
        user, _, password = b64decode(header[6:], validate=True).decode().partition(":")
    except ValueError:
        return ""
    return password or user


# Cached, because parameter names and most values are the same from request to request.
_quote = lru_cache(maxsize=1024)(partial(quote_plus, errors="surrogatepass"))


def _pairs(params: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    for name, value in params.items():
        match value:
            case str():
                yield name, value
            case None:
                continue
            case list() | tuple():
                for item in value:
                    yield name, _text(item)
            case _:
                yield name, _text(value)


def _text(value: JsonValue) -> str:
    if value is True or value is False:
        return "true" if value else "false"
    return str(value)


def _meet(path: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one of two paths is a prefix of the other."""
    return all(a == b for a, b in zip(path, other, strict=False))
