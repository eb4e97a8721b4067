"""Static credentials: a key, user and password, or a token. Also adds secrets to the different parts of a request."""

from base64 import b64encode
from collections.abc import Generator, Sequence
from dataclasses import KW_ONLY, dataclass
from urllib.parse import parse_qsl, urlencode

import orjson
from msgspec.structs import replace

from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue, from_json, to_json
from cdk.rest.http.authenticator import Setting, text_of
from cdk.rest.http.messages import Request, RequestPart, Response, query_of

_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, eq=False, repr=False)
class ApiKey:
    """Sends `key` under `name`: as a header, as a query parameter, or in the body."""

    key: Setting
    _: KW_ONLY
    name: str | tuple[str, ...] = "X-API-Key"
    """In a JSON body it may be the path of the key."""
    send_in: RequestPart = "header"

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        path = (self.name,) if isinstance(self.name, str) else self.name
        yield with_secret(request, self.send_in, path, text_of(self.key))


@dataclass(frozen=True, eq=False, repr=False)
class Basic:
    """Sends user and password in the header Authorization (RFC 7617), in UTF-8.

    Many APIs take a key as the user and no password.
    """

    user: Setting
    password: Setting = ""

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        credentials = basic_credentials(text_of(self.user), text_of(self.password))
        yield with_header(request, "Authorization", credentials)


@dataclass(frozen=True, eq=False, repr=False)
class Bearer:
    """Sends `Authorization: Bearer <token>`; `scheme` is the word before the token."""

    token: Setting
    _: KW_ONLY
    scheme: str = "Bearer"

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        yield with_header(request, "Authorization", f"{self.scheme} {text_of(self.token)}")


def basic_credentials(user: str, password: str) -> str:
    """Return the value of the header Authorization for a user and a password."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def with_secret(request: Request, part: RequestPart, path: Sequence[str], value: str) -> Request:
    """Return `request` with a secret in `part`. path: a single name, or in a JSON body possibly a nested path.

    Raises ConfigError: when there is another value already, as it is unknown which of them the API expects; or when the
    body has another type than `part`.
    """
    match part:
        case "header":
            return with_header(request, path[0], value)
        case "request_parameter":
            return _in_query(request, path[0], value)
        case "body_data":
            fields = _form(request, path[0])
            if any(name == path[0] for name, _ in fields):
                raise _set_twice(request, f"the form field {path[0]!r}")
            return _with_body(request, urlencode([*fields, (path[0], value)]).encode(), _FORM, value)
        case "body_json":
            return with_json_secret(request, path, value)


def with_header(request: Request, name: str, value: str) -> Request:
    """Return `request` with a secret header. Raises ConfigError: when it has one of the same name, in the same case."""
    if name in request.headers:
        raise _set_twice(request, f"the header {name!r}")
    return request.with_headers({name: value}, secret=True)


def _set_twice(request: Request, what: str) -> ConfigError:
    return ConfigError(f"{request}: {what} is set by the request and by its authenticator; set it in only one of them")


def _in_query(request: Request, name: str, value: str) -> Request:
    # The link to a next page often includes the key; some APIs reject a duplicate key.
    if "?" in request.url and (name, value) in query_of(request.url):
        return replace(request, secret=request.secret | {name.lower()})
    if name in request.params:
        raise _set_twice(request, f"the query parameter {name!r}")
    return request.with_params({name: value}, secret=True)


def _form(request: Request, name: str) -> list[tuple[str, str]]:
    if not request.body:
        return []
    if _FORM not in _content_type(request):
        raise _wrong_body(request, name, "a form")
    return parse_qsl(request.body.decode(), keep_blank_values=True)


def with_json_secret(request: Request, path: Sequence[str], value: JsonValue) -> Request:
    """Return `request` with a value at a path of its JSON body. Raises what `with_secret` raises."""
    try:
        body = from_json(request.body) if request.body else {}
    except orjson.JSONDecodeError:
        body = None
    *outer, last = path
    node = body
    for name in outer:
        if type(node) is dict:
            node = node.setdefault(name, {})
    if type(node) is not dict:
        raise _wrong_body(request, " > ".join(path), "a JSON object")
    if node.get(last, value) != value:
        raise _set_twice(request, f"{' > '.join(path)} of the JSON body")
    node[last] = value
    return _with_body(request, to_json(body), _JSON, value)


def _with_body(request: Request, body: bytes, kind: str, secret: JsonValue) -> Request:
    headers = request.headers if _content_type(request) else {**request.headers, "Content-Type": kind}
    hidden = request.hidden | {secret} if isinstance(secret, str) else request.hidden
    return replace(request, body=body, headers=headers, hidden=hidden)


def _content_type(request: Request) -> str:
    return next((value for name, value in request.headers.items() if name.lower() == "content-type"), "").lower()


def _wrong_body(request: Request, name: str, expected: str) -> ConfigError:
    return ConfigError(
        f"{request}: the credentials go into {name} of the body, which is not {expected}; "
        f"send them elsewhere, or send another body"
    )
