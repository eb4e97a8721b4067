"""Prepares a config for its connector: migrates it, fills in defaults, and validates it against the schema.

Missing values come from the `default`s of the schema. Airbyte's form fills these into every config that is created
with it (`setDefaultValues` of its web application), and airbyte-cdk 7.39.1 into none. So manifests are written for
configs that have them.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets, secret_values
from cdk.base.values import FieldValue, JsonSchema, JsonValue, Location, canonical, properties_of
from cdk.sources.schema_check import certainly_matches, mismatches
from cdk.streams.source import Source

_MISSING = object()


def prepared_config(
    config: Mapping[str, JsonValue], source: Source, where: str, secrets: Secrets
) -> Mapping[str, JsonValue]:
    """Return the config that the streams of `source` receive; adds its secrets to `secrets`.

    where: the place of the config, or what errors call it.
    Raises ConfigError: listing every place that does not match the source's `config_schema`.
    """
    # Added first, so that errors of a migration are masked as well.
    secrets.add(*secret_values(source.config_schema, config))
    # Migrations run before the defaults: they must see what an old config lacks, and the config that they change is
    # saved, which must not contain defaults.
    config = source.transform(with_defaults(source.prepare(config), source.config_schema))
    check_config(config, source.config_schema, where, secrets)
    return config


def check_config(config: Mapping[str, JsonValue], schema: JsonSchema, where: str, secrets: Secrets) -> None:
    """Add the secrets of `config` to `secrets` and validate `config` against `schema`.

    where: the place of the config, or what errors call it.
    Raises ConfigError: listing every place that does not match `schema`.
    """
    secrets.add(*secret_values(schema, config))
    location = where if isinstance(where, Location) else Location(where)
    if texts := mismatches(config, schema):
        errors = [ConfigError(secrets.mask(text), path=location.below(*keys)) for keys, text in texts]
        raise ConfigError.together(errors)


def with_defaults(config: FieldValue, schema: JsonValue) -> FieldValue:
    """Return a copy of `config` in which the defaults of `schema` replace missing values.

    Descends into properties, items, `allOf`, and the one branch of a `oneOf` or `anyOf` whose constants the config
    has. Creates a missing object if defaults fill all of it, or if it is required and they fill what it requires.
    Skips defaults that are null or an empty string, for which the form fills in nothing, and defaults that do not
    match their own schema.

    Raises ConfigError: when the part of `schema` around a default is not a valid JSON Schema.
    """
    if not isinstance(schema, Mapping):
        # The schema is written by the connector's author and has not been validated yet.
        return config
    if isinstance(config, list):
        return [with_defaults(item, schema.get("items", {})) for item in config]
    if not isinstance(config, Mapping):
        return config
    filled = dict(config)
    for part in _parts(filled, schema):
        required = part.get("required")
        for name, inner in properties_of(part).items():
            if name in filled:
                filled[name] = with_defaults(filled[name], inner)
            elif (value := _default(inner, required=isinstance(required, list) and name in required)) is not _MISSING:
                filled[name] = value
    return filled


def _parts(config: Mapping[str, FieldValue], schema: JsonSchema) -> Iterator[JsonSchema]:
    """Yield the schemas that apply to an object: `schema`, and its branches that the config selects."""
    yield schema
    for keyword in ("allOf", "oneOf", "anyOf"):
        branches = schema.get(keyword)
        known = [branch for branch in branches if isinstance(branch, Mapping)] if isinstance(branches, list) else []
        selected = known if keyword == "allOf" else [branch for branch in known if _selects(config, branch)]
        if keyword == "allOf" or len(selected) == 1:
            for branch in selected:
                yield from _parts(config, branch)


def _selects(config: Mapping[str, FieldValue], branch: JsonSchema) -> bool:
    """Whether the config has at least one of the constants of `branch`, and no other value in place of one."""
    constants = {name: only for name, part in properties_of(branch).items() for only in _only_values(part)}
    return any(name in config for name in constants) and all(
        config[name] == only for name, only in constants.items() if name in config
    )


def _only_values(schema: FieldValue) -> Iterator[FieldValue]:
    if isinstance(schema, Mapping):
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and len(values) == 1:
            yield values[0]


def _default(schema: FieldValue, *, required: bool) -> FieldValue:
    """Return the default for a missing value, or `_MISSING` if there is none."""
    if not isinstance(schema, Mapping):
        return _MISSING
    if "default" in schema:
        value = with_defaults(deepcopy(schema["default"]), schema)
    else:
        value = with_defaults({}, schema)
        if not value or not (required or value.keys() >= properties_of(schema).keys()):
            return _MISSING
    return value if value is not None and value != "" and _fits(value, schema) else _MISSING


def _fits(value: FieldValue, schema: JsonSchema) -> bool:
    if '"$ref"' in canonical(schema):
        # The target of the reference is elsewhere in the whole schema, which is not available here.
        return certainly_matches(value, schema)
    return not mismatches(value, schema)
