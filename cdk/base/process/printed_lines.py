"""PrintedLines: passes on printed output line by line; and a standard error that masks secrets."""

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from cdk.base.logs import log_records
from cdk.base.secret_masking import Secrets

printed = logging.getLogger("print")
"""The logger of lines that tasks in other processes have printed, one record per line."""


class PrintedLines(io.TextIOBase):
    """A text file that calls `show` with each line written to it, without the line feed.

    Lines of different threads do not mix.
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
        """Pass on the last line of this thread if it has no line feed."""
        if getattr(self._of_thread, "rest", ""):
            self.write("\n")


class _Masked:
    """A text file, such as a terminal, in front of which secrets are masked."""

    def __init__(self, file: TextIO, secrets: Secrets) -> None:
        self._file, self._secrets = file, secrets

    def write(self, text: str) -> int:
        self._file.write(self._secrets.mask(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all else is the file's
        return getattr(self._file, name)


@contextmanager
def printing_to(show: Callable[[str], object], *, errors: bool = False) -> Iterator[None]:
    """Call `show` with each line that a block prints to standard output, on any thread.

    errors: also with each line that it writes to standard error.
    """
    lines = PrintedLines(show)
    with redirect_stdout(lines), redirect_stderr(lines) if errors else nullcontext():
        try:
            yield
        finally:
            lines.end()


@contextmanager
def prints_on_stderr(secrets: Secrets) -> Iterator[None]:
    """Redirect the output of a block, and of its tasks elsewhere, to standard error, and mask secrets there."""

    def show(line: str) -> None:
        sys.stderr.write(f"{secrets.mask(line)}\n")

    masked = cast("TextIO", _Masked(sys.stderr, secrets))
    with redirect_stderr(masked), log_records(lambda record: show(record.getMessage()), printed), printing_to(show):
        yield
