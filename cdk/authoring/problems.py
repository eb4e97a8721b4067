"""Problems: splits the kit's errors about files into single problems, each with its line."""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import CdkError, ConfigError
from cdk.base.logs import log_records, logger
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue, undotted
from cdk.base.yaml_file import YamlFile

_LOCATION = re.compile(
    r"(?P<file>\S[^:]*\.(?:ya?ml|json|jsonl|py|txt))(?::(?P<line>\d+)(?::(?P<column>\d+))?)?"
    r"(?: (?P<path>[^\s:]+(?: \(from \$parameters\))?))?: (?P<text>.*)"
)
_PATH = re.compile(r"(?P<path>[A-Za-z_$\[][\w.$\-\[\]]*): (?P<text>.*)")
_IN_JSON = re.compile(r" \(line (?P<line>\d+), column (?P<column>\d+)\)$")


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
        self._found: dict[Problem, None] = {}

    @property
    def all(self) -> list[Problem]:
        """All problems without duplicates, errors first, in the order of their lines."""
        return sorted(self._found, key=lambda each: (not each.certain, each.file != str(self._file), each.line or 0))

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Collect the warnings of the block, and the first error, which ends the block without propagating."""
        propagates, logger.propagate = logger.propagate, False
        try:
            with log_records(self._add_warning, level=logging.WARNING):
                yield
        except CdkError as error:
            self.add(str(error))
        finally:
            logger.propagate = propagates

    def _add_warning(self, record: logging.LogRecord) -> None:
        self.add(record.getMessage(), certain=record.levelno >= logging.ERROR)

    def add(self, text: str, *, certain: bool = True) -> None:
        """Add the problems in an error message, one a line.

        A warning without a line is dropped if it repeats a problem.
        """
        for line in filter(str.strip, self._secrets.mask(text).splitlines()):
            placed = certain or self._location(line)
            if placed or not any(known.message in line for known in self._found):
                self._found[replace(self._read(line), certain=certain)] = None

    def _location(self, text: str) -> re.Match[str] | None:
        """Return the parts of a line that starts with a file; None if it does not."""
        match = _LOCATION.fullmatch(text)
        # A file name inside a sentence would match together with the words before it.
        if match is None or " " not in match["file"] or match["file"] == str(self._file):
            return match
        return match if os.path.exists(match["file"]) else None  # noqa: PTH110 - a Path raises for a long sentence

    def _read(self, text: str) -> Problem:
        """Parse a line of an error: `file:line path: words`, where everything but the words may be missing."""
        if (match := self._location(text)) is None:
            return self._located(Problem(str(self._file), text), named=False)
        line, column = match["line"], match["column"]
        problem = Problem(
            match["file"],
            match["text"],
            None if line is None else int(line),
            None if column is None else int(column),
            match["path"] or "",
        )
        known = problem.line is not None or problem.file != str(self._file)
        return problem if known else self._located(problem, named=True)

    def _located(self, problem: Problem, *, named: bool) -> Problem:
        """Return the problem with its path separated from the words, and with the line of that path.

        named: whether the text names the file; then its path may be one that is missing in the file.
        """
        document = self._document
        match = _PATH.fullmatch(problem.message)
        if match is not None and (named or document is None or _begins(document, match["path"])):
            path = f"{problem.path}.{match['path']}".lstrip(".")
            return replace(problem, path=path, message=match["text"], line=_line_of(document, path))
        if (end := _IN_JSON.search(problem.message)) is not None:
            words = problem.message[: end.start()]
            return replace(problem, message=words, line=int(end["line"]), column=int(end["column"]))
        return replace(problem, line=_line_of(document, problem.path))

    @cached_property
    def _document(self) -> YamlFile | None:
        return _read_file(self._file)


@contextmanager
def locating(file: Path | None) -> Iterator[None]:
    """Add file and line to an error of the block that names a part of a file, such as `streams.orders`."""
    try:
        yield
    except ConfigError as error:
        match = _PATH.fullmatch(error.message)
        if file is not None and match is not None and not error.path:
            document = _read_file(file)
            line = _line_of(document, match["path"]) if document and _has(document, undotted(match["path"])) else None
            error.path = "" if line is None else f"{file}:{line}"
        raise


def _read_file(path: Path) -> YamlFile | None:
    """Load a file as YAML, of which JSON is a subset; None if it is neither, or can no longer be read."""
    try:
        return YamlFile.load(path)
    except ConfigError:
        return None


def _begins(file: YamlFile, path: str) -> bool:
    """Whether the file has the first key of a path; words before a colon alone do not make a path."""
    return _has(file, undotted(path)[:1])


def _has(file: YamlFile, keys: Sequence[str | int]) -> bool:
    value = file.value
    for key in keys:
        try:
            value = value[key]  # type: ignore[index]  # a value without parts raises, which is caught below
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _line_of(file: YamlFile | None, path: str) -> int | None:
    """Return the line of a path in a file, or of its nearest existing parent; None without a file."""
    if file is None:
        return None
    location = file.where(undotted(path)).removeprefix(f"{file.path}:")
    return int(location.partition(" ")[0])
