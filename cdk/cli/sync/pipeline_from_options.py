"""Makes the pipeline of a sync from options instead of a file: those of `read`, and the target of the tables."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import fields
from pydantic import ValidationError

from cdk import sources
from cdk.base.errors import CatalogError, ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.validation_messages import refusals
from cdk.base.values import JsonValue, dotted
from cdk.cli.config_file import config_name, read_config
from cdk.cli.options import check_one_connector
from cdk.cli.protocol.catalog_file import load_catalog
from cdk.lake.delta.write_modes import FULL_REFRESH_DEFAULT, MODES, traits_of
from cdk.protocol.catalog import ConfiguredAirbyteStream, DestinationSyncMode, SyncMode
from cdk.sources.discovery import find_source
from cdk.streams.source import Events, Source, connector_name
from cdk.streams.stream import full_name
from cdk.sync.settings.pipeline_file import Pipeline, StreamOptions
from cdk.sync.settings.stream_options import RemoveStaleOptions

_WRITE_MODES = tuple(mode for mode in DestinationSyncMode if mode in MODES)
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class GivenOptions(Struct, frozen=True):
    """The options that replace a pipeline file; each field is named like its option."""

    connector: str | None = None
    manifest_path: Path | None = None
    config: Path | None = None
    catalog: Path | None = None
    target: str | None = None
    name: str | None = None
    allow_empty: bool = False

    @property
    def names(self) -> list[str]:
        """The options that were passed, such as `--target`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return [f"--{name.replace('_', '-')}" for name, value in values.items() if value not in {None, False}]


def check_given(pipeline: Path | None, options: GivenOptions) -> None:
    """Raise UsageError if both a file and options say what to sync, or if neither does."""
    if pipeline is not None:
        if options.names:
            text = " and ".join(options.names)
            raise click.UsageError(f"a PIPELINE file sets what {text} would: pass one or the other")
        return
    check_one_connector(options.connector, options.manifest_path)
    if options.connector is None and options.manifest_path is None:
        raise click.UsageError(
            "Missing argument 'PIPELINE', or options '--connector' or '--manifest-path' and '--target': what to sync?"
        )
    if options.target is None:
        raise click.UsageError("Missing option '--target': a folder, or an address in a store, for the tables")


def given_pipeline(
    options: GivenOptions, secrets: Secrets, *, trusted: bool, events: Events | None = None
) -> tuple[Pipeline, Source]:
    """Make the pipeline that options describe, and its source, which reports to `events`.

    trusted: whether Python code that a manifest names may run.

    Raises ConfigError and CatalogError naming the option or the file.
    """
    if options.manifest_path is not None:
        text = str(options.manifest_path)
        source, key = sources.manifest_source(options.manifest_path, trusted=trusted), "manifest"
    else:
        text = str(options.connector)
        source, key = find_source(text), "connector"
    source.events = events or source.events
    catalog = options.catalog
    value: dict[str, object] = {
        "name": options.name or _NAME.sub("-", connector_name(text)).strip("._-") or "sync",
        "source": {key: text, "config": read_config(options.config, secrets)},
        "target": {"path": options.target},
    }
    if catalog is not None:
        value["streams"] = dict(_options(item, str(catalog)) for item in load_catalog(catalog).streams)
    try:
        pipeline = Pipeline.model_validate(value)
    except ValidationError as error:
        problems = [f"{_option(keys, catalog)}: {text}" for keys, text in refusals(error, value)]
        raise ConfigError("; ".join(problems)) from None
    pipeline = pipeline.prepared(source, config_name(options.config), secrets)
    return _allowing_empty(pipeline, source) if options.allow_empty else pipeline, source


def _option(loc: Sequence[str | int], catalog: Path | None) -> str:
    """The option, or the place in the catalog, that an error is about."""
    return f"{catalog} {dotted(loc)}" if loc[:1] == ("streams",) else f"--{loc[0]}"


def _options(item: ConfiguredAirbyteStream, file: str) -> tuple[str, Mapping[str, JsonValue]]:
    """Return the name of a catalog's stream, and its options as in a pipeline file: mostly what it does not define."""
    name, mode = item.stream.name, item.destination_sync_mode
    if item.stream.namespace:
        name = f"{item.stream.namespace}.{name}"
    options: dict[str, JsonValue] = {"sync_mode": str(item.sync_mode)}
    if mode is not None:
        if mode not in _WRITE_MODES:
            why = f"found destination_sync_mode {mode!s} of {name!r}, expected one of {', '.join(_WRITE_MODES)}"
            raise CatalogError(why, path=file)
        options["write_mode"] = str(mode)
    if item.cursor_field and item.sync_mode == SyncMode.INCREMENTAL and not item.stream.source_defined_cursor:
        options["cursor_field"] = _field(item.cursor_field, "cursor_field", name, file)
    if item.generation_id is not None:
        options |= _generation(item, options)
    if item.primary_key and mode is not None and traits_of(mode).one_row_per_key:
        options["primary_key"] = [_field(path, "primary_key", name, file) for path in item.primary_key]
    return name, options


def _generation(item: ConfiguredAirbyteStream, options: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return the generations that a platform sets, and the options that implement them."""
    least = item.minimum_generation_id or 0
    generation: dict[str, JsonValue] = {"generation_id": item.generation_id, "minimum_generation_id": least}
    if least and item.sync_mode == SyncMode.FULL_REFRESH:
        traits = traits_of(str(options.get("write_mode")))
        if traits.repeats_rows:
            generation |= {"write_mode": FULL_REFRESH_DEFAULT, "remove_stale": {"allow_empty": True}}
        elif traits.hidden_until_complete:
            generation["remove_stale"] = {"allow_empty": True}
        elif traits.one_row_per_key:
            # The platform requested the removal, so no guard may prevent it.
            generation["remove_stale"] = {"removal": "hard", "fail_safe_threshold": 100, "allow_empty": True}
    return generation


def _allowing_empty(pipeline: Pipeline, source: Source) -> Pipeline:
    """Allow the overwrites of the pipeline to leave a table without rows."""
    streams: dict[str, StreamOptions] = {}
    for stream in source.streams(pipeline.config) if pipeline.streams is None else ():
        streams[full_name(stream)] = StreamOptions(sync_mode="incremental" if stream.incremental else "full_refresh")
    for name, options in {**streams, **(pipeline.streams or {})}.items():
        replaces = traits_of(options.write_mode or FULL_REFRESH_DEFAULT).hidden_until_complete
        empties = replaces and options.sync_mode == "full_refresh"
        allowing = {"remove_stale": RemoveStaleOptions(allow_empty=True)} if empties else {}
        streams[name] = options.model_copy(update=allowing)
    return pipeline.model_copy(update={"streams": streams})


def _field(path: Sequence[str], what: str, stream: str, file: str) -> str:
    if len(path) != 1:
        raise CatalogError(
            f"found {dotted(tuple(path))!r} in the {what} of {stream!r}, expected a field of the record itself: "
            "only these become columns of a table",
            path=file,
        )
    return path[0]
