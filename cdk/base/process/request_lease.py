"""RequestLease: the number of requests that a run may send, or that it has lent to one of its tasks.

A run and each of its tasks set their lease, and transports count requests against it. Threads that executors start use
the lease of the thread that started them.
"""

import threading
from contextlib import AbstractContextManager
from contextvars import ContextVar

from cdk.base.process.interruption import MAX_REQUESTS, Interrupted
from cdk.base.run import setting

_LEAST_LENT = 8
"""The fewest requests to lend to a task, as long as that many are left."""
_LEAST_SPARE = 100
"""Requests reserved for pages that will certainly be read; usually more than an executor has threads."""


class RequestsSpent(Interrupted):
    """The lease has no requests left."""

    def __init__(self) -> None:
        super().__init__(MAX_REQUESTS)


class RequestLease:
    """The requests that a run or a task may send. Thread-safe.

    unsent: how many it may still send or lend; None for no limit. sent: how many it has sent itself.
    """

    def __init__(self, most: int | None = None) -> None:
        """most: the limit of requests; None for no limit."""
        self.unsent, self.sent = most, 0

    @property
    def has_spare(self) -> bool:
        """Whether enough requests are left to send one whose response may turn out useless."""
        return self.unsent is None or self.unsent > _LEAST_SPARE

    def count(self) -> None:
        """Count a request that is about to be sent. Raises RequestsSpent: none is left."""
        with _counting:
            if self.unsent is not None:
                if self.unsent <= 0:
                    raise RequestsSpent
                self.unsent -= 1
            self.sent += 1

    def lend(self, parts: int) -> int | None:
        """Lend a task one of `parts` equal parts, but enough requests to make it worthwhile. None: no limit."""
        with _counting:
            if self.unsent is None:
                return None
            lent = min(self.unsent, max(self.unsent // parts, _LEAST_LENT))
            self.unsent -= lent
            return lent

    def return_unsent(self, lent: int | None, sent: int | None) -> None:
        """Take back the requests that a task was lent and has not sent. sent: None if unknown, so it may be all."""
        with _counting:
            if self.unsent is not None and lent is not None and sent is not None:
                self.unsent += lent - sent


# One lock for all leases: it is held for 0.1 us, and each task gets a new lease.
_counting = threading.Lock()
_lease: ContextVar[RequestLease] = ContextVar("lease", default=RequestLease())  # noqa: B039 - without a limit


def current_lease() -> RequestLease:
    """The lease that this context's requests count against; one without a limit if none was set."""
    return _lease.get()


def leasing(lease: RequestLease) -> AbstractContextManager[RequestLease]:
    """Count the requests of a block, and of threads that executors start in it, against a lease."""
    return setting(_lease, lease)
