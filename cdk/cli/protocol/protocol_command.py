"""Runs commands of the protocol: nothing else reaches standard output, and each way to end has its exit code."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType

from cdk.base.errors import ConnectorExit
from cdk.base.logs import log_records, logger
from cdk.base.process.interruption import Interrupted
from cdk.base.process.printed_lines import prints_on_stderr
from cdk.base.run import one_run
from cdk.base.times.clock import system_clock
from cdk.cli.command_errors import LIMIT_REACHED, retries_on_stderr
from cdk.cli.output import STDOUT, Output, ReaderGone
from cdk.protocol.messages import Level
from cdk.protocol.reports import error_line, error_text, log_line

FAILED = 1

_LEVELS = (
    (logging.CRITICAL, Level.FATAL),
    (logging.ERROR, Level.ERROR),
    (logging.WARNING, Level.WARN),
    (logging.INFO, Level.INFO),
)


def run_protocol_command(command: Callable[[Output], None], *, debug: bool = False) -> int:
    """Run `command` with the output of this process and return the exit code.

    0: it returned. 1: it raised, which is reported as a FATAL log line and an error message; or the reader of the
    output closed it, which is not reported. 124: a limit of the read was reached. 128 + n: signal n (Ctrl-C, SIGTERM)
    ended it between two lines.
    """
    output = Output()
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        caught.append(number)
        output.interrupt()

    # Lines that a connector prints must not mix with those of the protocol.
    with prints_on_stderr(output.secrets), handling(stop), _logging_to(output, debug=debug), one_run():
        try:
            command(output)
        except ReaderGone:
            return FAILED
        except Interrupted as end:
            logger.warning("interrupted by %s: the next read resumes from the last state", end.why)
            return LIMIT_REACHED
        except KeyboardInterrupt:
            return 128 + (caught[0] if caught else signal.SIGINT)
        except SystemExit as error:
            return _fail(output, ConnectorExit(error))
        except Exception as error:  # noqa: BLE001 - the last resort: any error becomes a message
            return _fail(output, error)
    return 0


def _fail(output: Output, error: Exception) -> int:
    """Report the error that ended the run, as a FATAL log line and an error message; return the exit code."""
    mask = output.secrets.mask
    try:
        output.write(log_line(Level.FATAL, error_text(error), mask=mask))
        output.write(error_line(error, system_clock(), mask=mask))
    except ReaderGone:
        return FAILED
    if sys.stderr.isatty():
        print(f"Error: {mask(error_text(error))}", file=sys.stderr)
    return FAILED


def retries_shown(output: Output) -> AbstractContextManager[None]:
    """Show retries on standard error if it is a terminal and standard output, which has the log, is not."""
    alone = sys.stderr.isatty() and not os.isatty(STDOUT)
    return retries_on_stderr(output.secrets) if alone else nullcontext()


@contextmanager
def handling(stop: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle SIGINT and SIGTERM with `stop` in the block; on other threads than the main one, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _logging_to(output: Output, *, debug: bool) -> Iterator[None]:
    """Write the records of all loggers and Python's warnings to `output`; those below INFO only if `debug`."""
    lowest, formatter = logging.DEBUG if debug else logging.INFO, logging.Formatter()

    def write(record: logging.LogRecord) -> None:
        level = next((level for number, level in _LEVELS if record.levelno >= number), Level.DEBUG)
        stack = formatter.formatException(record.exc_info) if record.exc_info else None
        output.write(log_line(level, record.getMessage(), stack_trace=stack, mask=output.secrets.mask))

    with log_records(write, logging.getLogger(), lowest=lowest):
        logging.captureWarnings(capture=True)
        try:
            yield
        finally:
            logging.captureWarnings(capture=False)
