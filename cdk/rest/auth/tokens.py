"""Access tokens of a run: asked for in one place, once for each token's life, for all their users.

All authenticators of a process that say the same share one `TokenState` for the length of a run. Where several
processes read for a run, the one that plans obtains the tokens and gives each task an `IssuedToken`. A task asks a
token server for nothing that another task could ask for, too: a refresh token that works once has one owner. A slice
whose token has ended stops at that request (`TokenEnded`), and goes on from its last checkpoint with the next token.
"""

import base64
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from cdk.base.errors import CredentialsError
from cdk.base.logs import logger
from cdk.base.process.process_lock import ProcessLock
from cdk.base.run import RunScope, current_run, setting
from cdk.base.values import JsonValue, canonical, from_json
from cdk.rest.http.authenticator import Learn, ignore

if TYPE_CHECKING:  # few runs need it, and it takes 50 ms to import
    from cryptography.fernet import Fernet


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """An access token as a task gets it, and from when to when it can be used."""

    token: str = field(repr=False)
    started: datetime
    expires: datetime
    rotates: bool
    """The refresh token behind it works once."""
    refusals: int = 0
    """How many before it the API refused, each at once."""


class TaskAsked(CredentialsError):
    """A task would use up a refresh token that works once."""

    def __init__(self) -> None:
        super().__init__(
            "a task needs an access token that was not obtained where the slices are planned, and must not use a "
            "refresh token that works once; make the authenticator while the stream is built, from the manifest"
        )


class TokenEnded(BaseException):
    """A task's token can be used no longer. No Exception: no stream may take it for an error of its own."""


@dataclass
class TokenState:
    """What is known of a token between its requests. Guarded by `lock`.

    started, expires: when the access token works. rotated: the server has replaced the refresh token.
    refusals: access tokens that the API refused before their time, since one was good for a request.
    """

    refresh_token: str | None = field(default=None, repr=False)
    access_token: str | None = field(default=None, repr=False)
    started: datetime | None = None
    expires: datetime | None = None
    rotated: bool = False
    refusals: int = 0
    lock: ProcessLock = field(default_factory=ProcessLock, repr=False, compare=False)


class TokenStore(Protocol):
    """Keeps what must not be lost between runs: a few texts under names that are fit for files.

    Methods raise CdkError and OSError.
    """

    def load(self, name: str) -> str | None:
        """The text under a name; None when there is none."""

    def check(self, name: str) -> None:
        """Find out whether a text can be kept under a name."""

    def save(self, name: str, text: str) -> None:
        """Keep a text. It is durable on return."""


class Tokens:
    """The tokens of a run in one process. Made by `current_run().own(Tokens)`. Safe to use from several threads.

    store: where rotated refresh tokens are kept for the next run; None: nowhere. learn: told of each token, to hide it.
    """

    def __init__(self) -> None:
        self.store: TokenStore | None = None
        self.learn: Learn = ignore
        self._lock = threading.Lock()
        self._states: dict[str, TokenState] = {}
        self._unsaved: dict[str, str] = {}

    def state(self, key: str, own: TokenState, load: Callable[[TokenState, "Tokens"], None]) -> TokenState:
        """The state under `key`; the first to ask brings its `own`, and loads into it what is kept."""
        with self._lock:
            if key not in self._states:
                load(own, self)
                self._states[key] = own
            return self._states[key]

    def merge(self, findings: "Findings") -> None:
        """Take over what a task found out of its tokens: let go of those that were refused."""
        for key in findings.refused.keys() | findings.good:
            with self._lock:
                state = self._states.get(key)
            if state is not None:
                with state.lock:
                    if state.access_token is not None and mark_of(state.access_token) == findings.refused.get(key):
                        state.access_token, state.refusals = None, state.refusals + 1
                    if key in findings.good:
                        state.refusals = 0

    def load(self, key: str, secret: str) -> Mapping[str, JsonValue] | None:
        """What an earlier run kept under `key`, if it was sealed with `secret`. Raises what the store raises."""
        text = None if self.store is None else self.store.load(key)
        return None if text is None else unseal(text, secret)

    def save(self, key: str, value: Mapping[str, JsonValue], secret: str, *, elsewhere: bool) -> None:
        """Keep a value under `key`, sealed. What cannot be kept now is tried again; see `flush`.

        elsewhere: it is kept at another place, too. What is kept nowhere is said.
        """
        if self.store is not None:
            self._unsaved[key] = seal(value, secret)
            self.flush()
        elif not elsewhere:
            logger.warning(
                "the server gave a new refresh token, and nothing here keeps it for the next run; if the one in the "
                "config works once only, use `sync`, which keeps the new one, or re-authenticate afterwards"
            )

    def run(self) -> RunScope:
        """A run that uses these, which live on after it."""
        return RunScope(shared={Tokens: self})

    def __reduce__(self) -> tuple[type["Tokens"], tuple[()]]:
        """What travels to another process: nothing. Refresh tokens stay where they are owned."""
        return Tokens, ()

    def check(self, key: str) -> None:
        """Find out, before a refresh token is spent, whether the next one can be kept. Raises what the store raises."""
        if self.store is not None:
            self.store.check(key)

    def flush(self) -> None:
        """Try again to keep what could not be kept; what still cannot is said."""
        for key, text in list(self._unsaved.items()):
            assert self.store is not None
            try:
                self.store.save(key, text)
                del self._unsaved[key]
            except Exception as error:  # noqa: BLE001 - the token is good, and the only copy of it: the run goes on
                logger.error(
                    "the new refresh token cannot be kept (%s); this run goes on with it, and the next one cannot: "
                    "see to it that the target can be written, or re-authenticate afterwards",
                    error,
                )


@dataclass
class Findings:
    """What a task found out: by key the `mark_of` tokens that were refused before their time; keys of good ones."""

    refused: dict[str, str] = field(default_factory=dict)
    good: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class HeldTokens:
    """The tokens of a task, by key, and what it found out of them. last: nothing is read with the next ones."""

    issued: Mapping[str, IssuedToken]
    findings: Findings = field(default_factory=Findings)
    last: bool = False


@dataclass(frozen=True)
class EndedToken:
    """A token that ended under a slice.

    mark: tells tokens apart, see `mark_of`. lasted: for how many seconds it worked. expires: until when it was to.
    early: the slice had at least half of that time.
    """

    mark: str
    lasted: float
    expires: datetime
    early: bool


@dataclass
class SliceProgress:
    """How a slice stands that a task reads. Its reader and its authenticators keep it.

    read: it has given pages. reached: it could go on after one of them. first_use: when it had its token first.
    answered: the API took that of a request. ended: the token that it is refused, or that ended under way.
    """

    read: bool = False
    reached: bool = False
    first_use: datetime | None = None
    answered: bool = False
    ended: EndedToken | None = None

    @property
    def begins_again(self) -> bool:
        """Whether what was requested so far is requested again with the next token."""
        return (self.read or self.answered) and not self.reached

    @property
    def wasted(self) -> EndedToken | None:
        """The token that has brought it nothing, though it had half of its time."""
        return self.ended if self.begins_again and self.ended is not None and self.ended.early else None


_held: ContextVar[HeldTokens | None] = ContextVar("held_tokens", default=None)
_slice: ContextVar[SliceProgress | None] = ContextVar("slice_progress", default=None)


def held_tokens() -> HeldTokens | None:
    """The tokens of the task that runs here; None where tokens are asked for."""
    return _held.get()


def slice_progress() -> SliceProgress | None:
    """The slice that is read here, in a task."""
    return _slice.get()


def holding(issued: Mapping[str, IssuedToken], *, last: bool = False) -> AbstractContextManager[HeldTokens]:
    """Let a block, and threads that the executors start in it, use these tokens. See HeldTokens."""
    return setting(_held, HeldTokens(issued, last=last))


def reading(progress: SliceProgress) -> AbstractContextManager[SliceProgress]:
    """Let authenticators in a block know how the slice stands that they work for."""
    return setting(_slice, progress)


@runtime_checkable
class TokenUser(Protocol):
    """A stream whose requests need access tokens."""

    def access_tokens(self, seconds: float) -> Mapping[str, IssuedToken]:
        """The tokens for tasks that read the stream for so many seconds, by their keys. May ask token servers.

        Raises CdkErrors.
        """


def access_tokens(stream: object, seconds: float) -> Mapping[str, IssuedToken]:
    """The tokens for tasks that read a stream, see TokenUser; none of a stream that needs none. Raises CdkErrors."""
    return stream.access_tokens(seconds) if isinstance(stream, TokenUser) else {}


def run_tokens() -> Tokens:
    """The tokens of the run that works here."""
    return current_run().own(Tokens)


def key_of(*parts: JsonValue) -> str:
    """A name for what says the same of the same credentials. It does not reveal them."""
    return blake2b(canonical(list(parts)).encode(), digest_size=16).hexdigest()


def mark_of(token: str) -> str:
    """Which token is meant, for its holders."""
    return blake2b(token.encode(), digest_size=16).hexdigest()


def seal(value: Mapping[str, JsonValue], secret: str) -> str:
    """A text that gives the value back to holders of the secret alone."""
    return _cipher(secret).encrypt(canonical(dict(value)).encode()).decode()


def unseal(text: str, secret: str) -> Mapping[str, JsonValue] | None:
    """What was sealed with the secret; None when it was sealed with another."""
    from cryptography.fernet import InvalidToken  # noqa: PLC0415 - see above

    try:
        value = from_json(_cipher(secret).decrypt(text.encode()))
    except InvalidToken:
        return None
    return value if isinstance(value, Mapping) else None


def _cipher(secret: str) -> "Fernet":
    from cryptography.fernet import Fernet  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

    derived = HKDF(SHA256(), 32, salt=None, info=b"spark-cdk refresh token").derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
