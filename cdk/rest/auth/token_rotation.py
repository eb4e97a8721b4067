"""Several tokens, sent in turn."""

from collections.abc import Generator, Sequence
from dataclasses import KW_ONLY, dataclass, field

from cdk.base.errors import ConfigError
from cdk.base.process.process_lock import ProcessLock
from cdk.rest.auth.static import with_header
from cdk.rest.http.messages import Request, Response


@dataclass(eq=False, repr=False)
class TokenRotation:
    """Sends one token after the other, so that the calls are shared out among them.

    Raises ConfigError: there are no tokens.
    """

    tokens: Sequence[str]
    _: KW_ONLY
    scheme: str = "Bearer"
    """The word before a token."""
    header: str = "Authorization"
    _turn: int = field(default=0, init=False)
    _lock: ProcessLock = field(default_factory=ProcessLock, init=False)

    def __post_init__(self) -> None:
        if not self.tokens:
            raise ConfigError("there are no tokens to send in turn; give at least one")

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        with self._lock:
            token = self.tokens[self._turn]
            self._turn = (self._turn + 1) % len(self.tokens)
        yield with_header(request, self.header, f"{self.scheme} {token}")
