"""Standard output: JSON answers of commands, and the single ordered sink of all protocol lines, for all threads."""

import os
import threading

import click

from cdk.base.secret_masking import Secrets
from cdk.base.values import to_json
from cdk.protocol.lines import message_line
from cdk.protocol.messages import AirbyteMessage

STDOUT = 1


def print_json(**answer: object) -> None:
    """Print the answer of a command as JSON, for programs; values that are not JSON, such as dates, become text."""
    click.echo(to_json(answer, str, indent=True).decode())


class ReaderGone(BaseException):
    """The reader of the output has closed it. Not an Exception, so that no stream handles it as its own error."""


class Output:
    """Writes complete lines to a file descriptor, in the order of the calls, from any thread.

    secrets: masked by callers in errors and in the log; records and states are written unmasked.
    """

    def __init__(self, descriptor: int = STDOUT) -> None:
        self.secrets = Secrets()
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._writing, self._interrupted = False, False
        # Some parent processes pass a non-blocking pipe.
        os.set_blocking(descriptor, True)

    def write(self, lines: bytes) -> None:
        """Write complete lines. Raises ReaderGone: the reader has closed the output."""
        with self._lock:
            self._writing = True
            try:
                rest = memoryview(lines)
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except BrokenPipeError as error:
                raise ReaderGone from error
            finally:
                self._writing = False
        if self._interrupted:
            raise KeyboardInterrupt

    def write_message(self, message: AirbyteMessage) -> None:
        """Write a message as one line."""
        self.write(message_line(message))

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt: now, or if a line is being written, after it; a second call raises at once."""
        if self._writing and not self._interrupted:
            self._interrupted = True
        else:
            raise KeyboardInterrupt
