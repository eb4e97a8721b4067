"""Unseen refusals: connections that were refused to a thread of a connector's own, whose error ends that thread alone.

The connector fails of what it lacks then, such as with an IndexError, which says nothing of the connection.
"""

import threading

from cdk.base.errors import CdkError
from cdk.base.process.connector_line import connector_line


class _Process:
    """How many refusals there were in this process, and the last one: its kind, its words."""

    def __init__(self) -> None:
        self.count, self.last = 0, (CdkError, "")
        self.changing = threading.Lock()


_PROCESS = _Process()


def note_unseen(refusal: CdkError) -> None:
    """Remember a refusal that is raised in a thread of the connector's own."""
    with _PROCESS.changing:
        _PROCESS.count += 1
        _PROCESS.last = type(refusal), str(refusal)


class ExplainedRefusals:
    """A block whose error, where a refusal in it was not seen, says so first; it is of the refusal's kind then.

    No generator, which takes longer, as each slice is such a block.
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
        raise kind(f"{text}; it was tried in a thread of the connector, which then failed: {words}") from error
