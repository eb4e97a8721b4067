"""Freshness: how old a stream's last complete read is, how far its cursor is behind the clock, and how much may be."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from cdk.base.times.clock import parse_timestamp
from cdk.base.values import Stored
from cdk.lake.admin.diff import values
from cdk.lake.delta.table_state import TableState


@dataclass(frozen=True)
class FreshnessLimits:
    """What is too old. max_age: since the read began that last came to its end. max_lag: behind the clock.

    None: nothing is.
    """

    max_age: timedelta | None = None
    max_lag: timedelta | None = None

    def __or__(self, other: "FreshnessLimits") -> "FreshnessLimits":
        """These, and where they say nothing, those of `other`."""
        age, lag = self.max_age, self.max_lag
        return FreshnessLimits(other.max_age if age is None else age, other.max_lag if lag is None else lag)


NO_LIMITS = FreshnessLimits()


@dataclass(frozen=True)
class Freshness:
    """How fresh a table is at a point in time.

    age: since the read of the stream began that last came to its end; None: none did. lag: from the greatest cursor
    value to the clock, 0 where that lies ahead of it; None: no cursor value is a timestamp. stale: the limits that it
    exceeds, as people read them; empty where it exceeds none.
    """

    age: timedelta | None
    lag: timedelta | None
    stale: str

    @classmethod
    def at(
        cls, now: datetime, completed: datetime | None, cursor: datetime | None, limits: FreshnessLimits
    ) -> "Freshness":
        """How fresh a table is now. completed: when its last complete read began. cursor: its greatest value."""
        age, lag = (None if moment is None else max(now - moment, timedelta()) for moment in (completed, cursor))
        too_old = limits.max_age is not None and (age is None or age > limits.max_age)
        too_far = limits.max_lag is not None and lag is not None and lag > limits.max_lag
        exceeded = [name for name, is_exceeded in (("max_age", too_old), ("max_lag", too_far)) if is_exceeded]
        return cls(age, lag, " and ".join(exceeded))


class TableTimes(NamedTuple):
    """When the read of a stream began that last came to its end, and the greatest value of its cursor."""

    completed: datetime | None
    cursor: datetime | None


def cursor_of(saved: TableState | None) -> datetime | None:
    """The greatest cursor value that a table remembers of an incremental stream."""
    return newest_cursor(saved.state) if saved is not None and saved.sync_mode == "incremental" else None


def newest_cursor(state: Stored) -> datetime | None:
    """The greatest cursor value of a stream's partitions; None where none is a timestamp in ISO 8601.

    Partitions that have been quiet lag behind the source without lacking anything, so the greatest one counts.
    """
    texts = (value for where, value in values(state) if isinstance(value, str) and not where.startswith("parent "))
    moments = (parse_timestamp(text, ()) for text in texts)
    return max((moment for moment in moments if moment is not None), default=None)
