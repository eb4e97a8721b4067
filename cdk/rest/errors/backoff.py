"""How long to wait before asking again."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cdk.base.times.clock import Clock
from cdk.rest.http.messages import Response


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow: `first`, then `factor` times the one before, up to `cap`.

    jitter: the share of a wait by which it may be longer, so that parallel readers do not come back at once.
    random: gives numbers from 0 to below 1.
    """

    first: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(minutes=2)
    jitter: float = 0.1
    random: Callable[[], float] = random.random

    def seconds(self, attempt: int) -> float:
        """How long to wait after the `attempt`th try (from 1) failed."""
        wait: float = self.first.total_seconds() * self.factor ** min(attempt - 1, 64)
        return min(self.cap.total_seconds(), wait) * (1 + self.jitter * self.random())


def retry_after(response: Response, clock: Clock) -> float | None:
    """The seconds that the header Retry-After asks to wait, given as seconds or as a date; None without a usable one.

    Never negative.
    """
    value = response.headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value)) if float(value) < float("inf") else None
    except ValueError:
        moment = http_date(value)
    return None if moment is None else max(0.0, (moment - clock()).total_seconds())


def http_date(value: str) -> datetime | None:
    """The moment an HTTP date names (`Wed, 21 Oct 2015 07:28:00 GMT`); None when it is none."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - brings the mail package, which few runs need

    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
