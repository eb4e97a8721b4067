"""The pipeline of a file and its source, secrets known before anything is said of them."""

from pathlib import Path

from cdk import sources
from cdk.base.secret_masking import Secrets
from cdk.base.yaml_file import YamlFile
from cdk.lake.storage.credentials import secrets_of
from cdk.sources.discovery import find_source
from cdk.streams.source import Source
from cdk.streams.source_events import Events
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions


def file_pipeline(
    path: Path, secrets: Secrets, *, trusted: bool, events: Events | None = None
) -> tuple[Pipeline, Source]:
    """The pipeline of a file, and its source, which reports to `events`. Raises ConfigError."""
    settings = Pipeline.load(path, secrets=secrets)
    secrets.add(*secrets_of(settings.target.storage))
    source = source_named(settings.source, path.parent, trusted=trusted)
    source.events = events or source.events
    return settings.prepared(source, f"{path} source.config", secrets), source


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
