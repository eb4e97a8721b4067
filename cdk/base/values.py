"""The plain values that travel everywhere: JSON, records, their text and their canonical text."""

import json
import re
from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from datetime import date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import msgspec
import orjson

from cdk.base.errors import FatalError

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
    """A value of JSON: what a parser of JSON or YAML returns. Its objects are dicts, its arrays are lists."""
else:  # a pydantic model would copy such a value, level by level, to check what a parser has made
    JsonValue = Any

JsonObject: TypeAlias = dict[str, JsonValue]
"""An object of JSON. A function that only reads one takes a `Mapping[str, JsonValue]`, which a `dict[str, str]` is."""

FieldValue: TypeAlias = Any
"""A value of a record, a cursor, a partition or a config. `Any`: who reads a field knows what is in it."""

Stored: TypeAlias = Any
"""A value of JSON that was stored before. `Any`: who reads it back knows what was stored."""

Json: TypeAlias = Any
"""Anything `json.loads` can return, where no code says yet what that is."""

Record: TypeAlias = Mapping[str, FieldValue]
"""One row as the source gave it: a JSON object."""

JsonSchema: TypeAlias = Mapping[str, JsonValue]
"""A JSON Schema document (draft 7, as the Airbyte protocol uses it)."""

Keys: TypeAlias = tuple[str | int, ...]
"""The names and indexes that lead from the top of a document to a value."""

JSON_TYPES: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
"""What JSON Schema calls a value."""

SCALARS = frozenset((type(None), bool, int, float, str, bytes, datetime, date))
"""Types of values that have no others in them, and stay as they are."""

PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {name: (kind,) for kind, name in JSON_TYPES.items()} | {
    "number": (float, int)
}
"""The values of a type of JSON Schema; it takes no boolean for an integer."""

SIMPLE_TYPES = ("string", "integer", "number", "boolean")
"""The types of JSON Schema that have nothing inside, but for null."""

# An escape in a text of JSON; the group is one that is half a character, a lone surrogate.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_REPLACEMENT = rb"\ufffd"

# What orjson says of whole numbers of more than 64 bits, and of more than 254 levels.
_BEYOND_ORJSON = re.compile("64-bit|[Rr]ecursion")

_decode = msgspec.json.Decoder().decode


def from_json(text: bytes | str) -> JsonValue:
    r"""The value of a JSON text; a whole number keeps every digit. A byte order mark before it is skipped.

    Half a character, as in an emoji that was cut (`\ud83d`), becomes the lone surrogate that `json.loads` makes of
    it: JSON's grammar has it, so one such record is no reason to refuse the rest.
    orjson makes a float of a whole number of more than 64 bits, so it only says where a text is no JSON. Raises
    json.JSONDecodeError, with the position.
    """
    try:
        value: JsonValue = _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return from_odd_json(text, _decode, json.loads)
    return value


def from_odd_json(
    text: bytes | str, decode: Callable[[bytes], JsonValue], loads: Callable[[bytes], JsonValue]
) -> JsonValue:
    """The value of what msgspec refuses: text after a byte order mark, or with half a character.

    decode: that of msgspec. loads: that of `json`, which reads half a character.
    """
    body = text.encode(errors="surrogatepass") if isinstance(text, str) else bytes(text)
    body = body.removeprefix(BOM_UTF8)
    repaired = _ESCAPE.sub(lambda escape: _REPLACEMENT if escape[1] else escape[0], body)
    try:
        value = decode(repaired)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = orjson.loads(repaired)
    return value if repaired == body else loads(body)


class SerializedJson(ABC):
    """A value that is there as its JSON text; `to_json` puts that in its place."""

    @abstractmethod
    def json_text(self) -> bytes:
        """The text: UTF-8, no blanks, names in order."""


def to_json(
    value: object, default: Callable[[Any], object] | None = None, *, sort: bool = False, indent: bool = False
) -> bytes:
    """The JSON text of a value: UTF-8, no blanks; whole numbers of any size.

    default: makes JSON of what is none, as in `json.dumps`. sort: names in order. indent: for people, two blanks a
    level. Raises TypeError: the value holds what JSON cannot.
    """
    options = (orjson.OPT_SORT_KEYS if sort else 0) | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(value, partial(fragment, default=default) if default else fragment, options)
    except TypeError as error:
        if not _BEYOND_ORJSON.search(str(error)):
            raise
    try:
        return json.dumps(
            value,
            default=default or _small,
            sort_keys=sort,
            indent=2 if indent else None,
            separators=(",", ": " if indent else ":"),
            ensure_ascii=False,
            allow_nan=False,
        ).encode()
    except (ValueError, RecursionError) as error:
        raise TypeError(str(error)) from None


def fragment(value: object, default: Callable[[Any], object] | None = None) -> object:
    """What orjson writes for SerializedJson, and for anything else what `default` makes. Raises TypeError."""
    if isinstance(value, SerializedJson):
        return orjson.Fragment(value.json_text())
    if default is None:
        raise TypeError
    return default(value)


def _small(value: object) -> object:
    """A date, a UUID or the like as orjson writes it. Raises TypeError."""
    return json.loads(value.json_text()) if isinstance(value, SerializedJson) else orjson.loads(orjson.dumps(value))


def canonical(value: object) -> str:
    """Return the one JSON text of `value`: keys sorted, no blanks; equal values have equal texts.

    The type counts (`1` and `"1"` differ). Raises TypeError, which is a FatalError too, for what JSON cannot hold.
    """
    try:
        return to_json(value, sort=True).decode()
    except TypeError as error:
        raise NotJson(f"found a value that JSON cannot hold ({error})") from None


def copied(value: FieldValue) -> FieldValue:
    """The value with objects and lists of its own: who made it may go on to change those that it has.

    One of hundreds of levels stays as it is; what such a value may be is decided where it is written.
    """
    try:
        return _copied(value)
    except RecursionError:
        return value


def _copied(value: FieldValue) -> FieldValue:
    if type(value) in SCALARS:
        return value
    if type(value) is dict or isinstance(value, MutableMapping):
        return {name: _copied(item) for name, item in value.items()}
    if type(value) is list or (isinstance(value, MutableSequence) and type(value) is not bytearray):
        return [_copied(item) for item in value]
    if type(value) is tuple:
        return tuple(_copied(item) for item in value)
    return value


def dotted(keys: Sequence[str | int]) -> str:
    """A path inside a document as people write it: `streams[2].name`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def undotted(path: str) -> list[str | int]:
    """The keys of a path as `dotted` writes it; a name that has a dot itself is taken for several."""
    return [int(part[1:-1]) if part.startswith("[") else part for part in path.replace("[", ".[").split(".") if part]


def as_object(value: JsonValue) -> Mapping[str, JsonValue]:
    """A value that is to be an object of JSON; an empty one where it is something else."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: JsonValue) -> Sequence[JsonValue]:
    """A value that is to be a list of JSON; an empty one where it is something else."""
    return value if isinstance(value, list | tuple) else ()


def as_string(value: JsonValue) -> str:
    """A value that is to be a string; an empty one where it is something else."""
    return value if isinstance(value, str) else ""


def referenced(document: JsonValue, reference: JsonValue) -> JsonValue:
    """What a `$ref` such as `#/definitions/x` leads to in its own document: a JSON Pointer as a fragment (RFC 6901).

    None where it leads nowhere, or to another document.
    """
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    value = document
    for step in unquote(reference).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def branches_of(schema: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """The schemas that a schema is composed of or chooses from, each behind its place, such as `oneOf[0]`."""
    for keyword in ("oneOf", "anyOf", "allOf"):
        for number, branch in enumerate(as_list(as_object(schema).get(keyword))):
            yield f"{keyword}[{number}]", branch


def properties_of(schema: JsonValue) -> Mapping[str, JsonValue]:
    """The properties that a schema declares; one of another shape, such as `true`, declares none."""
    return as_object(as_object(schema).get("properties"))


def kinds_of(schema: JsonValue) -> list[str]:
    """The types that a schema names, without null."""
    kinds = as_object(schema).get("type")
    return [each for each in (as_list(kinds) or [kinds]) if isinstance(each, str) and each != "null"]


def json_kind(value: object) -> str:
    """What a value of JSON is, in words: `null`, `a string`."""
    return _KINDS.get(type(value), "a number")


_KINDS: Mapping[type, str] = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", dict: "an object"}


class NotJson(FatalError, TypeError):
    """A value, such as a key or a page token, is nested too deeply, or no JSON."""
