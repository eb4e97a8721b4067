"""Checks of states that come from a user or a platform against the stream that is to resume from them."""

from collections.abc import Iterator, Mapping

from cdk.base.errors import BadState
from cdk.base.logs import logger
from cdk.base.values import FieldValue, Record, json_kind
from cdk.base.wording import did_you_mean
from cdk.state.position import Checkpoint, Done
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.streams.stream import Stream

_EXTRA = ("state", "lookback_window")
"""Further fields in the state of a stream with partitions; see `cdk.state.wire`."""


def check_values(stream: Stream, state: StreamState) -> None:
    """Raise BadState for a value that the stream's cursor cannot parse. Null and empty values only log a warning."""
    cursor = stream.cursor
    if cursor is None:
        return
    for path, values in _cursors(stream, state):
        value = values.get(cursor.field)
        if value in (None, ""):
            if cursor.field in values:
                text = "%s.%s is %s: it is read from its start"
                logger.warning(text, path, cursor.field, "null" if value is None else "empty")
        elif cursor.greatest([value]) is None:
            raise BadState(f"{path}.{cursor.field}", value, cursor.order.expected, stream=stream.name)


def check_fields(stream: Stream, state: StreamState) -> None:
    """Raise BadState for a field that the stream does not use, or a cursor without its value.

    Accepts any state of a stream without a cursor: page tokens have any shape.
    """
    cursor = stream.cursor
    if cursor is None:
        return
    for name in state.extra:
        if name not in _EXTRA:
            expected = f"{cursor.field!r}{did_you_mean(name, [cursor.field])}"
            raise BadState(f"state of {stream.name}.{name}", state.extra[name], expected, stream=stream.name)
    for path, values in _cursors(stream, state):
        for name in (*values, cursor.field):
            if name != cursor.field or values.get(name) in (None, ""):
                expected = f"a value of {cursor.field!r} and nothing else{did_you_mean(name, [cursor.field])}"
                raise BadState(path, dict(values), expected, stream=stream.name)


def check_tokens(stream: Stream, state: StreamState) -> None:
    """Raise BadState for a page token with which the stream cannot request a page."""
    if stream.cursor_field is None:
        for path, token in _cursors(stream, state):
            try:
                stream.check_token(token)
            except BadState as error:
                raise BadState(path, dict(token), error.expected, stream=stream.name) from error


def check_kinds(stream: Stream, state: StreamState, *, incremental: bool) -> None:
    """Raise BadState for a position of a kind that the stream never writes: a sync would read it from its start."""
    for partition, position in state.positions.items():
        path, field = f"state of {stream.name}{f' {partition.key}' if partition else ''}", stream.cursor_field
        match position:
            case Done() if incremental and stream.cursor is not None:
                raise BadState(path, "the end of a full refresh", f"a value of {field!r}", stream=stream.name)
            case Checkpoint(cursor=token) if field is None and not stream.supports_checkpointing:
                expected = "an empty state, as the stream is read without checkpoints"
                raise BadState(path, dict(token), expected, stream=stream.name)
            case _:
                pass


def check_partitions(stream: Stream, state: StreamState, replaced: StreamState) -> None:
    """Raise BadState for a partition that is unlike all of the state that it replaces: no sync would resume from it.

    It has other fields, or a value of another type, or the stream has no partitions.
    """
    has_none = stream.partitioned is False or (bool(replaced.positions) and not any(replaced.positions))
    known: dict[object, Partition] = {}
    for partition in filter(None, replaced.positions):
        known.setdefault(_shape(partition), partition)
    for partition in filter(None, state.positions):
        if has_none:
            expected = "a state without partitions, as the stream has none"
        elif known and _shape(partition) not in known and not any(_alike(partition, other) for other in known.values()):
            like = next(iter(known.values())).key
            expected = (
                f"a partition like {like}, with the same fields and types, as in the state that it replaces; if the "
                "source now names its partitions differently, run `spark-cdk state reset` before"
            )
        else:
            continue
        raise BadState(f"state of {stream.name}", dict(partition), expected, stream=stream.name)


def _shape(value: FieldValue | Partition) -> object:
    """The names of a partition's fields, with the types of their values."""
    if isinstance(value, Mapping):
        return frozenset((name, _shape(part)) for name, part in value.items())
    return json_kind(value)


def _alike(value: FieldValue | Partition, other: FieldValue | Partition) -> bool:
    """Whether two partitions have the same fields, with values of the same types or null."""
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(_alike(value[name], other[name]) for name in value)
    return value is None or other is None or json_kind(value) == json_kind(other)


def _cursors(stream: Stream, state: StreamState) -> Iterator[tuple[str, Record]]:
    for partition, position in state.positions.items():
        if position.cursor is not None:
            yield f"state of {stream.name}{f' {partition.key}' if partition else ''}", position.cursor
