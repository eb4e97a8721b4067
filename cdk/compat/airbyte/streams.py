"""Streams of the manifest, as custom components read them: parents of partitions above all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonSchema, JsonValue
from cdk.compat.airbyte.http.auth import DeclarativeAuthenticator
from cdk.compat.airbyte.plain_types import Record, StreamSlice
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream as NativeStream


class Stream:
    """A stream. Custom code asks whether what it was given is one; new ones are written with `cdk.Stream`."""

    name: str = ""

    def read_records(self, *args: object, **kwargs: object) -> Iterator[Mapping[str, JsonValue]]:
        """The records of a slice, or of the whole stream."""
        raise NotImplementedError


class PartitionFacade:
    """One slice of a stream."""

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
    """The cursor of a parent, which code that reads it reports to. States are kept by us, so nothing is done here."""

    def observe(self, record: object) -> None:
        pass

    def close_partition(self, partition: object) -> None:
        pass

    def ensure_at_least_one_state_emitted(self) -> None:
        pass


class StreamFacade(Stream):
    """A stream of the manifest. Reading it here saves no state."""

    def __init__(self, native: NativeStream) -> None:
        self.native, self.name, self.primary_key = native, native.name, native.primary_key
        self.cursor = CursorFacade()

    @property
    def cursor_field(self) -> str | Sequence[str]:
        """The field by which it advances."""
        return self.native.cursor_field or []

    def get_json_schema(self) -> JsonSchema:
        return self.native.json_schema()

    def generate_partitions(self) -> Iterator[PartitionFacade]:
        reader = self.native.checkpoint_reader(StreamState())
        for slice in iter(reader.next, None):
            yield PartitionFacade(self, slice)

    def stream_slices(self, **_: object) -> Iterator[StreamSlice]:
        """Its slices as maps, which `read_records` takes."""
        for partition in self.generate_partitions():
            yield partition.to_slice()

    def read_records(  # type: ignore[override] # what follows the first argument is given by name
        self, *_: object, stream_slice: Mapping[str, JsonValue] | None = None, **__: object
    ) -> Iterator[Record]:
        """The records of a slice that `stream_slices` gave; those of all slices without one."""
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
    """A slice as custom code sees it. fields: the names of its window's start and end."""
    window: JsonObject = {}
    if slice.window is not None:
        window = {fields[0]: slice.window.start}
        if slice.window.end is not None:
            window[fields[1]] = slice.window.end
    facade = StreamSlice(partition=dict(slice.partition), cursor_slice=window, extra_fields=slice.extra)
    facade.native = slice
    return facade


class HttpStream(Stream):
    """A stream of an API that is written in Python, beside a manifest's. It can be imported, and not be used."""


@dataclass
class Rate:
    """So many requests in so much time."""

    limit: int
    interval: timedelta


class UnlimitedCallRatePolicy:
    """Requests that are not limited, as none are by custom code."""

    def __init__(self, matchers: Sequence[object]) -> None:
        self._matchers = matchers


class MovingWindowCallRatePolicy:
    """Requests that are limited. It can be imported, and not be made: limits are written in the manifest."""

    def __init__(self, *_: object, **__: object) -> None:
        raise ManifestError(_LIMITS.format(type(self).__name__))


class LimiterMixin:
    """A session whose requests are limited. It can be imported, and not be made: limits are written in the manifest."""

    def __init__(self, *_: object, **__: object) -> None:
        raise ManifestError(_LIMITS.format(type(self).__name__))


_LIMITS = "a custom component makes a {} of its own; write its limits as `api_budget` in the manifest"


class YamlDeclarativeSource:
    """How connectors start themselves. Here the manifest is started instead: this can be imported, and not be used."""

    def __init__(self, *_: object, **__: object) -> None:
        raise NotImplementedError("a manifest is started by `spark-cdk`, with --manifest-path, and not by its code")


class ReadException(Exception):
    """An error of reading an API, as code beside a manifest raises it."""


class AbstractStream(Stream):
    """A stream that is read concurrently, as custom code asks for its class."""


class DeclarativeStream(Stream):
    """A stream of a manifest, as custom code asks for its class."""


AbstractHeaderAuthenticator = DeclarativeAuthenticator
"""The name under which streams that are written in Python know what adds a header."""
