"""Examples: values that conform to a JSON Schema, for generated responses and configs."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

from cdk.base.values import JsonObject, JsonSchema, JsonValue, as_list, as_object, kinds_of
from cdk.rest.http.json_path import ANY

_OF_FORMAT = {"date-time": "2024-03-01T00:00:00Z", "date": "2024-03-01"}
_OF_TYPE: Mapping[str, JsonValue] = {"integer": 1, "number": 1.5, "boolean": True}
_COMPOSED = frozenset(("allOf", "oneOf", "anyOf"))
_FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
# fmt: off
_PATTERNED = (
    "2024-03-01T00:00:00Z", "2024-03-01T00:00:00.000Z", "2024-03-01", "2024-03-01 00:00:00", "20240301", "2024",
    "1", "a", "A1", "abc", "abc-1", "https://api.example.com", "api.example.com", "a@example.com", "12:00:00",
    "01-2024", "0" * 20, "a" * 32, "00000000-0000-4000-8000-000000000000", "P1D", "USD", "a,b",
)
# fmt: on
"""Strings that are tried when a schema has a pattern."""


def example_of(schema: JsonSchema, text: str = "1", chance: Random | None = None) -> JsonValue:
    """Return a value that conforms to a schema: always the same one, or a random one if `chance` is given.

    text: the value of strings without restrictions. Does not search for values if conditions of the schema are not met.
    """
    schema = _plain(schema, chance)
    if "const" in schema:
        return schema["const"]
    if choices := [each for each in as_list(schema.get("enum")) if each is not None]:
        return choices[0] if chance is None else chance.choice(choices)
    value: JsonValue = None
    match _kind(schema):
        case "object":
            value = _object(schema, chance)
        case "array":
            items = as_object(schema.get("items"))
            count = 1 if chance is None else chance.randint(1, 3)
            least, most = _bounds(schema, "minItems", "maxItems", count)
            value = [example_of(items, text, chance) for _ in range(max(least, min(count, most)))] if items else []
        case "string" | "":
            value = _string(schema, text, chance)
        case "integer" | "number" | "boolean" as kind:
            value = _number(schema, kind, chance)
        case _:
            pass
    return value


def inside(path: Sequence[str], records: Sequence[JsonValue]) -> JsonValue:
    """Return a body with records at a path, in which `*` stands for a list."""
    if not path:
        return list(records)
    name, *rest = path
    if name == ANY:
        return [inside(rest, [record]) for record in records] if rest else list(records)
    return {name: inside(rest, records)}


def _kind(schema: JsonSchema) -> str:
    kinds = kinds_of(schema)
    if not kinds and "type" in schema:
        return "null"
    return kinds[0] if kinds else "object" if "properties" in schema else "array" if "items" in schema else ""


def _plain(schema: JsonSchema, chance: Random | None) -> JsonSchema:
    """Return a schema merged with those it is composed of: all of `allOf`, and one of `oneOf` and of `anyOf`."""
    if not _COMPOSED & schema.keys():
        return schema
    parts = [as_object(part) for part in as_list(schema.get("allOf"))]
    for word in ("oneOf", "anyOf"):
        listed = [as_object(part) for part in as_list(schema.get(word))]
        options = [part for part in listed if part.get("type") != "null"] or listed
        parts += options[:1] if chance is None else chance.sample(options, min(1, len(options)))
    merged: JsonObject = {}
    for part in (schema, *(_plain(part, chance) for part in parts)):
        required = [*as_list(merged.get("required")), *as_list(part.get("required"))]
        properties = {**as_object(merged.get("properties")), **as_object(part.get("properties"))}
        merged = {**merged, **part, **({"required": required} if required else {})}
        merged |= {"properties": properties} if properties else {}
    return merged


def _object(schema: JsonSchema, chance: Random | None) -> JsonObject:
    built: JsonObject = {}
    for name, part in as_object(schema.get("properties")).items():
        nullable = "null" in as_list(as_object(part).get("type"))
        absent = chance is not None and nullable and chance.random() < 0.1  # noqa: PLR2004 - occasionally
        built[name] = None if absent else example_of(as_object(part), "1" if chance is None else name, chance)
    return built


def _number(schema: JsonSchema, kind: str, chance: Random | None) -> JsonValue:
    if kind == "boolean":
        return True if chance is None else chance.random() < 0.5  # noqa: PLR2004 - a coin toss
    usual = _OF_TYPE.get(kind, 1)
    low = max(_limit(schema, "minimum", 0), _limit(schema, "exclusiveMinimum", -1) + 1)
    high = min(_limit(schema, "maximum", low + 999), _limit(schema, "exclusiveMaximum", low + 1000) - 1)
    if chance is None:
        value = usual if isinstance(usual, float | int) and low <= usual <= high else low
    else:
        value = low + chance.random() * max(0, high - low)
    if step := _limit(schema, "multipleOf", 0):
        value = -(-low // step) * step + max(0, value - low) // step * step
    return int(value) if kind == "integer" else round(value, 2)


def _string(schema: JsonSchema, text: str, chance: Random | None) -> JsonValue:
    form = str(schema.get("format", ""))
    if pattern := schema.get("pattern"):
        samples = [*as_list(schema.get("examples")), schema.get("default"), *_PATTERNED]
        return next((each for each in samples if isinstance(each, str) and re.search(str(pattern), each)), text)
    if chance is None:
        value = _OF_FORMAT.get(form, text)
    else:
        timestamp = _FIRST_DAY + timedelta(seconds=chance.randrange(365 * 86400))
        value = _of_format(form, text, timestamp, chance)
    least, most = _bounds(schema, "minLength", "maxLength", len(value))
    return value.ljust(least, "x")[:most]


def _of_format(form: str, text: str, timestamp: datetime, chance: Random) -> str:
    number = chance.randrange(10_000)
    address = f"https://www.example.com/{text}/{number}"
    values = {
        "date-time": timestamp.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "date": timestamp.strftime("%Y-%m-%d"),
        "time": timestamp.strftime("%H:%M:%SZ"),
        "email": f"{text}{number}@example.com",
        "uri": address,
        "url": address,
        "hostname": f"h{number}.example.com",
        "ipv4": f"192.0.2.{number % 256}",
    }
    return str(UUID(int=chance.getrandbits(128), version=4)) if form == "uuid" else values.get(form, f"{text} {number}")


def _bounds(schema: JsonSchema, low: str, high: str, usual: int) -> tuple[int, int]:
    least = int(_limit(schema, low, 0))
    return least, int(_limit(schema, high, max(least, usual)))


def _limit(schema: JsonSchema, name: str, default: float) -> float:
    value = schema.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default
