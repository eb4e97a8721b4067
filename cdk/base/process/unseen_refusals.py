"""Unseen refusals: refused connections whose error only ended a thread that the connector itself had started.

The connector then fails because data is missing, such as with an IndexError, which does not mention the connection.
"""

from cdk.base.errors import CdkError
from cdk.base.process.connector_line import error_with_line


class _Process:
    """The type and text of the last refusal in this process, in a tuple of its own, by which two refusals differ."""

    def __init__(self) -> None:
        self.last: tuple[type[CdkError], str] = (CdkError, "")


_PROCESS = _Process()


def note_unseen(refusal: CdkError) -> None:
    """Remember a refusal that only ends a thread of the connector. Thread-safe."""
    _PROCESS.last = type(refusal), str(refusal)


class ExplainedRefusals:
    """A block whose errors, if a refusal was noted during it, become errors of its type that name it first.

    A class, because a generator would be slower, and every slice is such a block.
    """

    def __enter__(self) -> None:
        self._before = _PROCESS.last

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if _PROCESS.last is self._before or not isinstance(error, Exception):
            return
        kind, text = _PROCESS.last
        if text in str(error):
            return
        words = str(error) if isinstance(error, CdkError) else error_with_line(error)
        raise kind(f"{text}; this was tried in a thread of the connector, which then failed: {words}") from error
