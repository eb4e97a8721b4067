"""Ordered progress of parallel work: items open in order and close in any order; progress advances from the front."""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Ticket(Generic[T]):
    """One opened item. Belongs to the queue that returned it."""

    __slots__ = ("closed", "item")

    def __init__(self, item: T) -> None:
        self.item, self.closed = item, False


class AckQueue(Generic[T]):
    """A queue whose items open in order and close in any order; `pop_closed` returns the closed ones at its front.

    Not thread-safe: it belongs to the one thread that owns the state.
    """

    def __init__(self) -> None:
        self._tickets: deque[Ticket[T]] = deque()

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[Ticket[T]]:
        """Yield the tickets that are not popped yet, oldest first, including closed ones."""
        return iter(self._tickets)

    def open(self, item: T) -> Ticket[T]:
        """Append an item and return the ticket that closes it."""
        ticket = Ticket(item)
        self._tickets.append(ticket)
        return ticket

    def close(self, ticket: Ticket[T]) -> None:
        """Mark an item as finished. Closing twice changes nothing."""
        ticket.closed = True

    def pop_closed(self) -> list[T]:
        """Remove and return the closed items at the front, oldest first; empty while the first is still open."""
        closed, tickets = [], self._tickets
        while tickets and tickets[0].closed:
            closed.append(tickets.popleft().item)
        return closed
