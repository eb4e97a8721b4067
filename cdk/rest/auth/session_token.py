"""Session tokens: a login whose answer holds a token."""

import threading
from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from typing import TypeAlias

from cdk.base.errors import CdkError, CredentialsError, TransientError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import Json
from cdk.rest.errors.error_handler import Action, ErrorHandler
from cdk.rest.errors.status_errors import error_for, error_text
from cdk.rest.http.authenticator import Authenticator, Learn, answer_to, ignore
from cdk.rest.http.messages import Request, Response

Present: TypeAlias = Callable[[Request, str], Request]
"""Puts a token into a request, as a secret."""

_REFUSALS = {400, 401, 403}
_UNAUTHORIZED = 401


class SessionToken:
    """Logs in and sends the token of the answer; logs in again when it has expired, or once when it is refused (401).

    login: gives the request that logs in. read: finds the token in its answer, None where there is none.
    present: puts the token into a request.
    life: how long a token can be used; None: there is a login before each request.
    login_as: credentials of the login itself. judge: says which of its answers are a success, where the status does
        not. learn: is told of each token. One thread logs in, the others wait.
    """

    def __init__(
        self,
        login: Callable[[], Request],
        read: Callable[[Response], Json],
        present: Present,
        *,
        life: timedelta | None = None,
        login_as: Authenticator | None = None,
        judge: ErrorHandler | None = None,
        learn: Learn = ignore,
        clock: Clock = system_clock,
    ) -> None:
        self._login, self._read, self._present, self._life = login, read, present, life
        self._login_as, self._judge, self._learn, self._clock = login_as, judge, learn, clock
        self._held: str | None = None
        self._learnt = ""
        self._expires: datetime | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Json]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Json]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Raises CredentialsError: the login is refused, or its answer has no token."""
        token = yield from self._token()
        response = yield self._present(request, token)
        if response.status == _UNAUTHORIZED and self._life is not None:
            response.close()
            token = yield from self._token(refused=token)
            yield self._present(request, token)

    def forget(self) -> None:
        with self._lock:
            self._held = None

    def _token(self, refused: str | None = None) -> Generator[Request, Response, str]:
        """A token that can be used and is not the one that was `refused`."""
        if self._life is None:
            return (yield from self._logged_in())
        with self._lock:
            now = self._clock()
            if self._held is None or self._expires is None or now >= self._expires or self._held == refused:
                self._held = yield from self._logged_in()
                self._expires = now + self._life
            return self._held

    def _logged_in(self) -> Generator[Request, Response, str]:
        response = yield from answer_to(self._login(), self._login_as)
        self._check(response)
        token = self._read(response)
        if token is None or token == "" or isinstance(token, dict | list):
            raise CredentialsError(
                f"{response.request} answered {response.status} without a token where it is expected; check the path "
                f"that leads to the token, and user and password"
            )
        if str(token) != self._learnt:
            self._learnt = str(token)
            self._learn(str(token))
        return str(token)

    def _check(self, response: Response) -> None:
        """Raise the error of a login that is no success."""
        if self._judge is None:
            if not response.ok:
                raise login_error(response)
            return
        verdict = self._judge.judge(response, 1)
        if verdict.action in (Action.SUCCESS, Action.IGNORE):
            return
        if verdict.action is Action.FAIL:
            raise verdict.error or login_error(response)
        raise TransientError(
            f"{response.request} answered {response.status}, which its error handler takes for a passing problem; "
            f"try again later"
        )

    def __repr__(self) -> str:
        return f"SessionToken(life={self._life})"


def login_error(response: Response) -> CdkError:
    """The error of a login that is no success."""
    if response.status not in _REFUSALS:
        return error_for(response)
    detail = error_text(response)
    return CredentialsError(
        f"{response.request} refused the login ({response.status}{f': {detail}' if detail else ''}); "
        f"check user and password"
    )
