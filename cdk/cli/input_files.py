"""Reads input files of one or several JSON values, and converts values to messages of the protocol."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from cdk.base.documents import parse_json, read_bytes
from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue, Location, is_json
from cdk.protocol.model import WireModel
from cdk.sources.schema_check import mismatches

Model = TypeVar("Model", bound=WireModel)

_MOST_ERRORS = 5


def read_documents(path: Path) -> Iterator[tuple[Location, JsonValue]]:
    """Yield the values of a file, each with its place: one document, or one per line, such as the output of a read.

    A last line without a line feed that is not JSON was truncated when its writer was stopped, and is skipped.
    Raises ConfigError naming line and column: the file cannot be read, or a line is not JSON.
    """
    text = read_bytes(path)
    lines = text.splitlines(keepends=True)
    first = next(filter(bytes.strip, lines), b"")
    if len(lines) < 2 or not is_json(first):  # noqa: PLR2004 - one line is one document
        yield Location(str(path)), parse_json(text, str(path))
        return
    for number, line in enumerate(lines, 1):
        cut = number == len(lines) and not line.endswith(b"\n") and not is_json(line)
        if line.strip() and not cut:
            yield Location(str(path), (), number), parse_json(line, str(path), number)


def as_model(model: type[Model], value: JsonValue, where: Location) -> Model:
    """Convert the value at a place to a message.

    Raises ConfigError with the place of each error, the value there and the expected one.
    """
    try:
        return msgspec.convert(value, model)
    except msgspec.ValidationError as error:
        problems = mismatches(value, msgspec.json.schema(model)) or [((), str(error))]
        listed = [ConfigError(text, path=where.below(*keys)) for keys, text in problems[:_MOST_ERRORS]]
        if more := len(problems[_MOST_ERRORS:]):
            listed.append(ConfigError(f"and {more} more", path=where))
        raise ConfigError.together(listed) from error
