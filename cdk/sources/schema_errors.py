"""A config against its JSON Schema: every place that does not fit, in words, without showing what is inside objects."""

from collections.abc import Iterator, Mapping

from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend, validator_for

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import ConfigError
from cdk.base.suggestions import did_you_mean, nearest
from cdk.base.validation_messages import shown
from cdk.base.values import FieldValue, JsonSchema, Keys, dotted

_CHOOSING = frozenset({"const", "enum"})


def misfits(config: object, schema: JsonSchema) -> list[str]:
    """One text for each place of `config` that does not fit: where, what was found, what was expected.

    Values appear in it: mask them. Raises ConfigError: `schema` itself is no JSON Schema.
    """
    schema = dict(schema)
    checker = validator_for(schema, default=Draft7Validator)
    try:
        checker.check_schema(schema)
    except SchemaError as bad:
        raise ConfigError(f"the connector's config_schema is no JSON Schema: {bad.message}") from bad
    bounded = extend(checker, {"pattern": _pattern})  # type: ignore[no-untyped-call] # not typed there
    errors = bounded(schema).iter_errors(config)
    # jsonschema gives an error for each missing name; each tells of all of them.
    return list(dict.fromkeys(text for error in errors for leaf in _leaves(error) for text in _lines(leaf)))


def _pattern(_: object, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
    """The keyword `pattern`, in limited time."""
    if isinstance(value, str) and Pattern(pattern).search(value) is None:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    """What is wrong with the branch that was meant: the one whose constants fit, else the one with fewest errors."""
    if not error.context:
        yield error
        return
    branches: dict[str | int, list[ValidationError]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    for inner in min(
        branches.values(), key=lambda errors: (sum(e.validator in _CHOOSING for e in errors), len(errors))
    ):
        yield from _leaves(inner)


def _lines(error: ValidationError) -> Iterator[str]:
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
                    yield f"{dotted((*keys, name))}: found nothing{hint}, expected a value"
        case "additionalProperties":
            for name in sorted(value.keys() - known.keys()):
                yield f"{dotted((*keys, name))}: is unknown{did_you_mean(name, known)}"
        case rule:
            yield f"{dotted(keys) or 'the config'}: found {shown(value)}, expected {rule} {expected!r}"
