"""States for tests, in the words of the test: `state(users=at(page=3), orders=at(updated_at="2024-01-05"))`.

Also lists the differences between states, as readable lines.
"""

from collections.abc import Iterable, Mapping

from cdk.base.values import FieldValue, JsonValue, canonical
from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.messages import AirbyteStateMessage, AirbyteStateType, AirbyteStreamState
from cdk.state.position import Checkpoint, Done, Position
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.state.wire import encode


def at(**cursor: JsonValue) -> StreamState:
    """Return the state of an unpartitioned stream at a page token or a cursor value."""
    return StreamState({Partition(): Checkpoint(cursor)})


def done() -> StreamState:
    """Return the state of a resumable full refresh that was read to its end."""
    return StreamState({Partition(): Done()})


def each(*partitions: tuple[Mapping[str, JsonValue], Mapping[str, JsonValue] | None]) -> StreamState:
    """Return a substream's state: `each(({"repo": "a"}, {"page": 2}), ({"repo": "b"}, None))`; None: all read."""
    positions: dict[Partition, Position] = {
        Partition(fields): Done() if cursor is None else Checkpoint(cursor) for fields, cursor in partitions
    }
    return StreamState(positions)


def state(**streams: StreamState | Mapping[str, JsonValue]) -> list[AirbyteStateMessage]:
    """Return the state messages of the named streams, as an earlier read would have left them.

    A value is a state built by this module, or a mapping: any wire form of a state, passed on unchanged.
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


def state_differences(before: Iterable[AirbyteStateMessage], after: Iterable[AirbyteStateMessage]) -> list[str]:
    """Return a line for each state value that differs, such as `posts {"user":1} written_at: "a" -> "b"`.

    A value that is missing on one side appears there as `nothing`.
    """
    first, second = _leaves(before), _leaves(after)
    return [
        f"{where}: {first.get(where, 'nothing')} -> {second.get(where, 'nothing')}"
        for where in dict.fromkeys([*first, *second])
        if first.get(where) != second.get(where)
    ]


def _leaves(messages: Iterable[AirbyteStateMessage]) -> dict[str, str]:
    """Return the text of each value, keyed by its path."""
    leaves: dict[str, str] = {}
    for message in messages:
        if message.stream is not None:
            leaves |= _inside(message.stream.stream_state, str(message.stream.stream_descriptor))
    return leaves


def _inside(value: FieldValue, where: str) -> dict[str, str]:
    match value:
        case {"states": [*parts], **rest}:
            inner = [(f"{where} {canonical(part.get('partition'))}", part.get("cursor")) for part in parts]
            inner += [(f"{where} {name}", item) for name, item in rest.items()]
        case Mapping() if value:
            inner = [(f"{where} {name}", item) for name, item in value.items()]
        case _:
            return {where: canonical(value)}
    return {where: text for path, item in inner for where, text in _inside(item, path).items()}
