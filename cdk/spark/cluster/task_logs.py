"""Log and print output of tasks in other processes: sent to the driver with their results, and logged there.

A Python worker that logs directly writes to Spark's log, where secrets are not masked and nobody looks.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct, field

from cdk.base.logs import STREAM, log_records, logger, retries
from cdk.base.process.printed_lines import printed, printing_to
from cdk.base.secret_masking import Secrets
from cdk.rest.http.activity import current_stream

_LOGGERS = ("", logger.name, retries.name)
_MOST = 1_000
"""Maximum number of lines of one task: a connector that logs each record must not fill the driver's memory."""
_FORMAT = logging.Formatter()


class TaskLine(Struct, frozen=True):
    """A message that a task logged or printed. stream: the stream that was being read, if known."""

    text: str
    logger: str
    level: int
    created: float = field(default_factory=time.time)
    stream: str | None = field(default_factory=current_stream)
    trace: str | None = None

    @classmethod
    def of(cls, record: logging.LogRecord) -> "TaskLine":
        """Return the line of a log record."""
        trace = _FORMAT.formatException(record.exc_info) if record.exc_info else None
        return cls(record.getMessage(), record.name, record.levelno, record.created, trace=trace)

    @classmethod
    def printed(cls, text: str) -> "TaskLine":
        """Return a line of standard output."""
        return cls(text, printed.name, logging.INFO)

    def repeat(self) -> None:
        """Log the line in this process as if it had been logged here at that time."""
        fields = {
            "name": self.logger,
            "levelno": self.level,
            "levelname": logging.getLevelName(self.level),
            "msg": self.text,
            "created": self.created,
            "exc_text": self.trace,
            STREAM: self.stream,
        }
        logging.getLogger(self.logger).handle(logging.makeLogRecord(fields))


def log_levels() -> Mapping[str, int]:
    """Return the levels of this process's loggers, by name, for its tasks to use the same."""
    return {name: logging.getLogger(name).level for name in _LOGGERS}


@contextmanager
def gathering_lines(levels: Mapping[str, int]) -> Iterator[Sequence[TaskLine]]:
    """Collect what this block logs and prints, in any thread, instead of writing it.

    levels: the minimum level by logger, from `log_levels` in the driver.
    """
    lines = list[TaskLine]()
    surplus = 0

    def add(line: TaskLine) -> None:
        nonlocal surplus
        if len(lines) < _MOST:
            lines.append(line)
        else:
            surplus += 1

    before = log_levels()
    _set_levels(levels)
    try:
        with _redirected(add):
            yield lines
    finally:
        _set_levels(before)
        if surplus:
            lines.append(TaskLine(f"{surplus} further lines of this task are not logged", logger.name, logging.WARNING))


@contextmanager
def masked_lines(secrets: Secrets) -> Iterator[None]:
    """Write what this block logs and prints to standard error only, with secrets masked: for tasks of user queries."""
    errors = sys.stderr

    def write(line: TaskLine) -> None:
        text = line.text if line.trace is None else f"{line.text}\n{line.trace}"
        errors.write(f"{secrets.mask(text)}\n")

    with _redirected(write):
        yield


@contextmanager
def _redirected(handle: Callable[[TaskLine], object]) -> Iterator[None]:
    """Pass what this block logs and prints, in any thread, to `handle` only."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    logging.captureWarnings(capture=True)
    try:
        with (
            log_records(lambda record: handle(TaskLine.of(record)), root),
            printing_to(lambda text: handle(TaskLine.printed(text)), errors=True),
        ):
            yield
    finally:
        logging.captureWarnings(capture=False)
        root.handlers = handlers


def _set_levels(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
