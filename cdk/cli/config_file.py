"""Loads the config: registers its secrets before any error mentions it, and checks it against the source's schema."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import click

from cdk.base.documents import locating, location_in, read_document
from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue, canonical, json_kind
from cdk.sources.config import prepared_config
from cdk.sources.config_file import ConfigEvents
from cdk.sources.environment import environment
from cdk.sources.variables import with_variables
from cdk.streams.source import Events, Source


def opened(
    find: Callable[[], Source], path: Path | None, secrets: Secrets, events: Events | None = None
) -> tuple[Source, Mapping[str, JsonValue]]:
    """Return the source of a command, and the config in a file as `load_config` does.

    events: receives what the source reports; by default its new secrets, and a changed config for the file.
    """
    source = find()
    source.events = ConfigEvents(secrets, path) if events is None else events
    return source, load_config(path, source, secrets)


def load_config(path: Path | None, source: Source, secrets: Secrets) -> Mapping[str, JsonValue]:
    """Return the config of a file as the source prepares it; empty without a file. Adds its secrets to `secrets`.

    Raises ConfigError naming the file and every place that does not match the source's `config_schema`.
    """
    config = read_config(path, secrets)
    with locating(path):
        return prepared_config(config, source, config_name(path), secrets)


def config_name(path: Path | None) -> str:
    """The name of the config in errors."""
    return "no --config was given" if path is None else str(path)


def read_config(path: Path | None, secrets: Secrets) -> Mapping[str, JsonValue]:
    """Return the config of a file before the source prepares it; empty without a file.

    `${NAME}` is replaced by the value of an environment variable, which is treated as a secret. Raises ConfigError
    naming the file: it is not an object, or its values cannot be serialized.
    """
    document = {} if path is None else read_document(path)
    where = config_name(path)
    if not isinstance(document, Mapping):
        raise ConfigError(f"found {json_kind(document)}, expected an object", path=where)
    context = click.get_current_context(silent=True)
    # Platforms pass configs that their users typed, which must not read files or run commands. Servers have checked
    # the file before (`Workspace.file`).
    trusted = context is None or context.params.get("allow_custom_code")
    refused = "" if trusted else "is only resolved for a pipeline, or with --allow-custom-code"
    file = path or Path()
    config = with_variables(document, environment(file.parent, refused=refused), partial(location_in, file), secrets)
    assert isinstance(config, Mapping)
    try:
        canonical(config)
    except TypeError as error:
        words = "expected valid Unicode, and at most some hundred levels"
        raise ConfigError(f"has values that cannot be serialized: {words} ({error})", path=where) from None
    return config
