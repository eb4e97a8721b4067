"""Where in a request a secret goes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson

from cdk.base.errors import ConfigError
from cdk.base.values import from_json, to_json
from cdk.rest.http.messages import Request

Place: TypeAlias = Literal["header", "query", "form", "json"]
"""A header, a query parameter, a field of the form, or a field of the JSON body."""

_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"


def placed(request: Request, place: Place, path: Sequence[str], value: str) -> Request:
    """`request` with a secret in it. path: one name, except in a JSON body, where it may lead deeper.

    Raises ConfigError: something else is there already, for nobody could say which of the two an API wants; or the body
    is of another kind than the place.
    """
    match place:
        case "header":
            return with_header(request, path[0], value)
        case "query":
            return _in_query(request, path[0], value)
        case "form":
            fields = _form(request, path[0])
            if any(name == path[0] for name, _ in fields):
                raise _twice(request, f"the form field {path[0]!r}")
            return _with_body(request, urlencode([*fields, (path[0], value)]).encode(), _FORM, value)
        case "json":
            return _with_body(request, _deep(request, path, value), _JSON, value)


def with_header(request: Request, name: str, value: str) -> Request:
    """`request` with a header that holds a secret. Raises ConfigError: it has one of this name, in the same case."""
    if name in request.headers:
        raise _twice(request, f"the header {name!r}")
    return request.with_headers({name: value}, secret=True)


def _twice(request: Request, what: str) -> ConfigError:
    return ConfigError(f"{request}: {what} is set by the request and by its authenticator; keep it in one place")


def _in_query(request: Request, name: str, value: str) -> Request:
    # The link to a next page often brings the key along; twice the same key is refused by some APIs.
    if "?" in request.url and (name, value) in parse_qsl(urlsplit(request.url).query, keep_blank_values=True):
        return replace(request, secret=request.secret | {name.lower()})
    if name in request.params:
        raise _twice(request, f"the query parameter {name!r}")
    return request.with_params({name: value}, secret=True)


def _form(request: Request, name: str) -> list[tuple[str, str]]:
    if not request.body:
        return []
    if _FORM not in _kind(request):
        raise _unfit(request, name, "a form")
    return parse_qsl(request.body.decode(), keep_blank_values=True)


def _deep(request: Request, path: Sequence[str], value: str) -> bytes:
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
        raise _unfit(request, " > ".join(path), "a JSON object")
    if node.get(last, value) != value:
        raise _twice(request, f"{' > '.join(path)} of the JSON body")
    node[last] = value
    return to_json(body)


def _with_body(request: Request, body: bytes, kind: str, secret: str) -> Request:
    headers = request.headers if _kind(request) else {**request.headers, "Content-Type": kind}
    return replace(request, body=body, headers=headers, hidden=request.hidden | {secret})


def _kind(request: Request) -> str:
    return next((value for name, value in request.headers.items() if name.lower() == "content-type"), "").lower()


def _unfit(request: Request, name: str, expected: str) -> ConfigError:
    return ConfigError(
        f"{request}: the credentials go into {name} of the body, which is not {expected}; "
        f"put them elsewhere, or send another body"
    )
