"""A session token that was given, until it is no longer valid; then those of a login."""

import threading
from collections.abc import Generator
from datetime import timedelta

import orjson

from cdk.base.errors import CredentialsError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import Json
from cdk.rest.auth.session_token import SessionToken
from cdk.rest.auth.static import with_header
from cdk.rest.auth.token_response import body_of
from cdk.rest.http.authenticator import Learn, Setting, ignore, text_of
from cdk.rest.http.messages import Request, Response

_DAY = timedelta(days=1)
_OK = 200


class LegacySessionToken:
    """Sends a session token in `header`. Airbyte's older way of logging in, made for Metabase.

    token: one to begin with, if `validate_url` accepts it. Without one, or when it is refused, `user` and `password`
        go as a JSON body to `login_url`, and the token is the field `answer_field` of the answer; it lives for `life`.
    """

    def __init__(
        self,
        header: Setting,
        login_url: Setting,
        *,
        answer_field: Setting,
        validate_url: Setting,
        token: Setting = "",
        user: Setting = "",
        password: Setting = "",
        life: timedelta = _DAY,
        learn: Learn = ignore,
        clock: Clock = system_clock,
    ) -> None:
        self._header, self._login_url, self._answer_field = header, login_url, answer_field
        self._validate_url, self._token, self._user, self._password = validate_url, token, user, password
        self._session = SessionToken(self._login, self._read, self._present, life=life, learn=learn, clock=clock)
        self._given: bool | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Json]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Json]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Raises CredentialsError: the token is not valid, and there is no login or it fails."""
        if (yield from self._given_is_valid()):
            yield self._present(request, text_of(self._token))
        else:
            yield from self._session.flow(request)

    def forget(self) -> None:
        with self._lock:
            self._given = None
        self._session.forget()

    def _given_is_valid(self) -> Generator[Request, Response, bool]:
        with self._lock:
            if self._given is None:
                token = text_of(self._token)
                if token:
                    response = yield self._present(Request("GET", text_of(self._validate_url)), token)
                    self._given = response.status == _OK
                else:
                    self._given = False
            return self._given

    def _login(self) -> Request:
        user, password = text_of(self._user), text_of(self._password)
        if not user:
            raise CredentialsError(
                "the session token is missing or not valid, and there is no user and password to log in with; "
                "give a session token, or both of them"
            )
        body = orjson.dumps({"username": user, "password": password})
        headers = {"Content-Type": "application/json"}
        return Request("POST", text_of(self._login_url), headers=headers, body=body, hidden=frozenset({password}))

    def _read(self, response: Response) -> Json:
        body = body_of(response)
        return body.get(text_of(self._answer_field)) if type(body) is dict else None

    def _present(self, request: Request, token: str) -> Request:
        return with_header(request, text_of(self._header), token)

    def __repr__(self) -> str:
        return "LegacySessionToken(****)"
