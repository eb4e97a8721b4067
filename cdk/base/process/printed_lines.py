"""PrintedLines: what code prints, line by line, for whoever shows it: secrets are masked in whole lines."""

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout

from cdk.base.logs import log_records
from cdk.base.secret_masking import Secrets

printed = logging.getLogger("print")
"""What tasks of other processes have printed, a record a line."""


class PrintedLines(io.TextIOBase):
    """A text file that hands over each line that is written to it. Each thread writes lines of its own.

    show: gets a line without its end.
    """

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show, self._of_thread = show, threading.local()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, rest = (getattr(self._of_thread, "rest", "") + text).split("\n")
        self._of_thread.rest = rest
        for line in lines:
            self._show(line)
        return len(text)

    def end(self) -> None:
        """Hand over what this thread has written of a line that has no end."""
        if getattr(self._of_thread, "rest", ""):
            self.write("\n")


@contextmanager
def printing_to(show: Callable[[str], object]) -> Iterator[None]:
    """Let `show` get what a block prints to standard output, in any thread, a line each."""
    lines = PrintedLines(show)
    with redirect_stdout(lines):
        try:
            yield
        finally:
            lines.end()


@contextmanager
def prints_on_stderr(secrets: Secrets) -> Iterator[None]:
    """Let what a block, and its tasks elsewhere, print to standard output appear on standard error, without secrets."""

    def show(line: str) -> None:
        sys.stderr.write(f"{secrets.mask(line)}\n")

    with log_records(lambda record: show(record.getMessage()), printed), printing_to(show):
        yield
