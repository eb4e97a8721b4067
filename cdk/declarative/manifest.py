"""A manifest: from a YAML file to the component at its root, or to every reason why it cannot be one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from cdk.base.errors import ConfigError, ManifestError
from cdk.base.logs import logger
from cdk.base.validation_messages import shown
from cdk.base.values import JsonObject, JsonValue, as_list, as_object, dotted, undotted
from cdk.base.yaml_file import YamlFile
from cdk.declarative.components import register
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.model.component import Component
from cdk.declarative.syntax.json_edit import part_at
from cdk.declarative.syntax.legacy_syntax import adapt, migrate
from cdk.declarative.syntax.parameters import propagate
from cdk.declarative.syntax.references import References, bounded
from cdk.declarative.syntax.validation_errors import ManifestProblem, explained, misspelt

Keys: TypeAlias = tuple[str | int, ...]

ROOT = "DeclarativeSource"
MOST_PARTS = 2_000_000
"""How large a manifest may be once its references and aliases are written out."""

# Parts that others refer to, and that are no components themselves.
_QUARRIES = frozenset({"definitions", "schemas"})
_TOO_DEEP = "the manifest is nested too deeply; the kit reads some hundred levels"
# What `BuildContext.where` puts before an error: `users: DatetimeBasedCursor.step: ...`, or without the stream.
_BUILT = re.compile(r"(?:(?P<stream>.+): )?(?P<kind>[A-Z]\w+)\.(?P<field>\w+): ")


class Manifest:
    """A manifest that was read: the object, and where each of its parts is written."""

    def __init__(self, value: object, *, file: YamlFile | None = None, path: Path | None = None) -> None:
        """Take a manifest as an object. Raises ManifestError: it is none.

        path: of the file it was read from, where that was in another process: it is read again for the lines alone.
        """
        where = "" if file is None else f"{file.path}:1"
        if not isinstance(value, Mapping):
            problem = f"found {shown(value)}, expected an object with `version`, `check` and `streams`"
            raise ManifestError(problem, path=where)
        try:
            self._today = migrate(value)
        except RecursionError:
            raise ManifestError(_TOO_DEEP, path=where) from None
        self.value: Mapping[str, JsonValue] = value
        self._parsed, self._path = file, path
        self._references = References(self._today)

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read a file. Raises ManifestError: it cannot be read, or is no YAML."""
        try:
            file = YamlFile.load(path)
        except ConfigError as error:
            if isinstance(error.__cause__, UnicodeDecodeError):
                raise ManifestError("is no text in UTF-8, so it is no manifest", path=error.path) from None
            hint = "; a value that begins with {{ must stand in quotes" if "a key that is" in error.message else ""
            raise ManifestError(f"{error.message}{hint}", path=error.path) from error
        except RecursionError:
            raise ManifestError(_TOO_DEEP, path=str(path)) from None
        return cls(file.value, file=file)

    def resolved(self) -> JsonObject:
        """The manifest without references, types implied and parameters applied.

        Raises ManifestError with the place: a reference leads nowhere.
        """
        register()
        root = {
            name: self._references.resolve(part, (name,)) for name, part in self._today.items() if name not in _QUARRIES
        }
        if not bounded(root, MOST_PARTS):
            raise ManifestError(f"has more than {MOST_PARTS:,} parts when its references and aliases are written out")
        return propagate(adapt({"type": ROOT, **root}, old=self._today is not self.value))

    def root(self) -> Component:
        """The component at the root. Raises ManifestError with every place that is wrong.

        Logs a warning for each field that looks like a slip.
        """
        try:
            value = self._resolved
        except ManifestError as error:
            raise ManifestError(f"{self.where(undotted(error.path))}: {error.message}") from None
        except RecursionError:
            raise ManifestError(_TOO_DEEP, path=self.name) from None
        return self._validated(value)

    @cached_property
    def _resolved(self) -> JsonObject:
        return self.resolved()

    def _validated(self, value: JsonObject) -> Component:
        model = Component.registry[ROOT]
        try:
            root = model.model_validate(value)
        except ValidationError as error:
            problems = explained(value, model, error)
            raise ManifestError("\n".join(self._report(problems))) from None
        except RecursionError:
            raise ManifestError(_TOO_DEEP, path=self.name) from None
        twice = list(self._twice(value))
        if twice:
            raise ManifestError("\n".join(twice))
        for slip in self._report(list(misspelt(value, model))):
            logger.warning("%s", slip)
        return root

    def _twice(self, value: Mapping[str, JsonValue]) -> Iterator[str]:
        """Streams with the name of an earlier one; those whose name is an expression are known later."""
        places: dict[str, int] = {}
        for i, stream in enumerate(as_list(value.get("streams"))):
            name = as_object(stream).get("name")
            if isinstance(name, str) and name and "{" not in name and (first := places.setdefault(name, i)) != i:
                yield f"{self.where(('streams', i, 'name'))}: streams[{first}] is called {name!r} too; rename one"

    @cached_property
    def _file(self) -> YamlFile | None:
        """The file, as long as it says the same."""
        if self._parsed is None and self._path is not None:
            with suppress(ConfigError):
                file = YamlFile.load(self._path)
                return file if file.value == self.value else None
        return self._parsed

    @property
    def path(self) -> Path | None:
        """The file that it was read from."""
        return self._path if self._parsed is None else self._parsed.path

    @property
    def name(self) -> str:
        """What errors call the manifest."""
        return "manifest" if self._file is None else str(self._file.path)

    def where(self, keys: Sequence[str | int]) -> str:
        """`file:line path` of a part of the resolved manifest, as it is written."""
        if self._file is None:
            return f"{self.name} {dotted(keys)}".rstrip()
        line = self._file.where(self._references.where(keys)).partition(" ")[0]
        return f"{line} {dotted(keys)}".rstrip()

    def located(self, error: ManifestError) -> ManifestError:
        """An error that names a component, from building or using it, with its file and line."""
        text = str(error)
        named = _BUILT.match(text)
        expression = error.expression if isinstance(error, ExpressionError) else None
        keys = None if named is None else self._find(named["stream"], named["kind"], named["field"], expression)
        if keys is None:
            return error
        line = self.where(keys).partition(" ")[0] if self._file is not None else self.where(keys)
        # Of its class, whatever that takes: it tells a mistake in the manifest from a value that an API gave.
        located = ManifestError.__new__(type(error))
        vars(located).update(vars(error))
        located.message, located.path, located.args = text, line, (text,)
        located.__cause__, located.__traceback__ = error.__cause__, error.__traceback__
        return located

    def reads_config(self, error: ManifestError) -> bool:
        """Whether what an error is about is an expression that reads the config: another config may do."""
        named = _BUILT.match(error.message)
        keys = None if named is None else self._find(named["stream"], named["kind"], named["field"])
        if keys is None:
            return False
        value = part_at(self._resolved, keys)
        return isinstance(value, str) and "config" in value

    def _find(self, stream: str | None, kind: str, field: str, expression: str | None = None) -> Keys | None:
        """Where a field of a component stands; None when several could be meant, and they are written apart.

        expression: which of several it is.
        """
        matches = [keys for keys, node in _components(self._resolved, ()) if node["type"] == kind and field in node]
        if stream is not None:
            streams = [
                keys
                for keys, node in _components(self._resolved, ())
                if node.get("name") == stream and "retriever" in node and len(keys) == 2  # noqa: PLR2004 - streams[n]
            ]
            matches = [keys for keys in matches if any(keys[: len(outer)] == outer for outer in streams)]
        if expression is not None:
            matches = [each for each in matches if part_at(self._resolved, (*each, field)) == expression] or matches
        lines = {self.where((*keys, field)).partition(" ")[0] if self._file else keys for keys in matches}
        return (*matches[0], field) if len(lines) == 1 else None

    def _report(self, problems: Sequence[ManifestProblem]) -> list[str]:
        """What to say of problems: once for each place in the file, however often references use it."""
        places: dict[tuple[Keys, str], list[Keys]] = {}
        for problem in problems:
            written = (*self._references.where(problem.keys), *problem.keys[-1:])
            places.setdefault((written, problem.text), []).append(problem.keys)
        lines = []
        for (_, text), used in places.items():
            more = f" (referred to from {len(used)} places)" if len(used) > 1 else ""
            lines.append(f"{self._location(used[0])}: {text}{more}")
        return lines

    def _location(self, keys: Sequence[str | int]) -> str:
        """The place of a problem; a field that a parameter filled says so."""
        node, parameters = part_at(self._resolved, keys[:-1]), None
        written = self._references.where(keys)
        if isinstance(node, Mapping) and keys and (not written or written[-1] != keys[-1]):
            parameters = node.get("$parameters")
        inherited = isinstance(parameters, Mapping) and keys[-1] in parameters
        return f"{self.where(keys)}{' (from $parameters)' if inherited else ''}"


def _components(value: JsonValue, keys: Keys) -> Iterator[tuple[Keys, Mapping[str, JsonValue]]]:
    if isinstance(value, Mapping):
        if isinstance(value.get("type"), str):
            yield keys, value
        for name, part in value.items():
            yield from _components(part, (*keys, name))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from _components(part, (*keys, i))
