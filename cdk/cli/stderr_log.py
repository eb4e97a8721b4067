"""Warnings of the log on standard error, for commands that talk to people."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import click

from cdk.base.logs import logger
from cdk.base.secret_masking import Secrets


@contextmanager
def warnings_on_stderr(secrets: Secrets) -> Iterator[None]:
    """Print the warnings of this block, a line each, without secrets."""
    handler = _Warnings(secrets)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Warnings(logging.Handler):
    def __init__(self, secrets: Secrets) -> None:
        super().__init__(logging.WARNING)
        self._secrets = secrets

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self._secrets.mask(record.getMessage()), err=True)
