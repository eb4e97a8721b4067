"""Standard output: the one ordered sink of all protocol lines, from any thread."""

import os
import threading

from cdk.base.secret_masking import Secrets
from cdk.protocol import AirbyteMessage, message_line

STDOUT = 1


class ReaderGone(BaseException):
    """The reader of our output has closed it. No Exception: no stream may take it for an error of its own."""


class Output:
    """Writes whole lines to a file descriptor, in the order they are given, from any thread.

    secrets: hidden in what is said of errors and in the log; records and states are written as they are.
    """

    def __init__(self, descriptor: int = STDOUT) -> None:
        self.secrets = Secrets()
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._writing = False
        self._interrupted = False
        # Some parents hand over a pipe that does not wait for its reader.
        os.set_blocking(descriptor, True)

    def write(self, lines: bytes) -> None:
        """Write whole lines. Raises ReaderGone: their reader is gone."""
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

    def say(self, message: AirbyteMessage) -> None:
        """Write a message as one line, in the order of the calls, from any thread."""
        self.write(message_line(message))

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt: now, or, in the middle of a line, when that is written; asked again, now."""
        if self._writing and not self._interrupted:
            self._interrupted = True
        else:
            raise KeyboardInterrupt
