"""A JSON Schema in plain form: references followed, `allOf` merged, `const` and `enum` as the types of their values.

Only what decides a column's type is looked at. Sources: JSON Schema draft 7 (and `$defs` and what stands beside a
`$ref` as of 2019-09).
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from reprlib import repr as shortened
from typing import TypeAlias

from cdk.base.logs import logger
from cdk.base.values import JSON_TYPES, JsonValue, Keys, dotted, referenced
from cdk.base.wording import did_you_mean, first_few

Plain: TypeAlias = Mapping[str, JsonValue]
"""A schema without `$ref`, `allOf`, `const` and `enum` at its top; what lies below is as it was written."""

# References that lead to references, and `allOf` in `allOf`. More than that is a circle.
_HOPS = 32
_BY_NAME = ("properties", "definitions", "$defs")
_OF_SCHEMAS = (*_BY_NAME, "allOf", "anyOf", "oneOf")
_MOST = 5
"""Slips that a warning names."""

_MERGED = ("type", "properties", "items")
_EXCLUSIVE = ("format", "airbyte_type", "oneOf", "anyOf")


def plain(declared: JsonValue, root: JsonValue, hops: int = 0) -> Plain | None:
    """What `declared` says, in plain form; None where that cannot be told.

    That is: no schema, a reference that leads nowhere, out of `root` or in a circle, or parts that contradict each
    other. `{}` and `true` say nothing, and allow everything.
    """
    if declared is True:
        return {}
    if not isinstance(declared, Mapping) or hops > _HOPS:
        return None
    resolved: Plain | None = _named(declared)
    if "$ref" in declared:
        resolved = both(resolved, plain(referenced(root, declared["$ref"]), root, hops + 1))
    if "allOf" in declared:
        parts = declared["allOf"]
        if not isinstance(parts, list):
            return None
        resolved = reduce(both, (plain(part, root, hops + 1) for part in parts), resolved)
    return resolved


def both(first: Plain | None, second: Plain | None) -> Plain | None:
    """What holds for a value that obeys two schemas; None where that cannot be told."""
    if first is None or second is None:
        return None
    if any(first[key] != second[key] for key in _EXCLUSIVE if key in first and key in second):
        return None
    merged = {**first, **second}
    for key in _MERGED:
        if key in first and key in second and first[key] != second[key]:
            merged[key] = _types(first[key], second[key]) if key == "type" else _parts(key, first[key], second[key])
    return merged if merged.get("type") != [] else None


def warn_of_slips(stream: str, schema: JsonValue) -> None:
    """Log, once for a stream, what of its schema no column can follow: nothing else would say so."""
    if problems := slips(schema):
        logger.warning(
            "%s: its schema has slips: %s. Until they are mended such fields take any value",
            stream,
            "; ".join(first_few(problems, _MOST)),
        )


def slips(schema: JsonValue) -> list[str]:
    """Types that there are not, properties that are no schemas, references that lead nowhere, each with its path."""
    problems: list[str] = []
    stack: list[tuple[Keys, JsonValue]] = [((), schema)]
    while stack:
        keys, part = stack.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, Mapping):
            problems.append(f"{dotted(keys)} is {_shown(part)}, expected a schema such as {{'type': 'string'}}")
            continue
        problems += _slips_at(keys, part, schema)
        for key in _OF_SCHEMAS:
            inner = part.get(key)
            if isinstance(inner, Mapping):
                stack += [((*keys, key, str(name)), value) for name, value in reversed(list(inner.items()))]
            elif isinstance(inner, list) and key not in _BY_NAME:
                stack += [((*keys, key, i), value) for i, value in reversed(list(enumerate(inner)))]
            elif inner is not None:
                problems.append(f"{dotted((*keys, key))} is {_shown(inner)}, expected schemas")
        if isinstance(items := part.get("items"), Mapping):
            stack.append(((*keys, "items"), items))
    return problems


def _slips_at(keys: Keys, part: Mapping[str, JsonValue], root: JsonValue) -> Iterator[str]:
    kind = part.get("type", [])
    for name in kind if isinstance(kind, list) else [kind]:
        if name not in JSON_TYPES.values():
            yield f"{dotted((*keys, 'type'))} is {_shown(name)}{did_you_mean(str(name), JSON_TYPES.values())}"
    if "$ref" in part and str(part["$ref"]).startswith("#") and referenced(root, part["$ref"]) is None:
        yield f"{dotted((*keys, '$ref'))} is {_shown(part['$ref'])}, which leads nowhere"


def _shown(value: JsonValue) -> str:
    return shortened(value) if value is not None else "null"


def type_names(kind: JsonValue) -> list[str]:
    """The names in a schema's `type`, sorted; none when it holds something else than names."""
    kinds = kind if isinstance(kind, list) else [kind]
    return sorted({str(name) for name in kinds}) if all(isinstance(name, str) for name in kinds) else []


def _named(declared: Mapping[str, JsonValue]) -> Plain:
    """The schema by its types: values that it lists stand for theirs."""
    typed = {key: value for key, value in declared.items() if key not in {"$ref", "allOf", "const", "enum"}}
    if "type" not in declared and ("const" in declared or "enum" in declared):
        values = [declared["const"]] if "const" in declared else declared["enum"]
        typed["type"] = (
            sorted({JSON_TYPES.get(type(value), "object") for value in values}) if isinstance(values, list) else []
        )
    return typed


def _types(first: JsonValue, second: JsonValue) -> list[str]:
    first_names, second_names = set(type_names(first)), set(type_names(second))
    # Each integer is a number.
    has_integers = any(
        "integer" in these and "number" in those
        for these, those in ((first_names, second_names), (second_names, first_names))
    )
    return sorted(first_names & second_names | ({"integer"} if has_integers else set()))


def _parts(key: str, first: JsonValue, second: JsonValue) -> JsonValue:
    if key == "items":
        return {"allOf": [first, second]}
    if not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        return None
    shared = {
        name: {"allOf": [first[name], second[name]]} for name in first if name in second and first[name] != second[name]
    }
    return {**first, **second, **shared}
