"""The pipeline of a file and its source, secrets known before anything is said of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from cdk import sources
from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.validation_messages import refusals
from cdk.base.values import JsonValue
from cdk.base.yaml_file import YamlFile
from cdk.lake.storage.credentials import secrets_of
from cdk.sources.discovery import find_source
from cdk.sources.variables import PartialEnvironment, environment
from cdk.streams.source import Source
from cdk.streams.source_events import Events
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions


@dataclass(frozen=True, slots=True)
class PipelineOverrides:
    """Parts of a pipeline file that a run replaces, because a simulation or a cassette answers its requests.

    config: that of the connector; None for the pipeline's own. target: where its tables and states go.
    """

    config: Mapping[str, JsonValue] | None
    target: str


def file_pipeline(
    path: Path,
    secrets: Secrets,
    *,
    trusted: bool,
    events: Events | None = None,
    replaced: PipelineOverrides | None = None,
) -> tuple[Pipeline, Source]:
    """The pipeline of a file, and its source, which reports to `events`. Raises ConfigError."""
    if replaced is None:
        settings = Pipeline.load(path, secrets=secrets)
    else:
        settings = _elsewhere(Pipeline.load(path, secrets=secrets, config=replaced.config), replaced.target)
    secrets.add(*secrets_of(settings.target.storage))
    source = source_named(settings.source, path.parent, trusted=trusted)
    source.events = events or source.events
    return settings.prepared(source, f"{path} source.config", secrets), source


def _elsewhere(settings: Pipeline, target: str) -> Pipeline:
    """The pipeline with tables and states elsewhere, as those of answers made here must be. Raises ConfigError."""
    try:
        path = TargetOptions(path=target).path
    except ValidationError as error:
        problems = refusals(error, {"path": target})
        raise ConfigError("; ".join(f"--target: {text}" for _, text in problems)) from None
    beside = settings.state.model_copy(update={"state_provider": None})
    return settings.model_copy(update={"target": settings.target.model_copy(update={"path": path}), "state": beside})


def known_source(path: Path, secrets: Secrets, *, trusted: bool) -> tuple[Source, Mapping[str, JsonValue]]:
    """The source of a pipeline file, and of its config what needs no variable that is not set. Raises ConfigError.

    No secret of a file or a command is looked up.
    """
    Pipeline.load(path, secrets=secrets, config={})  # all but the config must be complete
    settings = Pipeline.load(path, lambda *folders: PartialEnvironment(environment(*folders, refused="is not needed")))
    config = _known(settings.config)
    assert isinstance(config, Mapping)
    return source_named(settings.source, path.parent, trusted=trusted), config


def _known(value: JsonValue) -> JsonValue:
    """A value without the texts in which a variable stands for nothing."""
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
    """The file that a pipeline takes its config from; None: the config stands in the pipeline itself."""
    value = YamlFile.load(path).value
    source = value.get("source") if isinstance(value, dict) else None
    named = source.get("config") if isinstance(source, dict) else None
    return path.parent / Path(named).expanduser() if isinstance(named, str) and "${" not in named else None


def source_named(options: SourceOptions, folder: Path, *, trusted: bool) -> Source:
    """The source that a pipeline names; paths are relative to its folder, as everywhere in the file."""
    if options.manifest is not None:
        return sources.manifest_source(folder / options.manifest, trusted=trusted)
    assert options.connector is not None
    return find_source(str(folder / options.connector) if options.connector.endswith(".py") else options.connector)
