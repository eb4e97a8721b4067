"""Running a command that speaks the protocol: nothing else reaches standard output, and every end has its exit code."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from types import FrameType

from cdk.base.errors import ConnectorExit
from cdk.base.logs import logger
from cdk.base.process.interruption import Interrupted
from cdk.base.run import one_run
from cdk.cli.command_errors import LIMIT_REACHED
from cdk.cli.output import Output, ReaderGone
from cdk.cli.protocol.log_messages import logging_to, say_failure
from cdk.protocol import error_text

FAILED = 1


def run_protocol_command(command: Callable[[Output], None], *, debug: bool = False) -> int:
    """Run `command` with the output of this process and return the exit code.

    0: it returned. 1: it raised, which is said as a FATAL log line and an error; or the reader of the output went
    away, of which nothing is said. 124: a limit of the read was reached. 128 + n: signal n (Ctrl-C, a polite kill)
    ended it between two lines.
    """
    output = Output()
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        caught.append(number)
        output.interrupt()

    # What a connector prints must not get between the lines.
    with redirect_stdout(sys.stderr), handling(stop), logging_to(output, debug=debug), one_run():
        try:
            command(output)
        except ReaderGone:
            return FAILED
        except Interrupted as end:
            logger.warning("interrupted by %s: the last state says where the next read goes on", end.why)
            return LIMIT_REACHED
        except KeyboardInterrupt:
            return 128 + (caught[0] if caught else signal.SIGINT)
        except SystemExit as error:
            return _fail(output, ConnectorExit(error))
        except Exception as error:  # noqa: BLE001 - the last stop: whatever it is, it becomes a message
            return _fail(output, error)
    return 0


def _fail(output: Output, error: Exception) -> int:
    try:
        say_failure(output, error)
    except ReaderGone:
        return FAILED
    if sys.stderr.isatty():
        print(f"Error: {output.secrets.mask(error_text(error))}", file=sys.stderr)
    return FAILED


@contextmanager
def handling(stop: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let `stop` take the signals that ask a process to end; where only the main thread may, nobody does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
