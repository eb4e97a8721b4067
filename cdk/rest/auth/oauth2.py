"""OAuth 2.0: access tokens that are renewed (RFC 6749, sections 4.4 and 6)."""

import threading
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urlencode

from cdk.base.errors import CredentialsError, DecodeError
from cdk.base.times import Clock, system_clock
from cdk.base.values import Json
from cdk.rest.auth.basic import basic_credentials
from cdk.rest.backoff import retry_after
from cdk.rest.errors import error_for, error_text
from cdk.rest.message import Request, Response

_UNAUTHORIZED = 401
_REFUSALS = {400, 401, 403}
_USUAL_LIFE = timedelta(hours=1)
_MARGIN = timedelta(seconds=30)


class OAuth2:
    """Sends a bearer token and gets a new one when it has expired, or once when the API refuses it (401).

    token_url: where tokens come from. With a refresh_token that grant is used, else client_credentials.
    scopes: sent joined by blanks, as `scope`. extra: more fields of the token request (`{"audience": "..."}`).
    credentials_in: whether the client id and secret go in the form or in the header Authorization.

    A token without `expires_in` is taken to live an hour. When the answer brings a new refresh token, it is used from
    then on, by this process only. One thread renews, the others wait.
    """

    def __init__(
        self,
        token_url: str,
        *,
        client_id: str,
        client_secret: str,
        refresh_token: str | None = None,
        scopes: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
        credentials_in: Literal["body", "header"] = "body",
        clock: Clock = system_clock,
    ) -> None:
        self._token_url, self._client_id, self._client_secret = token_url, client_id, client_secret
        self._refresh_token, self._scopes, self._extra = refresh_token, tuple(scopes), dict(extra or {})
        self._credentials_in, self._clock = credentials_in, clock
        self._access_token: str | None = None
        self._expires: datetime | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Json]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Json]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """See Authenticator. Raises CredentialsError: the token request is refused, or its answer has no token."""
        token = yield from self._token()
        response = yield _bearing(request, token)
        if response.status == _UNAUTHORIZED:
            token = yield from self._token(refused=token)
            yield _bearing(request, token)

    def _token(self, refused: str | None = None) -> Generator[Request, Response, str]:
        """A token that has not expired and is not the one that was `refused`."""
        with self._lock:
            now = self._clock()
            expired = self._expires is None or now >= self._expires
            if self._access_token is None or expired or self._access_token == refused:
                self._access_token = self._keep((yield self._token_request()), now)
            return self._access_token

    def _token_request(self) -> Request:
        grant = "client_credentials" if self._refresh_token is None else "refresh_token"
        form = {"grant_type": grant, "refresh_token": self._refresh_token, "scope": " ".join(self._scopes) or None}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._credentials_in == "header":
            headers["Authorization"] = basic_credentials(self._client_id, self._client_secret)
        else:
            form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        form |= self._extra
        body = urlencode({name: value for name, value in form.items() if value is not None}).encode()
        # Servers echo the form in any kind of answer, so its secrets go with the request.
        hidden = frozenset({self._client_secret, self._refresh_token or "", *self._extra.values()})
        return Request("POST", self._token_url, headers=headers, body=body, hidden=hidden)

    def _keep(self, response: Response, now: datetime) -> str:
        if response.status in _REFUSALS:
            said = error_text(response)
            raise CredentialsError(
                f"{response.request} refused to give an access token ({response.status}{f': {said}' if said else ''}); "
                f"check client id and secret, and authenticate again"
            )
        if not response.ok:
            raise error_for(response, wait=retry_after(response, self._clock))
        answer = self._answer(response)
        token, life = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not token:
            fields = response.request.hide(", ".join(sorted(answer)) or "none")
            raise CredentialsError(
                f"{response.request} answered with the fields {fields}, expected an access_token; "
                f"check the token URL and the client"
            )
        self._expires = now + max(timedelta(), _life(life) - _MARGIN)
        if isinstance(renewed := answer.get("refresh_token"), str) and self._refresh_token is not None:
            self._refresh_token = renewed
        return token

    def _answer(self, response: Response) -> dict[str, Json]:
        try:
            answer = response.json()
        except DecodeError:
            answer = None
        if type(answer) is not dict:
            raise CredentialsError(f"{response.request} did not answer with a JSON object; check the token URL")
        return answer

    def __repr__(self) -> str:
        grant = "client_credentials" if self._refresh_token is None else "refresh_token"
        return f"OAuth2({self._token_url!r}, grant={grant!r})"


def _bearing(request: Request, token: str) -> Request:
    return request.with_headers({"Authorization": f"Bearer {token}"}, secret=True)


def _life(seconds: Json) -> timedelta:
    try:
        return timedelta(seconds=float(seconds))
    except (TypeError, ValueError, OverflowError):
        return _USUAL_LIFE
