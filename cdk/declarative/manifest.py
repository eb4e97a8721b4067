"""Loads a manifest: turns a YAML file into its root component, or reports every reason why it cannot."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from cdk.base.errors import ConfigError, ManifestError
from cdk.base.first_use import lazy_pattern
from cdk.base.logs import logger
from cdk.base.values import JsonObject, JsonValue, Keys, Location, as_list, as_object
from cdk.base.wording import shown
from cdk.base.yaml_file import YamlFile
from cdk.declarative.components import register
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.model.component import Component
from cdk.declarative.syntax.json_edit import part_at
from cdk.declarative.syntax.legacy_syntax import adapt, migrate
from cdk.declarative.syntax.parameters import propagate
from cdk.declarative.syntax.references import References, has_at_most
from cdk.declarative.syntax.validation import ManifestProblem, validate

ROOT = "DeclarativeSource"
MOST_PARTS = 2_000_000
"""The maximum number of parts of a manifest after its references and aliases are expanded."""

# Sections that references point to, and that are not components themselves.
_REFERENCE_ONLY_SECTIONS = frozenset({"definitions", "schemas"})
_TOO_DEEP = "the manifest is nested too deeply; the kit supports a few hundred levels"
# The prefix that `BuildContext.where` gives an error: `users: DatetimeBasedCursor.step: ...`; the stream may be absent.
_COMPONENT_PREFIX = lazy_pattern(r"(?:(?P<stream>.+): )?(?P<kind>[A-Z]\w+)\.(?P<field>\w+): ")


class Manifest:
    """A parsed manifest: its object, and the place in the file where each of its parts is written."""

    def __init__(self, value: object, *, file: YamlFile | None = None, path: Path | None = None) -> None:
        """Take the manifest as an object. Raises ManifestError: when `value` is not an object.

        path: the file that another process read the manifest from; this process reads it again only for line numbers.
        """
        where = "" if file is None else Location(str(file.path), (), 1)
        if not isinstance(value, Mapping):
            problem = f"found {shown(value)}, expected an object with `version`, `check` and `streams`"
            raise ManifestError(problem, path=where)
        try:
            self._migrated = migrate(value)
        except RecursionError:
            raise ManifestError(_TOO_DEEP, path=where) from None
        self.value: Mapping[str, JsonValue] = value
        self._parsed, self._path = file, path
        self._references = References(self._migrated)

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read a manifest file. Raises ManifestError: when the file cannot be read or is not YAML."""
        try:
            file = YamlFile.load(path)
        except ConfigError as error:
            if isinstance(error.__cause__, UnicodeDecodeError):
                why = "is not valid UTF-8; a manifest must be a UTF-8 text file"
                raise ManifestError(why, path=error.path) from None
            raise ManifestError(error.message, path=error.path) from error
        except RecursionError:
            raise ManifestError(_TOO_DEEP, path=str(path)) from None
        return cls(file.value, file=file)

    def resolved(self) -> JsonObject:
        """Return the manifest with references resolved, implied types filled in and parameters applied.

        Raises ManifestError with the place: when a reference cannot be resolved.
        """
        register()
        root = {
            name: self._references.resolve(part, (name,))
            for name, part in self._migrated.items()
            if name not in _REFERENCE_ONLY_SECTIONS
        }
        if not has_at_most(root, MOST_PARTS):
            raise ManifestError(f"has more than {MOST_PARTS:,} parts after its references and aliases are expanded")
        return propagate(adapt({"type": ROOT, **root}, old=self._migrated is not self.value))

    def root(self) -> Component:
        """Return the root component. Raises ManifestError that lists every invalid place.

        Logs a warning for each field that is probably misspelt.
        """
        try:
            value = self._resolved
        except ManifestError as error:
            keys = error.path.keys if isinstance(error.path, Location) else ()
            raise ManifestError(error.message, path=self.where(keys)) from None
        except RecursionError:
            raise ManifestError(_TOO_DEEP, path=self.name) from None
        return self._validated(value)

    @cached_property
    def _resolved(self) -> JsonObject:
        return self.resolved()

    def _validated(self, value: JsonObject) -> Component:
        model = Component.registry[ROOT]
        try:
            root, problems = validate(model, value)
        except RecursionError:
            raise ManifestError(_TOO_DEEP, path=self.name) from None
        if root is None:
            raise ManifestError.together(self._report(problems))
        misnamed = list(self._misnamed(value))
        if misnamed:
            raise ManifestError.together(misnamed)
        for warning in self._report(problems):
            logger.warning("%s: %s", warning.path, warning.message)
        return root

    def _misnamed(self, value: Mapping[str, JsonValue]) -> Iterator[ManifestError]:
        """Yield an error for each stream without a name, or with that of an earlier one, unless it is an expression."""
        places: dict[str, int] = {}
        for i, stream in enumerate(as_list(value.get("streams"))):
            name, kind = as_object(stream).get("name"), as_object(stream).get("type")
            if not name and kind == "DeclarativeStream":
                yield ManifestError("the stream has no name; write one as `name`", path=self.where(("streams", i)))
            if isinstance(name, str) and name and "{" not in name and (first := places.setdefault(name, i)) != i:
                where = self.where(("streams", i, "name"))
                yield ManifestError(f"streams[{first}] has the name {name!r} too; rename one", path=where)

    @cached_property
    def _file(self) -> YamlFile | None:
        """The parsed file; None without a file, or if the file on disk no longer holds this manifest."""
        if self._parsed is None and self._path is not None:
            with suppress(ConfigError):
                file = YamlFile.load(self._path)
                return file if file.value == self.value else None
        return self._parsed

    @property
    def path(self) -> Path | None:
        """The file that the manifest was read from."""
        return self._path if self._parsed is None else self._parsed.path

    @property
    def name(self) -> str:
        """The name of the manifest in error messages."""
        return "manifest" if self._file is None else str(self._file.path)

    def where(self, keys: Sequence[str | int]) -> Location:
        """Return the place of a part of the resolved manifest, with the line at which it is written."""
        line = None if self._file is None else self._file.where(self._references.where(keys)).line
        return Location(self.name, keys, line)

    def located(self, error: ManifestError) -> ManifestError:
        """Return an error that names a component, raised by building or using it, with its file and line added."""
        text = str(error)
        named = _COMPONENT_PREFIX.match(text)
        expression = error.expression if isinstance(error, ExpressionError) else None
        keys = None if named is None else self._find(named["stream"], named["kind"], named["field"], expression)
        if keys is None:
            return error
        location = self.where(keys)
        # The message names the component and its field itself.
        location = Location(location.file, (), location.line) if location.line else location
        # Keep the error's class without calling its constructor: the class tells a manifest error from a bad API value.
        located = ManifestError.__new__(type(error))
        vars(located).update(vars(error))
        located.message, located.path, located.args = text, location, (text,)
        located.__cause__, located.__traceback__ = error.__cause__, error.__traceback__
        return located

    def reads_config(self, error: ManifestError) -> bool:
        """Whether the error is about an expression that reads the config, so that another config may work."""
        named = _COMPONENT_PREFIX.match(error.message)
        places = [] if named is None else self._places(named["stream"], named["kind"], named["field"])
        values = [part_at(self._resolved, keys) for keys in places]
        return any(isinstance(value, str) and "config" in value for value in values)

    def _find(self, stream: str | None, kind: str, field: str, expression: str | None = None) -> Keys | None:
        """Return the keys of a field of a component; None if several fields match that are written in different places.

        expression: picks the field with this text, if several match.
        """
        matches = self._places(stream, kind, field)
        if expression is not None:
            matches = [each for each in matches if part_at(self._resolved, each) == expression] or matches
        lines = {self.where(keys).line or keys for keys in matches}
        return matches[0] if len(lines) == 1 else None

    def _places(self, stream: str | None, kind: str, field: str) -> list[Keys]:
        """Return the keys of a field in all components of a type, or in those of a stream; if none has it, theirs."""
        matches = [keys for keys, node in _components(self._resolved, ()) if node["type"] == kind]
        if stream is not None:
            streams = [
                keys
                for keys, node in _components(self._resolved, ())
                if node.get("name") == stream and "retriever" in node and len(keys) == 2  # noqa: PLR2004 - streams[n]
            ]
            matches = [keys for keys in matches if any(keys[: len(outer)] == outer for outer in streams)]
        return [(*keys, field) for keys in matches if field in as_object(part_at(self._resolved, keys))] or matches

    def _report(self, problems: Sequence[ManifestProblem]) -> list[ManifestError]:
        """Return an error for each problem and place in the file, however many references lead to that place."""
        places: dict[tuple[Keys, str], list[Keys]] = {}
        for problem in problems:
            written = (*self._references.where(problem.keys), *problem.keys[-1:])
            places.setdefault((written, problem.text), []).append(problem.keys)
        errors = []
        for (_, text), used in places.items():
            more = f" (referred to from {len(used)} places)" if len(used) > 1 else ""
            inherited = "; it came from $parameters" if self._is_inherited(used[0]) else ""
            errors.append(ManifestError(f"{text}{inherited}{more}", path=self.where(used[0])))
        return errors

    def _is_inherited(self, keys: Keys) -> bool:
        """Whether a field was filled in from `$parameters`."""
        node, parameters = part_at(self._resolved, keys[:-1]), None
        written = self._references.where(keys)
        if isinstance(node, Mapping) and keys and (not written or written[-1] != keys[-1]):
            parameters = node.get("$parameters")
        return isinstance(parameters, Mapping) and keys[-1] in parameters


def _components(value: JsonValue, keys: Keys) -> Iterator[tuple[Keys, Mapping[str, JsonValue]]]:
    if isinstance(value, Mapping):
        if isinstance(value.get("type"), str):
            yield keys, value
        for name, part in value.items():
            yield from _components(part, (*keys, name))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from _components(part, (*keys, i))
