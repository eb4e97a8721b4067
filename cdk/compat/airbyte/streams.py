"""Streams of the manifest as custom components read them, mostly as parents of partitions."""

from collections.abc import Iterator, Mapping, Sequence

from cdk.base.values import JsonSchema, JsonValue
from cdk.compat.airbyte.http.auth import DeclarativeAuthenticator
from cdk.compat.airbyte.plain_types import Record, StreamSlice
from cdk.declarative.model.slice_names import window_fields
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream as NativeStream


class Stream:
    """A stream, for `isinstance` checks of custom code; new streams extend `cdk.Stream`."""

    name: str = ""

    def read_records(self, *args: object, **kwargs: object) -> Iterator[Mapping[str, JsonValue]]:
        """Yield the records of a slice, or of the whole stream."""
        raise NotImplementedError


class PartitionFacade:
    """One slice of a stream, as custom code reads it."""

    def __init__(self, stream: "StreamFacade", slice: Slice) -> None:
        self._stream, self._slice = stream, slice

    def read(self) -> Iterator[Record]:
        native, slice = self._stream.native, self.to_slice()
        for page in read_slice(native, self._slice):
            for record in page.records:
                yield Record(record, native.name, slice)

    def to_slice(self) -> StreamSlice:
        return slice_facade(self._slice)

    def stream_name(self) -> str:
        return self._stream.name


class CursorFacade:
    """The cursor of a parent, to which custom code reports progress. Does nothing, as the kit keeps states itself."""

    def observe(self, record: object) -> None:
        pass

    def close_partition(self, partition: object) -> None:
        pass

    def ensure_at_least_one_state_emitted(self) -> None:
        pass


class StreamFacade(Stream):
    """A stream of the manifest, as custom code reads it. Reading it here saves no state."""

    def __init__(self, native: NativeStream) -> None:
        self.native, self.name, self.primary_key = native, native.name, native.primary_key
        self.cursor = CursorFacade()

    @property
    def cursor_field(self) -> str | Sequence[str]:
        """The cursor field; an empty list without one."""
        return self.native.cursor_field or []

    def get_json_schema(self) -> JsonSchema:
        return self.native.json_schema()

    def generate_partitions(self) -> Iterator[PartitionFacade]:
        for slice in iter(self.native.checkpoint_reader(StreamState()).next, None):
            yield PartitionFacade(self, slice)

    def stream_slices(self, **_: object) -> Iterator[StreamSlice]:
        """Yield the slices as maps, which `read_records` accepts."""
        for partition in self.generate_partitions():
            yield partition.to_slice()

    def read_records(  # type: ignore[override] # custom code passes the other arguments by name
        self, *_: object, stream_slice: Mapping[str, JsonValue] | None = None, **__: object
    ) -> Iterator[Record]:
        """Yield the records of a slice from `stream_slices`, or of all slices if none is passed."""
        native: Slice | None = getattr(stream_slice, "native", None)
        if native is not None:
            yield from PartitionFacade(self, native).read()
            return
        for partition in self.generate_partitions():
            if stream_slice is None or dict(partition.to_slice()) == dict(stream_slice):
                yield from partition.read()

    def read_only_records(self, *_: object) -> Iterator[Record]:
        return self.read_records()


def slice_facade(slice: Slice, fields: tuple[str, str] = ("start_time", "end_time")) -> StreamSlice:
    """Convert a slice to the form that custom code uses. fields: the names of the window's start and end."""
    window = window_fields(slice, fields)
    facade = StreamSlice(partition=dict(slice.partition), cursor_slice=window, extra_fields=slice.extra)
    facade.native = slice
    return facade


class YamlDeclarativeSource:
    """The source with which connectors start themselves. It can be imported, but not used: here the kit starts them."""

    def __init__(self, *_: object, **__: object) -> None:
        raise NotImplementedError("a manifest is run by `spark-cdk` with --manifest-path, not by its code")


class ReadException(Exception):
    """Raised by code beside a manifest when it cannot read an API."""


class AbstractStream(Stream):
    """A stream that is read concurrently; for `isinstance` checks of custom code."""


class DeclarativeStream(Stream):
    """A stream of a manifest; for `isinstance` checks of custom code."""


AbstractHeaderAuthenticator = DeclarativeAuthenticator
"""The name that streams written in Python import for an authenticator that adds a header."""
