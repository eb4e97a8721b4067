"""Reads JSON and YAML documents of users; errors name the place in the file."""

import json
from pathlib import Path

from cdk import base
from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue, Keys, dotted, from_json, is_deeper

_DEEPEST = 500
"""The most levels of a JSON document: its readers call themselves for each; from Python 3.12 on, parsers do not."""


def read_document(path: Path) -> JsonValue:
    """Read the value of a JSON file, or of a YAML file (`.yaml`, `.yml`).

    Raises ConfigError, with line and column: the file cannot be read, or is neither.
    """
    if path.suffix in {".yaml", ".yml"}:
        return base.YamlFile.load(path).value
    return parse_json(read_bytes(path), str(path))


def place_in(path: Path, keys: Keys) -> str:
    """The place of a value as `file:line a.b[2]`, without the line if the file cannot be read again."""
    try:
        return base.YamlFile.load(path).where(keys)
    except ConfigError:
        return f"{path} {dotted(keys)}"


def read_bytes(path: Path) -> bytes:
    """Read a file. Raises ConfigError: it cannot be read; names the example beside it if it is missing."""
    try:
        return path.read_bytes()
    except OSError as error:
        example = path.with_name(f"{path.stem}.example{path.suffix}")
        lacks = isinstance(error, FileNotFoundError) and example.is_file()
        hint = f"there is no such file; copy {example} to this path, and fill it in"
        raise ConfigError(hint if lacks else f"cannot be read: {error.strerror}", path=str(path)) from error


def parse_json(text: bytes, where: str) -> JsonValue:
    """Parse a JSON text. where: its name in errors.

    Raises ConfigError: it is not JSON, with line and column, or it is nested too deeply.
    """
    try:
        value = from_json(text)
    except json.JSONDecodeError as error:
        # Not chained: the text may contain a secret, and the original error refers to it.
        words = f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise ConfigError(words, path=where) from None
    if text.count(b"[") + text.count(b"{") > _DEEPEST and is_deeper(value, _DEEPEST):
        raise ConfigError(f"is nested deeper than {_DEEPEST} levels; flatten it", path=where)
    return value
