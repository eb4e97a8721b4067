"""Catalogs: the streams that a source offers, and the streams that a sync reads, with how it reads and writes them."""

from enum import StrEnum

from msgspec import field

from cdk.base.values import JsonObject
from cdk.protocol.model import WireModel


class SyncMode(StrEnum):
    """How much of a stream a sync reads."""

    FULL_REFRESH = "full_refresh"
    INCREMENTAL = "incremental"


class DestinationSyncMode(StrEnum):
    """How a destination writes the records. A source passes it on and ignores it."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    APPEND_DEDUP = "append_dedup"
    UPDATE = "update"
    SOFT_DELETE = "soft_delete"


class StreamDescriptor(WireModel, frozen=True):
    """Identifies a stream: its name and, in sources that have several namespaces, its namespace. Hashable."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return self.name if self.namespace is None else f"{self.namespace}.{self.name}"


def _empty_schema() -> JsonObject:
    """Not `dict`, whose empty result msgspec would omit."""
    return {}


class AirbyteStream(WireModel, frozen=True):
    """A stream as a source offers it.

    json_schema: empty only in handwritten catalogs, where nothing reads it.
    source_defined_primary_key: a list of paths, each a list of fields.
    is_resumable: whether an interrupted full refresh can resume.
    """

    name: str
    json_schema: JsonObject = field(default_factory=_empty_schema)
    supported_sync_modes: list[SyncMode] = field(default_factory=lambda: [SyncMode.FULL_REFRESH])
    source_defined_cursor: bool | None = None
    default_cursor_field: list[str] | None = None
    source_defined_primary_key: list[list[str]] | None = None
    namespace: str | None = None
    is_resumable: bool | None = None
    is_file_based: bool | None = None

    @property
    def descriptor(self) -> StreamDescriptor:
        """The descriptor that states and traces use for this stream."""
        return StreamDescriptor(name=self.name, namespace=self.namespace)


class AirbyteCatalog(WireModel, frozen=True):
    """All streams of a source: the result of `discover`."""

    streams: list[AirbyteStream]


class ConfiguredAirbyteStream(WireModel, frozen=True):
    """A stream that a sync reads, with its modes.

    destination_sync_mode: None leaves it to `sync`, which appends.
    generation_id, minimum_generation_id, sync_id: the platform's bookkeeping for the destination. `read` ignores
    them; `sync` acts on the generations.
    """

    stream: AirbyteStream
    sync_mode: SyncMode
    destination_sync_mode: DestinationSyncMode | None = None
    cursor_field: list[str] | None = None
    primary_key: list[list[str]] | None = None
    generation_id: int | None = None
    minimum_generation_id: int | None = None
    sync_id: int | None = None
    include_files: bool | None = None
    destination_object_name: str | None = None


class ConfiguredAirbyteCatalog(WireModel, frozen=True):
    """The streams that a sync reads, in the order in which it reads them."""

    streams: list[ConfiguredAirbyteStream]
