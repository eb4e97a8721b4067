"""Catalogs: the streams a source offers, and those a sync wants, with how it wants them."""

from enum import StrEnum

from pydantic import Field

from cdk.base.values import JsonObject
from cdk.protocol.model import WireModel


class SyncMode(StrEnum):
    """How much of a stream a sync reads."""

    FULL_REFRESH = "full_refresh"
    INCREMENTAL = "incremental"


class DestinationSyncMode(StrEnum):
    """What a destination does with the records; a source carries it and ignores it."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    APPEND_DEDUP = "append_dedup"
    UPDATE = "update"
    SOFT_DELETE = "soft_delete"


class StreamDescriptor(WireModel):
    """Which stream: its name and, for sources with several, its namespace. Hashable."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return self.name if self.namespace is None else f"{self.namespace}.{self.name}"


class AirbyteStream(WireModel):
    """A stream as a source offers it.

    json_schema: empty only in catalogs written by hand, where it is not read.
    source_defined_primary_key: a list of paths, each a list of fields. is_resumable: a cut full refresh can go on.
    """

    name: str
    json_schema: JsonObject = Field(default_factory=dict)
    supported_sync_modes: list[SyncMode] = Field(default_factory=lambda: [SyncMode.FULL_REFRESH])
    source_defined_cursor: bool | None = None
    default_cursor_field: list[str] | None = None
    source_defined_primary_key: list[list[str]] | None = None
    namespace: str | None = None
    is_resumable: bool | None = None
    is_file_based: bool | None = None

    @property
    def descriptor(self) -> StreamDescriptor:
        """The name by which states and traces call this stream."""
        return StreamDescriptor(name=self.name, namespace=self.namespace)


class AirbyteCatalog(WireModel):
    """The streams that a source has: what `discover` gives."""

    streams: list[AirbyteStream]


class ConfiguredAirbyteStream(WireModel):
    """A stream a sync wants.

    generation_id, minimum_generation_id, sync_id: the platform's book-keeping for the destination; `read`
    carries them along, `sync` follows the generations.
    """

    stream: AirbyteStream
    sync_mode: SyncMode
    destination_sync_mode: DestinationSyncMode = DestinationSyncMode.APPEND
    cursor_field: list[str] | None = None
    primary_key: list[list[str]] | None = None
    generation_id: int | None = None
    minimum_generation_id: int | None = None
    sync_id: int | None = None
    include_files: bool | None = None
    destination_object_name: str | None = None


class ConfiguredAirbyteCatalog(WireModel):
    """The streams a sync wants, in the order they are read."""

    streams: list[ConfiguredAirbyteStream]
