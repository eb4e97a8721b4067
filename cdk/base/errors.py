"""Errors, sorted by what the reader should do next.

    CdkError
    +- ConfigError              fix the config
    |   +- ManifestError
    |   +- CatalogError
    |   +- CredentialsError
    +- StateError               fix or reset the state
    |   +- BadState
    |   +- StateConflict
    |   +- StateTooLarge
    +- ReadError
    |   +- TransientError       try again later
    |   |   +- RateLimited
    |   |   +- ServerError
    |   |   +- Timeout
    |   +- FatalError           do not try again
    |       +- NotFound
    |       +- Forbidden
    |       +- DecodeError
    |       +- PaginationLoop
    |       +- StaleToken
    |       +- ConnectorExit
    +- BugError                 ours
        +- ReceiptError

Airbyte's `failure_type` follows from the branch.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from cdk.base.wording import cut

FailureType: TypeAlias = Literal["config_error", "transient_error", "system_error"]

_LONGEST = 120
"""Characters of a value that an error shows."""


class CdkError(Exception):
    """Base of every error the kit raises on purpose.

    `message` is for people and names what, where, found, expected and what to do.
    `detail` is for logs. `stream` and `path` say where, when they are known.
    """

    failure_type: ClassVar[FailureType] = "system_error"
    unexpected: ClassVar[bool] = False
    """Whether it says no more than that code failed: who wrote that looks for the cause in a crash report."""
    wait: float | None = None
    """Seconds that the source asked to wait, when it said so."""

    def __init__(self, message: str, *, detail: str = "", stream: str = "", path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.stream = stream
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(CdkError):
    """A file or value a person gave is wrong: fix it and run again."""

    failure_type: ClassVar[FailureType] = "config_error"


class ManifestError(ConfigError):
    """A manifest does not say what the language allows."""


class CatalogError(ConfigError):
    """A configured catalog does not fit the source."""


class CredentialsError(ConfigError):
    """The source refused the credentials (401, an expired refresh token)."""


class StateError(CdkError):
    """The saved state cannot be used: fix or reset it."""

    failure_type = "config_error"


class BadState(StateError):
    """A state blob has a shape that means nothing here. Built from facts: where, what was found, what is expected."""

    def __init__(self, path: str, actual: object, expected: str, *, stream: str = "") -> None:
        super().__init__(f"found {cut(repr(actual), _LONGEST)}, expected {expected}", path=path, stream=stream)
        self.actual = actual
        self.expected = expected


class StateConflict(StateError):
    """Another run moved the state since this one loaded it; this run must stop."""


class StateTooLarge(StateError):
    """A state is larger than its store accepts."""


class ReadError(CdkError):
    """Reading from the source failed."""


class TransientError(ReadError):
    """Trying again later may help."""

    failure_type = "transient_error"


class RateLimited(TransientError):
    """The source asked to slow down and the retry budget is spent."""

    def __init__(self, message: str, *, wait: float | None = None, detail: str = "", stream: str = "") -> None:
        super().__init__(message, detail=detail, stream=stream)
        self.wait = wait


class ServerError(TransientError):
    """The source answered with a 5xx status until the retry budget was spent."""


class Timeout(TransientError):
    """The source did not answer in time, or the connection broke."""


class FatalError(ReadError):
    """The same request will fail again."""


class NotFound(FatalError):
    """The source has nothing at this address (404, 410)."""


class Forbidden(FatalError):
    """The credentials are valid but not allowed to read this (403)."""

    failure_type = "config_error"


class DecodeError(FatalError):
    """The response body is not what the decoder reads."""


class PaginationLoop(FatalError):
    """The source keeps answering with the same page token."""


class StaleToken(FatalError):
    """A page token saved by an earlier attempt is of no use: the source refuses it, or it belongs to another request.

    The engine reads that slice from its start.
    """


class ConnectorExit(FatalError):
    """The connector would have ended the process (`sys.exit`). Built from what it ended with."""

    def __init__(self, exit: SystemExit, *, stream: str = "") -> None:
        super().__init__(
            f"the connector ended the process with {exit.code!r} (sys.exit); have it raise an error that says why",
            stream=stream,
        )


class BugError(CdkError):
    """The kit contradicted itself; please report it with the detail."""

    unexpected = True


class ReceiptError(BugError):
    """The rows of a commit do not add up, so it was not made. Built from facts: which rule, both sides, all figures."""

    def __init__(
        self,
        rule: str,
        left_side: int,
        right_side: int,
        figures: Mapping[str, int],
        *,
        stream: str = "",
        path: str = "",
    ) -> None:
        counted = ", ".join(f"{name} {count:,}" for name, count in figures.items())
        self.difference = f"found {left_side:,} on the left and {right_side:,} on the right of {rule}"
        where = f"{stream}: " if stream else ""
        super().__init__(
            f"{where}the rows of a commit do not add up: {self.difference}. Nothing was committed and the state has "
            f"not moved; please report this with the figures: {counted}",
            stream=stream,
            path=path,
        )
