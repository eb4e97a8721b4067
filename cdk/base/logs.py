"""The kit's logger. What becomes of its lines (LOG messages, a terminal) is the command line's business."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from cdk.base.run import setting

logger = logging.getLogger("cdk")

retries = logging.getLogger("cdk.retries")
"""What is tried again, when and why: of no interest to a log, and to a person who waits for it."""

STREAM = "cdk_stream"
"""The attribute of a log record from another process that names its stream, where that is known."""

_TEXTS: ContextVar[tuple[list[str], bool] | None] = ContextVar("warnings", default=None)


def warn(text: str) -> None:
    """Log what a person should know of the data that is read, unless it is empty; and gather it, see `warnings_in`."""
    if not text:
        return
    texts, logged = _TEXTS.get() or ([], True)
    if logged:
        logger.warning(text)
    if text not in texts:
        texts.append(text)


def warnings_in(texts: list[str], *, logged: bool = True) -> AbstractContextManager[object]:
    """Gather in `texts`, each once, what a block warns of with `warn` on its own thread. logged: it is logged, too."""
    return setting(_TEXTS, (texts, logged))


@contextmanager
def log_records(
    handle: Callable[[logging.LogRecord], object],
    source: logging.Logger = logger,
    *,
    level: int = logging.NOTSET,
    lowest: int | None = None,
) -> Iterator[None]:
    """Call `handle` with each record of this level or above that reaches a logger in this block, in any thread.

    lowest: the level of the logger meanwhile; None: the one that it has.
    """
    handler, before = _Calling(handle, level), source.level
    source.addHandler(handler)
    source.setLevel(before if lowest is None else lowest)
    try:
        yield
    finally:
        source.setLevel(before)
        source.removeHandler(handler)


class _Calling(logging.Handler):
    def __init__(self, handle: Callable[[logging.LogRecord], object], level: int) -> None:
        super().__init__(level)
        self._handle = handle

    def emit(self, record: logging.LogRecord) -> None:
        self._handle(record)


class FirstWarning:
    """Logs the first of several warnings that mean the same."""

    def __init__(self) -> None:
        self._logged = False

    def __call__(self, text: str) -> None:
        """Warn of `text` unless it is empty or one was logged before."""
        if text and not self._logged:
            self._logged = True
            warn(text)
