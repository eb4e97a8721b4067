"""Problems: what the kit's errors say of files, one each, with the line where it stands."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cdk.base.errors import CdkError, ConfigError
from cdk.base.logs import log_records, logger
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue, dotted, undotted
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
        self._line: Callable[[str], int | None] | None = None

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
        for line in self._secrets.mask(text).splitlines():
            placed = certain or _LOCATION.fullmatch(line)
            if placed or not any(known.message in line for known in self._found):
                self._found[replace(self._read(line), certain=certain)] = None

    def _read(self, text: str) -> Problem:
        """A line of an error: `file:line path: words`, where all but the words may be missing."""
        if (match := _LOCATION.fullmatch(text)) is None:
            return self._located(Problem(str(self._file), text))
        line, column = match["line"], match["column"]
        problem = Problem(
            match["file"],
            match["text"],
            None if line is None else int(line),
            None if column is None else int(column),
            match["path"] or "",
        )
        return problem if problem.line is not None or problem.file != str(self._file) else self._located(problem)

    def _located(self, problem: Problem) -> Problem:
        """The same with its path apart from the words, and the line that this has."""
        if (match := _PATH.fullmatch(problem.message)) is not None:
            path = f"{problem.path}.{match['path']}".lstrip(".")
            return replace(problem, path=path, message=match["text"], line=self._line_of(path))
        if (end := _IN_JSON.search(problem.message)) is not None:
            words = problem.message[: end.start()]
            return replace(problem, message=words, line=int(end["line"]), column=int(end["column"]))
        return replace(problem, line=self._line_of(problem.path))

    def _line_of(self, path: str) -> int | None:
        if self._line is None:
            self._line = _lines(self._file)
        return self._line(path)


@contextmanager
def locating(file: Path | None) -> Iterator[None]:
    """Let an error of this block that names a part of a file, such as `streams.orders`, name the file and line, too."""
    try:
        yield
    except ConfigError as error:
        match = _PATH.fullmatch(error.message)
        if file is not None and match is not None and not error.path:
            line = _written_at(file, undotted(match["path"]))
            error.path = "" if line is None else f"{file}:{line}"
        raise


def _written_at(file: Path, keys: Sequence[str | int]) -> int | None:
    """The line on which a part of a file begins; None where it has none."""
    value = YamlFile.load(file).value
    for key in keys:
        try:
            value = value[key]  # type: ignore[index]  # what it has no parts of is an error below
        except (KeyError, IndexError, TypeError):
            return None
    return _lines(file)(dotted(keys))


def _lines(path: Path) -> Callable[[str], int | None]:
    """Finds the line on which a path of a file begins; JSON is YAML, too. Nothing where the file is neither."""
    try:
        file = YamlFile.load(path)
    except ConfigError:
        return lambda _: None

    def line(dotted: str) -> int:
        location = file.where(undotted(dotted)).removeprefix(f"{path}:")
        return int(location.partition(" ")[0])

    return line
