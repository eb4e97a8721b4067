"""Differences between states, in lines that a person reads."""

from collections.abc import Iterable, Mapping

from cdk.base.values import FieldValue, canonical
from cdk.protocol import AirbyteStateMessage


def state_differences(before: Iterable[AirbyteStateMessage], after: Iterable[AirbyteStateMessage]) -> list[str]:
    """A line for each value of a stream's state that differs, such as `posts {"user":1} written_at: "a" -> "b"`.

    What only one of them has is `nothing` in the other.
    """
    first, second = _leaves(before), _leaves(after)
    return [
        f"{where}: {first.get(where, 'nothing')} -> {second.get(where, 'nothing')}"
        for where in dict.fromkeys([*first, *second])
        if first.get(where) != second.get(where)
    ]


def _leaves(messages: Iterable[AirbyteStateMessage]) -> dict[str, str]:
    """The text of each value, by where it is."""
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
