"""Validates a config against its JSON Schema and describes every mismatch, without showing the contents of objects.

The library that implements all of JSON Schema takes a tenth of a second to import, more than everything else that
`check` does before its first request. It is used only where a quick check, limited to the keywords that most connectors
use, cannot confirm that the config is valid.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import ConfigError, FatalError
from cdk.base.schema_validator import DRAFT_7, SchemaValidator
from cdk.base.values import JSON_TYPES, PYTHON_TYPES, FieldValue, JsonSchema, Keys, canonical
from cdk.base.wording import TYPE_WORDS, did_you_mean, nearest, shown

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_TYPE_WORDS = {name: TYPE_WORDS[kind] for kind, name in JSON_TYPES.items() if kind in TYPE_WORDS} | {
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_CONSTANT_KEYWORDS = frozenset({"const", "enum"})

# fmt: off
_ANNOTATIONS = frozenset(
    (
        "$schema", "$id", "$comment", "title", "description", "default", "example", "examples", "format", "order",
        "group", "definitions", "readOnly", "writeOnly", "airbyte_secret", "airbyte_hidden", "pattern_descriptor",
        "display_type", "always_show", "multiline",
    )
)
# fmt: on
"""Keywords that do not restrict which values are allowed."""


def mismatches(config: object, schema: JsonSchema) -> list[tuple[Keys, str]]:
    """Return the mismatches of `config`: where each is, and what was found and expected there.

    The texts contain values: the caller must mask them. Raises ConfigError: when `schema` is not a valid JSON Schema.
    """
    if certainly_matches(config, schema):
        return []
    try:
        validator = SchemaValidator(schema, default=DRAFT_7)
    except ValueError as bad:
        raise ConfigError(f"the connector's config_schema is not a valid JSON Schema: {bad}") from bad
    # jsonschema reports an error for each missing name, and each yields texts for all of them: drop the duplicates.
    texts = (text for error in validator.mismatches(config) for leaf in _leaves(error) for text in _lines(leaf))
    return list(dict.fromkeys(texts))


def _leaves(error: "ValidationError") -> "Iterator[ValidationError]":
    """Yield the errors of the intended branch: one of its type, one with its constants, the one with fewest errors."""
    if not error.context:
        yield error
        return
    branches: dict[str | int, list[ValidationError]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)

    def unlikely(errors: "list[ValidationError]") -> tuple[bool, int, int, int]:
        other_type = sum(e.validator == "type" and e.instance is error.instance for e in errors)
        constants = sum(e.validator in _CONSTANT_KEYWORDS for e in errors)
        return any(e.validator_value == "null" for e in errors), other_type, constants, len(errors)

    for inner in min(branches.values(), key=unlikely):
        yield from _leaves(inner)


def _lines(error: "ValidationError") -> Iterator[tuple[Keys, str]]:
    keys: Keys = tuple(error.absolute_path)
    known: JsonSchema = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
    value: FieldValue = error.instance
    expected: FieldValue = error.validator_value
    match error.validator:
        case "required":
            for name in expected:
                if name not in value:
                    near = nearest(name, value.keys() - known.keys())
                    hint = f" ({near!r} is unknown)" if near else ""
                    yield (*keys, name), f"found nothing{hint}, expected a value"
        case "additionalProperties":
            for name in sorted(value.keys() - known.keys()):
                yield (*keys, name), f"is unknown{did_you_mean(name, known)}"
        case rule:
            yield keys, f"found {shown(value)}, expected {_expected(str(rule), expected)}"


def _expected(rule: str, limit: FieldValue) -> str:
    """What a keyword of JSON Schema with a limit expects, in words: `a string or null`, `'eu' or 'us'`, `minimum 5`."""
    match rule:
        case "type":
            names = limit if isinstance(limit, list) else [limit]
            return " or ".join(_TYPE_WORDS[name] for name in names)
        case "enum":
            return " or ".join(map(shown, limit))
        case "const":
            return shown(limit)
        case _:
            return f"{rule} {limit!r}"


def certainly_matches(config: object, schema: JsonSchema) -> bool:
    """Whether `config` certainly matches. False means unknown: the schema may have keywords unknown to this check."""
    for keyword, rule in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        check = _CHECKS.get(keyword)
        if check is None or not check(config, rule, schema):
            return False
    return True


def _has_type(value: object, names: object) -> bool:
    listed = names if isinstance(names, list) else [names]
    kinds = [kind for kind in listed if isinstance(kind, str) and kind in PYTHON_TYPES]
    if len(kinds) < len(listed):
        return False
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, PYTHON_TYPES[kind]) for kind in kinds)


def _same(value: object, other: object) -> bool:
    # Values that are equal in Python may differ in JSON, such as false and 0, also inside lists and objects; and the
    # other way round: an infinity is null in JSON.
    return value == other and canonical(value) == canonical(other)


def _properties(config: object, rule: object) -> bool:
    if not isinstance(rule, Mapping) or not isinstance(config, dict):
        return isinstance(rule, Mapping)
    return all(
        isinstance(part, Mapping) and (certainly_matches(config[name], part) if name in config else _is_plain(part))
        for name, part in rule.items()
    )


def _is_plain(schema: JsonSchema) -> bool:
    """Whether the schema of a missing property has valid types, so that an error in it is reported all the same."""
    kinds = schema.get("type", [])
    return all(kind in PYTHON_TYPES for kind in (kinds if isinstance(kinds, list) else [kinds]))


def _no_others(config: object, rule: object, schema: JsonSchema) -> bool:
    known = schema.get("properties")
    names = known.keys() if isinstance(known, Mapping) else set()
    return rule is True or (rule is False and isinstance(config, dict) and config.keys() <= names)


def _items(config: object, rule: object) -> bool:
    return isinstance(rule, Mapping) and (
        not isinstance(config, list) or all(certainly_matches(item, rule) for item in config)
    )


def _matches(config: object, pattern: object) -> bool:
    try:
        return not isinstance(config, str) or (isinstance(pattern, str) and Pattern(pattern).search(config) is not None)
    except FatalError:
        return False


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


_Check: TypeAlias = Callable[[object, object, JsonSchema], bool]

_CHECKS: Mapping[str, _Check] = {
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
