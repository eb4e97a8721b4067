"""A JSON Schema in plain form: references followed, `allOf` merged, `const` and `enum` as the types of their values.

Only what decides a column's type is looked at. Sources: JSON Schema draft 7 (and `$defs` and what stands beside a
`$ref` as of 2019-09).
"""

from collections.abc import Mapping
from functools import reduce
from types import NoneType
from typing import TypeAlias
from urllib.parse import unquote

from cdk.base.values import Json

Plain: TypeAlias = Mapping[str, Json]
"""A schema without `$ref`, `allOf`, `const` and `enum` at its top; what lies below is as it was written."""

# References that lead to references, and `allOf` in `allOf`. More than that is a circle.
_HOPS = 32
_NAMES: Mapping[type, str] = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
}
_MERGED = ("type", "properties", "items")
_ONE_SAYS = ("format", "airbyte_type", "oneOf", "anyOf")


def plain(declared: Json, root: Json, hops: int = 0) -> Plain | None:
    """What `declared` says, in plain form; None where that cannot be told.

    That is: no schema, a reference that leads nowhere, out of `root` or in a circle, or parts that contradict each
    other. `{}` and `true` say nothing, and allow everything.
    """
    if declared is True:
        return {}
    if not isinstance(declared, Mapping) or hops > _HOPS:
        return None
    said: Plain | None = _named(declared)
    if "$ref" in declared:
        said = both(said, plain(_found(declared["$ref"], root), root, hops + 1))
    if "allOf" in declared:
        parts = declared["allOf"]
        if not isinstance(parts, list):
            return None
        said = reduce(both, (plain(part, root, hops + 1) for part in parts), said)
    return said


def both(one: Plain | None, other: Plain | None) -> Plain | None:
    """What holds for a value that obeys two schemas; None where that cannot be told."""
    if one is None or other is None:
        return None
    if any(one[key] != other[key] for key in _ONE_SAYS if key in one and key in other):
        return None
    merged = {**one, **other}
    for key in _MERGED:
        if key in one and key in other and one[key] != other[key]:
            merged[key] = _types(one[key], other[key]) if key == "type" else _parts(key, one[key], other[key])
    return merged if merged.get("type") != [] else None


def type_names(kind: Json) -> list[str]:
    """The names in a schema's `type`, sorted; none when it holds something else than names."""
    kinds = kind if isinstance(kind, list) else [kind]
    return sorted(set(kinds)) if all(isinstance(name, str) for name in kinds) else []


def _named(declared: Mapping[str, Json]) -> Plain:
    """The schema by its types: values that it lists stand for theirs."""
    said = {key: value for key, value in declared.items() if key not in {"$ref", "allOf", "const", "enum"}}
    if "type" not in declared and ("const" in declared or "enum" in declared):
        values = [declared["const"]] if "const" in declared else declared["enum"]
        said["type"] = (
            sorted({_NAMES.get(type(value), "object") for value in values}) if isinstance(values, list) else []
        )
    return said


def _types(one: Json, other: Json) -> list[str]:
    names, others = set(type_names(one)), set(type_names(other))
    # Each integer is a number.
    whole = any("integer" in these and "number" in those for these, those in ((names, others), (others, names)))
    return sorted(names & others | ({"integer"} if whole else set()))


def _parts(key: str, one: Json, other: Json) -> Json:
    if key == "items":
        return {"allOf": [one, other]}
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return None
    shared = {name: {"allOf": [one[name], other[name]]} for name in one if name in other and one[name] != other[name]}
    return {**one, **other, **shared}


def _found(reference: Json, root: Json) -> Json:
    """What a JSON Pointer leads to (RFC 6901), None when it leads nowhere or to another document."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found = root
    for step in unquote(reference).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found
