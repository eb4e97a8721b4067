"""Loads a pipeline file and its source, and registers their secrets before any error mentions them."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from cdk import sources
from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.validation_messages import refusals
from cdk.base.values import JsonValue, Location
from cdk.base.yaml_file import YamlFile
from cdk.lake.storage.credentials import secrets_of
from cdk.sources.discovery import find_source
from cdk.sources.environment import PartialEnvironment, environment
from cdk.streams.source import Events, Source
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions


def file_pipeline(
    path: Path,
    secrets: Secrets,
    *,
    trusted: bool,
    events: Events | None = None,
    replaced: tuple[Mapping[str, JsonValue] | None, str] | None = None,
) -> tuple[Pipeline, Source]:
    """Load the pipeline of a file, and its source, which reports to `events`. Raises ConfigError.

    trusted: whether Python code that a manifest names may run. replaced: the connector's config, None for that of the
    file, and the target, if these are not those of the file.
    """
    config, target = replaced or (None, None)
    settings = Pipeline.load(path, secrets=secrets, config=config)
    settings = settings if target is None else _elsewhere(settings, target)
    secrets.add(*secrets_of(settings.target.storage))
    source = source_named(settings.source, path.parent, trusted=trusted)
    source.events = events or source.events
    return settings.prepared(source, Location(str(path), ("source", "config")), secrets), source


def _elsewhere(settings: Pipeline, target: str) -> Pipeline:
    """Move tables and states to another target, since generated or recorded data must not mix with real data.

    Raises ConfigError: the target is invalid.
    """
    try:
        path = TargetOptions(path=target).path
    except ValidationError as error:
        problems = refusals(error, {"path": target})
        raise ConfigError("; ".join(f"--target: {text}" for _, text in problems)) from None
    beside = settings.state.model_copy(update={"state_provider": None})
    return settings.model_copy(update={"target": settings.target.model_copy(update={"path": path}), "state": beside})


def known_source(path: Path, secrets: Secrets, *, trusted: bool) -> tuple[Source, Mapping[str, JsonValue]]:
    """Load the source of a pipeline file, and its config without values that contain unset variables.

    Does not look up secrets from files or commands. Raises ConfigError.
    """
    Pipeline.load(path, secrets=secrets, config={})  # all but the config must be complete
    settings = Pipeline.load(path, lambda *folders: PartialEnvironment(environment(*folders, refused="is not needed")))
    config = _known(settings.config)
    assert isinstance(config, Mapping)
    return source_named(settings.source, path.parent, trusted=trusted), config


def _known(value: JsonValue) -> JsonValue:
    """Remove the strings with an unset variable from a value."""
    match value:
        case Mapping():
            return {name: _known(item) for name, item in value.items() if not _lacks_variable(item)}
        case list():
            return [_known(item) for item in value if not _lacks_variable(item)]
        case _:
            return value


def _lacks_variable(value: JsonValue) -> bool:
    return isinstance(value, str) and "${" in value


def config_file(path: Path) -> Path | None:
    """The config file that a pipeline file names; None if the config is in the pipeline file itself."""
    value = YamlFile.load(path).value
    source = value.get("source") if isinstance(value, dict) else None
    named = source.get("config") if isinstance(source, dict) else None
    return path.parent / Path(named).expanduser() if isinstance(named, str) and "${" not in named else None


def source_named(options: SourceOptions, folder: Path, *, trusted: bool) -> Source:
    """Find the source that a pipeline names. folder: that of the pipeline file, to which its paths are relative."""
    if options.manifest is not None:
        return sources.manifest_source(folder / options.manifest, trusted=trusted)
    assert options.connector is not None
    return find_source(str(folder / options.connector) if options.connector.endswith(".py") else options.connector)
