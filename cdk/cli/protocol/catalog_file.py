"""Catalogs: the streams that a source offers, and the configured streams that a user selects."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from cdk.base.errors import CatalogError, ConfigError
from cdk.base.values import JsonSchema, JsonValue, Location, json_kind
from cdk.cli.input_files import as_model, read_documents
from cdk.lake.arrow.json_schema import warn_of_schema_mistakes
from cdk.protocol.catalog import (
    AirbyteCatalog,
    AirbyteStream,
    ConfiguredAirbyteCatalog,
    ConfiguredAirbyteStream,
    SyncMode,
)
from cdk.protocol.messages import Type
from cdk.streams.stream import Stream


def offered(streams: Iterable[Stream], schema: Callable[[Stream], JsonSchema] | None = None) -> AirbyteCatalog:
    """Return the catalog that `discover` prints. schema: returns a stream's schema; None: use the declared one."""
    return AirbyteCatalog(
        streams=[_offer(stream, stream.json_schema() if schema is None else schema(stream)) for stream in streams]
    )


def whole_catalog(streams: Iterable[Stream]) -> ConfiguredAirbyteCatalog:
    """Return a configured catalog with all streams; those with a cursor are incremental."""
    return ConfiguredAirbyteCatalog(streams=[_configured(_offer(stream, stream.json_schema())) for stream in streams])


def load_catalog(path: Path) -> ConfiguredAirbyteCatalog:
    """Load a configured catalog, or configure all streams of a catalog that `discover` printed.

    Raises CatalogError naming the file, the path in it, the value there and the expected one.
    """
    try:
        where, items = catalog_items(path)
        streams = [configured_stream(item, where.below(number)) for number, item in enumerate(items)]
        return ConfiguredAirbyteCatalog(streams=streams)
    except ConfigError as error:
        raise CatalogError.of(error) from error


def catalog_items(path: Path) -> tuple[Location, Sequence[JsonValue]]:
    """Return the streams of a catalog file as they are written, and the place of their list.

    Raises ConfigError: the file does not contain a catalog.
    """
    where, catalog = _catalog_in(path)
    streams = catalog.get("streams") if isinstance(catalog, Mapping) else None
    if not isinstance(streams, list):
        why = f'found {json_kind(catalog)}, expected {{"streams": [...]}}, a configured catalog'
        raise CatalogError(why, path=where)
    return where.below("streams"), streams


def _catalog_in(path: Path) -> tuple[Location, JsonValue]:
    """Return the place and the value of the catalog in a file; in several lines, the CATALOG message."""
    where, catalog = Location(str(path)), None
    for location, value in read_documents(path):
        if isinstance(value, Mapping) and value.get("type") == Type.CATALOG:
            return location, value.get("catalog")
        if catalog is None:
            where, catalog = location, value
    return where, catalog


def configured_stream(item: JsonValue, where: Location) -> ConfiguredAirbyteStream:
    """Convert a stream of a catalog, configured or as `discover` prints it. Raises ConfigError with each place."""
    if isinstance(item, Mapping) and "stream" not in item and "name" in item:
        return _configured(as_model(AirbyteStream, item, where))
    return as_model(ConfiguredAirbyteStream, item, where)


def _configured(stream: AirbyteStream) -> ConfiguredAirbyteStream:
    incremental = SyncMode.INCREMENTAL in stream.supported_sync_modes
    return ConfiguredAirbyteStream(
        stream=stream,
        sync_mode=SyncMode.INCREMENTAL if incremental else SyncMode.FULL_REFRESH,
        cursor_field=stream.default_cursor_field,
    )


def _offer(stream: Stream, schema: JsonSchema) -> AirbyteStream:
    warn_of_schema_mistakes(stream.name, schema)
    cursor = stream.cursor_field
    return AirbyteStream(
        name=stream.name,
        namespace=stream.namespace,
        json_schema=dict(schema),
        supported_sync_modes=[SyncMode.FULL_REFRESH] if cursor is None else list(SyncMode),
        source_defined_cursor=None if cursor is None else True,
        default_cursor_field=None if cursor is None else [cursor],
        source_defined_primary_key=stream.key_paths or None,
        is_resumable=stream.supports_checkpointing,
        is_file_based=False,
    )
