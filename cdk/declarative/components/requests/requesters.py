"""HttpRequester: which requests to send to an API, and how."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Annotated, Literal, cast
from urllib.parse import urljoin

from msgspec.structs import replace

from cdk.base.errors import ManifestError
from cdk.base.first_use import lazy_pattern
from cdk.base.values import JsonObject, JsonValue
from cdk.declarative.components.requests.error_handlers import DefaultErrorHandler
from cdk.declarative.components.requests.query_properties import PropertiesFromEndpoint, QueryProperties
from cdk.declarative.components.requests.request_body import fill_json
from cdk.declarative.model.component import Adapted
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.query_properties import NAME as PROPERTIES
from cdk.declarative.model.query_properties import Properties
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.request_plug_points import (
    AnyAuthenticator,
    AnyErrorHandler,
    AnyRequestBody,
    AnyRequester,
    Requester,
)
from cdk.declarative.syntax.validation import validated
from cdk.rest import CachedTransport, Decoder, HttpClient, HttpTransport
from cdk.rest.http.transport import SliceSenderTransport
from cdk.rest.limits.budget import Budgeted


def _with_properties(value: JsonValue) -> object:
    """Return the parameters with each `QueryProperties` among them validated as a component."""
    if not isinstance(value, Mapping):
        return value
    return {
        name: validated(QueryProperties, item)
        if isinstance(item, Mapping) and item.get("type") == "QueryProperties"
        else item
        for name, item in value.items()
    }


def _in_capitals(value: JsonValue) -> JsonValue:
    return value.upper() if isinstance(value, str) else value


_PLAIN = lazy_pattern(r"[A-Za-z0-9_\-]+(?:/[A-Za-z0-9_\-]+)*/?")
"""Matches paths without dots, queries and schemes."""
_match_plain_base = lru_cache(maxsize=64)(re.compile(r"[a-z]+://[^/?#]+/(?:[^/?#]+/)*").fullmatch)


class HttpRequester(AnyRequester):
    """A request to an HTTP API.

    Example:
        type: HttpRequester
        url: https://api.example.com/v1/users
        http_method: GET
        request_parameters:
          state: active
    """

    url: str | None = None
    """The complete URL, or its beginning if there is a `path`."""
    url_base: str | None = None
    """The beginning of the URL, which `path` continues; `url` is then ignored."""
    path: str | None = None
    """The rest of the URL, after `url_base` or `url`."""
    http_method: Annotated[Literal["GET", "POST", "PUT", "PATCH", "DELETE"], Adapted(before=_in_capitals)] = "GET"
    """The HTTP method, in any letter case."""
    authenticator: AnyAuthenticator | None = None
    """Adds the credentials to requests."""
    request_parameters: Annotated[str | dict[str, object] | None, Adapted(before=_with_properties)] = None
    """Query parameters; one may be a `QueryProperties`, which is superseded by `query_properties`."""
    request_headers: str | JsonObject | None = None
    """Request headers."""
    request_body: AnyRequestBody | None = None
    """The request body."""
    request_body_data: str | JsonObject | None = None
    """A form, or a string that is sent verbatim. Superseded by `request_body`."""
    request_body_json: str | JsonObject | None = None
    """A JSON object. Superseded by `request_body`."""
    error_handler: AnyErrorHandler | None = None
    """Decides what a response means and whether the request is retried."""
    use_cache: bool | None = None
    """Whether responses are cached for other streams that send the same request. Requests of parent streams are cached
    by default.
    """
    query_properties: QueryProperties | None = None
    """The properties to request, in several requests if needed."""
    fetch_properties_from_endpoint: PropertiesFromEndpoint | None = None
    """The properties to request, read with another request. Superseded by `query_properties`."""
    connect_timeout_in_seconds: float | None = None
    """How long to wait for a connection, in seconds."""
    read_timeout_in_seconds: float | None = None
    """How long to wait while the API sends nothing, in seconds."""
    use_tcp_keepalive: bool | None = None
    """Whether idle connections are kept alive."""

    def build(self, ctx: BuildContext, *, decoder: Decoder | None = None, cached: bool = False) -> Requester:
        runtime = ctx.runtime
        transport, budget = runtime.transport, runtime.budget
        connect, read = self.connect_timeout_in_seconds, self.read_timeout_in_seconds
        if (connect or read) and isinstance(transport, HttpTransport):
            transport = transport.with_timeouts(connect=connect, read=read)
        if self.use_cache or (cached and self.use_cache is not False):
            if budget is not None:
                # Below the cache, so a cached response costs no call. One for all requesters: they share the cache.
                runtime.budgeted = runtime.budgeted or Budgeted(transport, budget)
                transport, budget = runtime.budgeted, None
            transport = CachedTransport(transport)
        base = ctx.expression(self, "url_base" if self.url_base else "url", self.url_base or self.url or "")
        client = HttpClient(
            SliceSenderTransport(transport),
            authenticator=None if self.authenticator is None else self.authenticator.build(ctx.at(base.text)),
            error_handler=(self.error_handler or DefaultErrorHandler()).build(ctx),
            budget=budget,
            sleep=ctx.runtime.sleep,
            on_rate_limited=partial(ctx.runtime.on_rate_limited, ctx.stream),
        )
        return _HttpRequester(self, ctx, client, stream=decoder is not None and decoder.streams)

    def sending(self) -> tuple[AnyAuthenticator | None, AnyErrorHandler | None]:
        return self.authenticator, self.error_handler


class _HttpRequester:
    """The runtime of an HttpRequester."""

    def __init__(self, component: HttpRequester, ctx: BuildContext, client: HttpClient, *, stream: bool) -> None:
        self.client, self._stream = client, stream
        self._method, self._where = component.http_method, ctx.where(component, "url")
        self._url, self._base = _address(component, ctx)
        self.properties, self._parameter, component = _properties(component, ctx)
        self._params = ctx.mapping(component, "request_parameters") if component.request_parameters else None
        self._headers = ctx.mapping(component, "request_headers") if component.request_headers else None
        self._fill = _body(component, ctx)
        self._scope = ctx.scope

    def draft(self, names: Names) -> RequestBuilder:
        if self.properties is not None and not isinstance(names.get(PROPERTIES), list):
            why = f"{self._where}: query_properties are supported only in the requester of a SimpleRetriever"
            raise ManifestError(why)
        draft = RequestBuilder(self._method, self._url(names), self._where, stream=self._stream)
        if self._scope is not None:
            draft.scope = self._scope()
        draft.base = partial(self._base, names)
        if self._params is not None:
            draft.params.update(self._params.value(names, types=(str, list)))
        if self._parameter is not None:
            draft.params[self._parameter] = ",".join(cast("Sequence[str]", names[PROPERTIES]))
        if self._headers is not None:
            draft.headers.update({name: str(value) for name, value in self._headers.value(names).items()})
        if self._fill is not None:
            self._fill(draft, names)
        return draft


def _properties(component: HttpRequester, ctx: BuildContext) -> tuple[Properties | None, str | None, HttpRequester]:
    """Return the properties to request, the parameter that carries them, and the requester without that parameter.

    Raises ManifestError: when properties are given in more than one place.
    """
    sources = [component.query_properties] if component.query_properties is not None else []
    if component.fetch_properties_from_endpoint is not None:
        sources.append(QueryProperties(property_list=component.fetch_properties_from_endpoint))
    parameters = component.request_parameters
    own = parameters if isinstance(parameters, dict) else {}
    named = {name: value for name, value in own.items() if isinstance(value, QueryProperties)}
    sources += named.values()
    if len(sources) > 1:
        where = ctx.where(component, "query_properties")
        raise ManifestError(f"{where}: the properties to request are given in {len(sources)} places; keep one of them")
    if named:
        rest = {name: value for name, value in own.items() if name not in named}
        component = replace(component, request_parameters=rest)
    return (sources[0].build(ctx) if sources else None), next(iter(named), None), component


def _address(component: HttpRequester, ctx: BuildContext) -> tuple[Callable[[Names], str], Callable[[Names], str]]:
    """Return what computes the URL, and what computes the base that a relative link to the next page is joined to."""
    if not (component.url or component.url_base or component.path):
        # Raised on use only: an unused part of an old manifest must not keep the rest from working.
        where = ctx.where(component, "url")

        def missing(_: Names) -> str:
            raise ManifestError(f"{where}: a request needs a `url`, or a `url_base` and a `path`")

        return missing, missing
    # A parent stream also gets the `url` in the stream's `$parameters`, beside its own `url_base`.
    parts = [ctx.expression(component, field) for field in ("url_base", "url") if getattr(component, field)]

    def base(names: Names) -> str:
        return next((text for part in parts if (text := part.text(names))), "")

    if len(parts) == 1:
        base = parts[0].text
    if not component.path:
        return base, base
    path = ctx.expression(component, "path")
    if path.fixed and all(part.fixed for part in parts):
        fixed = cache(lambda: join(base({}), path.text()))
        return lambda _: fixed(), base
    return lambda names: join(base(names), path.text(names)), base


def join(base: str, path: str) -> str:
    """Return `path` joined to `base`. A path that is a whole URL, or has no base, stays; an empty one yields the base.

    A single slash separates the two, and the parts of the base, however many a config contains.
    """
    base, path = base.strip(), path.strip().lstrip("/")
    if not (base and path):
        return base or path
    base = base if base.endswith("/") else f"{base}/"
    # Nearly all are plain; a full urljoin takes 15 us a request.
    return base + path if _PLAIN.fullmatch(path) and _match_plain_base(base) else urljoin(base, path)


def _body(component: HttpRequester, ctx: BuildContext) -> Callable[[RequestBuilder, Names], None] | None:
    if component.request_body is not None:
        return component.request_body.build(ctx)
    parts: list[Callable[[RequestBuilder, Names], None]] = []
    if (form := component.request_body_data) is not None:
        parts.append(_text_or_form(component, ctx) if isinstance(form, str) else _form(component, ctx))
    if component.request_body_json is not None:
        parts.append(_json(component, ctx))
    if len(parts) < 2:  # noqa: PLR2004 - one part is the whole body
        return parts[0] if parts else None

    def fill(draft: RequestBuilder, names: Names) -> None:
        for part in parts:
            part(draft, names)

    return fill


def _text_or_form(component: HttpRequester, ctx: BuildContext) -> Callable[[RequestBuilder, Names], None]:
    body = ctx.expression(component, "request_body_data")

    def fill(draft: RequestBuilder, names: Names) -> None:
        value = body.value(names, types=(str, dict))
        if isinstance(value, Mapping):
            draft.form.update(value)
        else:
            draft.text = str(value)

    return fill


def _form(component: HttpRequester, ctx: BuildContext) -> Callable[[RequestBuilder, Names], None]:
    fields = ctx.mapping(component, "request_body_data")

    def fill(draft: RequestBuilder, names: Names) -> None:
        draft.form.update(fields.value(names, types=(str, list)))

    return fill


def _json(component: HttpRequester, ctx: BuildContext) -> Callable[[RequestBuilder, Names], None]:
    if isinstance(component.request_body_json, str):
        text = ctx.expression(component, "request_body_json")
        return lambda draft, names: fill_json(draft, text.value(names))
    body = ctx.nested(component, "request_body_json")
    return lambda draft, names: fill_json(draft, body.value(names))
