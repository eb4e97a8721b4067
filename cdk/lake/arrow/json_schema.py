"""JSON Schema in plain form: references resolved, `allOf` merged, `const` and `enum` replaced by their values' types.

Considers only what decides a column's type. Sources: JSON Schema draft 7 (and, as of 2019-09, `$defs` and keywords
beside a `$ref`).
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from reprlib import repr as shortened
from typing import TypeAlias

from cdk.base.logs import logger
from cdk.base.values import JSON_TYPES, JsonValue, Keys, dotted, referenced
from cdk.base.wording import did_you_mean, first_few

Plain: TypeAlias = Mapping[str, JsonValue]
"""A schema without `$ref`, `allOf`, `const` and `enum` at its top level; lower levels are unchanged."""

# Maximum depth of references to references, and of `allOf` in `allOf`. Anything deeper is considered a cycle.
_HOPS = 32
_BY_NAME = ("properties", "definitions", "$defs")
_OF_SCHEMAS = (*_BY_NAME, "allOf", "anyOf", "oneOf")
_MOST = 5
"""How many mistakes a warning lists."""

_MERGED = ("type", "properties", "items")
_EXCLUSIVE = ("format", "airbyte_type", "oneOf", "anyOf")


def plain(declared: JsonValue, root: JsonValue, hops: int = 0) -> Plain | None:
    """Return the schema `declared` in plain form; None if that is impossible.

    That is the case if it is not a schema, has a reference to nothing, outside `root` or in a cycle, or has parts that
    contradict each other. `{}` and `true` allow everything.
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
    """Return the schema of values that satisfy both schemas; None if that cannot be determined."""
    if first is None or second is None:
        return None
    if any(first[key] != second[key] for key in _EXCLUSIVE if key in first and key in second):
        return None
    merged = {**first, **second}
    for key in _MERGED:
        if key in first and key in second and first[key] != second[key]:
            merged[key] = _types(first[key], second[key]) if key == "type" else _parts(key, first[key], second[key])
    return merged if merged.get("type") != [] else None


def warn_of_schema_mistakes(stream: str, schema: JsonValue) -> None:
    """Log the mistakes in a stream's schema, once per stream: nothing else would report them."""
    if problems := schema_mistakes(schema):
        text = "%s: its schema has mistakes: %s. Until they are corrected, these fields accept any value"
        logger.warning(text, stream, "; ".join(first_few(problems, _MOST)))


def schema_mistakes(schema: JsonValue) -> list[str]:
    """Return a schema's mistakes with paths: unknown types, properties that are no schemas, dangling references."""
    problems: list[str] = []
    stack: list[tuple[Keys, JsonValue]] = [((), schema)]
    while stack:
        keys, part = stack.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, Mapping):
            problems.append(f"{dotted(keys)} is {_shown(part)}, expected a schema such as {{'type': 'string'}}")
            continue
        problems += _mistakes_at(keys, part, schema)
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


def _mistakes_at(keys: Keys, part: Mapping[str, JsonValue], root: JsonValue) -> Iterator[str]:
    kind = part.get("type", [])
    for name in kind if isinstance(kind, list) else [kind]:
        if name not in JSON_TYPES.values():
            yield f"{dotted((*keys, 'type'))} is {_shown(name)}{did_you_mean(str(name), JSON_TYPES.values())}"
    if "$ref" in part and str(part["$ref"]).startswith("#") and referenced(root, part["$ref"]) is None:
        yield f"{dotted((*keys, '$ref'))} is {_shown(part['$ref'])}, which does not exist in the schema"


def _shown(value: JsonValue) -> str:
    return shortened(value) if value is not None else "null"


def type_names(kind: JsonValue) -> list[str]:
    """Return the names in a schema's `type`, sorted; empty if it has anything other than names."""
    kinds = kind if isinstance(kind, list) else [kind]
    return sorted({str(name) for name in kinds}) if all(isinstance(name, str) for name in kinds) else []


def _named(declared: Mapping[str, JsonValue]) -> Plain:
    """Return the schema with `const` and `enum` replaced by the types of their values."""
    typed = {key: value for key, value in declared.items() if key not in {"$ref", "allOf", "const", "enum"}}
    if "type" not in declared and ("const" in declared or "enum" in declared):
        values = [declared["const"]] if "const" in declared else declared["enum"]
        typed["type"] = (
            sorted({JSON_TYPES.get(type(value), "object") for value in values}) if isinstance(values, list) else []
        )
    return typed


def _types(first: JsonValue, second: JsonValue) -> list[str]:
    first_names, second_names = set(type_names(first)), set(type_names(second))
    # Every integer is a number.
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
