"""Python's logging as LOG messages."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from cdk.base.times.clock import system_clock
from cdk.cli.output import Output
from cdk.protocol import Level, error_line, error_text, log_line

_LEVELS = (
    (logging.CRITICAL, Level.FATAL),
    (logging.ERROR, Level.ERROR),
    (logging.WARNING, Level.WARN),
    (logging.INFO, Level.INFO),
)


class LogLines(logging.Handler):
    """Writes log records as LOG messages, secrets hidden."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self._format = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        level = next((level for number, level in _LEVELS if record.levelno >= number), Level.DEBUG)
        stack = self._format.formatException(record.exc_info) if record.exc_info else None
        self._output.write(log_line(level, record.getMessage(), stack_trace=stack, mask=self._output.secrets.mask))


@contextmanager
def logging_to(output: Output, *, debug: bool) -> Iterator[None]:
    """Let every logger, and Python's warnings, speak through `output`; those below INFO only when `debug`."""
    root, handler = logging.getLogger(), LogLines(output)
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    logging.captureWarnings(capture=True)
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        root.setLevel(level)
        root.removeHandler(handler)


def say_failure(output: Output, error: Exception) -> None:
    """Say that the run ends here, and why: a FATAL line of the log, then the error."""
    mask = output.secrets.mask
    output.write(log_line(Level.FATAL, error_text(error), mask=mask))
    output.write(error_line(error, system_clock(), mask=mask))
