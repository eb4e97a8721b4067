"""DelegatingStream: reads in full until a full read is complete, and incrementally from then on."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial

from msgspec.structs import replace

from cdk.base.logs import logger
from cdk.base.secret_masking import SecretMarks
from cdk.base.times.iso_durations import Duration, earlier
from cdk.base.values import JsonSchema, JsonValue
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.reading.manifest_stream import ManifestStream, not_picklable
from cdk.rest.auth.tokens import IssuedToken
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.state.wire import encode, is_in_full
from cdk.streams.checkpoint.parent_state import ParentState
from cdk.streams.checkpoint.reader import CheckpointReader, PassingReader
from cdk.streams.page import Item
from cdk.streams.stream import Stream


class DelegatingStream(DeclaredStream):
    """Two streams under one name. The state decides which of them a read uses.

    retention: how far back the API can look; a stream whose state is older, or has a date that cannot be parsed, is
    read in full. An interrupted full read resumes as such: the incremental stream may not know what is left to read.
    is_parent: its records make the partitions of another stream, whose state includes the state of this one.
    """

    chosen_by_state = True

    def __init__(
        self, full: ManifestStream, incremental: ManifestStream, *, retention: Duration | None, is_parent: bool
    ) -> None:
        super().__init__(full.config)
        self.full, self.incremental_stream, self._retention, self._is_parent = full, incremental, retention, is_parent
        self.name, self.primary_key = incremental.name, incremental.primary_key
        self._chosen: ManifestStream = full
        self._choose(full)

    def _choose(self, stream: ManifestStream) -> None:
        # The full stream leaves a cursor value for the incremental one if it has a cursor, too.
        self._chosen = stream
        self.cursor, self.cursor_field = stream.cursor, stream.cursor_field
        self.supports_checkpointing, self.in_one_task = stream.supports_checkpointing, stream.in_one_task

    def guard(self, secrets: SecretMarks) -> None:
        for stream in (self, self.full, self.incremental_stream):
            stream.secrets = secrets

    @property
    def empty_state(self) -> JsonValue:
        return self._chosen.empty_state

    def migrate_state(self, blob: JsonValue) -> JsonValue:
        self._choose(self._stream_for(self.incremental_stream.migrate_state(blob)))
        return self._chosen.migrate_state(blob) if self._chosen is self.incremental_stream or is_in_full(blob) else None

    def access_tokens(self, seconds: float) -> Mapping[str, IssuedToken]:
        return self._chosen.access_tokens(seconds)

    def json_schema(self) -> JsonSchema:
        return self._chosen.json_schema()

    def now(self) -> datetime:
        return self._chosen.now()

    def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        return self._chosen.partitions_since(parents)

    def checkpoint_reader(self, state: StreamState) -> CheckpointReader:
        if self._is_parent:
            self._choose(self._stream_for(encode(state, incremental=True)))
        if self._chosen is self.incremental_stream:
            return self.incremental_stream.checkpoint_reader(state)
        state = replace(state, in_full=False) if state.in_full else StreamState()
        reader = self.full.checkpoint_reader(state)
        # Newer records are left to the incremental stream: a source that is read in full may return all of them again.
        reader.end_with_plan()
        return _FullReader(reader, state)

    def read_records(self, slice: Slice) -> Iterator[Item]:
        return self._chosen.read_records(slice)

    def resuming_pages(self) -> "DelegatingStream":
        other = self.beside()
        other.full, other.incremental_stream = self.full.resuming_pages(), self.incremental_stream.resuming_pages()
        other._choose(other.incremental_stream if self._chosen is self.incremental_stream else other.full)  # noqa: SLF001 - its own
        return other

    def __reduce__(self) -> tuple[Callable[[], ManifestStream], tuple[()]]:
        # The chosen stream is pickled: the state, which decides, stays with the driver.
        if self.reload is None:
            raise not_picklable(self.name)
        is_incremental, resumes = self._chosen is self.incremental_stream, self._chosen.resumes_pages
        return partial(_chosen, self.reload, is_incremental=is_incremental, resumes=resumes), ()

    def _stream_for(self, blob: JsonValue) -> ManifestStream:
        if not isinstance(blob, Mapping) or not blob or all(str(key).startswith("__ab_") for key in blob):
            return self.full
        if is_in_full(blob):
            return self.full
        if self._retention is not None and self.incremental_stream.cursor is not None:
            # For a partitioned stream, the greatest value of all partitions counts.
            known = blob.get("state", blob)
            value = known.get(self.incremental_stream.cursor.field) if isinstance(known, Mapping) else None
            oldest, order = earlier(self.now(), self._retention), self.incremental_stream.cursor.state_order
            if value is None or (order.kind is datetime and not order.reaches(value, oldest.isoformat())):
                logger.warning(
                    "%s: the state is older than the data that the API retains, so the stream is read in full: "
                    "a table in append mode gets all rows again",
                    self.name,
                )
                return self.full
        return self.incremental_stream


class _FullReader(PassingReader):
    """The reader of a full read; its states are marked as such until the read is complete."""

    def __init__(self, inner: CheckpointReader, state: StreamState) -> None:
        super().__init__(inner)
        self._state = state
        self._marked = bool(state.positions)
        """Whether the last state that was returned marks the read as unfinished."""

    def get_checkpoint(self) -> StreamState | None:
        state = super().get_checkpoint()
        self._state = state or self._state
        if state is None and not (self._marked and self.finished):
            return None
        self._marked = not self.finished
        return replace(self._state, in_full=self._marked)


def _chosen(reload: Callable[[], Stream], *, is_incremental: bool, resumes: bool) -> ManifestStream:
    stream = reload()
    assert isinstance(stream, DelegatingStream)
    chosen = stream.incremental_stream if is_incremental else stream.full
    return chosen.resuming_pages() if resumes else chosen
