"""Requesters: they describe requests, with one method for each part, and send them."""

import logging
from abc import ABC
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import Any, ClassVar, cast

import requests

from cdk.base.values import JsonObject, JsonValue
from cdk.compat.airbyte.custom_object import CustomCodeError
from cdk.compat.airbyte.http.auth import DeclarativeAuthenticator, NoAuth
from cdk.compat.airbyte.http.http_client import HttpClient
from cdk.compat.airbyte.interpolation import InterpolatedString, Text, part
from cdk.compat.airbyte.plain_types import Config, Parameters, StreamSlice, StreamState, Token, WithParameters
from cdk.declarative.components.requests.requesters import join
from cdk.rest.client import Sender


class HttpMethod(Enum):
    """The HTTP method of a request."""

    DELETE = "DELETE"
    GET = "GET"
    PATCH = "PATCH"
    POST = "POST"
    PUT = "PUT"


class RequestOptionType(Enum):
    """The parts of a request that a value can go into."""

    request_parameter = "request_parameter"
    header = "header"
    body_data = "body_data"
    body_json = "body_json"


@dataclass
class RequestOption:
    """The place in a request that a value goes into."""

    inject_into: RequestOptionType
    parameters: InitVar[Parameters]
    field_name: Text = None
    field_path: list[JsonValue] | None = None

    def __post_init__(self, parameters: Parameters) -> None:
        if self.field_name is not None:
            self.field_name = InterpolatedString.create(self.field_name, parameters=parameters)


PART_METHODS = {
    "request_parameter": "get_request_params",
    "header": "get_request_headers",
    "body_data": "get_request_body_data",
    "body_json": "get_request_body_json",
}
"""The method that returns a part of a request, by the name of the part in a RequestOption."""


class RequestOptionsProvider:
    """Provides the parts of a request, empty by default. names: `stream_state`, `stream_slice`, `next_page_token`."""

    def _part(self, where: str, names: Mapping[str, object]) -> JsonObject:  # noqa: ARG002 - for overriding
        """Return one part. where: its name in a RequestOption."""
        return {}

    def get_request_params(self, **names: object) -> Mapping[str, JsonValue]:
        return self._part("request_parameter", names)

    def get_request_headers(self, **names: object) -> Mapping[str, JsonValue]:
        return self._part("header", names)

    def get_request_body_data(self, **names: object) -> Mapping[str, JsonValue] | str:
        """Return form fields, or a complete body as a string."""
        return self._part("body_data", names)

    def get_request_body_json(self, **names: object) -> JsonValue:
        return self._part("body_json", names)


@dataclass
class InterpolatedRequestOptionsProvider(WithParameters, RequestOptionsProvider):
    """Provides the parts of a request from templates."""

    parameters: InitVar[Parameters]
    config: Config = field(default_factory=dict)
    request_parameters: JsonValue = None
    request_headers: JsonValue = None
    request_body: JsonValue = None
    request_body_data: JsonValue = None
    request_body_json: JsonValue = None
    query_properties_key: str | None = None

    def _part(self, where: str, names: Mapping[str, object]) -> JsonObject:
        scope = {name: names.get(name) or {} for name in ("stream_state", "stream_slice", "next_page_token")}
        inputs = {
            "request_parameter": self.request_parameters,
            "header": self.request_headers,
            "body_data": self.request_body_data,
            "body_json": self.request_body_json,
        }
        return cast("JsonObject", part(inputs[where], self.config, self._parameters, scope))


class Requester(RequestOptionsProvider, ABC):
    """Describes requests and sends them."""

    def get_authenticator(self) -> DeclarativeAuthenticator:
        return NoAuth(parameters={})

    def get_url_base(self, **names: object) -> str:
        """The URL that the path is appended to."""
        raise NotImplementedError

    def get_path(self, **names: object) -> str:
        raise NotImplementedError

    def get_method(self) -> HttpMethod:
        """The HTTP method."""
        return HttpMethod.GET

    def send_request(self, *args: Any, **kwargs: Any) -> requests.Response | None:  # noqa: ANN401 - they differ by class
        """Send a request and return its response."""
        raise NotImplementedError


_WITH_EXTRA = (
    "_get_url", "_join_url", "_request_headers", "_request_params", "_request_body_data", "_request_body_json",
)  # fmt: skip
"""The methods that combine the requester's parts of a request with those of the page and the slice."""


def _arguments(
    stream_state: StreamState | None, stream_slice: StreamSlice | None, next_page_token: Token | None
) -> dict[str, object]:
    """The arguments of the methods that return a part of a request."""
    return {"stream_state": stream_state, "stream_slice": stream_slice, "next_page_token": next_page_token}


def _overrides(requester: "HttpRequester", name: str) -> bool:
    """Whether a subclass overrides a method of HttpRequester."""
    return next(kind for kind in type(requester).__mro__ if name in vars(kind)) is not HttpRequester


@dataclass
class HttpRequester(Requester):
    """Sends requests to an HTTP API, described by the manifest's fields and by methods that subclasses override."""

    name: str
    config: Config
    parameters: InitVar[Parameters]
    url: Text = None
    url_base: Text = None
    path: Text = None
    authenticator: DeclarativeAuthenticator | None = None
    http_method: HttpMethod | str = HttpMethod.GET
    request_options_provider: RequestOptionsProvider | dict[str, Any] | None = None
    error_handler: object = None
    api_budget: object = None
    disable_retries: bool = False
    message_repository: object = None
    use_cache: bool = False
    stream_response: bool = False
    decoder: object = None
    _exit_on_rate_limit: ClassVar[bool] = False

    def __post_init__(self, parameters: Parameters) -> None:
        self._parameters = parameters or {}
        self._authenticator = self.authenticator or NoAuth(parameters=self._parameters)
        method = self.http_method
        self._http_method = HttpMethod[method.upper()] if isinstance(method, str) else method
        self._request_options_provider = self._provider()
        self._http_client = self._own_client = HttpClient(
            self.name,
            error_handler=self.error_handler,
            authenticator=self.authenticator,
            disable_retries=self.disable_retries,
        )

    def _provider(self) -> RequestOptionsProvider:
        provider = self.request_options_provider
        if provider is None:
            return InterpolatedRequestOptionsProvider(parameters=self._parameters, config=self.config)
        if isinstance(provider, dict):
            return InterpolatedRequestOptionsProvider(parameters=self._parameters, config=self.config, **provider)
        return provider

    def use(self, client: Sender) -> None:
        """Send through `client`, unless the subclass has set a client of its own."""
        self._own_client.client = client

    @property
    def sends(self) -> Sender | None:
        """The client that sends the requests; None if the subclass replaced `send_request` or the client."""
        own: HttpClient | None = self.__dict__.get("_own_client")
        if own is None or _overrides(self, "send_request"):
            return None
        replaced = self.__dict__.get("_http_client") is not own
        return None if replaced else own.client

    @property
    def kit_client(self) -> Sender | None:
        """The client `sends`, if the kit may assemble the requests; None if the subclass changes how parts combine."""
        return None if any(_overrides(self, name) for name in _WITH_EXTRA) else self.sends

    @property
    def logger(self) -> logging.Logger:
        return logging.getLogger("airbyte")

    def get_authenticator(self) -> DeclarativeAuthenticator:
        return self._authenticator

    def get_url(self, **names: object) -> str:
        return self._join_url(self.get_url_base(**names), self.get_path(**names))

    def _get_url(self, *, path: str | None = None, **names: object) -> str:
        return self._join_url(self.get_url_base(**names), path) if path else self.get_url(**names)

    def get_url_base(self, **names: object) -> str:
        return self._text(self.url_base, names) or self._text(self.url, names)

    def get_path(self, **names: object) -> str:
        return self._text(self.path, names).lstrip("/")

    def _text(self, value: Text, names: Mapping[str, object]) -> str:
        if not value:
            return ""
        scope = {name: names.get(name) or {} for name in ("stream_slice", "next_page_token", "stream_state")}
        parameters = self.__dict__.get("_parameters", {})
        return str(InterpolatedString.create(value, parameters=parameters).eval(self.config, valid_types=None, **scope))

    def get_method(self) -> HttpMethod:
        return self._http_method

    def _part(self, where: str, names: Mapping[str, object]) -> JsonObject:
        value: object = getattr(self._request_options_provider, PART_METHODS[where])(**names)
        return cast("JsonObject", dict(value) if isinstance(value, Mapping) else value or {})

    @classmethod
    def _join_url(cls, url_base: str, path: str | None = None) -> str:
        return join(url_base, path or "")

    def _request_headers(
        self,
        stream_state: StreamState | None = None,
        stream_slice: StreamSlice | None = None,
        next_page_token: Token | None = None,
        extra_headers: Mapping[str, JsonValue] | None = None,
    ) -> dict[str, str]:
        arguments = _arguments(stream_state, stream_slice, next_page_token)
        headers = {**self.get_request_headers(**arguments), **(extra_headers or {})}
        return {name: str(value) for name, value in headers.items()}

    def _request_params(
        self,
        stream_state: StreamState | None = None,
        stream_slice: StreamSlice | None = None,
        next_page_token: Token | None = None,
        extra_params: Mapping[str, JsonValue] | None = None,
    ) -> JsonObject:
        arguments = _arguments(stream_state, stream_slice, next_page_token)
        return {**self.get_request_params(**arguments), **(extra_params or {})}

    def _request_body_data(
        self,
        stream_state: StreamState | None = None,
        stream_slice: StreamSlice | None = None,
        next_page_token: Token | None = None,
        extra_body_data: Mapping[str, JsonValue] | str | None = None,
    ) -> Mapping[str, JsonValue] | str | None:
        form = self.get_request_body_data(**_arguments(stream_state, stream_slice, next_page_token))
        if isinstance(extra_body_data, str):
            return extra_body_data
        return {**form, **(extra_body_data or {})} if isinstance(form, Mapping) else form

    def _request_body_json(
        self,
        stream_state: StreamState | None = None,
        stream_slice: StreamSlice | None = None,
        next_page_token: Token | None = None,
        extra_body_json: Mapping[str, JsonValue] | None = None,
    ) -> JsonObject:
        arguments = _arguments(stream_state, stream_slice, next_page_token)
        return {**cast("JsonObject", self.get_request_body_json(**arguments) or {}), **(extra_body_json or {})}

    def send_request(  # noqa: PLR0917 - the signature of airbyte_cdk
        self,
        stream_state: StreamState | None = None,
        stream_slice: StreamSlice | None = None,
        next_page_token: Token | None = None,
        path: str | None = None,
        request_headers: Mapping[str, JsonValue] | None = None,
        request_params: Mapping[str, JsonValue] | None = None,
        request_body_data: Mapping[str, JsonValue] | str | None = None,
        request_body_json: Mapping[str, JsonValue] | None = None,
        log_formatter: object = None,  # noqa: ARG002
    ) -> requests.Response | None:
        """Send the request that the other methods describe, with the arguments added to it, and return the response.

        path: replaces `get_path`; it may be a complete URL.
        """
        where = stream_state, stream_slice, next_page_token
        try:
            return self._http_client.send_request(
                http_method=self.get_method().value,
                url=self._get_url(path=path, **_arguments(*where)),
                headers=self._request_headers(*where, request_headers),
                params=self._request_params(*where, request_params),
                json=self._request_body_json(*where, request_body_json) or None,
                data=self._request_body_data(*where, request_body_data) or None,
                request_kwargs={},
                dedupe_query_params=True,
            )[1]
        except CustomCodeError as error:
            # The calling custom code may catch the exception that another custom component raised.
            raise (error.__cause__ or error) from error
