"""PartitionsInTurn: partitions of several origins, one after the other, with the progress of shared parents."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from cdk.base.logs import FirstWarning
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState


class PartitionOrigin(Struct, frozen=True):
    """An origin of partitions: a parent, or a router."""

    followed: Sequence[DeclaredStream]
    """The parents whose progress is part of the state."""

    partitions: Callable[[Mapping[str, StreamState]], Iterable[Partition | ParentState]]
    """Returns the partitions, in order, when the parents stand at the given states."""


class PartitionsInTurn:
    """The partitions of all origins, in order.

    A state identifies parents by name only. If several origins follow the same parent, the progress that the first of
    them made takes effect after the partitions of the last: a read that resumed earlier would miss what the later ones
    make of the same records. If different streams share a name, none of them is followed.

    stream: the stream that is read, for warnings.
    """

    def __init__(self, stream: str, origins: Sequence[PartitionOrigin]) -> None:
        self._origins, self._warn = origins, FirstWarning()
        self.followed = [parent for origin in origins for parent in origin.followed]
        self._ambiguous = _ambiguous(self.followed)
        known = set[str]().union(*(_ambiguous(origin.followed) for origin in origins if len(origins) > 1))
        self._warning = _ambiguity_warning(stream, sorted(self._ambiguous - known))
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}
        for number, origin in enumerate(origins):
            for parent in origin.followed:
                self._first.setdefault(parent.name, number)
                self._last[parent.name] = number

    def partitions(self, parents: Mapping[str, StreamState]) -> Iterator[Partition | ParentState]:
        """Yield the partitions and the progress of the parents, which started at the states `parents`."""
        self._warn(self._warning)
        parents = {name: state for name, state in parents.items() if name not in self._ambiguous}
        held: dict[str, ParentState] = {}
        for number, origin in enumerate(self._origins):
            for item in origin.partitions(parents):
                if not isinstance(item, ParentState) or self._is_alone(item.name):
                    yield item
                elif number == self._first[item.name] and item.name not in self._ambiguous:
                    # Not the progress of a later origin, which may have met records that the first had not.
                    held[item.name] = item
            yield from [held.pop(name) for name in [*held] if number == self._last[name]]

    def _is_alone(self, name: str) -> bool:
        return name not in self._ambiguous and self._first.get(name) == self._last.get(name)


def _ambiguous(streams: Iterable[DeclaredStream]) -> set[str]:
    """Return the names that different streams share."""
    known: dict[str, object] = {}
    return {stream.name for stream in streams if known.setdefault(stream.name, stream.made_of) != stream.made_of}


def _ambiguity_warning(stream: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    return (
        f"{stream}: found different streams named {', '.join(map(repr, names))} among its parents with "
        "`incremental_dependency`, expected a different name for each, since a state identifies parents by name: none "
        "of these is followed, so each read makes partitions of all their records; rename them"
    )
