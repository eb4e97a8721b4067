"""HttpMetrics: what reading over HTTP took. The runner of a piece of work sets which count; transports add to them.

Threads that the executors start count where the one that started them does. Counting takes about 0.3 us a request.
"""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field

from cdk.base.run import setting
from cdk.base.values import JsonValue

_CLASSES = ("0xx", "1xx", "2xx", "3xx", "4xx", "5xx")


@dataclass(slots=True)
class HttpMetrics:
    """Counts of requests. Safe to add to from several threads; picklable.

    statuses: responses by class of status (`2xx`). unanswered: requests that no whole response came to. retries:
    attempts after the first. waited: seconds of pauses, before further attempts and for budgets, of all threads
    together. limited: those of them that the API's limits are the reason of. received: bytes of bodies, after content
    encoding is undone. cached: responses that took no request.
    """

    statuses: dict[str, int] = field(default_factory=dict)
    unanswered: int = 0
    retries: int = 0
    waited: float = 0.0
    limited: float = 0.0
    received: int = 0
    cached: int = 0

    @property
    def requests(self) -> int:
        """Requests that were sent; each hop of a redirect is one."""
        return sum(self.statuses.values()) + self.unanswered

    def count_response(self, status: int, size: int) -> None:
        """Count a response and the bytes of its body."""
        name = _CLASSES[status // 100] if 0 <= status < 100 * len(_CLASSES) else "other"
        with _adding:
            self.statuses[name] = self.statuses.get(name, 0) + 1
            self.received += size

    def piece(self, size: int) -> None:
        """Count bytes of a body that is read in pieces."""
        with _adding:
            self.received += size

    def count_failure(self) -> None:
        """Count a request that failed before its response was whole."""
        with _adding:
            self.unanswered += 1

    def retry(self, seconds: float, *, limited: bool = False) -> None:
        """Count a further attempt and the pause before it. limited: the API said that it was asked too often."""
        with _adding:
            self.retries += 1
            self.waited += seconds
            self.limited += seconds if limited else 0

    def wait(self, seconds: float) -> None:
        """Count a pause for a budget."""
        with _adding:
            self.waited += seconds
            self.limited += seconds

    def hit(self) -> None:
        """Count a response that took no request."""
        with _adding:
            self.cached += 1

    def __add__(self, other: "HttpMetrics") -> "HttpMetrics":
        both = {
            name: self.statuses.get(name, 0) + other.statuses.get(name, 0)
            for name in sorted({*self.statuses, *other.statuses})
        }
        return HttpMetrics(
            both,
            self.unanswered + other.unanswered,
            self.retries + other.retries,
            self.waited + other.waited,
            self.limited + other.limited,
            self.received + other.received,
            self.cached + other.cached,
        )

    def to_json(self) -> Mapping[str, JsonValue]:
        """The counts as a report shows them."""
        return {
            "requests": self.requests,
            "retries": self.retries,
            "waited_seconds": round(self.waited, 3),
            "rate_limited_seconds": round(self.limited, 3),
            "received_bytes": self.received,
            "cached": self.cached,
            "unanswered": self.unanswered,
            "statuses": dict(sorted(self.statuses.items())),
        }


# One lock for all: it is held for 0.1 us, and a lock of its own would keep metrics from travelling.
_adding = threading.Lock()
_current: ContextVar[HttpMetrics] = ContextVar("http", default=HttpMetrics())  # noqa: B039 - the process's own, shared on purpose


def current_metrics() -> HttpMetrics:
    """The metrics that count here; the process's own where none was set."""
    return _current.get()


def counting(into: HttpMetrics) -> AbstractContextManager[HttpMetrics]:
    """Count the requests of a block in `into`."""
    return setting(_current, into)
