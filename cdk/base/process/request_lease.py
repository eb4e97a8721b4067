"""RequestLease: how many requests a run may send, or the part of it that one of its tasks was lent.

The runner of a piece of work sets the lease that counts; transports take from it. Threads that the executors start take
from that of the thread that started them.
"""

import threading
from contextlib import AbstractContextManager
from contextvars import ContextVar

from cdk.base.process.interruption import MAX_REQUESTS, Interrupted
from cdk.base.run import setting

_LEAST_LENT = 8
"""Requests that a task is lent at least, while there are so many."""
_LEAST_SPARE = 100
"""Requests that are left for pages which are sure to be read: more than an executor has threads, as a rule."""


class RequestsSpent(Interrupted):
    """All requests that may be sent were sent."""

    def __init__(self) -> None:
        super().__init__(MAX_REQUESTS)


class RequestLease:
    """How many requests may be sent: of a run, or the part of it that a task was lent. Thread-safe."""

    def __init__(self, most: int | None = None) -> None:
        """most: requests that may be sent; None: any number."""
        self.unsent, self.sent = most, 0

    @property
    def spares(self) -> bool:
        """Whether a request may be sent whose response may turn out to be of no use."""
        return self.unsent is None or self.unsent > _LEAST_SPARE

    def count(self) -> None:
        """Count a request that is about to be sent. Raises RequestsSpent."""
        with _counting:
            if self.unsent is not None:
                if self.unsent <= 0:
                    raise RequestsSpent
                self.unsent -= 1
            self.sent += 1

    def lend(self, parts: int) -> int | None:
        """Requests for a task, of `parts` like it that may need some; never so few that a task is not worth it."""
        with _counting:
            if self.unsent is None:
                return None
            lent = min(self.unsent, max(self.unsent // parts, _LEAST_LENT))
            self.unsent -= lent
            return lent

    def return_unsent(self, lent: int | None, sent: int | None) -> None:
        """Have back what a task has not sent. sent: None: unknown, so it counts as all of them."""
        with _counting:
            if self.unsent is not None and lent is not None and sent is not None:
                self.unsent += lent - sent


# One lock for all: it is held for 0.1 us, and a lease is made for each task.
_counting = threading.Lock()
_lease: ContextVar[RequestLease] = ContextVar("lease", default=RequestLease())  # noqa: B039 - without a limit


def current_lease() -> RequestLease:
    """How many requests may be sent here."""
    return _lease.get()


def leasing(lease: RequestLease) -> AbstractContextManager[RequestLease]:
    """Let requests of a block, and of threads that the executors start in it, keep to a lease."""
    return setting(_lease, lease)
