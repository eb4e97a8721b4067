"""OAuth 2.0: access tokens that are renewed (RFC 6749, sections 4.4 and 6; RFC 7523)."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias
from urllib.parse import urlencode

from cdk.base.errors import ConfigError, CredentialsError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue
from cdk.rest.auth.static import basic_credentials, with_header
from cdk.rest.auth.token_owner import TokenOwner, report
from cdk.rest.auth.token_response import Refusal, body_of, expiry, find, saved_expiry, usable_until, written_expiry
from cdk.rest.auth.tokens import TokenState
from cdk.rest.errors.status_errors import error_for
from cdk.rest.errors.wait_strategies import retry_after
from cdk.rest.http.authenticator import Learn, Setting, ignore, text_of
from cdk.rest.http.messages import Request, Response

Keep: TypeAlias = Callable[[Mapping[tuple[str, ...], JsonValue]], None]
"""Saves values in the config, each at its path, and returns when they are safe."""

_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class TokenFields:
    """What a token server calls the fields of its requests and responses."""

    grant_type: str = "grant_type"
    client_id: str = "client_id"
    client_secret: str = "client_secret"  # noqa: S105 - a name
    refresh_token: str = "refresh_token"  # noqa: S105 - a name
    access_token: str = "access_token"  # noqa: S105 - a name
    expires_in: str = "expires_in"


@dataclass(frozen=True, slots=True)
class StoredTokens:
    """Keeps what a token server gives, for the next run. Needed where a refresh token works once."""

    save: Keep
    """Is called with the new tokens before the first of them is used, so that a crash loses none."""
    access_token: tuple[str, ...] = ("credentials", "access_token")
    """Its path in the config, as those below."""
    refresh_token: tuple[str, ...] = ("credentials", "refresh_token")
    expiry: tuple[str, ...] = ("credentials", "token_expiry_date")
    expiry_format: str | None = None
    """How the moment is written there."""


@dataclass(eq=False, repr=False)
class OAuth2(TokenOwner):
    """Sends a bearer token and gets a new one when it has expired, or once when the API refuses it (401).

    A token without `expires_in` is taken to live an hour; it and the token may lie deeper in the response. A new
    refresh token in the response is used from then on, and in a sync it is stored for the next one. One thread renews,
    the others wait; those that say the same share their token for the length of a run (`cdk.rest.auth.tokens`).
    """

    token_url: Setting
    """Where tokens come from."""
    _: KW_ONLY
    client_id: Setting = ""
    client_secret: Setting = ""
    refresh_token: Setting | None = None
    grant_type: Setting | None = None
    """By default `refresh_token` where there is one, else `client_credentials`."""
    scopes: Sequence[str] = ()
    """Sent joined by blanks, as `scope`."""
    extra: Mapping[str, JsonValue] | Callable[[], Mapping[str, JsonValue]] = field(default_factory=dict)
    """More fields of the token request (`{"audience": "..."}`); a list repeats its name."""
    headers: Mapping[str, str] | Callable[[], Mapping[str, str]] = field(
        default_factory=lambda: {"Accept": "application/json"}
    )
    """Headers of the token request; with an Authorization among them, client id and secret are not sent otherwise."""
    credentials_in: Literal["body_data", "header"] = "body_data"
    """Where the client id and secret go: as fields, or in the header Authorization."""
    send_in: Literal["body_data", "request_parameter"] = "body_data"
    """Where the fields of the token request go."""
    assertion: Callable[[], str] | None = None
    """Gives a signed token, which is then sent in place of everything but the grant type (RFC 7523)."""
    access_token: Setting | None = None
    """A token to begin with."""
    expires: Setting | datetime | None = None
    """Until when that one can be used; a text is read as `expiry_format`, ISO 8601 or seconds since 1970."""
    expiry_format: str | None = None
    """Also how the server says when a token expires, if it does not say in how many seconds."""
    refusal: Refusal = field(default_factory=Refusal)
    """Responses that mean that the credentials are no good."""
    stored: StoredTokens | None = None
    """Saves new tokens for the next run."""
    fields: TokenFields = field(default_factory=TokenFields)
    """What the server calls the fields."""
    learn: Learn = ignore
    """Called with each token."""
    clock: Clock = system_clock
    _began: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        super().__init__(self.learn, self.clock)
        report(self)

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Raises CredentialsError: the token request is refused, or its response has no token."""
        yield from self.flow_with(request, _bearing)

    def _login(self) -> Sequence[JsonValue]:
        parts: list[JsonValue] = [text_of(self.token_url), text_of(self.client_id), self._first]
        if self.stored is None:
            # The owner of a refresh token that works once owns it alone, whatever else is asked for with it.
            extra = self.extra() if callable(self.extra) else self.extra
            grant = None if self.grant_type is None else text_of(self.grant_type)
            parts += [text_of(self.client_secret), grant, list(self.scopes), dict(extra)]
        return parts

    @property
    def _first(self) -> str | None:
        return None if self.refresh_token is None else text_of(self.refresh_token)

    @property
    def _seal(self) -> str:
        return f"{self._first or ''}\n{text_of(self.client_secret)}"

    @property
    def _single_use(self) -> bool:
        return self.stored is not None

    def _begin(self, state: TokenState, now: datetime) -> None:
        if self.access_token is None or self._began:
            return
        self._began, initial = True, text_of(self.access_token) or None
        if state.started is not None:
            return  # another one with the same login was here before
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
                "OAuth2: the access token is missing, has expired or is refused, and no token URL is given; give one"
            )
        headers = dict(self.headers() if callable(self.headers) else self.headers)
        extra = self.extra() if callable(self.extra) else self.extra
        fields = {**extra, **self._form(headers, state)}
        # Servers echo the fields in any kind of response, so their secrets go with the request.
        client = text_of(self.client_id)
        hidden = frozenset(str(value) for name, value in fields.items() if value != client and name not in self._open)
        if self.credentials_in == "header":
            hidden |= {text_of(self.client_secret)}
        if self.send_in == "request_parameter":
            secret = frozenset(name.lower() for name in fields)
            params = {name: _shown(value) for name, value in fields.items()}
            return Request("POST", url, params, headers, secret=secret, hidden=hidden)
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = _FORM
        return Request("POST", url, headers=headers, body=urlencode(fields, doseq=True).encode(), hidden=hidden)

    @property
    def _open(self) -> set[str]:
        """Fields that are no secret, and that errors would be of little use without."""
        return {self.fields.grant_type, self.fields.client_id, "scope", "scopes"}

    def _form(self, headers: dict[str, str], state: TokenState) -> dict[str, JsonValue]:
        """The fields that this class knows of; `headers` gets the client where it goes there."""
        names, refresh = self.fields, self._refresh(state)
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

    def _refresh(self, state: TokenState) -> str | None:
        return self._first if state.refresh_token is None else state.refresh_token

    def _read_response(self, response: Response, state: TokenState, now: datetime) -> None:
        self.refusal.check(response)
        if not response.ok:
            raise error_for(response, wait=retry_after(response, self.clock))
        body = body_of(response)
        if type(body) is not dict:
            raise CredentialsError(f"{response.request} did not answer with a JSON object; check the token URL")
        names, token = self.fields, find(body, self.fields.access_token)
        if not isinstance(token, str) or not token:
            field_names = response.request.hide(", ".join(sorted(body)) or "none")
            raise CredentialsError(
                f"{response.request} answered with the fields {field_names}, expected an {names.access_token}; "
                f"check the token URL and the client"
            )
        expires = expiry(find(body, names.expires_in), self.expiry_format, now)
        renewed = find(body, names.refresh_token)
        self._hide(token)
        if isinstance(renewed, str) and renewed and self.refresh_token is not None:
            self._hide(renewed)
            state.rotated = state.rotated or renewed != self._refresh(state)
            state.refresh_token = renewed
        usable = usable_until(expires, now)
        self._save(token, expires, usable, state)
        state.access_token, state.started, state.expires = token, now, usable

    def _save(self, token: str, expires: datetime, usable: datetime, state: TokenState) -> None:
        """Have the tokens stored before the first of them is used: with the server's response the old one is spent.

        Our own store comes first, for it is durable when it returns; a config's file or platform may come too late.
        """
        self._store(token, usable, state, elsewhere=self.stored is not None)
        if self.stored is None:
            return
        updates = {
            self.stored.access_token: token,
            self.stored.expiry: written_expiry(expires, self.stored.expiry_format),
        }
        refresh = self._refresh(state)
        if refresh is not None:
            updates[self.stored.refresh_token] = refresh
        self.stored.save(updates)


def _bearing(request: Request, token: str) -> Request:
    return with_header(request, "Authorization", f"Bearer {token}")


def _shown(value: JsonValue) -> JsonValue:
    """A query parameter as a form spells it."""
    return value if isinstance(value, list | tuple) else str(value)
