"""Access tokens of a run: each is requested in one place, once in its lifetime, for all its users.

All authenticators of a process with the same settings share one `TokenState` during a run. If several processes read
for a run, the planning process obtains the tokens and issues an `IssuedToken` to each task. A task requests no token
that another task could request, too: a single-use refresh token has one owner. A slice whose token ends stops at that
request (`TokenEnded`), and resumes from its last checkpoint with the next token.
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

import msgspec

from cdk.base.errors import CredentialsError
from cdk.base.logs import logger
from cdk.base.process.process_lock import ProcessLock
from cdk.base.run import RunScope, current_run, setting
from cdk.base.values import JsonValue, canonical, from_json
from cdk.rest.http.authenticator import Learn, ignore

if TYPE_CHECKING:  # few runs need it, and it takes 50 ms to import
    from cryptography.fernet import Fernet


@dataclass(frozen=True, slots=True, repr=False)
class IssuedToken:
    """An access token as issued to a task, with the period in which it can be used."""

    token: str
    started: datetime
    expires: datetime
    rotates: bool
    """Whether its refresh token works only once."""
    rejections: int = 0
    """How many tokens before it the API rejected in a row, each at once."""


class TokenNotIssued(CredentialsError):
    """A task would use up a refresh token that works only once."""

    def __init__(self) -> None:
        super().__init__(
            "a task needs an access token that was not obtained where the slices are planned, and must not use a "
            "refresh token that works only once; create the authenticator while the stream is built from the manifest"
        )


class TokenEnded(BaseException):
    """A task's token can no longer be used. Not an Exception, so that no stream handles it as an error of its own."""


@dataclass(eq=False, repr=False)
class TokenState:
    """The state of a login between token requests. Guarded by `lock`.

    started, expires: the period in which the access token is valid. rotated: whether the server has replaced the
    refresh token. rejections: how many access tokens the API rejected early since it last accepted one.
    """

    refresh_token: str | None = None
    access_token: str | None = None
    started: datetime | None = None
    expires: datetime | None = None
    rotated: bool = False
    rejections: int = 0
    lock: ProcessLock = field(default_factory=ProcessLock)


class TokenStore(Protocol):
    """Stores what must not be lost between runs: a few strings under names that are valid file names.

    Methods raise CdkError and OSError.
    """

    def load(self, name: str) -> str | None:
        """Return the string under a name; None if there is none."""

    def check(self, name: str) -> None:
        """Check that a string can be stored under a name; raise if not."""

    def save(self, name: str, text: str) -> None:
        """Store a string. It is durable on return."""


class Tokens:
    """The tokens of a run in one process. Created by `current_run().own(Tokens)`. Thread-safe.

    store: where rotated refresh tokens are stored for the next run; None if nowhere. learn: called with each token, so
    that it can be masked.
    """

    def __init__(self) -> None:
        self.store: TokenStore | None = None
        self.learn: Learn = ignore
        self._lock = threading.Lock()
        self._states: dict[str, TokenState] = {}
        self._unsaved: dict[str, str] = {}

    def state(self, key: str, own: TokenState, load: Callable[[TokenState, "Tokens"], None]) -> TokenState:
        """Return the state under `key`. The first caller provides its `own` state and loads stored tokens into it."""
        with self._lock:
            if key not in self._states:
                load(own, self)
                self._states[key] = own
            return self._states[key]

    def merge(self, findings: "Findings") -> None:
        """Apply what a task found out about its tokens: drop those that the API rejected."""
        for key in findings.rejected.keys() | findings.accepted:
            with self._lock:
                state = self._states.get(key)
            if state is not None:
                with state.lock:
                    if state.access_token is not None and digest_of(state.access_token) == findings.rejected.get(key):
                        state.access_token, state.rejections = None, state.rejections + 1
                    if key in findings.accepted:
                        state.rejections = 0

    def load(self, key: str, secret: str) -> Mapping[str, JsonValue] | None:
        """Return what an earlier run stored under `key`, if sealed with `secret`. Raises what the store raises."""
        text = None if self.store is None else self.store.load(key)
        return None if text is None else unseal(text, secret)

    def save(self, key: str, value: Mapping[str, JsonValue], secret: str, *, elsewhere: bool) -> None:
        """Store a value under `key`, sealed. If that fails now, `flush` tries again.

        elsewhere: whether it is stored in another place, too. If it is stored nowhere, logs a warning.
        """
        if self.store is not None:
            self._unsaved[key] = seal(value, secret)
            self.flush()
        elif not elsewhere:
            logger.warning(
                "the server returned a new refresh token, which is not stored for the next run; if the one in the "
                "config works only once, use `sync`, which stores the new one, or re-authenticate afterwards"
            )

    def run(self) -> RunScope:
        """Return a run that uses these tokens, which outlive it."""
        return RunScope(shared={Tokens: self})

    def __reduce__(self) -> tuple[type["Tokens"], tuple[()]]:
        """Pickle without any tokens: refresh tokens stay in the process that owns them."""
        return Tokens, ()

    def check(self, key: str) -> None:
        """Check, before a refresh token is used up, that the next one can be stored. Raises what the store raises."""
        if self.store is not None:
            self.store.check(key)

    def flush(self) -> None:
        """Try again to store what could not be stored; log an error if that still fails."""
        for key, text in list(self._unsaved.items()):
            assert self.store is not None
            try:
                self.store.save(key, text)
                del self._unsaved[key]
            except Exception as error:  # noqa: BLE001 - the token is valid, and this its only copy: the run continues
                logger.error(
                    "the new refresh token cannot be stored (%s); this run continues with it, but the next one cannot: "
                    "make the target writable, or re-authenticate afterwards",
                    error,
                )


class Findings(msgspec.Struct):
    """What a task found out about its tokens.

    rejected: by key, the `digest_of` a token that the API rejected early. accepted: keys of tokens that it accepted.
    """

    rejected: dict[str, str] = msgspec.field(default_factory=dict)
    accepted: set[str] = msgspec.field(default_factory=set)


class HeldTokens(msgspec.Struct, frozen=True):
    """The tokens of a task by key, and its findings about them. last: no other task will read with newer tokens."""

    issued: Mapping[str, IssuedToken]
    findings: Findings = msgspec.field(default_factory=Findings)
    last: bool = False


class EndedToken(msgspec.Struct, frozen=True):
    """A token that ended while a slice was being read.

    digest: of the token, see `digest_of`. lasted_seconds: how long it worked. expires: when it was due to expire.
    early: whether the slice had it for at least half of that time.
    """

    digest: str
    lasted_seconds: float
    expires: datetime
    early: bool


class SliceProgress(msgspec.Struct):
    """The progress of a slice in a task, updated by its reader and its authenticators.

    read: whether it has yielded pages. reached: whether it could resume after one of them. first_used: when it first
    used its token. accepted: whether the API accepted the token. ended: the token, if the API rejected it or it expired
    during the read.
    """

    read: bool = False
    reached: bool = False
    first_used: datetime | None = None
    accepted: bool = False
    ended: EndedToken | None = None

    @property
    def must_restart(self) -> bool:
        """Whether all requests so far must be repeated with the next token."""
        return (self.read or self.accepted) and not self.reached

    @property
    def wasted_token(self) -> EndedToken | None:
        """The ended token with which the slice reached no checkpoint, although it had it for half of its life."""
        return self.ended if self.must_restart and self.ended is not None and self.ended.early else None


_held: ContextVar[HeldTokens | None] = ContextVar("held_tokens", default=None)
_slice: ContextVar[SliceProgress | None] = ContextVar("slice_progress", default=None)


def held_tokens() -> HeldTokens | None:
    """Return the tokens of the current task; None where tokens are requested directly."""
    return _held.get()


def slice_progress() -> SliceProgress | None:
    """Return the progress of the slice that the current task reads, if any."""
    return _slice.get()


def using_tokens(issued: Mapping[str, IssuedToken], *, last: bool = False) -> AbstractContextManager[HeldTokens]:
    """Use these tokens in a block, and in threads that executors start in it. last: see HeldTokens."""
    return setting(_held, HeldTokens(issued, last=last))


def tracking_slice(progress: SliceProgress) -> AbstractContextManager[SliceProgress]:
    """Give authenticators in a block access to the progress of their slice."""
    return setting(_slice, progress)


@runtime_checkable
class TokenUser(Protocol):
    """A stream whose requests need access tokens."""

    def access_tokens(self, seconds: float) -> Mapping[str, IssuedToken]:
        """Return the tokens, by key, for tasks that read the stream for `seconds`. May send token requests.

        Raises CdkErrors.
        """


def access_tokens(stream: object, seconds: float) -> Mapping[str, IssuedToken]:
    """Return the tokens for tasks that read a stream, see TokenUser; empty if it needs none. Raises CdkErrors."""
    return stream.access_tokens(seconds) if isinstance(stream, TokenUser) else {}


def run_tokens() -> Tokens:
    """Return the tokens of the current run."""
    return current_run().own(Tokens)


def key_of(*parts: JsonValue) -> str:
    """Return a key that is equal for equal settings and credentials, and does not reveal them."""
    return blake2b(canonical(list(parts)).encode(), digest_size=16).hexdigest()


def digest_of(token: str) -> str:
    """Return a digest that identifies a token without revealing it."""
    return blake2b(token.encode(), digest_size=16).hexdigest()


def seal(value: Mapping[str, JsonValue], secret: str) -> str:
    """Encrypt a value, so that only holders of the secret can read it."""
    return _cipher(secret).encrypt(canonical(dict(value)).encode()).decode()


def unseal(text: str, secret: str) -> Mapping[str, JsonValue] | None:
    """Decrypt a value that was sealed with `secret`; None if it was sealed with another."""
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
