"""PartitionGroups: the partitions of a router in groups, each of which is read as one partition."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cdk.base.logs import FirstWarning
from cdk.base.values import JsonValue, canonical
from cdk.declarative.model.slice_names import PARENT_SLICE
from cdk.declarative.model.stream_plug_points import Router
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState


class PartitionGroups(Router):
    """Groups of at most `size` partitions: each field becomes a list, including that of the parents' slices.

    deduplicate: omit partitions that are equal to an earlier one. warning: logged once when partitions are made; may be
    empty. started: the groups that an interrupted read has started.
    """

    # A new partition shifts the others into different groups.
    shares_cursor = True

    def __init__(
        self, inner: Router, size: int, *, deduplicate: bool, warning: str, started: Sequence[Partition] = ()
    ) -> None:
        self._warning, self._warn = warning, FirstWarning()
        self._inner, self._size, self._deduplicate, self._started = inner, size, deduplicate, started
        self.parents, self.followed = inner.parents, inner.followed

    def resuming(self, started: Iterable[Partition]) -> Router:
        """Return the router that keeps the groups a read has started; newer partitions form further groups."""
        return PartitionGroups(
            self._inner, self._size, deduplicate=self._deduplicate, warning=self._warning, started=list(started)
        )

    def partitions(self, parents: Mapping[str, StreamState]) -> Iterator[Partition | ParentState]:
        self._warn(self._warning)
        group: list[Partition] = []
        started = [_StartedGroup(_member_keys(partition)) for partition in self._started]
        group_of = {key: known for known in started for key in known.keys}
        keys: set[str] = set()
        states: dict[str, ParentState] = {}
        for item in self._inner.partitions(parents):
            match item:
                case ParentState(name=name):
                    # Hold it back until the groups of all partitions that it covers are out.
                    states[name] = item
                case Partition():
                    key = _key(item)
                    if key in keys and self._deduplicate:
                        continue
                    if key in keys or key not in group_of:
                        group.append(item)
                    elif members := group_of[key].add(key, item):
                        yield _joined(members)
                    keys.add(key)
            if len(group) == self._size:
                yield _joined(group)
                group = []
        for rest in (group, *(known.incomplete for known in started)):
            if rest:
                yield _joined(rest)
        yield from states.values()


class _StartedGroup:
    """A group that a read has started. keys: those of its members, in order."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys, self._members = keys, dict[str, Partition]()

    def add(self, key: str, member: Partition) -> Sequence[Partition]:
        """Record that a member still exists. Return all members once the last one is recorded, and nothing before."""
        self._members[key] = member
        return [] if self.incomplete else [self._members[key] for key in self.keys]

    @property
    def incomplete(self) -> Sequence[Partition]:
        """The members recorded so far, while others are missing; empty for a complete group."""
        return [] if len(self._members) == len(self.keys) else list(self._members.values())


def _key(partition: Mapping[str, JsonValue]) -> str:
    """Return the key that distinguishes the members of groups."""
    return canonical({name: value for name, value in partition.items() if name != PARENT_SLICE})


def _member_keys(group: Partition) -> list[str]:
    names = [name for name in group if name != PARENT_SLICE and isinstance(group[name], list)]
    values = zip(*(group[name] for name in names), strict=False)
    return [_key(dict(zip(names, member, strict=True))) for member in values]


def _joined(group: Sequence[Partition]) -> Partition:
    fields = {name: [item.get(name) for item in group] for name in group[0]}
    extra = {name: [item.extra.get(name) for item in group] for name in group[0].extra}
    return Partition(fields, extra=extra)
