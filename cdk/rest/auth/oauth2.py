"""OAuth 2.0: access tokens that are renewed (RFC 6749, sections 4.4 and 6; RFC 7523)."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias
from urllib.parse import urlencode

from cdk.base.errors import ConfigError, CredentialsError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import Json
from cdk.rest.auth.static import basic_credentials, with_header
from cdk.rest.auth.token_owner import TokenOwner, report
from cdk.rest.auth.token_response import Refusal, body_of, expiry, find, saved_expiry, usable_until, written_expiry
from cdk.rest.auth.tokens import TokenState
from cdk.rest.errors.backoff import retry_after
from cdk.rest.errors.status_errors import error_for
from cdk.rest.http.authenticator import Learn, Setting, ignore, text_of
from cdk.rest.http.messages import Request, Response

Keep: TypeAlias = Callable[[Mapping[tuple[str, ...], Json]], None]
"""Saves values in the config, each at its path, and returns when they are safe."""

_UNAUTHORIZED = 401
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class TokenFields:
    """What a token server calls the fields of its requests and answers."""

    grant_type: str = "grant_type"
    client_id: str = "client_id"
    client_secret: str = "client_secret"  # noqa: S105 - a name
    refresh_token: str = "refresh_token"  # noqa: S105 - a name
    access_token: str = "access_token"  # noqa: S105 - a name
    expires_in: str = "expires_in"


@dataclass(frozen=True, slots=True)
class StoredTokens:
    """Keeps what a token server gives, for the next run. Needed where a refresh token works once.

    save: is called with the new tokens before the first of them is used, so that a crash loses none. Where they lie
    in the config is said by the paths. expiry_format: how the moment is written there.
    """

    save: Keep
    access_token: tuple[str, ...] = ("credentials", "access_token")
    refresh_token: tuple[str, ...] = ("credentials", "refresh_token")
    expiry: tuple[str, ...] = ("credentials", "token_expiry_date")
    expiry_format: str | None = None


class OAuth2(TokenOwner):
    """Sends a bearer token and gets a new one when it has expired, or once when the API refuses it (401).

    token_url: where tokens come from. With a refresh_token that grant is used, else client_credentials, unless
        grant_type names another one.
    scopes: sent joined by blanks, as `scope`. extra: more fields of the token request (`{"audience": "..."}`); a list
        repeats its name. headers: more headers of it; with an Authorization among them, client id and secret are not
        sent otherwise. Both may be functions, which are called for each token request.
    credentials_in: whether the client id and secret go in the form or in the header Authorization.
    send_in: whether the fields are the body of the token request or its query.
    assertion: gives a signed token, which is then sent in place of everything but the grant type (RFC 7523).
    access_token, expires: a token to begin with, and until when it can be used; a text is read as `expiry_format`,
        ISO 8601 or seconds since 1970. expiry_format: also how the server says when a token expires, if it does not
        say in how many seconds.
    refusal: answers that mean that the credentials are no good. stored: saves new tokens for the next run.
    learn: is told of each token. fields: what the server calls the fields.

    A token without `expires_in` is taken to live an hour; it and the token may lie deeper in the answer. When the
    answer brings a new refresh token, it is used from then on, and in a sync it is stored for the next one. One thread
    renews, the others wait; those that say the same share their token for the length of a run (`cdk.rest.auth.tokens`).
    """

    def __init__(
        self,
        token_url: Setting,
        *,
        client_id: Setting = "",
        client_secret: Setting = "",
        refresh_token: Setting | None = None,
        grant_type: Setting | None = None,
        scopes: Sequence[str] = (),
        extra: Mapping[str, Json] | Callable[[], Mapping[str, Json]] | None = None,
        headers: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        credentials_in: Literal["body", "header"] = "body",
        send_in: Literal["body", "query"] = "body",
        assertion: Callable[[], str] | None = None,
        access_token: Setting | None = None,
        expires: Setting | datetime | None = None,
        expiry_format: str | None = None,
        refusal: Refusal | None = None,
        stored: StoredTokens | None = None,
        fields: TokenFields | None = None,
        learn: Learn = ignore,
        clock: Clock = system_clock,
    ) -> None:
        self._token_url, self._client_id, self._client_secret = token_url, client_id, client_secret
        self._refresh_token, self._grant_type, self._scopes = refresh_token, grant_type, tuple(scopes)
        self._extra = extra or {}
        self._headers = {"Accept": "application/json"} if headers is None else headers
        self._credentials_in, self._send_in, self._assertion = credentials_in, send_in, assertion
        self._given, self._given_expires, self._expiry_format = access_token, expires, expiry_format
        self._refusal, self._stored, self._fields = refusal or Refusal(), stored, fields or TokenFields()
        super().__init__(learn, clock)
        report(self)

    def __getstate__(self) -> dict[str, Json]:
        state = {name: value for name, value in self.__dict__.items() if name != "_own"}
        known = self._own
        return {
            **state,
            "known": (known.refresh_token, known.access_token, known.started, known.expires, known.rotated),
        }

    def __setstate__(self, state: dict[str, Json]) -> None:
        self._own = TokenState(*state.pop("known"))
        self.__dict__.update(state)

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Raises CredentialsError: the token request is refused, or its answer has no token."""
        token = yield from self.token()
        response = yield _bearing(request, token)
        if response.status != _UNAUTHORIZED:
            self.good()
        elif self.refused(token):
            response.close()
            token = yield from self.token()
            yield _bearing(request, token)

    def _login(self) -> Sequence[Json]:
        parts: list[Json] = [text_of(self._token_url), text_of(self._client_id), self._first]
        if self._stored is None:
            # Whoever owns a refresh token that works once owns it alone, whatever else is asked for with it.
            extra = self._extra() if callable(self._extra) else self._extra
            grant = None if self._grant_type is None else text_of(self._grant_type)
            parts += [text_of(self._client_secret), grant, list(self._scopes), dict(extra)]
        return parts

    @property
    def _first(self) -> str | None:
        return None if self._refresh_token is None else text_of(self._refresh_token)

    @property
    def _seal(self) -> str:
        return f"{self._first or ''}\n{text_of(self._client_secret)}"

    @property
    def _single_use(self) -> bool:
        return self._stored is not None

    def _begin(self, state: TokenState, now: datetime) -> None:
        if self._given is not None:
            initial, self._given = text_of(self._given) or None, None
            if state.started is not None:
                return  # somebody who says the same was here before
            expires = self._given_expires
            text = expires if expires is None or isinstance(expires, datetime) else text_of(expires)
            state.expires = text if isinstance(text, datetime) else saved_expiry(text, self._expiry_format)
            state.access_token, state.started = initial, now

    def _renew(self, state: TokenState, now: datetime) -> Generator[Request, Response, None]:
        self._read_answer((yield self._token_request(state)), state, now)

    def _token_request(self, state: TokenState) -> Request:
        url = text_of(self._token_url)
        if not url:
            raise ConfigError(
                "OAuth2: the access token is missing, has expired or is refused, and no token URL is given; give one"
            )
        headers = dict(self._headers() if callable(self._headers) else self._headers)
        extra = self._extra() if callable(self._extra) else self._extra
        fields = {**extra, **self._form(headers, state)}
        # Servers echo the fields in any kind of answer, so their secrets go with the request.
        client = text_of(self._client_id)
        hidden = frozenset(str(value) for name, value in fields.items() if value != client and name not in self._open)
        if self._credentials_in == "header":
            hidden |= {text_of(self._client_secret)}
        if self._send_in == "query":
            secret = frozenset(name.lower() for name in fields)
            params = {name: _shown(value) for name, value in fields.items()}
            return Request("POST", url, params, headers, secret=secret, hidden=hidden)
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = _FORM
        return Request("POST", url, headers=headers, body=urlencode(fields, doseq=True).encode(), hidden=hidden)

    @property
    def _open(self) -> set[str]:
        """Fields that are no secret, and that errors would be of little use without."""
        return {self._fields.grant_type, self._fields.client_id, "scope", "scopes"}

    def _form(self, headers: dict[str, str], state: TokenState) -> dict[str, Json]:
        """The fields that this class knows of; `headers` gets the client where it goes there."""
        names, refresh = self._fields, self._refresh(state)
        usual = "client_credentials" if refresh is None else "refresh_token"
        form: dict[str, Json] = {names.grant_type: usual if self._grant_type is None else text_of(self._grant_type)}
        if self._assertion is not None:
            return {**form, "assertion": self._assertion()}
        if self._credentials_in == "header":
            headers["Authorization"] = basic_credentials(text_of(self._client_id), text_of(self._client_secret))
        elif not any(name.lower() == "authorization" for name in headers):
            form[names.client_id] = text_of(self._client_id)
            form[names.client_secret] = text_of(self._client_secret)
        if refresh is not None:
            form[names.refresh_token] = refresh
        if self._scopes:
            form["scope"] = " ".join(self._scopes)
        return form

    def _refresh(self, state: TokenState) -> str | None:
        return self._first if state.refresh_token is None else state.refresh_token

    def _read_answer(self, response: Response, state: TokenState, now: datetime) -> None:
        self._refusal.check(response)
        if not response.ok:
            raise error_for(response, wait=retry_after(response, self._clock))
        answer = body_of(response)
        if type(answer) is not dict:
            raise CredentialsError(f"{response.request} did not answer with a JSON object; check the token URL")
        names, token = self._fields, find(answer, self._fields.access_token)
        if not isinstance(token, str) or not token:
            field_names = response.request.hide(", ".join(sorted(answer)) or "none")
            raise CredentialsError(
                f"{response.request} answered with the fields {field_names}, expected an {names.access_token}; "
                f"check the token URL and the client"
            )
        expires = expiry(find(answer, names.expires_in), self._expiry_format, now)
        renewed = find(answer, names.refresh_token)
        self._hide(token)
        if isinstance(renewed, str) and renewed and self._refresh_token is not None:
            self._hide(renewed)
            state.rotated = state.rotated or renewed != self._refresh(state)
            state.refresh_token = renewed
        usable = usable_until(expires, now)
        self._save(token, expires, usable, state)
        state.access_token, state.started, state.expires = token, now, usable

    def _save(self, token: str, expires: datetime, usable: datetime, state: TokenState) -> None:
        """Have the tokens stored before the first of them is used: with the server's answer the old one is spent.

        Our own store comes first, for it is durable when it returns; a config's file or platform may come too late.
        """
        self._store(token, usable, state, elsewhere=self._stored is not None)
        if self._stored is None:
            return
        updates = {
            self._stored.access_token: token,
            self._stored.expiry: written_expiry(expires, self._stored.expiry_format),
        }
        refresh = self._refresh(state)
        if refresh is not None:
            updates[self._stored.refresh_token] = refresh
        self._stored.save(updates)

    def __repr__(self) -> str:
        url = self._token_url if isinstance(self._token_url, str) else "..."
        grant = self._grant_type or ("client_credentials" if self._refresh_token is None else "refresh_token")
        return f"OAuth2({url!r}, grant={grant if isinstance(grant, str) else '...'!r})"


def _bearing(request: Request, token: str) -> Request:
    return with_header(request, "Authorization", f"Bearer {token}")


def _shown(value: Json) -> Json:
    """A query parameter as a form spells it."""
    return value if isinstance(value, list | tuple) else str(value)
