"""Errors, sorted by what their reader should do next.

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

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Self, TypeAlias

from cdk.base.wording import cut

FailureType: TypeAlias = Literal["config_error", "transient_error", "system_error"]

_LONGEST = 120
"""The most characters of a value that an error shows."""


class CdkError(Exception):
    """Base of every error the kit raises on purpose.

    `message` is for people: what is wrong, where, what was found and expected, and what to do.
    `detail` is for logs. `stream` and `path`, often a `Location`, name the place, if known.
    """

    failure_type: ClassVar[FailureType] = "system_error"
    unexpected: ClassVar[bool] = False
    """Whether the error only says that code failed, so that its author needs a crash report to find the cause."""
    wait: float | None = None
    """The seconds that the source asked to wait; None if it did not."""

    def __init__(self, message: str, *, detail: str = "", stream: str = "", path: str = "") -> None:
        super().__init__(message)
        self.message, self.detail, self.stream, self.path = message, detail, stream, path
        self._parts: Sequence[CdkError] = ()

    @classmethod
    def together(cls, errors: Sequence[Self]) -> Self:
        """Return one error for several, with a line for each."""
        if len(errors) == 1:
            return errors[0]
        error = cls("\n".join(map(str, errors)))
        error._parts = errors
        return error

    @classmethod
    def of(cls, error: "CdkError") -> Self:
        """Return an error of this class with the messages and places of another one."""
        return cls.together([cls(each.message, path=each.path) for each in error.each])

    @property
    def each(self) -> Sequence["CdkError"]:
        """The errors that were put together into this one; if none were, the error itself."""
        return self._parts or [self]

    def locate(self, located: Callable[[str], str]) -> None:
        """Replace the place of each of its errors. located: returns a better one, such as with a line."""
        for each in self.each:
            each.path = located(each.path)
        if self._parts:
            self.message = "\n".join(map(str, self._parts))
            self.args = (self.message,)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(CdkError):
    """A file or value that a user provided is wrong: fix it and run again."""

    failure_type: ClassVar[FailureType] = "config_error"


class ManifestError(ConfigError):
    """A manifest is not valid in the manifest language."""


class CatalogError(ConfigError):
    """A configured catalog does not fit the source."""


class CredentialsError(ConfigError):
    """The source rejected the credentials (401, an expired refresh token)."""


class StateError(CdkError):
    """The saved state cannot be used: fix or reset it."""

    failure_type = "config_error"


class BadState(StateError):
    """A state blob has an unknown shape. Built from the path, the actual value and what is expected instead."""

    def __init__(self, path: str, actual: object, expected: str, *, stream: str = "") -> None:
        super().__init__(f"found {cut(repr(actual), _LONGEST)}, expected {expected}", path=path, stream=stream)
        self.actual, self.expected = actual, expected


class StateConflict(StateError):
    """Another run changed the state after this one loaded it; this run must stop."""


class StateTooLarge(StateError):
    """A state is larger than its store accepts."""


class ReadError(CdkError):
    """Reading from the source failed."""


class TransientError(ReadError):
    """Trying again later may help."""

    failure_type = "transient_error"


class RateLimited(TransientError):
    """The source asked to slow down, and the retries are exhausted."""

    def __init__(self, message: str, *, wait: float | None = None, detail: str = "", stream: str = "") -> None:
        super().__init__(message, detail=detail, stream=stream)
        self.wait = wait


class ServerError(TransientError):
    """The source responded with a 5xx status until the retries were exhausted."""


class Timeout(TransientError):
    """The source did not respond in time, or the connection broke."""


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
    """The source keeps returning the same page token."""


class StaleToken(FatalError):
    """A page token that an earlier attempt saved is invalid: the source rejects it, or it belongs to another request.

    The engine then reads the slice from its start.
    """


def stale_page_token(problem: str) -> StaleToken:
    """Return the error for a saved page token. problem: a clause about it, such as "was rejected: 400"."""
    return StaleToken(f"the page token saved by an earlier read {problem}")


class ConnectorExit(FatalError):
    """The connector tried to end the process (`sys.exit`). Built from that exception."""

    def __init__(self, exit: SystemExit, *, stream: str = "") -> None:
        text = f"the connector ended the process with {exit.code!r} (sys.exit); have it raise an error that says why"
        super().__init__(text, stream=stream)


class BugError(CdkError):
    """An internal contradiction of the kit; please report it with the detail."""

    unexpected = True


class ReceiptError(BugError):
    """The row counts of a commit do not add up, so it was not made. Built from the rule, both sides and all figures."""

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
            f"{where}the rows of a commit do not add up: {self.difference}. Nothing was committed and the state is "
            f"unchanged; please report this with the figures: {counted}",
            stream=stream,
            path=path,
        )
