"""The cursor of Kinto's objects: `last_modified`."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from cdk import CountCursor, Json, Window

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LastModified(CountCursor):
    """Kinto's timestamps, requested with `_since`, which excludes the value itself.

    lookback: how many milliseconds before the last value a new read starts. It catches records that became visible
        after later ones: PostgreSQL transactions take their timestamp when they write and show it when they commit.
        The position of such a read is the time at which it was planned, even though it returns newer records: the read
        takes time and may be interrupted, and any record that it misses became visible after that time.
    """

    def __init__(self, lookback: int = 0) -> None:
        super().__init__("last_modified")
        self._lookback = lookback

    def windows(
        self, after: Json | None, now: datetime, *, upto: Json | None = None, again: bool = True
    ) -> Iterator[Window]:
        back = self._lookback if again and after is not None else 0
        planned = (now - _EPOCH) // timedelta(milliseconds=1) if self._lookback else None
        for window in super().windows(after, now, upto=upto, again=again):
            yield replace(window, start=max(0, window.start - back), until=window.until or planned)

    def repeats(self, value: Json, reached: Json) -> bool:
        # More than in the base class: the last value itself is not returned again.
        return bool(value > reached - self._lookback)
