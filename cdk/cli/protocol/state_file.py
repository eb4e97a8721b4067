"""Loads the state of earlier runs, in any form in which platforms and users store it."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from cdk.base.errors import BadState, ConfigError, StateError
from cdk.base.logs import logger
from cdk.base.values import JsonValue, Location
from cdk.base.wording import did_you_mean
from cdk.cli.input_files import as_model, read_documents
from cdk.protocol.messages import AirbyteStateMessage, AirbyteStreamState, Type

_EXPECTED = (
    'a state message such as {"type": "STREAM", "stream": {"stream_descriptor": {"name": ...}, "stream_state": {...}}}'
)


def load_state(path: Path | None, streams: Collection[str] | None) -> list[AirbyteStateMessage]:
    """Load the state messages of a file, oldest first; an empty list without a file or for an empty one.

    The file may contain a list of messages, one message, the output of an earlier read, or the legacy map from stream
    name to state. streams: the names of the source's streams; logs a warning for each state of another stream, which is
    not used. None: the names are unknown.

    Raises StateError naming the file, the path in it, the value there and the expected one.
    """
    if path is None or (path.is_file() and path.stat().st_size == 0):
        return []
    try:
        documents = list(read_documents(path))
        if len(documents) > 1:
            messages = [_message(value, where) for where, value in documents if not _is_other_line(value)]
        else:
            messages = [message for where, value in documents for message in _document(value, where, streams)]
    except ConfigError as error:
        raise StateError.of(error) from error
    for message in messages:
        for name in _nulls(message):
            logger.warning("%s: the state of %r is null: the stream is read from its start", path, name)
        for name in [item.stream_descriptor.name for item in _stream_states(message)] + list(message.data or ()):
            if streams is not None and name not in streams:
                text = "%s: found a state of %r, a stream that the source does not have%s"
                logger.warning(text, path, name, did_you_mean(name, streams))
    return messages


def _document(value: JsonValue, where: Location, streams: Collection[str] | None) -> list[AirbyteStateMessage]:
    match value:
        case list():
            return [_message(item, where.below(i)) for i, item in enumerate(value)]
        case Mapping() if not value or _is_other_line(value):
            return []
        case Mapping() if _is_message(value):
            return [_message(value, where)]
        case Mapping():
            return [_legacy(value, where, streams)]
        case _:
            raise BadState(where, value, f"a list of state messages, or {_EXPECTED}")


def _message(value: JsonValue, where: Location) -> AirbyteStateMessage:
    if isinstance(value, Mapping) and value.get("type") == Type.STATE and "state" in value:
        value, where = value["state"], where.below("state")
    if not isinstance(value, Mapping) or not _is_message(value):
        raise BadState(where, value, _EXPECTED)
    return as_model(AirbyteStateMessage, value, where)


def _legacy(value: Mapping[str, JsonValue], where: Location, streams: Collection[str] | None) -> AirbyteStateMessage:
    if streams is not None and value.keys().isdisjoint(streams):
        names = ", ".join(sorted(streams))
        raise BadState(where, value, f"{_EXPECTED}, or a map from stream name ({names}) to state")
    for name, blob in value.items():
        if blob is not None and not isinstance(blob, Mapping | list):
            raise BadState(where.below(name), blob, "the state of this stream, an object")
    return AirbyteStateMessage(data=dict(value))


def _is_message(value: Mapping[str, JsonValue]) -> bool:
    match value:
        case {"type": Type.STATE, "state": _}:
            return True
        case {"type": str(), "stream": _} | {"type": str(), "global": _} | {"type": str(), "data": _}:
            return True
        case {"stream": {"stream_descriptor": _}} | {"global": {"stream_states": _}}:
            return True
        case _:
            return value.keys() == {"data"} and isinstance(value["data"], Mapping)


def _is_other_line(value: JsonValue) -> bool:
    """Whether a line of a read's output is a message of another type."""
    return isinstance(value, Mapping) and value.get("type") in set(Type) - {Type.STATE}


def _nulls(message: AirbyteStateMessage) -> list[str]:
    """The streams whose state is null."""
    nulls = [item.stream_descriptor.name for item in _stream_states(message) if item.stream_state is None]
    return nulls + [name for name, blob in (message.data or {}).items() if blob is None]


def _stream_states(message: AirbyteStateMessage) -> Sequence[AirbyteStreamState]:
    if message.global_ is not None:
        return message.global_.stream_states
    return [message.stream] if message.stream is not None else []
