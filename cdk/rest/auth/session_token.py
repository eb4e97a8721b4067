"""Session tokens: those of a login, or one that was given, as long as it is valid."""

from collections.abc import Callable, Generator
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TypeAlias

import orjson

from cdk.base.errors import CdkError, CredentialsError, TransientError
from cdk.base.process.process_lock import ProcessLock
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue
from cdk.rest.auth.static import with_header
from cdk.rest.auth.token_response import REFUSALS, body_of
from cdk.rest.errors.error_handler import Action, ErrorHandler
from cdk.rest.errors.status_errors import error_for, error_text
from cdk.rest.http.authenticator import Authenticator, Learn, Setting, ignore, response_to, text_of
from cdk.rest.http.messages import Request, Response

Present: TypeAlias = Callable[[Request, str], Request]
"""Puts a token into a request, as a secret."""


@dataclass(eq=False, repr=False)
class SessionToken:
    """Logs in and sends the token of the response; logs in again when it has expired, or once when it is refused (401).

    One thread logs in, the others wait.
    """

    login: Callable[[], Request]
    """Gives the request that logs in."""
    read: Callable[[Response], JsonValue]
    """Finds the token in its response, None where there is none."""
    present: Present
    _: KW_ONLY
    life: timedelta | None = None
    """How long a token can be used; None: there is a login before each request."""
    login_as: Authenticator | None = None
    """Credentials of the login itself."""
    judge: ErrorHandler | None = None
    """Says which responses to the login are a success, where the status does not."""
    learn: Learn = ignore
    """Called with each token."""
    clock: Clock = system_clock
    _token: str | None = field(default=None, init=False)
    _expires: datetime | None = field(default=None, init=False)
    _learned: str = field(default="", init=False)
    _lock: ProcessLock = field(default_factory=ProcessLock, init=False)

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Raises CredentialsError: the login is refused, or its response has no token."""
        token = yield from self._usable()
        response = yield self.present(request, token)
        if response.status == HTTPStatus.UNAUTHORIZED and self.life is not None:
            response.close()
            token = yield from self._usable(refused=token)
            yield self.present(request, token)

    def forget(self) -> None:
        with self._lock:
            self._token = None

    def _usable(self, refused: str | None = None) -> Generator[Request, Response, str]:
        """A token that can be used and is not the one that was `refused`."""
        if self.life is None:
            return (yield from self._logged_in())
        with self._lock:
            now = self.clock()
            if self._token is None or self._expires is None or now >= self._expires or self._token == refused:
                self._token = yield from self._logged_in()
                self._expires = now + self.life
            return self._token

    def _logged_in(self) -> Generator[Request, Response, str]:
        response = yield from response_to(self.login(), self.login_as)
        self._check(response)
        token = self.read(response)
        if token is None or token == "" or isinstance(token, dict | list):
            raise CredentialsError(
                f"{response.request} answered {response.status} without a token where it is expected; check the path "
                f"that leads to the token, and user and password"
            )
        if str(token) != self._learned:
            self._learned = str(token)
            self.learn(str(token))
        return str(token)

    def _check(self, response: Response) -> None:
        """Raise the error of a login that is no success."""
        if self.judge is None:
            if not response.ok:
                raise login_error(response)
            return
        verdict = self.judge.judge(response, 1)
        if verdict.action in (Action.SUCCESS, Action.IGNORE):
            return
        if verdict.action is Action.FAIL:
            raise verdict.error or login_error(response)
        raise TransientError(
            f"{response.request} answered {response.status}, which its error handler takes for a passing problem; "
            f"try again later"
        )


def login_error(response: Response) -> CdkError:
    """The error of a login that is no success."""
    if response.status not in REFUSALS:
        return error_for(response)
    detail = error_text(response)
    return CredentialsError(
        f"{response.request} refused the login ({response.status}{f': {detail}' if detail else ''}); "
        f"check user and password"
    )


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
