"""Shared by the tests of checkpoint readers: a cursor of days, and what is left to read."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cdk import CheckpointReader, DatetimeCursor, Partition, Slice

NOW = datetime(2024, 1, 10, tzinfo=UTC)
DAYS = DatetimeCursor("day", start="2024-01-01", step=timedelta(days=1), formats=["%Y-%m-%d"])
A, B, C = (Partition.of(shop=shop) for shop in "abc")


def day(n: int) -> str:
    return f"2024-01-{n:02}"


def slices(reader: CheckpointReader) -> Iterator[Slice]:
    return iter(reader.next, None)


def starts(reader: CheckpointReader) -> list[int]:
    """The days that the slices left to read begin at."""
    return [int(s.window.start[8:]) for s in slices(reader) if s.window is not None]
