"""The authenticators that custom ones extend."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import ClassVar, Protocol
from urllib.parse import urlencode

import requests
from requests.auth import AuthBase

from cdk.base.errors import CredentialsError
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import JsonObject, JsonValue
from cdk.compat.airbyte.custom_object import runtime
from cdk.compat.airbyte.datetimes import ab_datetime_parse
from cdk.compat.airbyte.http.response import texts
from cdk.compat.airbyte.interpolation import InterpolatedMapping, InterpolatedString, Text
from cdk.compat.airbyte.plain_types import Config, Parameters, WithParameters
from cdk.rest import Request, error_for, path
from cdk.rest.auth.static import basic_credentials

LENT = datetime.min.replace(tzinfo=UTC)
"""The expiry of a token that CustomTokens owns: always in the past, so that each use calls `get_access_token`."""


class _Option(Protocol):
    """A RequestOption, whose `inject_into` may be a string if custom code made it."""

    inject_into: Enum | str
    field_name: Text


class DeclarativeAuthenticator(AuthBase):
    """Adds a header with a token, and the fields that its other methods return."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(self.get_auth_header())
        return request

    def get_auth_header(self) -> Mapping[str, str]:
        return {self.auth_header: self.token} if self.auth_header else {}

    @property
    def auth_header(self) -> str:
        """The name of the header; empty for no header."""
        return ""

    @property
    def token(self) -> str:
        return ""

    def get_request_params(self) -> Mapping[str, JsonValue]:
        return {}

    def get_request_body_data(self) -> Mapping[str, JsonValue] | str:
        return {}

    def get_request_body_json(self) -> Mapping[str, JsonValue]:
        """Fields to add to the JSON body."""
        return {}


@dataclass
class NoAuth(WithParameters, DeclarativeAuthenticator):
    """The authenticator of an API without a login: leaves requests unchanged."""

    parameters: InitVar[Parameters]


class TokenProvider:
    """Provides the token of an authenticator."""

    def get_token(self) -> str:
        raise NotImplementedError


@dataclass
class InterpolatedStringTokenProvider(TokenProvider):
    """Provides a token from a template."""

    config: Config
    api_token: Text
    parameters: InitVar[Parameters]

    def __post_init__(self, parameters: Parameters) -> None:
        self._token = InterpolatedString.create(self.api_token, parameters=parameters)

    def get_token(self) -> str:
        return self._token.text(self.config)


@dataclass
class BearerAuthenticator(WithParameters, DeclarativeAuthenticator):
    """Sends a token in the header `Authorization: Bearer <token>`."""

    token_provider: TokenProvider
    config: Config
    parameters: InitVar[Parameters]

    @property
    def auth_header(self) -> str:
        return "Authorization"

    @property
    def token(self) -> str:
        return f"Bearer {self.token_provider.get_token()}"


@dataclass
class ApiKeyAuthenticator(WithParameters, DeclarativeAuthenticator):
    """Sends a token in the part of a request that `request_option` names."""

    request_option: _Option
    token_provider: TokenProvider
    config: Config
    parameters: InitVar[Parameters]

    @property
    def auth_header(self) -> str:
        return self._name() if self._into() == "header" else ""

    @property
    def token(self) -> str:
        return self.token_provider.get_token()

    def get_request_params(self) -> Mapping[str, JsonValue]:
        return {self._name(): self.token} if self._into() == "request_parameter" else {}

    def get_request_body_data(self) -> Mapping[str, JsonValue] | str:
        return {self._name(): self.token} if self._into() == "body_data" else {}

    def get_request_body_json(self) -> Mapping[str, JsonValue]:
        return {self._name(): self.token} if self._into() == "body_json" else {}

    def _into(self) -> str:
        into = self.request_option.inject_into
        return into if isinstance(into, str) else str(into.value)

    def _name(self) -> str:
        return InterpolatedString.create(self.request_option.field_name, parameters=self._parameters).text(self.config)


@dataclass
class BasicHttpAuthenticator(DeclarativeAuthenticator):
    """Sends a user name and a password by HTTP Basic authentication."""

    username: Text
    config: Config
    parameters: InitVar[Parameters]
    password: Text = ""

    def __post_init__(self, parameters: Parameters) -> None:
        self._username = InterpolatedString.create(self.username, parameters=parameters)
        self._password = InterpolatedString.create(self.password, parameters=parameters)

    @property
    def auth_header(self) -> str:
        return "Authorization"

    @property
    def token(self) -> str:
        return basic_credentials(self._username.text(self.config), self._password.text(self.config))


class TokenAuthenticator(DeclarativeAuthenticator):
    """Sends a token in a header: `<auth_header>: <auth_method> <token>`."""

    def __init__(self, token: str, auth_method: str = "Bearer", auth_header: str = "Authorization") -> None:
        self._token, self._method, self._header = token, auth_method, auth_header

    @property
    def auth_header(self) -> str:
        return self._header

    @property
    def token(self) -> str:
        return f"{self._method} {self._token}"


@dataclass
class SelectiveAuthenticator(DeclarativeAuthenticator):
    """Selects one of several authenticators by a value of the config; instantiating it returns the selected one."""

    config: Config
    authenticators: Mapping[str, DeclarativeAuthenticator]
    authenticator_selection_path: list[str]

    def __new__(  # type: ignore[misc] # returns the selected one
        cls,
        config: Config,
        authenticators: Mapping[str, DeclarativeAuthenticator],
        authenticator_selection_path: list[str],
        *_: object,
        **__: object,
    ) -> DeclarativeAuthenticator:
        selection = path(*authenticator_selection_path)(config)
        if str(selection) not in authenticators:
            where = ".".join(authenticator_selection_path)
            raise ValueError(f"the config says {where} = {selection!r}, expected one of {sorted(authenticators)}")
        return authenticators[str(selection)]


_EXPRESSIONS = (
    *("token_refresh_endpoint", "client_id", "client_secret", "refresh_token", "grant_type"),
    *("client_id_name", "client_secret_name", "refresh_token_name", "grant_type_name"),
    *("access_token_name", "expires_in_name"),
)


def _rendered(field: str) -> "Callable[[DeclarativeOauth2Authenticator], str]":
    """Make the method that evaluates a setting and returns it as a string."""
    return lambda self: self._text(getattr(self, field))


def _expiry(value: JsonValue | datetime) -> datetime:
    """Parse the expiry of a token: a timestamp, or seconds since 1970. Raises ValueError: it is neither."""
    return parse_timestamp(value, ("%s",)) or ab_datetime_parse(value)


@dataclass
class DeclarativeOauth2Authenticator(DeclarativeAuthenticator):
    """Exchanges credentials for a token, and again when that expires. Subclasses override parts of the exchange."""

    config: Config
    parameters: InitVar[Parameters]
    client_id: Text = None
    client_secret: Text = None
    token_refresh_endpoint: Text = None
    refresh_token: Text = None
    scopes: Sequence[str] | None = None
    token_expiry_date: Text = None
    token_expiry_date_format: str | None = None
    token_expiry_is_time_of_expiration: bool = False
    access_token_name: Text = "access_token"  # noqa: S105 - a name
    access_token_value: Text = None
    client_id_name: Text = "client_id"
    client_secret_name: Text = "client_secret"  # noqa: S105 - a name
    expires_in_name: Text = "expires_in"
    refresh_token_name: Text = "refresh_token"  # noqa: S105 - a name
    refresh_request_body: Mapping[str, JsonValue] | None = None
    refresh_request_headers: Mapping[str, JsonValue] | None = None
    grant_type_name: Text = "grant_type"
    grant_type: Text = "refresh_token"
    single_use: ClassVar[bool] = False
    """Whether a refresh token works only once, so that the next one is saved in the config."""

    def __post_init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._held: str | None = self._text(self.access_token_value) or None
        expires = self._text(self.token_expiry_date)
        self._expires: datetime | None = _expiry(expires) if expires else None
        # Existing subclasses evaluate these attributes themselves.
        for name in _EXPRESSIONS:
            value = InterpolatedString.create(getattr(self, name) or "", parameters=parameters)
            object.__setattr__(self, f"_{name}", value)

    def _text(self, value: Text) -> str:
        if value is None:
            return ""
        return str(InterpolatedString.create(value, parameters=self._parameters).eval(self.config, valid_types=(str,)))

    def _map(self, value: Mapping[str, JsonValue] | None) -> JsonObject:
        return InterpolatedMapping(value or {}, parameters=self._parameters).eval(self.config)

    @property
    def auth_header(self) -> str:
        return "Authorization"

    @property
    def token(self) -> str:
        return f"Bearer {self.get_access_token()}"

    @property
    def access_token(self) -> str:
        """The current token; empty before the first exchange."""
        return self._held or ""

    @access_token.setter
    def access_token(self, value: str) -> None:
        self._held = value

    def get_access_token(self) -> str:
        """Return the token; if it has expired, get a new one first."""
        if self.token_has_expired():
            token, seconds = self.refresh_access_token()
            self._held = token
            self.set_token_expiry_date(seconds)
            runtime().learn(token)
        return self.access_token

    def lend(self, token: str | None) -> None:
        """Set a token that CustomTokens owns; None leaves the last one. It counts as expired, see `LENT`."""
        self._held, self._expires = token or self._held, LENT

    def token_has_expired(self) -> bool:
        """Whether a new token is needed, because there is no token or it has expired."""
        return not self._held or (self._expires is not None and runtime().clock() >= self._expires)

    def get_token_expiry_date(self) -> datetime | None:
        return self._expires

    def set_token_expiry_date(self, value: JsonValue | datetime) -> None:
        """Set the expiry from the token's lifetime in seconds, or from the time at which it expires."""
        match value:
            case None | "":
                self._expires = None
            case datetime():
                self._expires = value
            case _ if self.token_expiry_is_time_of_expiration:
                self._expires = _expiry(value)
            case _:
                self._expires = runtime().clock() + timedelta(seconds=float(str(value)))

    def refresh_access_token(self) -> tuple[str, JsonValue]:
        """Request a new token; return it with the expiry that the server states."""
        answer = self._get_refresh_access_token_response()
        return str(answer[self.get_access_token_name()]), answer.get(self.get_expires_in_name())

    def _get_refresh_access_token_response(self) -> JsonObject:
        return self._make_handled_request()

    def _make_handled_request(self) -> JsonObject:
        headers = {"Content-Type": "application/x-www-form-urlencoded", **texts(self.build_refresh_request_headers())}
        body: JsonObject | str = self.build_refresh_request_body()
        if not isinstance(body, str):
            body = urlencode({k: v for k, v in body.items() if v is not None}, doseq=True)
        secrets = frozenset(filter(None, (self.get_client_secret(), self.get_refresh_token())))
        url, content = self.get_token_refresh_endpoint(), body.encode()
        request = Request("POST", url, headers=headers, body=content, hidden=secrets, login=True)
        response = runtime().transport.send(request)
        if not response.ok:
            raise CredentialsError(f"no access token: {error_for(response).message}")
        answer: JsonObject = response.json()
        return answer

    def _log_response(self, response: object) -> None:
        """Do nothing: responses of token endpoints are not logged."""

    def build_refresh_request_body(self) -> JsonObject:
        """The form body of the token request; without the client's credentials if a header has them."""
        body: JsonObject = {self.get_grant_type_name(): self.get_grant_type()}
        if "Authorization" not in self.get_refresh_request_headers():
            body[self.get_client_id_name()] = self.get_client_id()
            body[self.get_client_secret_name()] = self.get_client_secret()
        if self.get_refresh_token():
            body[self.get_refresh_token_name()] = self.get_refresh_token()
        if self.get_scopes():
            body["scopes"] = self.get_scopes()
        return {**self.get_refresh_request_body(), **body}

    def build_refresh_request_headers(self) -> Mapping[str, JsonValue] | None:
        return self.get_refresh_request_headers() or None

    def get_refresh_request_headers(self) -> Mapping[str, JsonValue]:
        return self._map(self.refresh_request_headers)

    def get_refresh_request_body(self) -> Mapping[str, JsonValue]:
        """Additional fields of the form."""
        return self._map(self.refresh_request_body)

    get_token_refresh_endpoint = _rendered("token_refresh_endpoint")
    get_client_id = _rendered("client_id")
    get_client_secret = _rendered("client_secret")
    get_grant_type = _rendered("grant_type")
    get_grant_type_name = _rendered("grant_type_name")
    get_client_id_name = _rendered("client_id_name")
    get_client_secret_name = _rendered("client_secret_name")
    get_refresh_token_name = _rendered("refresh_token_name")
    get_access_token_name = _rendered("access_token_name")
    get_expires_in_name = _rendered("expires_in_name")

    def get_refresh_token(self) -> str | None:
        """The refresh token; None without one."""
        return self._text(self.refresh_token) or None

    def get_scopes(self) -> Sequence[str]:
        """The scopes that the token request asks for."""
        return self.scopes or []
