"""Schema files: a JSON Schema in a file of its own, with what it refers to in others.

As connectors lay them out: `schemas/users.json` refers to `shared/address.json` as `address.json`, and to a part of it
as `address.json#/definitions/street`. What a reference leads to stands in its place, and keys beside `$ref` go.
"""

from collections.abc import Mapping
from pathlib import Path

from cdk.base.documents import parse_json, read_bytes
from cdk.base.errors import ConfigError, ManifestError
from cdk.base.values import JsonSchema, JsonValue, json_kind, referenced

_REF = "$ref"


def read_schema(file: Path) -> JsonSchema:
    """The JSON Schema in a file, without references, but for those of the file to a part around themselves.

    Raises ManifestError: a file is not there or holds no JSON object, a reference leads nowhere, or between files in a
    circle.
    """
    return _References(file).of(_loaded(file))


def is_file(file: Path, *, within: Path) -> bool:
    """Whether a manifest may read this file: one that came from elsewhere has no business outside of its folders."""
    try:
        return file.is_file() and file.resolve().is_relative_to(within.resolve())
    except OSError:  # a name that no file can have
        return False


class _References:
    """What references mean in one file. trail: those that are being resolved, of this file and those that led here."""

    def __init__(self, file: Path, home: Path | None = None, trail: tuple[tuple[Path, str], ...] = ()) -> None:
        # Shared schemas lie below the connector's `schemas`, however deep the one is that refers to them.
        self._home = home or next((folder for folder in file.parents if folder.name == "schemas"), file.parent)
        self._file, self._trail = file, trail
        self._outermost = home is None

    def of(self, schema: JsonSchema) -> JsonSchema:
        """`schema` with the schemas that it refers to."""
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
            # A tree of comments: readers of the schema follow the reference as far as records go.
            if self._outermost and not name:
                return written
            raise ManifestError(f"the reference {link!r} leads back to where it stands", path=str(self._file))
        root = _loaded(file)
        target = referenced(root, f"#{pointer}")
        if not isinstance(target, Mapping):
            raise ManifestError(f"the reference {link!r} leads nowhere", path=str(self._file))
        inside = _References(file, None if file == self._file and self._outermost else self._home, (*self._trail, step))
        # What a file defines for its own references is not wanted where it is put.
        return {key: part for key, part in inside.of(target).items() if key != "definitions"}

    def _shared(self, name: str, link: str) -> Path:
        for folder in (self._home / "shared", self._home):
            if is_file(file := folder / name, within=self._home):
                return file.resolve()
        message = f"the reference {link!r} leads nowhere: there is no file {name!r} in {self._home / 'shared'}"
        raise ManifestError(message, path=str(self._file))


def _loaded(file: Path) -> JsonSchema:
    try:
        schema = parse_json(read_bytes(file), str(file))
    except ConfigError as error:
        raise ManifestError(error.message, path=error.path) from error
    if not isinstance(schema, Mapping):
        raise ManifestError(f"found {json_kind(schema)}, expected a JSON Schema, an object", path=str(file))
    return schema
