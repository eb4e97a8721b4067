"""Unseen refusals: refused connections whose error only ended a thread that the connector itself had started.

The connector then fails because data is missing, such as with an IndexError, which does not mention the connection.
"""

import threading

from cdk.base.errors import CdkError
from cdk.base.process.connector_line import connector_line


class _Process:
    """The number of refusals in this process, and the type and text of the last one."""

    def __init__(self) -> None:
        self.count, self.last = 0, (CdkError, "")
        self.changing = threading.Lock()


_PROCESS = _Process()


def note_unseen(refusal: CdkError) -> None:
    """Remember a refusal that was raised in a thread of the connector."""
    with _PROCESS.changing:
        _PROCESS.count += 1
        _PROCESS.last = type(refusal), str(refusal)


class ExplainedRefusals:
    """A block whose errors name an unseen refusal first, and take its type, if one happened during the block.

    A class, because a generator would be slower, and every slice is such a block.
    """

    def __enter__(self) -> None:
        self._before = _PROCESS.count

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if _PROCESS.count == self._before or not isinstance(error, Exception):
            return
        kind, text = _PROCESS.last
        if text in str(error):
            return
        words = str(error) if isinstance(error, CdkError) else f"{type(error).__name__}: {error}{connector_line(error)}"
        raise kind(f"{text}; this was tried in a thread of the connector, which then failed: {words}") from error
