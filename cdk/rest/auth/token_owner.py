"""TokenOwner: an authenticator that obtains access tokens itself, and the rules for when it may.

The code that can obtain a token, OAuth2 or a connector's own, is its only owner: one thread renews it while the others
wait, the process that plans a run renews it for all tasks, and a task uses the token that it was issued.
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
    TokenEnded,
    TokenNotIssued,
    Tokens,
    TokenState,
    digest_of,
    held_tokens,
    key_of,
    run_tokens,
    slice_progress,
)
from cdk.rest.client import HttpClient
from cdk.rest.http.authenticator import Learn
from cdk.rest.http.messages import Request, Response

_MAX_REJECTIONS = 2
"""After so many consecutive tokens that the API rejected at once, its response is final."""

_EXPIRED = (
    "the access token has expired, and no task may obtain another, because the refresh token works only once; load the "
    "data frame again, which obtains a new one, or, if a read takes longer than a token lasts, use `sync`, which "
    "resumes with the next token"
)
_REJECTED = (
    "the API rejected the access token before it expired, and no task may obtain another, because the refresh token "
    "works only once; a `sync` with this login obtains and stores a new one; otherwise re-authenticate"
)
_TOO_LONG = (
    "the access token expired before the slice reached a page after which it can resume, and no task may obtain "
    "another, because the refresh token works only once; have the stream yield checkpoints, or read smaller slices"
)


AttachToken: TypeAlias = Callable[[Request, str], Request]
"""Adds a token to a request, marked as a secret."""


class TokenOwner(ABC):
    """Obtains access tokens for this process and for tasks. Thread-safe. learn: called with each token."""

    def __init__(self, learn: Learn, clock: Clock) -> None:
        self.learn, self.clock = learn, clock
        self._own, self._key = TokenState(), ""

    @abstractmethod
    def _identity_values(self) -> Sequence[JsonValue]:
        """Return the values that identify this login: equal, in every process, for equal settings and credentials."""

    @abstractmethod
    def _renew(self, state: TokenState, now: datetime) -> Generator[Request, Response, None]:
        """Obtain a new token and store it in `state`. Yields requests, receives their responses. Raises CdkErrors."""

    def _begin(self, state: TokenState, now: datetime) -> None:
        """Store the configured access token in `state`, if there is one; only the first call does so."""
        return

    @property
    def _configured_refresh_token(self) -> str | None:
        """The refresh token of the config; None if there is none."""
        return None

    @property
    def _storage_secret(self) -> str:
        """The secret that decrypts stored tokens: only holders of the config have it."""
        return ""

    @property
    def _single_use(self) -> bool:
        """Whether the refresh token is declared to work only once."""
        return False

    @property
    def key(self) -> str:
        """The key of this login: equal, in every process, for equal settings and credentials."""
        if not self._key:
            self._key = key_of(*self._identity_values())
        return self._key

    def forget(self) -> None:
        held = held_tokens()
        if held is not None and (issued := held.issued.get(self.key)) is not None:
            self.rejected(issued.token)
            return
        state = self._state()
        with state.lock:
            self._begin(state, self.clock())
            state.access_token = None

    def owners(self) -> Sequence["TokenOwner"]:
        return [self]

    def issue(self, seconds: float) -> Generator[Request, Response, IssuedToken]:
        """Return a token for tasks, valid for `seconds` or for half of its life, whichever is shorter.

        Yields token requests to send, and receives their responses. Raises as `token`.
        """
        state = self._state()
        with state.lock:
            yield from self._ready(state, seconds)
            assert state.access_token is not None
            assert state.started is not None
            assert state.expires is not None
            rotates = state.rotated or self._single_use
            return IssuedToken(state.access_token, state.started, state.expires, rotates, state.rejections)

    def flow_with(self, request: Request, attach: AttachToken) -> Generator[Request, Response, None]:
        """Send a request with a token, and once more with another one if the token is rejected. Raises as `token`."""
        token = yield from self.token()
        response = yield attach(request, token)
        if response.status != HTTPStatus.UNAUTHORIZED:
            self.accepted()
        elif self.rejected(token):
            response.close()
            token = yield from self.token()
            yield attach(request, token)

    def token(self) -> Generator[Request, Response, str]:
        """Return a token that has neither expired nor been rejected.

        Yields token requests to send, and receives their responses. Raises CredentialsError: when no token can be
        obtained. Raises TokenEnded: in a task, when the slice must resume with the next token.
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
        if self._is_valid_for(state, now, seconds):
            return
        if self._single_use and held_tokens() is not None:
            raise TokenNotIssued
        if state.rotated or self._single_use:
            run_tokens().check(self.key)
        yield from self._renew(state, now)

    def accepted(self) -> None:
        """Record, in a task, that the API accepted its token."""
        if (held := held_tokens()) is not None:
            held.findings.accepted.add(self.key)
        if (slice := slice_progress()) is not None:
            slice.accepted = True

    def rejected(self, token: str) -> bool:
        """Drop a token that the API rejected. Returns False if a new one would not help: the response is final."""
        held = held_tokens()
        issued = None if held is None else held.issued.get(self.key)
        if held is None or issued is None or issued.token != token:
            self._drop(token)
            return True
        slice = slice_progress()
        if issued.rejections >= _MAX_REJECTIONS and not (slice is not None and slice.accepted):
            return False
        held.findings.rejected[self.key] = digest_of(token)
        self._note_ended(issued)
        return True

    def _drop(self, token: str) -> None:
        state = self._state()
        with state.lock:
            if state.access_token == token:
                state.access_token = None

    def _note_ended(self, issued: IssuedToken) -> None:
        """Record in the progress of the current slice which token has ended."""
        if (slice := slice_progress()) is not None:
            lasted = self.clock() - issued.started
            early = slice.first_used is not None and slice.first_used - issued.started <= lasted / 2
            slice.ended = EndedToken(digest_of(issued.token), lasted.total_seconds(), issued.expires, early)

    def _issued(self) -> str | None:
        """Return the token that this task was issued; None if it has none, or may obtain one itself."""
        held = held_tokens()
        issued = None if held is None else held.issued.get(self.key)
        if held is None or issued is None:
            return None
        slice, now = slice_progress(), self.clock()
        ended = now >= issued.expires
        rejected = held.findings.rejected.get(self.key) == digest_of(issued.token)
        if slice is not None and slice.accepted and slice.ended is None:
            # The API may have rejected the token only for another slice, such as a stream that the login may not read.
            rejected = False
        if not ended and not rejected:
            if slice is not None:
                slice.first_used = slice.first_used or now
            self._learn_secret(issued.token)
            return issued.token
        must_restart = slice is not None and slice.must_restart
        if not issued.rotates and (held.last or must_restart):
            # With the next token the slice would get no further, or no other task will come with a new one.
            self._drop(issued.token)
            return None
        if held.last:
            raise CredentialsError(_EXPIRED if ended else _REJECTED)
        if ended and slice is not None:
            self._note_ended(issued)
            if slice.read and slice.wasted_token:
                raise CredentialsError(_TOO_LONG)
        raise TokenEnded

    def _is_valid_for(self, state: TokenState, now: datetime, seconds: float) -> bool:
        """Whether there is a token that remains valid for `seconds`, or for half of its life if that is shorter."""
        if state.access_token is None or state.expires is None or state.started is None or now >= state.expires:
            return False
        return (state.expires - now).total_seconds() >= min(
            seconds, (state.expires - state.started).total_seconds() / 2
        )

    def _state(self) -> TokenState:
        """Return the state that the run shares; outside of a run, this owner's own."""
        return run_tokens().state(self.key, self._own, self._load) if current_run().id else self._own

    def _load(self, state: TokenState, tokens: Tokens) -> None:
        """Load the tokens that an earlier run stored into `state`."""
        if self._configured_refresh_token is None or state.rotated:
            return
        stored = tokens.load(self.key, self._storage_secret)
        if stored is not None:
            self._begin(state, self.clock())
            state.refresh_token, state.rotated = str(stored["refresh_token"]), True
            state.access_token, state.started = str(stored["access_token"]), self.clock()
            state.expires = saved_expiry(str(stored["expires"]), None)
            for secret in (state.refresh_token, state.access_token):
                self._learn_secret(secret)

    def _store(self, token: str, usable: datetime, state: TokenState, *, elsewhere: bool) -> None:
        """Store a rotated refresh token with its access token. elsewhere: whether the config stores them as well."""
        if state.rotated and state.refresh_token is not None:
            value = {"refresh_token": state.refresh_token, "access_token": token, "expires": usable.isoformat()}
            run_tokens().save(self.key, value, self._storage_secret, elsewhere=elsewhere)

    def _learn_secret(self, secret: str) -> None:
        self.learn(secret)
        run_tokens().learn(secret)


class TokenBearer(Protocol):
    """An authenticator that sends access tokens."""

    def owners(self) -> Sequence[TokenOwner]:
        """Return the owners of the tokens that it sends. Raises CdkErrors."""


_BEARERS: ContextVar[list[TokenBearer] | None] = ContextVar("token_bearers", default=None)
_USED_OWNERS: ContextVar[dict[TokenOwner, str] | None] = ContextVar("token_owners_asked", default=None)


def collecting_bearers() -> AbstractContextManager[list[TokenBearer]]:
    """Collect the TokenBearers that are created or reused in a block, even as parts of other authenticators."""
    return setting(_BEARERS, [])


def register_bearer(authenticator: TokenBearer) -> None:
    """Add an authenticator that is created or reused to those of the `collecting_bearers` block."""
    bearers = _BEARERS.get()
    if bearers is not None and authenticator not in bearers:
        bearers.append(authenticator)


def recording_used_owners() -> AbstractContextManager[dict[TokenOwner, str]]:
    """Collect the owners whose `token` is called in a block, each with its token, or an empty string if it fails."""
    return setting(_USED_OWNERS, {})


def issue_all(bearers: Sequence[TokenBearer], client: HttpClient, seconds: float) -> Mapping[str, IssuedToken]:
    """Obtain a token from each owner, for tasks of `seconds`. client: sends token requests without credentials."""
    owners = [owner for bearer in bearers for owner in bearer.owners()]
    return {owner.key: client.obtain(partial(owner.issue, seconds)) for owner in owners}
