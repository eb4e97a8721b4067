"""Infers the JSON type of values without a schema: the narrowest type that holds all of them without loss.

A string stays a string, whatever it looks like: a zip code is not a number, and an ISO 8601 timestamp retains its time
zone, digits and `Z` only as a string; a schema may declare more. The type does not depend on the order of the values,
so it is the same however they are split into pages.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from types import NoneType
from typing import Literal, TypeAlias

from cdk.base.first_use import lazy_pattern
from cdk.base.records.exact_json import WrittenNumber
from cdk.base.records.plain_values import plain
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import JsonObject, Record

JsonType: TypeAlias = Literal["boolean", "integer", "number", "string", "object", "array", "mixed"]

EXACT = 2**53
"""Up to this number, a double represents every integer."""

_MOST_DIGITS = 40
_DAY = r"\d{4}-\d{2}-\d{2}"
_FORMATS = {
    "date": lazy_pattern(_DAY),
    "date-time": lazy_pattern(rf"{_DAY}T\d{{2}}:\d{{2}}:\d{{2}}(?:\.\d{{1,6}})?(?:Z|\+00:00)"),
}
_SIMPLE: dict[type, JsonType] = {bool: "boolean", str: "string", dict: "object", list: "array"}


def inferred_type(values: Iterable[object]) -> JsonType | None:
    """The type of all values; None if they are all null.

    integer: all fit 64 bits. number: a double represents each. mixed: only text holds all of them. Raises NotJson.
    """
    present = [_number(plain(value)) for value in values if value is not None]
    types = set(map(type, present))
    types.discard(NoneType)
    if not types:
        return None
    if types <= {int, float}:
        integers = [value for value in present if type(value) is int]
        if float in types:
            return "number" if all(-EXACT <= value <= EXACT for value in integers) else "mixed"
        return "integer" if all(-(2**63) <= value < 2**63 for value in integers) else "mixed"
    return _SIMPLE.get(types.pop(), "mixed") if len(types) == 1 else "mixed"


def _number(value: object) -> object:
    """Convert a decimal to an integer or a float, if that loses no digit."""
    if isinstance(value, WrittenNumber):
        value = value.exact
    if not isinstance(value, Decimal):
        return value
    text = str(value)
    if text.lstrip("-").isdigit():
        return int(text) if len(text) <= _MOST_DIGITS else value
    number = float(text)
    # A fraction is compared by its `repr`; an integer by its exact value, since a double rounds most long ones.
    is_integer = value == value.to_integral_value()
    return number if (Decimal(number) if is_integer else Decimal(repr(number))) == value else value


def inferred_schema(records: Iterable[Record]) -> JsonObject:
    """The JSON Schema of each field in the records, in order of appearance. Raises NotJson.

    Objects and arrays are not described any further, because the first records tell little about the contents of later
    ones. A field that is always null is left out. Fields that become text columns also accept strings. Strings that are
    all dates, or all timestamps in UTC, get that format: a timestamp column holds each of them without loss.
    """
    fields: dict[str, list[object]] = {}
    for record in records:
        for name, value in record.items():
            fields.setdefault(name, []).append(value)
    return {name: {"type": types, **_format(values)} for name, values in fields.items() if (types := _types(values))}


def _format(values: Iterable[object]) -> JsonObject:
    present = [value for value in values if value is not None]
    for name, pattern in _FORMATS.items():
        if all(isinstance(value, str) and pattern.fullmatch(value) and parse_timestamp(value, ()) for value in present):
            return {"format": name}
    return {}


def _types(values: Sequence[object]) -> list[str]:
    kind = inferred_type(values)
    if kind != "mixed":
        return [] if kind is None else ["null", kind]
    # A single number is mixed if neither an integer nor a double of 64 bits holds it.
    each = {inferred_type([value]) for value in values if value is not None}
    return [
        "null",
        *sorted({"string", *("number" if kind_of_value == "mixed" else str(kind_of_value) for kind_of_value in each)}),
    ]
