"""HttpMetrics: what reading over HTTP cost. The runner of a piece of work sets the metrics that transports add to.

Threads that executors start use the metrics of the thread that started them. Counting takes about 0.3 us per request.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar

from msgspec import Struct, field

from cdk.base.run import setting
from cdk.base.values import JsonValue

_CLASSES = ("0xx", "1xx", "2xx", "3xx", "4xx", "5xx")


class HttpMetrics(Struct):
    """Counts of requests. Several threads may add to them; picklable.

    statuses: responses by status class (`2xx`). unanswered: requests without a complete response. retries: attempts
    after the first. waited_seconds: spent waiting before further attempts and for budgets, summed over all threads.
    rate_limited_seconds: the part of these that is due to the API's rate limits. received_bytes: of bodies,
    decompressed. cached: responses that needed no request.
    """

    statuses: dict[str, int] = field(default_factory=dict)
    unanswered: int = 0
    retries: int = 0
    waited_seconds: float = 0.0
    rate_limited_seconds: float = 0.0
    received_bytes: int = 0
    cached: int = 0

    @property
    def requests(self) -> int:
        """The number of requests sent; each hop of a redirect counts."""
        return sum(self.statuses.values()) + self.unanswered

    def count_response(self, status: int, size: int) -> None:
        """Count a response and the bytes of its body."""
        name = _CLASSES[status // 100] if 0 <= status < 100 * len(_CLASSES) else "other"
        with _adding:
            self.statuses[name] = self.statuses.get(name, 0) + 1
            self.received_bytes += size

    def count_bytes(self, size: int) -> None:
        """Count bytes of a body that is read in pieces."""
        with _adding:
            self.received_bytes += size

    def count_failure(self) -> None:
        """Count a request that failed before its response was complete."""
        with _adding:
            self.unanswered += 1

    def count_retry(self, seconds: float, *, limited: bool = False) -> None:
        """Count a further attempt and the wait before it. limited: whether the API reported a rate limit."""
        with _adding:
            self.retries += 1
            self.waited_seconds += seconds
            self.rate_limited_seconds += seconds if limited else 0

    def count_budget_wait(self, seconds: float) -> None:
        """Count a wait for a budget."""
        with _adding:
            self.waited_seconds += seconds
            self.rate_limited_seconds += seconds

    def count_cached(self) -> None:
        """Count a response that was cached and needed no request."""
        with _adding:
            self.cached += 1

    def __add__(self, other: "HttpMetrics") -> "HttpMetrics":
        return HttpMetrics(
            dict(Counter(self.statuses) + Counter(other.statuses)),
            self.unanswered + other.unanswered,
            self.retries + other.retries,
            self.waited_seconds + other.waited_seconds,
            self.rate_limited_seconds + other.rate_limited_seconds,
            self.received_bytes + other.received_bytes,
            self.cached + other.cached,
        )

    def to_json(self) -> Mapping[str, JsonValue]:
        """Return the counts as reports show them."""
        return {
            "requests": self.requests,
            "retries": self.retries,
            "waited_seconds": round(self.waited_seconds, 3),
            "rate_limited_seconds": round(self.rate_limited_seconds, 3),
            "received_bytes": self.received_bytes,
            "cached": self.cached,
            "unanswered": self.unanswered,
            "statuses": dict(sorted(self.statuses.items())),
        }


# One lock for all metrics: it is held for 0.1 us, and metrics with a lock of their own could not be pickled.
_adding = threading.Lock()
_current: ContextVar[HttpMetrics] = ContextVar("http", default=HttpMetrics())  # noqa: B039 - shared on purpose


def current_metrics() -> HttpMetrics:
    """Return the metrics to add to here; those of the process if none were set."""
    return _current.get()


def counting(into: HttpMetrics) -> AbstractContextManager[HttpMetrics]:
    """Count the requests of a block in `into`."""
    return setting(_current, into)
