"""MisconfiguredStream: what stands for a stream that cannot be built with the config there is."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from cdk.base.errors import ManifestError
from cdk.base.values import JsonSchema, JsonValue
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.state.slice import Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.reader import CheckpointReader
from cdk.streams.stream import Item


class MisconfiguredStream(DeclaredStream):
    """Has the place of its stream in catalogs; reading it raises the error. The others are read all the same."""

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
