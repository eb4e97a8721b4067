"""The messages of commands besides their output: errors, warnings and retries. And their exit codes."""

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
"""The exit code of timeout(1): the time limit or the request limit was reached."""

STALE = 3
"""The exit code when a table is older than its limits allow."""


class Unexpected(click.ClickException):
    """Ends a command with an error that is not a CdkError and its traceback, secrets masked."""

    def __init__(self, error: Exception, mask: Callable[[str], str]) -> None:
        trace = "".join(traceback.format_exception(error)).rstrip()
        super().__init__(mask(f"{type(error).__name__}: {error}\n{trace}"))


class Busy(click.ClickException):
    """Another sync of the pipeline is running, or has committed first."""

    exit_code = 75
    """EX_TEMPFAIL of sysexits.h, on which schedulers retry later."""


@contextmanager
def plain_errors(secrets: Secrets) -> Iterator[None]:
    """Turn an error in the block into a message that ends the command, secrets masked.

    If the reader of the output has closed it, as `head` does, the command ends without an error.
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
        # Python flushes its buffers at exit, which must not fail on the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None
    except Exception as error:  # noqa: BLE001 - a connector's own code; its text may hold secrets
        raise Unexpected(error, secrets.mask) from None


@contextmanager
def taking_port(port: int) -> Iterator[None]:
    """Turn an error in the block, which listens on a port, into a message that ends the command."""
    try:
        yield
    except (OSError, OverflowError) as error:
        why = os.strerror(error.errno or 0) if isinstance(error, OSError) else "expected at most 65535"
        text = f"--port {port}: cannot listen on it ({why}); choose another port, or 0 for a free one"
        raise click.ClickException(text) from None


@contextmanager
def messages_on_stderr(secrets: Secrets) -> Iterator[None]:
    """Print the warnings and retries in the block to standard error, and end the command as `plain_errors` does."""
    with plain_errors(secrets), warnings_on_stderr(secrets), retries_on_stderr(secrets):
        yield


def warnings_on_stderr(secrets: Secrets) -> AbstractContextManager[None]:
    """Print the warnings of all loggers in the block to standard error, one per line, secrets masked."""

    def show(record: logging.LogRecord) -> None:
        click.echo(secrets.mask(record.getMessage()), err=True)

    return log_records(show, logging.getLogger(), level=logging.WARNING)


def retries_on_stderr(secrets: Secrets, show: Callable[[str], object] | None = None) -> AbstractContextManager[None]:
    """Print the retries in the block and their waits, one per line, secrets masked.

    show: called with each line instead of printing it to standard error.
    """
    show_line = show or partial(click.echo, err=True)
    return log_records(lambda record: show_line(secrets.mask(record.getMessage())), retries, lowest=logging.INFO)


def _reader_is_gone() -> bool:
    """Whether the reader of standard output has closed it."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))
