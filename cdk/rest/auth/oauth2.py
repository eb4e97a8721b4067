"""OAuth 2.0: obtains and renews access tokens (RFC 6749, sections 4.4 and 6; RFC 7523)."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias
from urllib.parse import urlencode

from msgspec import Struct

from cdk.base.errors import ConfigError, CredentialsError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue
from cdk.rest.auth.static import basic_credentials, with_header
from cdk.rest.auth.token_owner import TokenOwner, register_bearer
from cdk.rest.auth.token_response import Refusal, expiry, find, saved_expiry, usable_until, written_expiry
from cdk.rest.auth.tokens import TokenState
from cdk.rest.errors.api_message import json_body
from cdk.rest.errors.status_errors import error_for
from cdk.rest.errors.wait_strategies import retry_after
from cdk.rest.http.authenticator import Learn, Setting, ignore, text_of
from cdk.rest.http.messages import Request, Response

SaveTokens: TypeAlias = Callable[[Mapping[tuple[str, ...], JsonValue]], None]
"""Saves values in the config, each at its path. They are durable when it returns."""

_FORM = "application/x-www-form-urlencoded"


class TokenFields(Struct, frozen=True):
    """The names of the fields in a token server's requests and responses."""

    grant_type: str = "grant_type"
    client_id: str = "client_id"
    client_secret: str = "client_secret"  # noqa: S105 - a name
    refresh_token: str = "refresh_token"  # noqa: S105 - a name
    access_token: str = "access_token"  # noqa: S105 - a name
    expires_in: str = "expires_in"


class StoredTokens(Struct, frozen=True):
    """Saves the tokens of a token server for the next run. Needed for refresh tokens that work only once."""

    save: SaveTokens
    """Called with new tokens before the first of them is used, so that a crash loses none."""
    access_token: tuple[str, ...] = ("credentials", "access_token")
    """The path of the access token in the config. The fields below are paths, too."""
    refresh_token: tuple[str, ...] = ("credentials", "refresh_token")
    expiry: tuple[str, ...] = ("credentials", "token_expiry_date")
    expiry_format: str | None = None
    """The format of the timestamp there."""


@dataclass(eq=False, repr=False)
class OAuth2(TokenOwner):
    """Sends a bearer token, and obtains a new one when it expires, or once per request when the API rejects it (401).

    A token without `expires_in` is assumed to live for an hour; that field and the token may be nested in the response.
    A new refresh token in the response replaces the old one, and a sync stores it for the next one. One thread renews
    while the others wait; authenticators with the same settings share their token during a run
    (`cdk.rest.auth.tokens`).
    """

    token_url: Setting
    """The URL from which tokens are requested."""
    _: KW_ONLY
    client_id: Setting = ""
    client_secret: Setting = ""
    refresh_token: Setting | None = None
    grant_type: Setting | None = None
    """Defaults to `refresh_token` if there is a refresh token, else to `client_credentials`."""
    scopes: Sequence[str] = ()
    """Sent as `scope`, joined by spaces."""
    extra: Mapping[str, JsonValue] | Callable[[], Mapping[str, JsonValue]] = field(default_factory=dict)
    """Further fields of the token request (`{"audience": "..."}`); a list repeats its name."""
    headers: Mapping[str, str] | Callable[[], Mapping[str, str]] = field(
        default_factory=lambda: {"Accept": "application/json"}
    )
    """Headers of the token request. If they include Authorization, client id and secret are not sent as fields."""
    credentials_in: Literal["body_data", "header"] = "body_data"
    """Where to send the client id and secret: as fields, or in the header Authorization."""
    send_in: Literal["body_data", "request_parameter"] = "body_data"
    """Where to send the fields of the token request."""
    assertion: Callable[[], str] | None = None
    """Returns a signed token, which is sent instead of all other fields except the grant type (RFC 7523)."""
    access_token: Setting | None = None
    """The first access token."""
    expires: Setting | datetime | None = None
    """When that token expires; a string is parsed by `expiry_format`, as ISO 8601 or as seconds since 1970."""
    expiry_format: str | None = None
    """Also the format in which the server says when a token expires, unless it says in how many seconds."""
    refusal: Refusal = field(default_factory=Refusal)
    """Responses that mean that the credentials are invalid."""
    stored: StoredTokens | None = None
    """Saves new tokens for the next run."""
    fields: TokenFields = field(default_factory=TokenFields)
    """The server's names of the fields."""
    learn: Learn = ignore
    """Called with each token."""
    clock: Clock = system_clock
    _began: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        super().__init__(self.learn, self.clock)
        register_bearer(self)

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Raises CredentialsError: when the token request is rejected, or its response has no token."""
        yield from self.flow_with(request, _with_bearer)

    def _identity_values(self) -> Sequence[JsonValue]:
        parts: list[JsonValue] = [text_of(self.token_url), text_of(self.client_id), self._configured_refresh_token]
        if self.stored is None:
            # A single-use refresh token must have one owner, whatever other settings it is used with.
            extra = self.extra() if callable(self.extra) else self.extra
            grant = None if self.grant_type is None else text_of(self.grant_type)
            parts += [text_of(self.client_secret), grant, list(self.scopes), dict(extra)]
        return parts

    @property
    def _configured_refresh_token(self) -> str | None:
        return None if self.refresh_token is None else text_of(self.refresh_token)

    @property
    def _storage_secret(self) -> str:
        return f"{self._configured_refresh_token or ''}\n{text_of(self.client_secret)}"

    @property
    def _single_use(self) -> bool:
        return self.stored is not None

    def _begin(self, state: TokenState, now: datetime) -> None:
        if self.access_token is None or self._began:
            return
        self._began, initial = True, text_of(self.access_token) or None
        if state.started is not None:
            return  # another authenticator with the same login has already obtained a token
        match self.expires:
            case None | datetime() as expires:
                state.expires = expires
            case setting:
                state.expires = saved_expiry(text_of(setting), self.expiry_format)
        state.access_token, state.started = initial, now

    def _renew(self, state: TokenState, now: datetime) -> Generator[Request, Response, None]:
        self._read_response((yield self._token_request(state)), state, now)

    def _token_request(self, state: TokenState) -> Request:
        url = text_of(self.token_url)
        if not url:
            raise ConfigError(
                "OAuth2: the access token is missing, has expired or was rejected, and there is no token URL; set one"
            )
        headers = dict(self.headers() if callable(self.headers) else self.headers)
        extra = self.extra() if callable(self.extra) else self.extra
        fields = {**extra, **self._form(headers, state)}
        # Servers echo the fields in all kinds of responses, so the request must know which are secret.
        client = text_of(self.client_id)
        hidden = frozenset(
            str(value) for name, value in fields.items() if value != client and name not in self._public_fields
        )
        if self.credentials_in == "header":
            hidden |= {text_of(self.client_secret)}
        if self.send_in == "request_parameter":
            secret = frozenset(name.lower() for name in fields)
            params = {name: _query_value(value) for name, value in fields.items()}
            return Request("POST", url, params, headers, secret=secret, hidden=hidden)
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = _FORM
        return Request("POST", url, headers=headers, body=urlencode(fields, doseq=True).encode(), hidden=hidden)

    @property
    def _public_fields(self) -> set[str]:
        """The fields that are not secret, and without which errors would be of little use."""
        return {self.fields.grant_type, self.fields.client_id, "scope", "scopes"}

    def _form(self, headers: dict[str, str], state: TokenState) -> dict[str, JsonValue]:
        """Return the standard fields. Adds the client's credentials to `headers` if they are sent there."""
        names, refresh = self.fields, self._refresh_token(state)
        usual = "client_credentials" if refresh is None else "refresh_token"
        form: dict[str, JsonValue] = {names.grant_type: usual if self.grant_type is None else text_of(self.grant_type)}
        if self.assertion is not None:
            return {**form, "assertion": self.assertion()}
        if self.credentials_in == "header":
            headers["Authorization"] = basic_credentials(text_of(self.client_id), text_of(self.client_secret))
        elif not any(name.lower() == "authorization" for name in headers):
            form[names.client_id] = text_of(self.client_id)
            form[names.client_secret] = text_of(self.client_secret)
        if refresh is not None:
            form[names.refresh_token] = refresh
        if self.scopes:
            form["scope"] = " ".join(self.scopes)
        return form

    def _refresh_token(self, state: TokenState) -> str | None:
        return self._configured_refresh_token if state.refresh_token is None else state.refresh_token

    def _read_response(self, response: Response, state: TokenState, now: datetime) -> None:
        self.refusal.check(response)
        if not response.ok:
            raise error_for(response, wait=retry_after(response, self.clock))
        body = json_body(response)
        if type(body) is not dict:
            raise CredentialsError(f"{response.request} did not return a JSON object; check the token URL")
        names, token = self.fields, find(body, self.fields.access_token)
        if not isinstance(token, str) or not token:
            field_names = response.request.hide(", ".join(sorted(body)) or "none")
            raise CredentialsError(
                f"{response.request} returned the fields {field_names}, expected an {names.access_token}; "
                f"check the token URL and the client"
            )
        expires = expiry(find(body, names.expires_in), self.expiry_format, now)
        renewed = find(body, names.refresh_token)
        self._learn_secret(token)
        if isinstance(renewed, str) and renewed and self.refresh_token is not None:
            self._learn_secret(renewed)
            state.rotated = state.rotated or renewed != self._refresh_token(state)
            state.refresh_token = renewed
        usable = usable_until(expires, now)
        self._save(token, expires, usable, state)
        state.access_token, state.started, state.expires = token, now, usable

    def _save(self, token: str, expires: datetime, usable: datetime, state: TokenState) -> None:
        """Store the new tokens before using them, because the server's response has invalidated the old refresh token.

        The kit's own store comes first, as it is durable when it returns; the config's file or platform may be later.
        """
        self._store(token, usable, state, elsewhere=self.stored is not None)
        if self.stored is None:
            return
        updates = {
            self.stored.access_token: token,
            self.stored.expiry: written_expiry(expires, self.stored.expiry_format),
        }
        refresh = self._refresh_token(state)
        if refresh is not None:
            updates[self.stored.refresh_token] = refresh
        self.stored.save(updates)


def _with_bearer(request: Request, token: str) -> Request:
    return with_header(request, "Authorization", f"Bearer {token}")


def _query_value(value: JsonValue) -> JsonValue:
    """Convert a query parameter to the string that a form would send."""
    return value if isinstance(value, list | tuple) else str(value)
