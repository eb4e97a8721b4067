"""DeclaredStream: what the source of a manifest knows of each of its streams; and a stand-in for a stream in error."""

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
    """The name of the template that it was made from; empty for a stream written in the manifest itself."""

    copy: Mapping[str, JsonValue] | None = None
    """The filled-in template it was made from, including all values read from the API or the config for it."""

    made_of: object = None
    """What declares it: equal for two streams that are the same stream."""

    reload: Callable[..., Stream] | None = None
    """Rebuilds it in another process: the manifest and the config are pickled, not the objects built from them. Takes
    the `attempt`; every attempt builds everything anew."""

    def begins_anew(self, attempt: int) -> None:
        # Custom code may remember records it has seen, but those were read for an attempt that was abandoned.
        if self.reload is not None:
            self.reload = partial(self.reload, attempt=attempt)

    def locate(self, located: Callable[[ManifestError], ManifestError]) -> None:
        """Add the manifest's line to the error of a stream that is misconfigured. located: returns it with its line."""


class MisconfiguredStream(DeclaredStream):
    """A stand-in in catalogs for a stream that cannot be built with this config; reading it raises the error.

    All other streams can still be read.
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
        """Return the schema that the manifest declares."""
        return self._schema()

    def checkpoint_reader(self, state: StreamState) -> CheckpointReader:  # noqa: ARG002 - it is never read
        raise self._error

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        raise self._error
