"""Schema files: a JSON Schema in a file of its own, combined with the files that it refers to.

The layout is that of existing connectors: `schemas/users.json` refers to `shared/address.json` as `address.json`, and
to a part of it as `address.json#/definitions/street`. The target replaces the reference; keys next to `$ref` are
dropped.
"""

from collections.abc import Mapping
from pathlib import Path

from cdk.base.documents import parse_json, read_bytes
from cdk.base.errors import ConfigError, ManifestError
from cdk.base.values import JsonSchema, JsonValue, json_kind, referenced

_REF = "$ref"


def read_schema(file: Path) -> JsonSchema:
    """Return the JSON Schema in a file with references resolved, except its own references to an enclosing part.

    Raises ManifestError: when a file is missing or holds no JSON object, a reference cannot be resolved, or references
    between files form a circle.
    """
    return _References(file).of(_loaded(file))


def schema_file(folder: Path, name: str) -> Path | None:
    """Return the file that a manifest in `folder` calls `name`; None if it is missing.

    It is below that folder, the folder around it, the working directory, or a connector's package in the folder.
    """
    # `./source_name/schemas/users.json`, as seen from inside `source_name`.
    inner = Path(*Path(name).parts[1:])
    around = [(start, start / name) for start in (folder, folder.parent, Path())]
    packages = [(package, package / name) for package in sorted(folder.glob("source_*"))]
    places = [*around, (folder, folder / inner), *packages]
    return next((file for start, file in places if is_file(file, within=start)), None)


def named_file(folder: Path, name: str, where: str = "") -> Path:
    """Return `schema_file`. Raises ManifestError: it is missing. where: the place that names it."""
    file = schema_file(folder, name)
    if file is None:
        raise ManifestError(f"{where and f'{where}: '}there is no file {name!r} in {folder} or above")
    return file


def is_file(file: Path, *, within: Path) -> bool:
    """Whether a manifest may read this file: one from elsewhere must not read files outside of its folders."""
    try:
        return file.is_file() and file.resolve().is_relative_to(within.resolve())
    except OSError:  # an invalid file name
        return False


class _References:
    """Resolves the references in one file. trail: those being resolved, in this file and in those that led here."""

    def __init__(self, file: Path, home: Path | None = None, trail: tuple[tuple[Path, str], ...] = ()) -> None:
        # Shared schemas are below the connector's `schemas` folder, however deep the referring schema is.
        self._home = home or next((folder for folder in file.parents if folder.name == "schemas"), file.parent)
        self._file, self._trail, self._outermost = file, trail, home is None

    def of(self, schema: JsonSchema) -> JsonSchema:
        """Return `schema` with the schemas that it refers to in place of the references."""
        if isinstance(link := schema.get(_REF), str):
            return self._target(link, schema)
        return {name: self._inside(item) for name, item in schema.items()}

    def _inside(self, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [self._inside(item) for item in value]
        return self.of(value) if isinstance(value, dict) else value

    def _target(self, link: str, written: JsonSchema) -> JsonSchema:
        name, _, pointer = link.partition("#")
        file = self._shared(name, link) if name else self._file
        step = (file, pointer)
        if step in self._trail:
            # A recursive schema, such as a tree of comments: its readers follow the reference as far as records go.
            if self._outermost and not name:
                return written
            raise ManifestError(f"the reference {link!r} leads back to itself", path=str(self._file))
        root = _loaded(file)
        target = referenced(root, f"#{pointer}")
        if not isinstance(target, Mapping):
            raise ManifestError(f"the reference {link!r} cannot be resolved", path=str(self._file))
        inside = _References(file, None if file == self._file and self._outermost else self._home, (*self._trail, step))
        # The definitions that a file has for its own references are not needed where its content is inserted.
        return {key: part for key, part in inside.of(target).items() if key != "definitions"}

    def _shared(self, name: str, link: str) -> Path:
        for folder in (self._home / "shared", self._home):
            if is_file(file := folder / name, within=self._home):
                return file.resolve()
        message = f"the reference {link!r} cannot be resolved: there is no file {name!r} in {self._home / 'shared'}"
        raise ManifestError(message, path=str(self._file))


def _loaded(file: Path) -> JsonSchema:
    try:
        schema = parse_json(read_bytes(file), str(file))
    except ConfigError as error:
        raise ManifestError.of(error) from error
    if not isinstance(schema, Mapping):
        raise ManifestError(f"found {json_kind(schema)}, expected a JSON Schema, an object", path=str(file))
    return schema
