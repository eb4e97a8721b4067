"""A JSON Schema in plain form: references followed, `allOf` merged, `const` and `enum` as the types of their values.

Only what decides a column's type is looked at. Sources: JSON Schema draft 7 (and `$defs` and what stands beside a
`$ref` as of 2019-09).
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from reprlib import repr as shortened
from types import NoneType
from typing import TypeAlias
from urllib.parse import unquote

from cdk.base.keys import Keys, dotted
from cdk.base.logs import logger
from cdk.base.suggestions import did_you_mean
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
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_BY_NAME = ("properties", "definitions", "$defs")
_OF_SCHEMAS = (*_BY_NAME, "allOf", "anyOf", "oneOf")
_MOST = 5
"""Slips that a warning names."""

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


def warn_of_slips(stream: str, schema: Json) -> None:
    """Log, once for a stream, what of its schema no column can follow: nothing else would say so."""
    if found := slips(schema):
        more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
        logger.warning(
            "%s: its schema has slips: %s%s. Until they are mended such fields take any value",
            stream,
            "; ".join(found[:_MOST]),
            more,
        )


def slips(schema: Json) -> list[str]:
    """Types that there are not, properties that are no schemas, references that lead nowhere, each with its path."""
    found: list[str] = []
    stack: list[tuple[Keys, Json]] = [((), schema)]
    while stack:
        keys, part = stack.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, Mapping):
            found.append(f"{dotted(keys)} is {_shown(part)}, expected a schema such as {{'type': 'string'}}")
            continue
        found += _slips_at(keys, part, schema)
        for key in _OF_SCHEMAS:
            inner = part.get(key)
            if isinstance(inner, Mapping):
                stack += [((*keys, key, str(name)), value) for name, value in reversed(list(inner.items()))]
            elif isinstance(inner, list) and key not in _BY_NAME:
                stack += [((*keys, key, i), value) for i, value in reversed(list(enumerate(inner)))]
            elif inner is not None:
                found.append(f"{dotted((*keys, key))} is {_shown(inner)}, expected schemas")
        if isinstance(items := part.get("items"), Mapping):
            stack.append(((*keys, "items"), items))
    return found


def _slips_at(keys: Keys, part: Mapping[str, Json], root: Json) -> Iterator[str]:
    kind = part.get("type", [])
    for name in kind if isinstance(kind, list) else [kind]:
        if name not in _TYPES:
            yield f"{dotted((*keys, 'type'))} is {_shown(name)}{did_you_mean(str(name), _TYPES)}"
    if "$ref" in part and str(part["$ref"]).startswith("#") and _found(part["$ref"], root) is None:
        yield f"{dotted((*keys, '$ref'))} is {_shown(part['$ref'])}, which leads nowhere"


def _shown(value: Json) -> str:
    return shortened(value) if value is not None else "null"


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
