"""Several tokens, sent in turn."""

import threading
from collections.abc import Generator, Sequence

from cdk.base.errors import ConfigError
from cdk.base.values import Json
from cdk.rest.auth.static import with_header
from cdk.rest.http.messages import Request, Response


class TokenRotation:
    """Sends one token after the other, so that the calls are shared out among them.

    header: where a token goes, behind the word `scheme`. Raises ConfigError: there are no tokens.
    """

    def __init__(self, tokens: Sequence[str], *, scheme: str = "Bearer", header: str = "Authorization") -> None:
        if not tokens:
            raise ConfigError("there are no tokens to send in turn; give at least one")
        self._tokens, self._scheme, self._header = tuple(tokens), scheme, header
        self._turn = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Json]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Json]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        with self._lock:
            token = self._tokens[self._turn]
            self._turn = (self._turn + 1) % len(self._tokens)
        yield with_header(request, self._header, f"{self._scheme} {token}")

    def __repr__(self) -> str:
        return f"TokenRotation({len(self._tokens)} tokens, header={self._header!r})"
