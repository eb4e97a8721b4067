"""ConnectorStateManager: state messages in, each changed state out, once."""

from collections.abc import Collection, Iterable
from copy import deepcopy

from cdk.base.errors import BadState
from cdk.base.logs import logger
from cdk.base.values import JsonValue, Stored
from cdk.protocol import AirbyteStateMessage, AirbyteStateType, AirbyteStreamState, StreamDescriptor
from cdk.state.stored_positions import is_same, with_entries
from cdk.state.stream_state import StreamState
from cdk.state.wire import Stateful, decode_migrated, encode


class ConnectorStateManager:
    """The states of all streams of a source, as the platform gave them and as the run moved them on.

    Built from the state messages of earlier runs: STREAM messages, where a later one of a stream replaces an earlier,
    GLOBAL ones, whose stream states count, and legacy ones, a map from stream name to blob. Belongs to one thread.
    What the streams of a GLOBAL one share is left alone, with a warning: streams of this kit keep their own states.
    """

    def __init__(self, messages: Iterable[AirbyteStateMessage] = ()) -> None:
        self._blobs: dict[StreamDescriptor, JsonValue] = {}
        self._said: set[StreamDescriptor] = set()
        for i, message in enumerate(messages):
            self._load(message, f"state[{i}]")

    def _load(self, message: AirbyteStateMessage, path: str) -> None:
        if message.global_ is not None:
            if message.global_.shared_state:
                logger.warning(
                    "%s.global.shared_state: no stream of this kit has a use for a shared state; each goes on from its "
                    "own, and one without begins at its start",
                    path,
                )
            for item in message.global_.stream_states:
                self._blobs[item.stream_descriptor] = item.stream_state
        elif message.stream is not None:
            self._blobs[message.stream.stream_descriptor] = message.stream.stream_state
        elif message.data is not None:
            for name, blob in message.data.items():
                self._blobs[StreamDescriptor(name=name)] = blob
        else:
            raise BadState(path, message.model_dump(exclude_none=True), "a state with `stream`, `global` or `data`")

    @property
    def streams(self) -> Collection[StreamDescriptor]:
        """Those of which there is a state."""
        return self._blobs.keys()

    def get_stream_state(self, name: str, namespace: str | None = None) -> Stored:
        """A copy of a stream's wire state; `{}` for one that was never read."""
        return deepcopy(self._blobs.get(StreamDescriptor(name=name, namespace=namespace)) or {})

    def restore(self, stream: Stateful) -> StreamState:
        """The state a read of `stream` goes on from. Raises BadState naming the stream and the place."""
        blob = self._blobs.get(_descriptor(stream))
        migrated = stream.migrate_state(blob)
        state = decode_migrated(stream, migrated)
        if migrated is blob:
            self._blobs[_descriptor(stream)] = with_entries(blob, exact=False)
        return state

    def checkpoint(self, stream: Stateful, state: StreamState, *, final: bool = False) -> AirbyteStateMessage | None:
        """Take over a stream's state and return its message, or None when the last one already said the same.

        final: nothing more will be read; then a message is due if this run has said none yet. A stream that neither
        has a cursor nor can resume has nothing to say before.
        """
        if not (final or has_checkpoints(stream)):
            return None
        descriptor = _descriptor(stream)
        blob = (
            encode(
                state,
                incremental=stream.cursor_field is not None,
                resumable=stream.supports_checkpointing,
                cursor_field=stream.cursor_field,
            )
            or stream.empty_state
        )
        if is_same(blob, self._blobs.get(descriptor)) and (descriptor in self._said or not final):
            return None
        self._blobs[descriptor] = blob
        self._said.add(descriptor)
        return self.create_state_message(stream.name, stream.namespace)

    def update_state_for_stream(self, stream_name: str, namespace: str | None, value: JsonValue) -> None:
        """Replace a stream's wire state by a copy of `value`."""
        self._blobs[StreamDescriptor(name=stream_name, namespace=namespace)] = deepcopy(value)

    def create_state_message(self, stream_name: str, namespace: str | None) -> AirbyteStateMessage:
        """The message of a stream's present wire state."""
        descriptor = StreamDescriptor(name=stream_name, namespace=namespace)
        blob = self._blobs.get(descriptor) or {}
        return AirbyteStateMessage(
            type=AirbyteStateType.STREAM, stream=AirbyteStreamState(stream_descriptor=descriptor, stream_state=blob)
        )


def has_checkpoints(stream: Stateful) -> bool:
    """Whether a stream has states before its end: it has a cursor, or can resume."""
    return stream.cursor_field is not None or stream.supports_checkpointing


def _descriptor(stream: Stateful) -> StreamDescriptor:
    return StreamDescriptor(name=stream.name, namespace=stream.namespace)
