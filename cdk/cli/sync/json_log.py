"""`sync --log-format json`: what a sync says, as JSON lines on standard error, for what gathers logs."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

import click

from cdk.base.logs import STREAM, logger
from cdk.base.process.printed_lines import printed, printing_to
from cdk.base.secret_masking import Secrets
from cdk.base.times.clock import system_clock
from cdk.base.values import JsonValue, to_json
from cdk.rest.http.activity import current_stream


class RunNames(NamedTuple):
    """What a line says of its run. sync: its id, empty before it holds the lock. streams: those that are synced."""

    sync: str = ""
    streams: frozenset[str] = frozenset()


class JsonLog(logging.Handler):
    """Writes log records, and what is noted by hand, as a JSON object a line, secrets hidden.

    pipeline: its name; empty while it is being looked at. names: asked for each line. A record of the kit is of the
    stream that its thread works for, or that is its first argument, as in "%s: its state is gone".
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
        """Write a line that no logger does. fields: what programs read in it."""
        if level >= self.level:
            self._write(system_clock(), logging.getLevelName(level), message, stream, {"logger": logger.name, **fields})

    def prints(self) -> AbstractContextManager[None]:
        """Write a line of the log for each that a block prints, to standard error too."""

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
        # A signal may come while a line is written: the lock is the thread's own then, and no buffer is half full.
        self.acquire()
        try:
            os.write(self._descriptor, text)
        finally:
            self.release()


class _Logged(click.ClickException):
    """Ends a command with an error that is in the log."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(error.message)
        self._exit_code = error.exit_code

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # click has it on the class, and asks the instance
        return self._exit_code

    def show(self, file: object = None) -> None:
        """Say nothing."""


@contextmanager
def logging_json(log: JsonLog) -> Iterator[None]:
    """Let all loggers of this block, Python's warnings and its error write to the log; the kit's from INFO on."""
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
