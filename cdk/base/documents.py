"""Reads JSON and YAML documents of users, and the paths of file URLs; errors name the place in the file."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cdk import base
from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue, Keys, Location, from_json, is_deeper

_DEEPEST = 500
"""The most levels of a JSON document: its readers call themselves for each; from Python 3.12 on, parsers do not."""


def read_document(path: Path) -> JsonValue:
    """Read the value of a JSON file, or of a YAML file (`.yaml`, `.yml`).

    Raises ConfigError, with line and column: the file cannot be read, or is neither.
    """
    if path.suffix in {".yaml", ".yml"}:
        return base.YamlFile.load(path).value
    return parse_json(read_bytes(path), str(path))


def location_in(path: Path, keys: Keys) -> Location:
    """The place of a value, without the line if the file cannot be read again."""
    try:
        return base.YamlFile.load(path).where(keys)
    except ConfigError:
        return Location(str(path), keys)


@contextmanager
def locating(path: Path | None) -> Iterator[None]:
    """Add the line to errors of the block about parts of a file: places in it, and those without a file."""

    def located(location: str) -> str:
        if path is None or not isinstance(location, Location) or location.line or location.file not in {"", str(path)}:
            return location
        return location_in(path, location.keys)

    try:
        yield
    except ConfigError as error:
        error.locate(located)
        raise


def read_bytes(path: Path) -> bytes:
    """Read a file. Raises ConfigError: it cannot be read; names the example beside it if it is missing."""
    try:
        return path.read_bytes()
    except OSError as error:
        example = path.with_name(f"{path.stem}.example{path.suffix}")
        lacks = isinstance(error, FileNotFoundError) and example.is_file()
        hint = f"there is no such file; copy {example} to this path, and fill it in"
        raise ConfigError(hint if lacks else f"cannot be read: {error.strerror}", path=str(path)) from error


def parse_json(text: bytes, file: str, line: int = 1) -> JsonValue:
    """Parse a JSON text. file: its name in errors. line: the number of its first line there.

    Raises ConfigError: it is not JSON, with line and column, or it is nested too deeply.
    """
    try:
        value = from_json(text)
    except json.JSONDecodeError as error:
        # Not chained: the text may contain a secret, and the original error refers to it.
        where = Location(file, (), line + error.lineno - 1, error.colno)
        raise ConfigError(f"is not JSON: {error.msg}", path=where) from None
    if text.count(b"[") + text.count(b"{") > _DEEPEST and is_deeper(value, _DEEPEST):
        raise ConfigError(f"is nested deeper than {_DEEPEST} levels; flatten it", path=file)
    return value


def path_of(url: str) -> Path:
    """The path of a file URL, `file:///folder` or `file:/folder`, with its percent-escapes decoded.

    Raises ConfigError: it names a host, a relative path, a query or a fragment.
    """
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ConfigError("expected three slashes and an absolute path: file:///folder", path=url)
    if "?" in url or "#" in url:
        raise ConfigError("expected a path without ? and #; in a file URL they are written %3F and %23", path=url)
    return Path(unquote(parts.path))
