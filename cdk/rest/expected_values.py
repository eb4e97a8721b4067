"""What the attributes of streams that read an HTTP API, and of resources, have to be."""

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from cdk.base.errors import ConfigError
from cdk.base.first_use import lazy_pattern
from cdk.base.process.connector_line import defined_at
from cdk.rest.errors.error_handler import ErrorHandler
from cdk.rest.http.authenticator import Authenticator
from cdk.rest.http.redact import safe_url
from cdk.rest.limits.budget import Budget
from cdk.rest.pagination.paginator import Paginator
from cdk.rest.records.decoder import Decoder
from cdk.streams.stream import Stream
from cdk.streams.written_class import STREAM_ATTRIBUTES, Expected, attribute, kind_shown, names, object_of, value_shown

T = TypeVar("T")

_SCHEMES = ("https://", "http://")
_WITH_HOST = lazy_pattern(r"(?:[a-z][a-z0-9+.\-]*:)?//", re.IGNORECASE)


def url_shown(value: object) -> str:
    """A value that may be a URL for an error, without what may be secret in it."""
    if not isinstance(value, str):
        return value_shown(value)
    # Without a scheme, the user and the password of a URL would be taken for a part of its path.
    host = "" if _WITH_HOST.match(value) else "//"
    return repr(safe_url(host + value).removeprefix(host))


def is_url(value: object) -> bool:
    """Whether a value is a URL with the scheme of HTTP."""
    return isinstance(value, str) and value.lower().startswith(_SCHEMES)


URL_BASE = Expected(
    lambda value: value == "" or is_url(value), "a URL that begins with `https://` or `http://`", url_shown
)
AUTHENTICATOR = Expected(
    lambda value: value is None or object_of(Authenticator)(value),
    "an authenticator such as `Bearer(token)`, or None",
    kind_shown,
)
_RETURNED: Mapping[str, Expected] = {
    "authenticator": AUTHENTICATOR,
    "params": Expected(object_of(Mapping), "the parameters by name, such as `{'limit': 100}`", kind_shown),
    "headers": Expected(object_of(Mapping), "the headers by name, such as `{'Accept': 'text/csv'}`", kind_shown),
    "path": Expected(object_of(str), "the path as a string, such as '/users'", kind_shown),
}
"""What the methods of an HttpStream have to return."""
RESOURCE_ATTRIBUTES: Mapping[str, Expected] = {
    "paginator": Expected(
        object_of(Paginator), "an object such as `LinkHeader()`, or `SinglePage()` for a single page"
    ),
    "decoder": Expected(object_of(Decoder), "an object such as `Jsonl()` or `CsvRows()`, or `JsonDocument()` for JSON"),
    "error_handler": Expected(object_of(ErrorHandler), "an object such as `HttpErrorHandler()`"),
    "budget": Expected(
        lambda value: value is None or isinstance(value, Budget), "a budget such as `Budget(calls=10)`, or None"
    ),
    "records_path": Expected(names, "the names on the way to the records, each a string: `('data', 'items')`"),
}
"""What the attributes have to be that both an HttpStream and a resource have."""
HTTP_ATTRIBUTES: Mapping[str, Expected] = {**STREAM_ATTRIBUTES, **RESOURCE_ATTRIBUTES, "url_base": URL_BASE}
"""What the attributes of an HttpStream have to be."""


def check_url(stream: Stream, base: str, url: str) -> None:
    """Raise ConfigError if the URL of a stream's requests has no scheme. base: its `url_base`."""
    if not is_url(url):
        hint = "" if base else f"; or return one from `path`, which is {url_shown(url)}"
        why = f"{attribute(type(stream), 'url_base')}: found {url_shown(base)}, expected {URL_BASE.words}{hint}"
        raise ConfigError(why, stream=stream.name)


def returned(stream: Stream, method: Callable[..., T], value: T) -> T:
    """The value that a stream's method returned. Raises ConfigError: the kit cannot use it."""
    name = method.__name__
    if problem := _RETURNED[name].problem(value):
        raise ConfigError(f"{attribute(type(stream), name)}: {problem}{defined_at(method)}", stream=stream.name)
    return value
