"""Documents that people give, JSON or YAML, and errors that say where in them."""

import json
from pathlib import Path

from cdk import base
from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue, Keys, dotted, from_json


def read_document(path: Path) -> JsonValue:
    """The one value in a JSON file, or in a YAML file (`.yaml`, `.yml`).

    Raises ConfigError naming line and column: the file cannot be read, or is neither.
    """
    if path.suffix in {".yaml", ".yml"}:
        return base.YamlFile.load(path).value
    return parse_json(read_bytes(path), str(path))


def place_in(path: Path, keys: Keys) -> str:
    """`file:line a.b[2]` of a value of a document, without the line where the file cannot be read again."""
    try:
        return base.YamlFile.load(path).where(keys)
    except ConfigError:
        return f"{path} {dotted(keys)}"


def read_bytes(path: Path) -> bytes:
    """What is in a file. Raises ConfigError: it cannot be read, or is missing, and its example lies beside it."""
    try:
        return path.read_bytes()
    except OSError as error:
        example = path.with_name(f"{path.stem}.example{path.suffix}")
        lacks = isinstance(error, FileNotFoundError) and example.is_file()
        hint = f"there is no such file; copy {example} to it, and fill it in"
        raise ConfigError(hint if lacks else f"cannot be read: {error.strerror}", path=str(path)) from error


def parse_json(text: bytes, where: str) -> JsonValue:
    """The value of a JSON text. where: what errors call it. Raises ConfigError naming line and column: it is none."""
    try:
        return from_json(text)
    except json.JSONDecodeError as error:
        # The text may hold a secret, and an error keeps the text it is about.
        words = f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise ConfigError(words, path=where) from None
