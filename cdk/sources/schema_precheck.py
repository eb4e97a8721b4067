"""A quick look whether a config fits its schema, for the schemas that most connectors have.

The library that knows all of JSON Schema takes a tenth of a second to import, more than all else that `check` does
before its first request. It is asked when this does not say yes.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeGuard

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import FatalError
from cdk.base.values import JsonSchema

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}

_NOTES = frozenset(
    (
        *("$schema", "$id", "$comment", "title", "description", "default", "example", "examples", "format", "order"),
        *("group", "definitions", "readOnly", "writeOnly", "airbyte_secret", "airbyte_hidden", "pattern_descriptor"),
        *("display_type", "always_show", "multiline"),
    )
)
"""Keywords that say nothing about which values are allowed."""


def plainly_fits(config: object, schema: JsonSchema) -> bool:
    """Whether `config` certainly fits. False says nothing: the schema may have keywords that are not known here."""
    for keyword, rule in schema.items():
        if keyword in _NOTES:
            continue
        look = _LOOKS.get(keyword)
        if look is None or not look(config, rule, schema):
            return False
    return True


def misfits(config: object, schema: JsonSchema) -> list[str]:
    """A sentence for each place of `config` that does not fit: see `schema_errors`, which is imported only in doubt."""
    if plainly_fits(config, schema):
        return []
    from cdk.sources import schema_errors  # noqa: PLC0415 - jsonschema costs more to import than all of `spec`

    return schema_errors.misfits(config, schema)


def _has_type(value: object, names: object) -> bool:
    listed = names if isinstance(names, list) else [names]
    kinds = [kind for kind in listed if isinstance(kind, str) and kind in _TYPES]
    if len(kinds) < len(listed):
        return False
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _TYPES[kind]) for kind in kinds)


def _same(value: object, other: object) -> bool:
    return type(value) is type(other) and bool(value == other)


def _properties(config: object, rule: object) -> bool:
    if not isinstance(rule, Mapping) or not isinstance(config, dict):
        return isinstance(rule, Mapping)
    return all(
        isinstance(part, Mapping) and (plainly_fits(config[name], part) if name in config else _is_plain(part))
        for name, part in rule.items()
    )


def _is_plain(schema: JsonSchema) -> bool:
    """Whether a schema that nothing is held against is one: a slip in it is told all the same."""
    kinds = schema.get("type", [])
    return all(kind in _TYPES for kind in (kinds if isinstance(kinds, list) else [kinds]))


def _no_others(config: object, rule: object, schema: JsonSchema) -> bool:
    known = schema.get("properties")
    names = known.keys() if isinstance(known, Mapping) else set()
    return rule is True or (rule is False and isinstance(config, dict) and config.keys() <= names)


def _items(config: object, rule: object) -> bool:
    return isinstance(rule, Mapping) and (
        not isinstance(config, list) or all(plainly_fits(item, rule) for item in config)
    )


def _matches(config: object, pattern: object) -> bool:
    try:
        return not isinstance(config, str) or (isinstance(pattern, str) and Pattern(pattern).search(config) is not None)
    except FatalError:
        return False


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


_Look: TypeAlias = Callable[[object, object, JsonSchema], bool]

_LOOKS: Mapping[str, _Look] = {
    "type": lambda config, rule, _: _has_type(config, rule),
    "required": lambda config, rule, _: (
        isinstance(rule, list) and (not isinstance(config, dict) or all(name in config for name in rule))
    ),
    "properties": lambda config, rule, _: _properties(config, rule),
    "additionalProperties": _no_others,
    "items": lambda config, rule, _: _items(config, rule),
    "enum": lambda config, rule, _: isinstance(rule, list) and any(_same(config, value) for value in rule),
    "const": lambda config, rule, _: _same(config, rule),
    "pattern": lambda config, rule, _: _matches(config, rule),
    "minimum": lambda config, rule, _: _is_number(rule) and (not _is_number(config) or config >= rule),
    "maximum": lambda config, rule, _: _is_number(rule) and (not _is_number(config) or config <= rule),
}
