"""A config against the schema of its connector, before any of it is used."""

from collections.abc import Mapping

from cdk.base.errors import ConfigError
from cdk.base.masking import Secrets, secret_values
from cdk.base.values import Json, JsonSchema
from cdk.sources.quick_fit import plainly_fits


def check_config(config: Mapping[str, Json], schema: JsonSchema, where: str, secrets: Secrets) -> None:
    """Add the secrets of `config` to `secrets`, and raise ConfigError with every place that does not fit `schema`.

    where: what errors call the config, such as the name of its file.
    """
    secrets.add(*secret_values(schema, config))
    if plainly_fits(config, schema):
        return
    # Importing jsonschema costs more than all of `spec`.
    from cdk.sources.misfits import misfits  # noqa: PLC0415

    if texts := [f"{where}: {text}" for text in misfits(config, schema)]:
        raise ConfigError(secrets.mask("\n".join(texts)))
