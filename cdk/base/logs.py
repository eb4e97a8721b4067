"""The kit's logger. The command line decides where its lines go (LOG messages, a terminal)."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from threading import Lock

from cdk.base.first_use import lazy_pattern
from cdk.base.run import setting
from cdk.base.wording import counted

logger = logging.getLogger("cdk")

retries = logging.getLogger("cdk.retries")
"""The logger of retries, with their delays and reasons: for users who wait at a terminal, not for log files."""

STREAM = "cdk_stream"
"""The attribute with the stream's name, if known, on log records from other processes."""

_TEXTS: ContextVar[tuple[list[str], bool] | None] = ContextVar("warnings", default=None)


def warn(text: str, where: str = "") -> None:
    """Log a warning about the data that is read, unless it is empty, and collect it, see `warnings_in`."""
    if not text:
        return
    texts, logged = _TEXTS.get() or ([], True)
    line = f"{where}: {text}" if where else text
    if logged and where:
        logger.warning("%s: %s", where, text)
    elif logged:
        logger.warning(text)
    if line not in texts:
        texts.append(line)


def warnings_in(texts: list[str], *, logged: bool = True) -> AbstractContextManager[object]:
    """Collect the warnings that a block passes to `warn` on its own thread, each once, in `texts`.

    logged: whether they are logged, too.
    """
    return setting(_TEXTS, (texts, logged))


@contextmanager
def log_records(
    handle: Callable[[logging.LogRecord], object],
    source: logging.Logger = logger,
    *,
    level: int = logging.NOTSET,
    lowest: int | None = None,
) -> Iterator[None]:
    """Call `handle` with each record of this level or above that reaches a logger during this block, on any thread.

    lowest: the level of the logger during the block; None leaves it unchanged.
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
    """Logs only the first of several warnings about the same thing."""

    def __init__(self) -> None:
        self._logged = False

    def __call__(self, text: str, where: str = "") -> None:
        """Log `text`, unless it is empty or another one was logged before. where: the place that it is about."""
        if text and not self._logged:
            self._logged = True
            warn(text, where)


class SliceErrors:
    """Logs the errors of a stream's slices: the first in full, and at the end how many more had which cause.

    Errors that differ only in their URLs have the same cause. The log level DEBUG has all of them in full. Thread-safe.
    """

    def __init__(self) -> None:
        self._logged, self._lock = 0, Lock()
        self._others: Counter[str] = Counter()

    def add(self, stream: str, slice: object, message: str) -> None:
        """Process the error of a slice."""
        with self._lock:
            self._logged += 1
            in_full = self._logged <= _IN_FULL
            if not in_full:
                self._others[_URL.sub("...", message)] += 1
        logger.log(logging.ERROR if in_full else logging.DEBUG, "%s %s: %s", stream, slice, message)

    def end(self, stream: str) -> None:
        """Log the number of the errors that were not logged in full, by cause."""
        with self._lock:
            others, self._others = self._others, Counter()
        causes = others.most_common()
        for cause, count in causes[:_CAUSES]:
            logger.error("%s: %s failed, too: %s", stream, counted(count, "further slice"), cause)
        if rest := sum(count for _, count in causes[_CAUSES:]):
            logger.error("%s: %s failed for other reasons", stream, counted(rest, "further slice"))


_IN_FULL, _CAUSES = 5, 5
"""How many errors of a stream are logged in full; how many causes of further ones are logged with their number."""

_URL = lazy_pattern(r"\w+://\S+")
