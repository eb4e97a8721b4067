"""States for tests, in the words of the test: `state(users=at(page=3), orders=at(updated_at="2024-01-05"))`."""

from collections.abc import Mapping

from cdk.base.values import JsonValue
from cdk.protocol import AirbyteStateMessage, AirbyteStateType, AirbyteStreamState, StreamDescriptor
from cdk.state.position import Checkpoint, Done, Position
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.state.wire import encode


def at(**cursor: JsonValue) -> StreamState:
    """A plain stream that stands at a page token or a cursor value."""
    return StreamState({Partition(): Checkpoint(cursor)})


def done() -> StreamState:
    """A resumable full refresh that was read to its end."""
    return StreamState({Partition(): Done()})


def each(*partitions: tuple[Mapping[str, JsonValue], Mapping[str, JsonValue] | None]) -> StreamState:
    """A substream: `each(({"repo": "a"}, {"page": 2}), ({"repo": "b"}, None))`; None means read to the end."""
    positions: dict[Partition, Position] = {
        Partition(fields): Done() if cursor is None else Checkpoint(cursor) for fields, cursor in partitions
    }
    return StreamState(positions)


def state(**streams: StreamState | Mapping[str, JsonValue]) -> list[AirbyteStateMessage]:
    """The state messages of some streams, by name, as an earlier read would have left them.

    A state is one of this module's, or a mapping: any form that a state has on the wire, as it is there.
    """
    return [
        AirbyteStateMessage(
            type=AirbyteStateType.STREAM,
            stream=AirbyteStreamState(
                stream_descriptor=StreamDescriptor(name=name),
                stream_state=encode(value, incremental=True) if isinstance(value, StreamState) else dict(value),
            ),
        )
        for name, value in streams.items()
    ]
