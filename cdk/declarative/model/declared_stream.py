"""DeclaredStream: what the source of a manifest knows of each of its streams; and what stands for one in error."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from cdk.base.errors import ManifestError
from cdk.base.values import JsonSchema, JsonValue
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.reader import CheckpointReader
from cdk.streams.page import Item
from cdk.streams.stream import Stream


class DeclaredStream(Stream):
    """A stream that a manifest declares."""

    template: str = ""
    """The name of the template that it was made of; empty for a stream that is written out."""

    copy: Mapping[str, JsonValue] | None = None
    """What the template has become for it: all that it was asked of the API or the config for."""

    made_of: object = None
    """What declares it: equal where two are the same stream."""

    reload: Callable[..., Stream] | None = None
    """Rebuilds it in another process: the manifest and the config travel, not what was built of them. It takes the
    `attempt`, for which everything is built anew."""

    def begins_anew(self, attempt: int) -> None:
        # Custom code may remember which records it has had: those were given for an attempt that was given up.
        if self.reload is not None:
            self.reload = partial(self.reload, attempt=attempt)

    def locate(self, located: Callable[[ManifestError], ManifestError]) -> None:
        """Let an error that stands for the stream name its place. located: the error with its place in the manifest."""


class MisconfiguredStream(DeclaredStream):
    """Stands in catalogs for a stream that the config does not fit; to read it raises the error.

    The others are read all the same.
    """

    supports_checkpointing = True

    def __init__(
        self,
        name: str,
        error: ManifestError,
        *,
        config: Mapping[str, JsonValue],
        schema: Callable[[], JsonSchema],
        primary_key: Sequence[str | Sequence[str]],
        cursor_field: str | None,
    ) -> None:
        super().__init__(config)
        self.name, self._error, self._schema = name, error, schema
        self.primary_key, self.cursor_field = primary_key, cursor_field

    def locate(self, located: Callable[[ManifestError], ManifestError]) -> None:
        self._error = located(self._error)

    def check_ready(self) -> None:
        raise self._error

    def json_schema(self) -> JsonSchema:
        """The schema that the manifest gives."""
        return self._schema()

    def checkpoint_reader(self, state: StreamState) -> CheckpointReader:  # noqa: ARG002 - it is not read
        raise self._error

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        raise self._error
