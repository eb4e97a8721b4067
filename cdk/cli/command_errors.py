"""What commands say besides their output: warnings, and how they end with an error."""

import logging
import os
import select
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import click

from cdk.base.errors import CdkError, StateConflict
from cdk.base.logs import log_records, retries
from cdk.base.secret_masking import Secrets

LIMIT_REACHED = 124
"""What timeout(1) ends with: the time was up, or the requests were used up."""

STALE = 3
"""A table is older than it may be."""


class Unexpected(click.ClickException):
    """Ends a command with an error that is none of the kit's, and with its traceback: without secrets."""

    def __init__(self, error: Exception, mask: Callable[[str], str]) -> None:
        trace = "".join(traceback.format_exception(error)).rstrip()
        super().__init__(mask(f"{type(error).__name__}: {error}\n{trace}"))


class Busy(click.ClickException):
    """A sync of the pipeline runs, or was faster."""

    exit_code = 75
    """EX_TEMPFAIL of sysexits.h: schedulers try again later."""


@contextmanager
def plain_errors(secrets: Secrets) -> Iterator[None]:
    """Let an error of this block end the command with a line that says why, without secrets.

    Whoever reads its output may have enough, as `head` has: that is no error.
    """
    try:
        yield
    except StateConflict as error:
        raise Busy(secrets.mask(str(error))) from None
    except CdkError as error:
        stream = f"{error.stream}: " if error.stream else ""
        raise click.ClickException(secrets.mask(f"{stream}{error}")) from None
    except (click.ClickException, click.Abort):
        raise
    except BrokenPipeError as error:
        if not _reader_is_gone():
            raise Unexpected(error, secrets.mask) from None
        # What is left in buffers has to go somewhere at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None
    except Exception as error:  # noqa: BLE001 - a connector's own code; its text may hold secrets
        raise Unexpected(error, secrets.mask) from None


@contextmanager
def taking_port(port: int) -> Iterator[None]:
    """Let an error of this block, which listens on a port, end the command with a line that says why."""
    try:
        yield
    except (OSError, OverflowError) as error:
        why = os.strerror(error.errno or 0) if isinstance(error, OSError) else "expected at most 65535"
        raise click.ClickException(
            f"--port {port}: nothing can listen there ({why}); choose another one, or 0 for a free one"
        ) from None


def warnings_on_stderr(secrets: Secrets) -> AbstractContextManager[None]:
    """Print the warnings of all loggers in this block, a line each, without secrets."""

    def show(record: logging.LogRecord) -> None:
        click.echo(secrets.mask(record.getMessage()), err=True)

    return log_records(show, logging.getLogger(), level=logging.WARNING)


def retries_on_stderr(secrets: Secrets, say: Callable[[str], object] | None = None) -> AbstractContextManager[None]:
    """Print what is tried again in this block, and how long that waits, a line each, without secrets; or `say` it."""
    show = say or partial(click.echo, err=True)
    return log_records(lambda record: show(secrets.mask(record.getMessage())), retries, lowest=logging.INFO)


def _reader_is_gone() -> bool:
    """Whether nobody reads standard output any more."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))
