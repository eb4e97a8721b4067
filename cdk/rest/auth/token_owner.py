"""TokenOwner: an authenticator that obtains access tokens itself, and the rules of when it may.

What knows how to get a token, OAuth2 or the code of a connector, owns it alone: one thread renews and the others
wait, the process that plans a run renews for all tasks, and a task uses what it was given.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Protocol, TypeAlias

from cdk.base.errors import CredentialsError
from cdk.base.run import current_run, setting
from cdk.base.times.clock import Clock
from cdk.base.values import JsonValue
from cdk.rest.auth.token_response import saved_expiry
from cdk.rest.auth.tokens import (
    EndedToken,
    IssuedToken,
    TaskAsked,
    TokenEnded,
    Tokens,
    TokenState,
    held_tokens,
    key_of,
    mark_of,
    run_tokens,
    slice_progress,
)
from cdk.rest.client import HttpClient
from cdk.rest.http.authenticator import Learn
from cdk.rest.http.messages import Request, Response

_HOPELESS = 2
"""Tokens in a row that the API refuses at once, after which its response stands."""

_ENDED = (
    "the access token has ended, and no task may get another, as the refresh token works once; load the data frame "
    "again, which gets a new one, and where a read takes longer than one lasts, use `sync`, which goes on with the next"
)
_REFUSED = (
    "the API refused the access token before its time, and no task may get another, as the refresh token works once; "
    "a `sync` with this login gets one and keeps it, else re-authenticate"
)
_TOO_LONG = (
    "the access token ended before the slice came to a page after which it can go on, and no task may get another, as "
    "the refresh token works once; have the stream say checkpoints, or read smaller slices"
)


AttachToken: TypeAlias = Callable[[Request, str], Request]
"""Puts a token into a request, as a secret."""


class TokenOwner(ABC):
    """Obtains access tokens, for callers in this process and for tasks.

    learn: called with each token. Safe to use from several threads.
    """

    def __init__(self, learn: Learn, clock: Clock) -> None:
        self.learn, self.clock = learn, clock
        self._own, self._key = TokenState(), ""

    @abstractmethod
    def _login(self) -> Sequence[JsonValue]:
        """What is the same, in every process, for all that say the same of the same credentials."""

    @abstractmethod
    def _renew(self, state: TokenState, now: datetime) -> Generator[Request, Response, None]:
        """Have the state hold a new token. Yields requests to send, and is sent their responses. Raises CdkErrors."""

    @abstractmethod
    def _begin(self, state: TokenState, now: datetime) -> None:
        """Have the state hold the token that was given, if one was; once."""

    @property
    @abstractmethod
    def _first(self) -> str | None:
        """The refresh token of the config; None where there is none."""

    @property
    @abstractmethod
    def _seal(self) -> str:
        """What opens stored tokens: holders of the config alone have it."""

    @property
    @abstractmethod
    def _single_use(self) -> bool:
        """Whether it was said that the refresh token works once."""

    @property
    def key(self) -> str:
        """The same for all that say the same of the same credentials, in every process."""
        if not self._key:
            self._key = key_of(*self._login())
        return self._key

    def forget(self) -> None:
        held = held_tokens()
        if held is not None and (issued := held.issued.get(self.key)) is not None:
            self.refused(issued.token)
            return
        state = self._state()
        with state.lock:
            self._begin(state, self.clock())
            state.access_token = None

    def owners(self) -> Sequence["TokenOwner"]:
        return [self]

    def issue(self, seconds: float) -> Generator[Request, Response, IssuedToken]:
        """A token for tasks that use it for so many seconds, or for half of its life, whichever is shorter.

        Yields the token requests to send, and is sent their responses. Raises as `token` does.
        """
        state = self._state()
        with state.lock:
            yield from self._ready(state, seconds)
            assert state.access_token is not None
            assert state.started is not None
            assert state.expires is not None
            rotates = state.rotated or self._single_use
            return IssuedToken(state.access_token, state.started, state.expires, rotates, state.refusals)

    def flow_with(self, request: Request, attach: AttachToken) -> Generator[Request, Response, None]:
        """Send a request with a token, and once more with another one where that is refused. Raises as `token` does."""
        token = yield from self.token()
        response = yield attach(request, token)
        if response.status != HTTPStatus.UNAUTHORIZED:
            self.good()
        elif self.refused(token):
            response.close()
            token = yield from self.token()
            yield attach(request, token)

    def token(self) -> Generator[Request, Response, str]:
        """A token that has not expired, and that no request was refused with.

        Yields token requests to send, and is sent their responses. Raises CredentialsError: there is none to be had.
        TokenEnded: in a task, where the slice goes on with the next one.
        """
        used = _USED_OWNERS.get()
        if used is not None:
            used[self] = ""
        token = self._issued()
        if token is None:
            state = self._state()
            with state.lock:
                yield from self._ready(state, 0)
                assert state.access_token is not None
                token = state.access_token
        if used is not None:
            used[self] = token
        return token

    def _ready(self, state: TokenState, seconds: float) -> Generator[Request, Response, None]:
        now = self.clock()
        self._begin(state, now)
        if self._lasts(state, now, seconds):
            return
        if self._single_use and held_tokens() is not None:
            raise TaskAsked
        if state.rotated or self._single_use:
            run_tokens().check(self.key)
        yield from self._renew(state, now)

    def good(self) -> None:
        """Take note, in a task, that the API took its token."""
        if (held := held_tokens()) is not None:
            held.findings.good.add(self.key)
        if (slice := slice_progress()) is not None:
            slice.answered = True

    def refused(self, token: str) -> bool:
        """Let go of a token that the API refused; False: there is no better one, so its response stands."""
        held = held_tokens()
        issued = None if held is None else held.issued.get(self.key)
        if held is None or issued is None or issued.token != token:
            self._drop(token)
            return True
        slice = slice_progress()
        if issued.refusals >= _HOPELESS and not (slice is not None and slice.answered):
            return False
        held.findings.refused[self.key] = mark_of(token)
        self._note_ended(issued)
        return True

    def _drop(self, token: str) -> None:
        state = self._state()
        with state.lock:
            if state.access_token == token:
                state.access_token = None

    def _note_ended(self, issued: IssuedToken) -> None:
        """Have the slice that is read here know the token that it has to do without."""
        if (slice := slice_progress()) is not None:
            lasted = self.clock() - issued.started
            early = slice.first_use is not None and slice.first_use - issued.started <= lasted / 2
            slice.ended = EndedToken(mark_of(issued.token), lasted.total_seconds(), issued.expires, early)

    def _issued(self) -> str | None:
        """The token that this task was given; None: it was given none, or may ask for one itself."""
        held = held_tokens()
        issued = None if held is None else held.issued.get(self.key)
        if held is None or issued is None:
            return None
        slice, now = slice_progress(), self.clock()
        ended = now >= issued.expires
        refused = held.findings.refused.get(self.key) == mark_of(issued.token)
        if slice is not None and slice.answered and slice.ended is None:
            # What is refused to another slice, such as a stream that the login may not read, may still be given here.
            refused = False
        if not ended and not refused:
            if slice is not None:
                slice.first_use = slice.first_use or now
            self._hide(issued.token)
            return issued.token
        begins_again = slice is not None and slice.begins_again
        if not issued.rotates and (held.last or begins_again):
            # With the next token the slice would get no further, or no task comes with the next.
            self._drop(issued.token)
            return None
        if held.last:
            raise CredentialsError(_ENDED if ended else _REFUSED)
        if ended and slice is not None:
            self._note_ended(issued)
            if slice.read and slice.wasted:
                raise CredentialsError(_TOO_LONG)
        raise TokenEnded

    def _lasts(self, state: TokenState, now: datetime, seconds: float) -> bool:
        """Whether the token is there, and will be for so many seconds or half of its life."""
        if state.access_token is None or state.expires is None or state.started is None or now >= state.expires:
            return False
        return (state.expires - now).total_seconds() >= min(
            seconds, (state.expires - state.started).total_seconds() / 2
        )

    def _state(self) -> TokenState:
        """The run's state; outside of a run, one's own."""
        if not current_run().id:
            return self._own
        return run_tokens().state(self.key, self._own, self._load)

    def _load(self, state: TokenState, tokens: Tokens) -> None:
        """Go on with the tokens that an earlier run stored."""
        if self._first is None or state.rotated:
            return
        stored = tokens.load(self.key, self._seal)
        if stored is not None:
            self._begin(state, self.clock())
            state.refresh_token, state.rotated = str(stored["refresh_token"]), True
            state.access_token, state.started = str(stored["access_token"]), self.clock()
            state.expires = saved_expiry(str(stored["expires"]), None)
            for secret in (state.refresh_token, state.access_token):
                self._hide(secret)

    def _store(self, token: str, usable: datetime, state: TokenState, *, elsewhere: bool) -> None:
        """Have a refresh token that replaced another stored, and its access token. elsewhere: it is kept there too."""
        if state.rotated and state.refresh_token is not None:
            value = {"refresh_token": state.refresh_token, "access_token": token, "expires": usable.isoformat()}
            run_tokens().save(self.key, value, self._seal, elsewhere=elsewhere)

    def _hide(self, secret: str) -> None:
        self.learn(secret)
        run_tokens().learn(secret)


class TokenBearer(Protocol):
    """An authenticator that needs tokens."""

    def owners(self) -> Sequence[TokenOwner]:
        """Whose tokens it sends. Raises CdkErrors."""


_BEARERS: ContextVar[list[TokenBearer] | None] = ContextVar("token_bearers", default=None)
_USED_OWNERS: ContextVar[dict[TokenOwner, str] | None] = ContextVar("token_owners_asked", default=None)


def collecting() -> AbstractContextManager[list[TokenBearer]]:
    """The authenticators that need tokens and that a block makes or uses again, whatever they become a part of."""
    return setting(_BEARERS, [])


def report(authenticator: TokenBearer) -> None:
    """Report one that is made, or used again, to the collecting block."""
    bearers = _BEARERS.get()
    if bearers is not None and authenticator not in bearers:
        bearers.append(authenticator)


def asking() -> AbstractContextManager[dict[TokenOwner, str]]:
    """The owners that are asked for a token in a block, and what they give; an empty text where they fail."""
    return setting(_USED_OWNERS, {})


def issue_all(bearers: Sequence[TokenBearer], client: HttpClient, seconds: float) -> Mapping[str, IssuedToken]:
    """client: sends token requests as they are."""
    owners = [owner for bearer in bearers for owner in bearer.owners()]
    return {owner.key: client.obtain(partial(owner.issue, seconds)) for owner in owners}
