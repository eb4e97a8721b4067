"""Problems: the mistakes in a file, collected from checks, errors and warnings, each with its line."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from cdk.base.documents import location_in
from cdk.base.errors import CdkError
from cdk.base.logs import log_records, logger
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue, Location, dotted


class Problem(Struct, frozen=True):
    """One mistake in a file, or a possible one (`certain` is false), with its place as far as it is known."""

    file: str
    message: str
    line: int | None = None
    column: int | None = None
    path: str = ""
    certain: bool = True

    def __str__(self) -> str:
        location = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        where = f"{location} {self.path}".rstrip()
        return f"{where}: {self.message}" if self.certain else f"{where}: warning: {self.message}"

    def to_json(self) -> Mapping[str, JsonValue]:
        """Return the problem as a JSON object, without `certain`."""
        return {"file": self.file, "line": self.line, "column": self.column, "path": self.path, "message": self.message}


class Problems:
    """Collects the problems of one file, secrets masked. Messages about other files keep those files' names."""

    def __init__(self, file: Path, secrets: Secrets) -> None:
        self._file, self._secrets = file, secrets
        self._problems: dict[Problem, None] = {}

    @property
    def all(self) -> list[Problem]:
        """All problems without duplicates, errors first, in the order of their lines."""
        return sorted(self._problems, key=lambda each: (not each.certain, each.file != str(self._file), each.line or 0))

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Collect the warnings of the block, and the first error, which ends the block without propagating."""
        propagates, logger.propagate = logger.propagate, False
        try:
            with log_records(self._add_warning, level=logging.WARNING):
                yield
        except CdkError as error:
            self.add_error(error)
        finally:
            logger.propagate = propagates

    def _add_warning(self, record: logging.LogRecord) -> None:
        text, first = record.getMessage(), record.args[0] if isinstance(record.args, tuple) and record.args else None
        where = first if isinstance(first, Location) else str(first) if str(first) == str(self._file) else ""
        self.add(text.removeprefix(f"{where}: "), where, certain=record.levelno >= logging.ERROR)

    def add_error(self, error: CdkError, *, certain: bool = True) -> None:
        """Add each problem that an error reports."""
        for each in error.each:
            self.add(each.message, each.path, certain=certain)

    def add(self, message: str, where: str = "", *, certain: bool = True) -> None:
        """Add a problem. where: a place, or the name of a file; a place without a file is in the file of the problems.

        A warning without a file is dropped if it repeats a problem.
        """
        placed = isinstance(where, Location) or where == str(self._file)
        if not placed and " " in where and not os.path.exists(where):  # noqa: PTH110 - a Path raises for a long sentence
            message, where = f"{where}: {message}", ""
        message = self._secrets.mask(message)
        if not (certain or placed) and any(known.message in message for known in self._problems):
            return
        location = self._located(where)
        path = self._secrets.mask(dotted(location.keys))
        self._problems[Problem(location.file, message, location.line, location.column, path, certain)] = None

    def _located(self, where: str) -> Location:
        """Return a place with its line, if it is in this file."""
        location = where if isinstance(where, Location) else Location(where)
        known = location.line or location.file not in {"", str(self._file)}
        return location if known else location_in(self._file, location.keys)
