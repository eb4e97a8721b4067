"""Streams of the manifest, as custom components read them: parents of partitions above all."""

from collections.abc import Iterator, Mapping

from cdk.base.values import Json
from cdk.compat.airbyte.plain_types import Record, StreamSlice
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream as OurStream


class Stream:
    """A stream. Custom code asks whether what it was given is one; new ones are written with `cdk.Stream`."""

    name: str = ""

    def read_records(self, *args: Json, **kwargs: Json) -> Iterator[Mapping[str, Json]]:
        """The records of a slice, or of the whole stream."""
        raise NotImplementedError


class SeenPartition:
    """One slice of a stream."""

    def __init__(self, stream: "SeenStream", slice: Slice) -> None:
        self._stream, self._slice = stream, slice

    def read(self) -> Iterator[Record]:
        """Its records."""
        native, slice = self._stream.ours, self.to_slice()
        for page in read_slice(native, self._slice):
            for record in page.records:
                yield Record(record, native.name, slice)

    def to_slice(self) -> StreamSlice:
        """The slice."""
        return seen_slice(self._slice)

    def stream_name(self) -> str:
        """Name of the stream."""
        return self._stream.name


class SeenStream(Stream):
    """A stream of the manifest. `ours`: the stream itself. Reading it here saves no state."""

    def __init__(self, ours: OurStream) -> None:
        self.ours, self.name, self.primary_key = ours, ours.name, ours.primary_key

    @property
    def cursor_field(self) -> Json:
        """The field by which it advances."""
        return self.ours.cursor_field or []

    def get_json_schema(self) -> Mapping[str, Json]:
        """Its schema."""
        return self.ours.json_schema()

    def generate_partitions(self) -> Iterator[SeenPartition]:
        """Its slices."""
        reader = self.ours.checkpoint_reader(StreamState())
        for slice in iter(reader.next, None):
            yield SeenPartition(self, slice)

    def stream_slices(self, **_: Json) -> Iterator[StreamSlice]:
        """Its slices as maps, which `read_records` takes."""
        for partition in self.generate_partitions():
            yield partition.to_slice()

    def read_records(self, *_: Json, stream_slice: Json = None, **__: Json) -> Iterator[Record]:
        """The records of a slice that `stream_slices` gave; those of all slices without one."""
        if isinstance(stream_slice, StreamSlice) and stream_slice.ours is not None:
            yield from SeenPartition(self, stream_slice.ours).read()
            return
        for partition in self.generate_partitions():
            if stream_slice is None or dict(partition.to_slice()) == dict(stream_slice):
                yield from partition.read()

    def read_only_records(self, *_: Json) -> Iterator[Record]:
        """All records."""
        return self.read_records()


def seen_slice(slice: Slice, fields: tuple[str, str] = ("start_time", "end_time")) -> StreamSlice:
    """A slice of ours as custom code sees it. fields: the names of its window's start and end."""
    window: dict[str, Json] = {}
    if slice.window is not None:
        window = {fields[0]: slice.window.start}
        if slice.window.end is not None:
            window[fields[1]] = slice.window.end
    facade = StreamSlice(partition=dict(slice.partition), cursor_slice=window, extra_fields=slice.extra)
    facade.ours = slice
    return facade


class HttpStream(Stream):
    """A stream of an API that is written in Python, beside a manifest's. It can be imported, and not be used."""


class YamlDeclarativeSource:
    """How connectors start themselves. Here the manifest is started instead: this can be imported, and not be used."""

    def __init__(self, *_: Json, **__: Json) -> None:
        raise NotImplementedError("a manifest is started by `spark-cdk`, with --manifest-path, and not by its code")


class AbstractStream(Stream):
    """Another name under which custom code asks for a stream."""


class DeclarativeStream(Stream):
    """Another one."""
