"""Problems: what the kit's errors say of files, one each, with the line where it stands."""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a file, or looks wrong (`certain` is false), and where, as far as that is known."""

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
        """The problem as a JSON object, without whether it is certain."""
        return {"file": self.file, "line": self.line, "column": self.column, "path": self.path, "message": self.message}


class Problems:
    """Gathers the problems of one file, secrets hidden. What is said of other files keeps their names."""

    def __init__(self, file: Path, secrets: Secrets) -> None:
        self._file, self._secrets = file, secrets
        self._found: dict[Problem, None] = {}
        self._loaded: list[YamlFile | None] = []

    @property
    def all(self) -> list[Problem]:
        """Each problem once, errors first, in the order of their lines."""
        return sorted(self._found, key=lambda each: (not each.certain, each.file != str(self._file), each.line or 0))

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Take the errors of this block, which ends at the first that is raised, and its warnings."""
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
        """Take what an error says, a problem a line; of a warning without its line only what no other one says."""
        for line in filter(str.strip, self._secrets.mask(text).splitlines()):
            placed = certain or self._location(line)
            if placed or not any(known.message in line for known in self._found):
                self._found[replace(self._read(line), certain=certain)] = None

    def _location(self, text: str) -> re.Match[str] | None:
        """The parts of a line that begins with a file; None where it does not."""
        match = _LOCATION.fullmatch(text)
        # A sentence may have the name of a file in it, which would begin with the words before it.
        if match is None or " " not in match["file"] or match["file"] == str(self._file):
            return match
        return match if os.path.exists(match["file"]) else None  # noqa: PTH110 - a Path refuses a long sentence

    def _read(self, text: str) -> Problem:
        """A line of an error: `file:line path: words`, where all but the words may be missing."""
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
        """The same with its path apart from the words, and the line that this has.

        named: the text names the file, so that a path in it may be one that is missing there.
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

    @property
    def _document(self) -> YamlFile | None:
        if not self._loaded:
            self._loaded.append(_read_file(self._file))
        return self._loaded[0]


@contextmanager
def locating(file: Path | None) -> Iterator[None]:
    """Let an error of this block that names a part of a file, such as `streams.orders`, name the file and line, too."""
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
    """A file as YAML, which JSON is, too; None where it is neither, or can be read no more."""
    try:
        return YamlFile.load(path)
    except ConfigError:
        return None


def _begins(file: YamlFile, path: str) -> bool:
    """Whether the first key of a path is in a file: words before a colon are no path by that alone."""
    return _has(file, undotted(path)[:1])


def _has(file: YamlFile, keys: Sequence[str | int]) -> bool:
    value = file.value
    for key in keys:
        try:
            value = value[key]  # type: ignore[index]  # what it has no parts of is an error below
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _line_of(file: YamlFile | None, path: str) -> int | None:
    """The line on which a path of a file begins, or what is there of it; None for no file."""
    if file is None:
        return None
    location = file.where(undotted(path)).removeprefix(f"{file.path}:")
    return int(location.partition(" ")[0])
