"""ParentState: the progress of a parent stream, up to which its records have become partitions."""

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from cdk.base.run import setting
from cdk.base.secret_masking import SecretMarks
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState

Child = TypeVar("Child")
Until = Callable[[datetime], StreamState | None]
"""Returns the parent's state as if its read had ended at that time; None if the read is unfinished."""

child_secrets: ContextVar[SecretMarks | None] = ContextVar("child_secrets", default=None)
"""The secrets of the stream whose partitions are being listed: parents that its code builds have the same."""


class ParentState(Struct, frozen=True):
    """A marker among partitions: all partitions before it stem from records that the parent's `state` covers."""

    name: str
    state: StreamState
    until: Until | None = None

    def no_later(self, end: datetime) -> "ParentState | None":
        """The parent's state as if its read had ended at `end` at the latest; None while the read is unfinished."""
        if (until := self.until) is None:
            return self
        state = until(end)
        return None if state is None else ParentState(self.name, state, lambda other: until(min(other, end)))


def without_states(items: Iterable[Child | ParentState]) -> Iterator[Child]:
    """The items without the states of parents."""
    return (item for item in items if not isinstance(item, ParentState))


def followed_until(end: datetime, items: Iterable[Partition | ParentState]) -> Iterator[Partition | ParentState]:
    """The items, with the states of parents limited to `end`, where the windows of their children end.

    A parent that changed after `end` has children after it, which a later read must look for.
    """
    for item in items:
        reached = item.no_later(end) if isinstance(item, ParentState) else item
        if reached is not None:
            yield reached


def listed_with(secrets: SecretMarks, listing: Callable[[], Iterable[Child]]) -> Iterator[Child]:
    """The items that `listing` returns; `child_secrets` has `secrets`, if there are any, while its code runs."""
    if not secrets:
        return iter(listing())
    with setting(child_secrets, secrets):
        items = iter(listing())
    return _each_with(secrets, items)


def _each_with(secrets: SecretMarks, items: Iterator[Child]) -> Iterator[Child]:
    while True:
        # Not around the `yield`: what reads an item has secrets of its own.
        with setting(child_secrets, secrets):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item
