"""ParentState: how far a parent is covered by the partitions that were planned from its records."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState

Child = TypeVar("Child")
Until = Callable[[datetime], StreamState | None]
"""The state as one that a read had reached which ended at a moment; None where it is not at its end."""


@dataclass(frozen=True, slots=True)
class ParentState:
    """Comes among partitions: all partitions so far stem from what the parent had read when it stood at `state`."""

    name: str
    state: StreamState
    until: Until | None = field(default=None, compare=False, repr=False)

    def no_later(self, end: datetime) -> "ParentState | None":
        """Where the parent stands after a read that ended there at the latest; None in the middle of one."""
        if (until := self.until) is None:
            return self
        state = until(end)
        return None if state is None else ParentState(self.name, state, lambda other: until(min(other, end)))


def without_states(items: Iterable[Child | ParentState]) -> Iterator[Child]:
    """The items but for those that say where a parent stands."""
    return (item for item in items if not isinstance(item, ParentState))


def followed_until(end: datetime, items: Iterable[Partition | ParentState]) -> Iterator[Partition | ParentState]:
    """The items with parents that are followed no further than `end`, where the windows of their children end.

    A parent that changed behind that has children there, which a later read is to look for.
    """
    for item in items:
        reached = item.no_later(end) if isinstance(item, ParentState) else item
        if reached is not None:
            yield reached
