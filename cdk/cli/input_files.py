"""Files that people give: JSON, YAML or lines of JSON, and errors that say where in them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from cdk import base
from cdk.base.errors import ConfigError
from cdk.base.validation_messages import refusals
from cdk.base.values import JsonValue, Keys, dotted, from_json
from cdk.sources.config_file import unreadable

Model = TypeVar("Model", bound=BaseModel)

_MOST_ERRORS = 5


def read_document(path: Path) -> JsonValue:
    """The one value in a JSON file, or in a YAML file (`.yaml`, `.yml`).

    Raises ConfigError naming line and column: the file cannot be read, or is neither.
    """
    if path.suffix in {".yaml", ".yml"}:
        return base.YamlFile.load(path).value
    return _parse(_read(path), str(path))


def read_documents(path: Path) -> Iterator[tuple[str, JsonValue]]:
    """The values in a file, each with its place: one document, or one a line, such as the output of a read.

    A last line without line feed that is no JSON was cut when its writer was stopped; it is left out.
    Raises ConfigError as `read_document` does.
    """
    text = _read(path)
    lines = text.splitlines(keepends=True)
    first = next(filter(bytes.strip, lines), b"")
    if len(lines) < 2 or not _is_json(first):  # noqa: PLR2004 - one line is one document
        yield str(path), _parse(text, str(path))
        return
    for number, line in enumerate(lines, 1):
        cut = number == len(lines) and not line.endswith(b"\n") and not _is_json(line)
        if line.strip() and not cut:
            yield f"{path}:{number}", _parse(line, f"{path}:{number}")


def as_model(model: type[Model], value: JsonValue, file: str, keys: Keys = ()) -> Model:
    """`value`, which stands at `keys` in `file`, as a message.

    Raises ConfigError with the path of each error, what was found there and what was expected.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = [f"{location(file, (*keys, *inner))}: {text}" for inner, text in refusals(error, value)]
        more = [f"and {len(problems) - _MOST_ERRORS} more"] if len(problems) > _MOST_ERRORS else []
        raise ConfigError("\n".join(problems[:_MOST_ERRORS] + more)) from error


def location(file: str, keys: Keys) -> str:
    """Where `keys` are in `file`: `state.json: [2].stream.name`."""
    return f"{file}: {dotted(keys)}" if keys else file


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def _parse(text: bytes, where: str) -> JsonValue:
    try:
        return from_json(text)
    except json.JSONDecodeError as error:
        raise _no_json(error, where) from error


def _no_json(error: json.JSONDecodeError, where: str) -> ConfigError:
    return ConfigError(f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})", path=where)


def _is_json(text: bytes) -> bool:
    try:
        from_json(text)
    except json.JSONDecodeError:
        return False
    return True
