"""`sync --log-format json`: writes the messages of a sync as JSON lines on standard error, for log collectors."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime

import click
from msgspec import Struct

from cdk.base.logs import STREAM, logger
from cdk.base.process.printed_lines import printed, printing_to
from cdk.base.secret_masking import Secrets
from cdk.base.times.clock import system_clock
from cdk.base.values import JsonValue, to_json
from cdk.rest.http.activity import current_stream


class RunNames(Struct, frozen=True):
    """The run that a line belongs to. sync: its id, empty before the run holds the lock. streams: those it syncs."""

    sync: str = ""
    streams: frozenset[str] = frozenset()


class JsonLog(logging.Handler):
    """Writes log records, and the lines of `note`, as one JSON object per line, secrets masked.

    pipeline: its name; empty while it is being loaded. names: called for each line. A record belongs to the stream
    that is its first argument, as in "%s: its state is gone", or else to the one that its thread reads.
    """

    def __init__(self, secrets: Secrets, *, level: int = logging.INFO) -> None:
        super().__init__(level)
        self.pipeline, self._secrets = "", secrets
        self.names: Callable[[], RunNames] = RunNames
        self._descriptor = sys.stderr.fileno()
        self._format = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        first = record.args[0] if isinstance(record.args, tuple) and record.args else None
        named = first if isinstance(first, str) and first in self.names().streams else current_stream()
        stream = getattr(record, STREAM, None) or named
        text = self._format.formatException(record.exc_info) if record.exc_info else record.exc_text
        trace = {"exception": text} if text else {}
        at = datetime.fromtimestamp(record.created, UTC)
        self._write(at, record.levelname, record.getMessage(), stream, {"logger": record.name, **trace})

    def note(self, level: int, message: str, *, stream: str | None = None, **fields: JsonValue) -> None:
        """Write a line that does not come from a logger. fields: further members, for programs."""
        if level >= self.level:
            self._write(system_clock(), logging.getLevelName(level), message, stream, {"logger": logger.name, **fields})

    def prints(self) -> AbstractContextManager[None]:
        """Write a log line for each line that the block prints to standard output or standard error."""

        def note(line: str) -> None:
            self.note(logging.INFO, line, stream=current_stream(), logger=printed.name)

        return printing_to(note, errors=True)

    def _write(self, at: datetime, level: str, message: str, stream: str | None, fields: dict[str, JsonValue]) -> None:
        line = {
            "timestamp": at.isoformat(),
            "level": level,
            "pipeline": self.pipeline or None,
            "sync_id": self.names().sync or None,
            "stream": stream,
            "message": message,
            **fields,
        }
        text = to_json(self._secrets.mask_json(line), default=str) + b"\n"
        # A signal handler may log while this thread writes a line. The lock is reentrant, and without a buffer no
        # half-written line is left in one.
        self.acquire()
        try:
            os.write(self._descriptor, text)
        finally:
            self.release()


class _Logged(click.ClickException):
    """Ends a command with an error that was already logged."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(error.message)
        self.exit_code = error.exit_code  # type: ignore[misc]  # click declares it on the class, and reads it from here

    def show(self, file: object = None) -> None:
        """Do nothing, as the error is in the log."""


@contextmanager
def logging_json(log: JsonLog) -> Iterator[None]:
    """Write the records of all loggers, Python's warnings and the block's error to the log; the kit's from INFO on."""
    root, level = logging.getLogger(), logger.level
    root.addHandler(log)
    logger.setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    try:
        yield
    except click.ClickException as error:
        log.note(logging.CRITICAL, error.format_message(), exit_code=error.exit_code)
        raise _Logged(error) from error
    finally:
        logging.captureWarnings(capture=False)
        logger.setLevel(level)
        root.removeHandler(log)
