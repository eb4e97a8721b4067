"""Freshness: the age of a stream's last complete read, the lag of its cursor behind the clock, and limits for both."""

from datetime import datetime, timedelta

from msgspec import Struct

from cdk.base.times.clock import parse_timestamp
from cdk.base.values import Stored
from cdk.lake.admin.diff import values
from cdk.lake.delta.table_state import TableState


class FreshnessLimits(Struct, frozen=True):
    """Limits beyond which a table is stale; None: no limit.

    max_age: since the start of the last complete read. max_lag: of the greatest cursor value behind the clock.
    """

    max_age: timedelta | None = None
    max_lag: timedelta | None = None

    def __or__(self, other: "FreshnessLimits") -> "FreshnessLimits":
        """Return these limits, completed from `other` where they are None."""
        age, lag = self.max_age, self.max_lag
        return FreshnessLimits(other.max_age if age is None else age, other.max_lag if lag is None else lag)


NO_LIMITS = FreshnessLimits()


class Freshness(Struct, frozen=True):
    """How fresh a table is at a point in time.

    age: since the start of the last complete read; None: no read was complete. lag: from the greatest cursor value to
    the clock, 0 if the value is in the future; None: no cursor value is a timestamp. stale: the exceeded limits, for
    display; empty if no limit is exceeded.
    """

    age: timedelta | None
    lag: timedelta | None
    stale: str

    @classmethod
    def at(
        cls, now: datetime, completed: datetime | None, cursor: datetime | None, limits: FreshnessLimits
    ) -> "Freshness":
        """Return the freshness at `now`. completed: start of the last complete read. cursor: the greatest value."""
        age, lag = (
            None if timestamp is None else max(now - timestamp, timedelta()) for timestamp in (completed, cursor)
        )
        too_old = limits.max_age is not None and (age is None or age > limits.max_age)
        too_far = limits.max_lag is not None and lag is not None and lag > limits.max_lag
        exceeded = [name for name, is_exceeded in (("max_age", too_old), ("max_lag", too_far)) if is_exceeded]
        return cls(age, lag, " and ".join(exceeded))


class TableTimes(Struct, frozen=True):
    """When the last complete read of a stream started, and the greatest value of its cursor."""

    completed: datetime | None
    cursor: datetime | None


def cursor_of(saved: TableState | None) -> datetime | None:
    """Return the greatest cursor value in the state of an incremental stream."""
    return newest_cursor(saved.state) if saved is not None and saved.sync_mode == "incremental" else None


def newest_cursor(state: Stored) -> datetime | None:
    """Return the greatest cursor value of a stream's partitions; None if no value is a timestamp in ISO 8601.

    The cursor of a partition without new records stays behind although nothing is missing, so the greatest one counts.
    """
    texts = (value for where, value in values(state) if isinstance(value, str) and not where.startswith("parent "))
    timestamps = (parse_timestamp(text, ()) for text in texts)
    return max((timestamp for timestamp in timestamps if timestamp is not None), default=None)
