"""A config as its connector takes it: brought up to date, filled in, and held against the schema before it is used."""

from collections.abc import Mapping

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets, secret_values
from cdk.base.values import JsonSchema, JsonValue
from cdk.sources.defaults import with_defaults
from cdk.sources.schema_check import misfits
from cdk.streams.source import Source


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
