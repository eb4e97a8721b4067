"""A config as its connector takes it: brought up to date, filled in, and held against the schema before it is used.

It is filled in by the `default`s of its schema. Airbyte's form puts them into every config that is made with it
(`setDefaultValues` of its web application), and airbyte-cdk 7.39.1 into none. So a manifest is written for configs that
have them.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets, secret_values
from cdk.base.values import FieldValue, JsonSchema, JsonValue, canonical, properties_of
from cdk.sources.schema_check import misfits, plainly_fits
from cdk.streams.source import Source

_MISSING = object()


def prepared_config(
    config: Mapping[str, JsonValue], source: Source, where: str, secrets: Secrets
) -> Mapping[str, JsonValue]:
    """The config that the streams of `source` see; its secrets are added to `secrets`.

    where: what errors call the config, such as the name of its file.
    Raises ConfigError with every place that does not fit the source's `config_schema`.
    """
    # Known before anything is said of it: bringing it up to date may fail.
    secrets.add(*secret_values(source.config_schema, config))
    # Migrations see what is missing in an old config; what they change is saved, and so has no defaults.
    config = source.transform(with_defaults(source.prepare(config), source.config_schema))
    check_config(config, source.config_schema, where, secrets)
    return config


def check_config(config: Mapping[str, JsonValue], schema: JsonSchema, where: str, secrets: Secrets) -> None:
    """Add the secrets of `config` to `secrets`, and raise ConfigError with every place that does not fit `schema`.

    where: what errors call the config, such as the name of its file.
    """
    secrets.add(*secret_values(schema, config))
    if texts := [f"{where}: {text}" for text in misfits(config, schema)]:
        raise ConfigError(secrets.mask("\n".join(texts)))


def with_defaults(config: FieldValue, schema: JsonValue) -> FieldValue:
    """`config` with each value that it lacks and that `schema` has a default for; `config` itself is left as it is.

    Looks through properties, items, `allOf`, and that branch of a `oneOf` or `anyOf` whose constants the config has.
    A missing object is made where defaults fill all of it, or where it is required and they fill what it requires.
    Left out are null and the empty text, with which the form puts in nothing, and what the default's schema refuses.

    Raises ConfigError: the part of `schema` around a default is no JSON Schema.
    """
    if not isinstance(schema, Mapping):
        # The schema is a connector's, and used before anything has been checked.
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
    """The schemas that hold for an object: `schema`, and those of its branches that are meant."""
    yield schema
    for keyword in ("allOf", "oneOf", "anyOf"):
        branches = schema.get(keyword)
        known = [branch for branch in branches if isinstance(branch, Mapping)] if isinstance(branches, list) else []
        meant = known if keyword == "allOf" else [branch for branch in known if _is_chosen(config, branch)]
        if keyword == "allOf" or len(meant) == 1:
            for branch in meant:
                yield from _parts(config, branch)


def _is_chosen(config: Mapping[str, FieldValue], branch: JsonSchema) -> bool:
    """Whether the constants of `branch`, one at least, stand in the config."""
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
    """What stands for a value that is missing; `_MISSING`: nothing does."""
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
        # What it refers to is elsewhere in the whole schema.
        return plainly_fits(value, schema)
    return not misfits(value, schema)
