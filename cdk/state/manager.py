"""ConnectorStateManager: takes in state messages and returns each changed state once."""

from collections.abc import Collection, Iterable
from copy import deepcopy

import msgspec

from cdk.base.errors import BadState
from cdk.base.logs import logger
from cdk.base.values import JsonValue, Stored
from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.messages import AirbyteStateMessage, AirbyteStateType, AirbyteStreamState
from cdk.state.stored_positions import is_same, with_entries
from cdk.state.stream_state import StreamState
from cdk.state.wire import Stateful, encode, state_of_current_form


class ConnectorStateManager:
    """The states of all streams of a source, as the platform passed them in and as the run has advanced them.

    Built from the state messages of earlier runs: STREAM messages, where the latest one of a stream counts; GLOBAL
    messages, of which the stream states are used; and legacy messages, a map from stream name to blob. The shared state
    of a GLOBAL message is ignored with a warning, because streams of this kit keep their own states. Belongs to one
    thread.
    """

    def __init__(self, messages: Iterable[AirbyteStateMessage] = ()) -> None:
        self._blobs: dict[StreamDescriptor, JsonValue] = {}
        self._emitted: set[StreamDescriptor] = set()
        for i, message in enumerate(messages):
            self._load(message, f"state[{i}]")

    def _load(self, message: AirbyteStateMessage, path: str) -> None:
        if message.global_ is not None:
            if message.global_.shared_state:
                logger.warning(
                    "%s.global.shared_state: streams of this kit do not use a shared state; each resumes from its "
                    "own, and one without a state is read from its start",
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
            raise BadState(path, msgspec.to_builtins(message), "a state with `stream`, `global` or `data`")

    @property
    def streams(self) -> Collection[StreamDescriptor]:
        """The streams that have a state."""
        return self._blobs.keys()

    def get_stream_state(self, name: str, namespace: str | None = None) -> Stored:
        """Return a copy of a stream's wire state; `{}` for a stream that was never read."""
        return deepcopy(self._blobs.get(StreamDescriptor(name=name, namespace=namespace)) or {})

    def restore(self, stream: Stateful) -> StreamState:
        """Return the state that a read of `stream` resumes from. Raises BadState naming the stream and the path."""
        blob = self._blobs.get(_descriptor(stream))
        migrated = stream.migrate_state(blob)
        state = state_of_current_form(stream, migrated)
        if migrated is blob:
            self._blobs[_descriptor(stream)] = with_entries(blob, exact=False)
        return state

    def checkpoint(self, stream: Stateful, state: StreamState, *, final: bool = False) -> AirbyteStateMessage | None:
        """Store a stream's state and return its message, or None when the last message was the same.

        final: the stream is read to its end, so a message is due if this run has returned none yet. A stream that
        neither has a cursor nor can resume has no message before that.
        """
        if not (final or has_checkpoints(stream)):
            return None
        descriptor = _descriptor(stream)
        blob = (
            encode(state, incremental=stream.cursor_field is not None, resumable=stream.supports_checkpointing)
            or stream.empty_state
        )
        if is_same(blob, self._blobs.get(descriptor)) and (descriptor in self._emitted or not final):
            return None
        self._blobs[descriptor] = blob
        self._emitted.add(descriptor)
        return self.create_state_message(stream.name, stream.namespace)

    def update_state_for_stream(self, stream_name: str, namespace: str | None, value: JsonValue) -> None:
        """Replace a stream's wire state with a copy of `value`."""
        self._blobs[StreamDescriptor(name=stream_name, namespace=namespace)] = deepcopy(value)

    def create_state_message(self, stream_name: str, namespace: str | None) -> AirbyteStateMessage:
        """Return a state message with a stream's current wire state."""
        descriptor = StreamDescriptor(name=stream_name, namespace=namespace)
        blob = self._blobs.get(descriptor) or {}
        return AirbyteStateMessage(
            type=AirbyteStateType.STREAM, stream=AirbyteStreamState(stream_descriptor=descriptor, stream_state=blob)
        )


def has_checkpoints(stream: Stateful) -> bool:
    """Whether a stream has states before its end, because it has a cursor or can resume."""
    return stream.cursor_field is not None or stream.supports_checkpointing


def _descriptor(stream: Stateful) -> StreamDescriptor:
    return StreamDescriptor(name=stream.name, namespace=stream.namespace)
