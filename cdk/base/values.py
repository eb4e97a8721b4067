"""The plain values used everywhere: JSON, records, their text and their canonical text."""

import json
import re
from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from datetime import date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import unquote

import msgspec
import orjson

from cdk.base.errors import FatalError
from cdk.base.first_use import lazy_pattern

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
    """A JSON value, as parsers of JSON and YAML return it: objects are dicts, arrays are lists."""
else:  # pydantic would copy such a value level by level, to validate what a parser has just built
    JsonValue = Any

JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object. Functions that only read one accept a `Mapping[str, JsonValue]`, which includes `dict[str, str]`."""

FieldValue: TypeAlias = Any
"""A value of a record, a cursor, a partition or a config. `Any`, since the reader of a field knows its type."""

Stored: TypeAlias = Any
"""A JSON value that was stored earlier. `Any`, since the code that reads it knows what it stored."""

Json: TypeAlias = Any
"""Anything that `json.loads` can return, before any code has checked its type."""

Record: TypeAlias = Mapping[str, FieldValue]
"""One row as the source returned it: a JSON object."""

JsonSchema: TypeAlias = Mapping[str, JsonValue]
"""A JSON Schema document (draft 7, as the Airbyte protocol uses it)."""

Keys: TypeAlias = tuple[str | int, ...]
"""The names and indexes that lead from the root of a document to a value."""

JSON_TYPES: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
"""The JSON Schema type of each Python type."""

SCALARS = frozenset((type(None), bool, int, float, str, bytes, datetime, date))
"""Types of values that contain no other values and are immutable."""

PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {name: (kind,) for kind, name in JSON_TYPES.items()} | {
    "number": (float, int)
}
"""The Python types of each JSON Schema type. A boolean is not an integer."""

SIMPLE_TYPES = ("string", "integer", "number", "boolean")
"""The JSON Schema types without inner values, except null."""

# An escape in JSON text; the group matches a lone surrogate, which is half a character.
_ESCAPE = lazy_pattern(
    rb"\\(?:u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_REPLACEMENT = rb"\ufffd"

# The messages of orjson about integers of more than 64 bits, about more than 254 levels, and about half a character.
_BEYOND_ORJSON = lazy_pattern("64-bit|[Rr]ecursion|surrogates")

_decode = msgspec.json.Decoder().decode


def from_json(text: bytes | str) -> JsonValue:
    r"""Parse a JSON text. Integers keep every digit; a leading byte order mark is skipped.

    Half a character, as in a truncated emoji (`\ud83d`), becomes a lone surrogate, as with `json.loads`: the grammar of
    JSON allows it, so one such record is no reason to reject the rest.
    Raises json.JSONDecodeError, with the position that orjson reports; orjson does not parse the values, because it
    turns integers of more than 64 bits into floats.
    """
    try:
        value: JsonValue = _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return from_odd_json(text, _decode, json.loads)
    return value


def is_json(text: bytes | str) -> bool:
    """Whether `from_json` can parse a text."""
    try:
        from_json(text)
    except json.JSONDecodeError:
        return False
    return True


def from_odd_json(
    text: bytes | str, decode: Callable[[bytes], JsonValue], loads: Callable[[bytes], JsonValue]
) -> JsonValue:
    """Parse JSON that msgspec rejects: after a byte order mark, or with half a character.

    decode: msgspec's parser. loads: the parser of `json`, which accepts half a character.
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
    """A value that exists as JSON text, which `to_json` inserts as it is."""

    @abstractmethod
    def json_text(self) -> bytes:
        """The text: UTF-8, without whitespace, names sorted."""


def to_json(
    value: object,
    default: Callable[[Any], object] | None = None,
    *,
    sort: bool = False,
    indent: bool = False,
    strict: bool = False,
) -> bytes:
    """The JSON text of a value: UTF-8, without whitespace; integers of any size.

    default: converts values that are not JSON, as in `json.dumps`. sort: sort names. indent: for people, two spaces per
    level. strict: refuse half a character, which is otherwise written as an escape, for `from_json`.
    Raises TypeError: the value contains something that JSON cannot represent.
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
            default=partial(_plain, default=default),
            sort_keys=sort,
            indent=2 if indent else None,
            separators=(",", ": " if indent else ":"),
            ensure_ascii=False,
            allow_nan=False,
        ).encode(errors="strict" if strict else "backslashreplace")
    except (ValueError, RecursionError) as error:
        raise TypeError(str(error)) from None


def fragment(value: object, default: Callable[[Any], object] | None = None) -> object:
    """Convert a value for orjson: SerializedJson to its text, anything else by `default`. Raises TypeError."""
    if isinstance(value, SerializedJson):
        return orjson.Fragment(value.json_text())
    if default is None:
        raise TypeError
    return default(value)


def _plain(value: object, default: Callable[[Any], object] | None) -> object:
    """Convert a value for `json` as orjson does: dates and UUIDs to text, others by `default`. Raises TypeError."""
    if isinstance(value, SerializedJson):
        return json.loads(value.json_text())
    try:
        return orjson.loads(orjson.dumps(value))
    except TypeError:
        if default is None:
            raise
        return default(value)


def canonical(value: object) -> str:
    """Return the canonical JSON text of `value`: keys sorted, no whitespace; equal values have equal texts.

    Types count (`1` and `"1"` differ). Raises NotJson: JSON cannot represent the value.
    """
    try:
        return to_json(value, sort=True, strict=True).decode()
    except TypeError as error:
        raise NotJson(f"found a value that JSON cannot hold ({error})") from None


def copied(value: FieldValue) -> FieldValue:
    """A deep copy of objects and lists, independent of further changes by the code that made the value.

    A value of hundreds of levels is returned as it is; it is judged where it is written.
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
    return tuple(_copied(item) for item in value) if type(value) is tuple else value


def map_strings(value: FieldValue, change: Callable[[str], str], *, names: bool = False) -> FieldValue:
    """A copy of a JSON value with `change` applied to each string in it; with `names`, to the names of fields as well.

    Tuples become lists. Values that are not JSON are kept.
    """
    match value:
        case str():
            return change(value)
        case Mapping():
            return {
                change(name) if names else name: map_strings(item, change, names=names) for name, item in value.items()
            }
        case list() | tuple():
            return [map_strings(item, change, names=names) for item in value]
        case _:
            return value


def map_leaves(value: FieldValue, change: Callable[[Keys, FieldValue], FieldValue], keys: Keys = ()) -> FieldValue:
    """A copy of a JSON value with `change` applied to each value that contains no others, which follows its path.

    Tuples become lists. keys: the path that leads to `value`.
    """
    match value:
        case Mapping():
            return {name: map_leaves(item, change, (*keys, name)) for name, item in value.items()}
        case list() | tuple():
            return [map_leaves(item, change, (*keys, number)) for number, item in enumerate(value)]
        case _:
            return change(keys, value)


def walk(value: JsonValue, keys: Keys = ()) -> Iterator[tuple[Keys, JsonValue]]:
    """The values in a JSON value that contain no others, each with the names and indexes that lead to it, in order.

    Empty objects and lists are left out. keys: those that lead to `value`.
    """
    match value:
        case Mapping():
            for name, item in value.items():
                yield from walk(item, (*keys, name))
        case list() | tuple():
            for number, item in enumerate(value):
                yield from walk(item, (*keys, number))
        case _:
            yield keys, value


def is_deeper(value: FieldValue, levels: int) -> bool:
    """Whether objects and lists in a value are nested deeper than so many levels. Does not recurse."""
    level = [value]
    for _ in range(levels + 1):
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            return False
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
    return True


def dotted(keys: Sequence[str | int]) -> str:
    """A path inside a document as people write it: `streams[2].name`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


class Location(str):
    """The location of a value, as far as it is known. It is a string, so that messages begin with it.

    file: empty for the file that the caller has read. keys: of the value in it; empty for the whole file.
    line, column: counted from 1; None if unknown.
    """

    __slots__ = ("column", "file", "keys", "line")

    file: str
    keys: Keys
    line: int | None
    column: int | None

    def __new__(
        cls, file: str = "", keys: Sequence[str | int] = (), line: int | None = None, column: int | None = None
    ) -> Self:
        numbered = ":".join(str(part) for part in (file, line, column) if part)
        location = super().__new__(cls, (" " if line else ": ").join(filter(None, (numbered, dotted(keys)))))
        location.file, location.keys, location.line, location.column = file, tuple(keys), line, column
        return location

    def below(self, *keys: str | int) -> "Location":
        """The location of a value below this one."""
        return Location(self.file, (*self.keys, *keys), self.line)


def as_object(value: JsonValue) -> Mapping[str, JsonValue]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: JsonValue) -> Sequence[JsonValue]:
    """The value if it is a JSON list, else an empty one."""
    return value if isinstance(value, list | tuple) else ()


def as_string(value: JsonValue) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def referenced(document: JsonValue, reference: JsonValue) -> JsonValue:
    """Resolve a `$ref` such as `#/definitions/x` in its own document: a JSON Pointer as a URI fragment (RFC 6901).

    None if it leads nowhere, or to another document.
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
    """The subschemas under `oneOf`, `anyOf` and `allOf`, each with its path, such as `oneOf[0]`."""
    for keyword in ("oneOf", "anyOf", "allOf"):
        for number, branch in enumerate(as_list(as_object(schema).get(keyword))):
            yield f"{keyword}[{number}]", branch


def properties_of(schema: JsonValue) -> Mapping[str, JsonValue]:
    """The properties that a schema declares; empty for a schema that is not an object, such as `true`."""
    return as_object(as_object(schema).get("properties"))


def kinds_of(schema: JsonValue) -> list[str]:
    """The types that a schema names, without null."""
    kinds = as_object(schema).get("type")
    return [each for each in (as_list(kinds) or [kinds]) if isinstance(each, str) and each != "null"]


def scalar_type(value: JsonValue) -> str:
    """The JSON Schema type of a number or a boolean; `string` for all other values."""
    return JSON_TYPES[type(value)] if isinstance(value, int | float) else "string"


def json_kind(value: object) -> str:
    """The kind of a JSON value in words: `null`, `a string`."""
    return _KINDS.get(type(value), "a number")


_KINDS: Mapping[type, str] = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", dict: "an object"}


class NotJson(FatalError, TypeError):
    """A value, such as a key or a page token, is not JSON, or nested too deeply."""
