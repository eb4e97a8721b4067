"""How commands end with an error: the exit code for "try again later", and errors that nobody foresaw."""

import traceback
from collections.abc import Callable

import click

LIMIT_REACHED = 124
"""What timeout(1) ends with: the time was up, or the requests were used up."""


class Unexpected(click.ClickException):
    """Ends a command with an error that is none of the kit's, and with its traceback: without secrets."""

    def __init__(self, error: Exception, mask: Callable[[str], str]) -> None:
        trace = "".join(traceback.format_exception(error)).rstrip()
        super().__init__(mask(f"{type(error).__name__}: {error}\n{trace}"))


class Busy(click.ClickException):
    """A sync of the pipeline runs, or was faster."""

    exit_code = 75
    """EX_TEMPFAIL of sysexits.h: schedulers try again later."""
