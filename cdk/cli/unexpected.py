"""The end of a command for which nothing is prepared, such as an error in a connector's own code."""

import traceback
from collections.abc import Callable

import click


class Unexpected(click.ClickException):
    """Ends a command with an error that is none of the kit's, and with its traceback: without secrets."""

    def __init__(self, error: Exception, mask: Callable[[str], str]) -> None:
        trace = "".join(traceback.format_exception(error)).rstrip()
        super().__init__(mask(f"{type(error).__name__}: {error}\n{trace}"))
