"""Session tokens: obtained by a login, or configured and used as long as they are valid."""

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from uuid import uuid4

import orjson

from cdk.base.errors import CdkError, CredentialsError, TransientError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue
from cdk.rest.auth.static import with_header
from cdk.rest.auth.token_owner import AttachToken, TokenOwner, register_bearer
from cdk.rest.auth.token_response import REJECTION_STATUSES
from cdk.rest.auth.tokens import TokenState
from cdk.rest.errors.api_message import json_body
from cdk.rest.errors.error_handler import Action, ErrorHandler
from cdk.rest.errors.status_errors import error_for, error_text
from cdk.rest.http.authenticator import Authenticator, Learn, Setting, ignore, response_to, text_of
from cdk.rest.http.messages import Request, Response


class _Session(TokenOwner):
    """Sends the token of a login, and logs in again when it expires, or once per request when it is rejected (401).

    If an API allows one session per user, each login ends the previous session. So there is one login for all tasks,
    see TokenOwner.
    """

    life: timedelta | None

    def __post_init__(self) -> None:
        super().__init__(self.learn, self.clock)
        register_bearer(self)

    @abstractmethod
    def _obtain(self) -> Generator[Request, Response, str]:
        """Return a token. Yields requests, receives their responses. Raises CredentialsError: when there is none."""

    @abstractmethod
    def _send_with(self, request: Request, token: str) -> Request:
        """Return `request` with a token."""

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Raises CredentialsError: when the login is rejected, or its response has no token."""
        if self.life is None:
            token = yield from self._obtain()
            self._learn_secret(token)
            yield self._send_with(request, token)
        else:
            yield from self.flow_with(request, self._send_with)

    def _renew(self, state: TokenState, now: datetime) -> Generator[Request, Response, None]:
        assert self.life is not None
        token = yield from self._obtain()
        self._learn_secret(token)
        state.access_token, state.started, state.expires = token, now, now + self.life


@dataclass(eq=False, repr=False)
class SessionToken(_Session):
    """Logs in and sends the token of the response."""

    login: Callable[[], Request]
    """Returns the login request."""
    read: Callable[[Response], JsonValue]
    """Returns the token in the login's response, None if it has none."""
    present: AttachToken
    _: KW_ONLY
    life: timedelta | None = None
    """How long a token can be used; None to log in before each request."""
    identity: str = ""
    """Equal, in every process, for authenticators that may share a token; empty if each needs its own, per process."""
    login_as: Authenticator | None = None
    """The credentials of the login request itself."""
    judge: ErrorHandler | None = None
    """Decides which responses to the login are a success; None to use the status."""
    learn: Learn = ignore
    """Called with each token."""
    clock: Clock = system_clock

    def owners(self) -> Sequence[TokenOwner]:
        return [] if self.life is None or not self.identity else [self]

    def _identity_values(self) -> Sequence[JsonValue]:
        return [self.identity or uuid4().hex]

    def _send_with(self, request: Request, token: str) -> Request:
        return self.present(request, token)

    def _obtain(self) -> Generator[Request, Response, str]:
        response = yield from response_to(self.login(), self.login_as)
        self._check(response)
        return token_in(response, self.read(response))

    def _check(self, response: Response) -> None:
        """Raise the error of a login that failed."""
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
            f"{response.request} answered {response.status}, which its error handler treats as transient; "
            f"try again later"
        )


def login_error(response: Response) -> CdkError:
    """Return the error of a login that failed."""
    if response.status not in REJECTION_STATUSES:
        return error_for(response)
    detail = error_text(response)
    return CredentialsError(
        f"{response.request} rejected the login ({response.status}{f': {detail}' if detail else ''}); "
        f"check user and password"
    )


def token_in(response: Response, token: JsonValue) -> str:
    """Return the token in the response to a login as a string. Raises CredentialsError: when it is missing."""
    if token is None or token == "" or isinstance(token, dict | list):
        raise CredentialsError(
            f"{response.request} answered {response.status} without a token where it is expected; check the path "
            f"of the token, and user and password"
        )
    return str(token)


@dataclass(eq=False, repr=False)
class LegacySessionToken(_Session):
    """Sends a session token in `header`. Airbyte's older login mechanism, made for Metabase.

    Without a token, or if it is rejected, sends `user` and `password` as a JSON body to `login_url`.
    """

    header: Setting
    login_url: Setting
    _: KW_ONLY
    token_field: Setting
    """The field of the login's response with the token."""
    validate_url: Setting
    """A URL that answers 200 if `session_token` is valid."""
    session_token: Setting = ""
    """The first token."""
    user: Setting = ""
    password: Setting = ""
    life: timedelta | None = timedelta(days=1)
    """How long a token can be used."""
    learn: Learn = ignore
    clock: Clock = system_clock

    def _identity_values(self) -> Sequence[JsonValue]:
        settings = (self.header, self.login_url, self.token_field, self.session_token, self.user, self.password)
        return [text_of(setting) for setting in settings]

    def _send_with(self, request: Request, token: str) -> Request:
        return with_header(request, text_of(self.header), token)

    def _obtain(self) -> Generator[Request, Response, str]:
        if token := text_of(self.session_token):
            response = yield self._send_with(Request("GET", text_of(self.validate_url)), token)
            if response.status == HTTPStatus.OK:
                return token
        user, password = text_of(self.user), text_of(self.password)
        if not user:
            raise CredentialsError(
                "the session token is missing or invalid, and there is no user and password to log in with; "
                "set a session token, or both of them"
            )
        content = orjson.dumps({"username": user, "password": password})
        headers = {"Content-Type": "application/json"}
        url, hidden = text_of(self.login_url), frozenset({password})
        response = yield Request("POST", url, headers=headers, body=content, hidden=hidden)
        if not response.ok:
            raise login_error(response)
        body = json_body(response)
        return token_in(response, body.get(text_of(self.token_field)) if type(body) is dict else None)
