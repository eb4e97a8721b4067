"""How records advance: by Kinto's `last_modified`."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from cdk import CountCursor, Json, Window


class LastModified(CountCursor):
    """Kinto's timestamps, asked for with `_since`, which excludes the value itself.

    lookback: milliseconds before the value reached where a new read starts. It finds records that became visible
        after later ones: PostgreSQL transactions take their timestamp when they write and show it when they commit.
    """

    def __init__(self, lookback: int = 0) -> None:
        super().__init__("last_modified")
        self._lookback = lookback

    def windows(
        self, after: Json | None, now: datetime, *, upto: Json | None = None, again: bool = True
    ) -> Iterator[Window]:
        back = self._lookback if again and after is not None else 0
        for window in super().windows(after, now, upto=upto, again=again):
            yield replace(window, start=max(0, window.start - back))

    def repeats(self, value: Json, reached: Json) -> bool:
        # More than the base class knows: the value reached is itself not given again.
        return bool(value > reached - self._lookback)
