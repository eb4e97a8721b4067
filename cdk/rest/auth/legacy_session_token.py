"""A session token that was given, until it is no longer valid; then those of a login."""

from collections.abc import Generator
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from http import HTTPStatus

import orjson

from cdk.base.errors import CredentialsError
from cdk.base.process.process_lock import ProcessLock
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue
from cdk.rest.auth.session_token import SessionToken
from cdk.rest.auth.static import with_header
from cdk.rest.auth.token_response import body_of
from cdk.rest.http.authenticator import Learn, Setting, ignore, text_of
from cdk.rest.http.messages import Request, Response


@dataclass(eq=False, repr=False)
class LegacySessionToken:
    """Sends a session token in `header`. Airbyte's older way of logging in, made for Metabase.

    Without a token, or when it is refused, `user` and `password` go as a JSON body to `login_url`.
    """

    header: Setting
    login_url: Setting
    _: KW_ONLY
    token_field: Setting
    """The field of the login's response that holds the token."""
    validate_url: Setting
    """Accepts the token to begin with, if it is valid."""
    token: Setting = ""
    user: Setting = ""
    password: Setting = ""
    life: timedelta = timedelta(days=1)
    """How long the token of a login can be used."""
    learn: Learn = ignore
    clock: Clock = system_clock
    _session: SessionToken = field(init=False)
    _valid: bool | None = field(default=None, init=False)
    _lock: ProcessLock = field(default_factory=ProcessLock, init=False)

    def __post_init__(self) -> None:
        self._session = SessionToken(
            self._login, self._read, self._present, life=self.life, learn=self.learn, clock=self.clock
        )

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Raises CredentialsError: the token is not valid, and there is no login or it fails."""
        if (yield from self._token_is_valid()):
            yield self._present(request, text_of(self.token))
        else:
            yield from self._session.flow(request)

    def forget(self) -> None:
        with self._lock:
            self._valid = None
        self._session.forget()

    def _token_is_valid(self) -> Generator[Request, Response, bool]:
        with self._lock:
            if self._valid is None:
                token = text_of(self.token)
                if token:
                    response = yield self._present(Request("GET", text_of(self.validate_url)), token)
                    self._valid = response.status == HTTPStatus.OK
                else:
                    self._valid = False
            return self._valid

    def _login(self) -> Request:
        user, password = text_of(self.user), text_of(self.password)
        if not user:
            raise CredentialsError(
                "the session token is missing or not valid, and there is no user and password to log in with; "
                "give a session token, or both of them"
            )
        body = orjson.dumps({"username": user, "password": password})
        headers = {"Content-Type": "application/json"}
        return Request("POST", text_of(self.login_url), headers=headers, body=body, hidden=frozenset({password}))

    def _read(self, response: Response) -> JsonValue:
        body = body_of(response)
        return body.get(text_of(self.token_field)) if type(body) is dict else None

    def _present(self, request: Request, token: str) -> Request:
        return with_header(request, text_of(self.header), token)
