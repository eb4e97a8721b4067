"""Sources made up by Hypothesis, each with a plain model beside it: the records that it has."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import strategies as st

from cdk import CountCursor, Cursor, DatetimeCursor, Item, Json, Partition, Record, Slice, Stream
from cdk.base.values import canonical
from tests.samples import DAY0, moment, pages

SPAN = 96
"""Hours that records lie in; the read is planned later."""

STEP = timedelta(days=1)
LOOKBACK = timedelta(hours=12)
IDS: tuple[Json, ...] = (1, "1", 1.5, True, None, "é", "")
ODD: tuple[Json, ...] = (None, "never", {"at": 1}, [], "2024-02-31T00:00:00Z")
"""Values that no cursor can read; the first stands for a field that is missing."""


def cursors() -> Mapping[str, Cursor]:
    """One of every kind."""
    return {
        "one window": DatetimeCursor("at", start=DAY0),
        "windows": DatetimeCursor("at", start=DAY0, step=STEP),
        "windows that look back": DatetimeCursor("at", start=DAY0, step=STEP, lookback=LOOKBACK),
        "ordered windows": DatetimeCursor("at", start=DAY0, step=STEP, ordered=True),
        "ordered windows that look back": DatetimeCursor("at", start=DAY0, step=STEP, lookback=LOOKBACK, ordered=True),
        "numbers": CountCursor("at"),
        "ordered numbers": CountCursor("at", ordered=True),
    }


@dataclass
class Made:
    """What a made-up source has. hours: of each record; an odd value where that is no whole number.

    Records have no id, so those with the same hour and colour are equal. everywhere: records without a cursor value
    come with every window; otherwise each with one window. late: how many of the last rows came after the first read
    began; they stand behind all others. now: the hour at which reads are planned.
    """

    kind: str
    rows: list[tuple[Json, str]]
    page_size: int
    partitions: list[Json]
    everywhere: bool
    later: list[tuple[int, str]] = field(default_factory=list)
    late: int = 0
    now: int = SPAN + 30

    def stream(self) -> "MadeStream":
        """The stream that reads it."""
        return MadeStream(self)


class MadeStream(Stream):
    """Gives the records of a made-up source, page by page; the source includes both edges of a window."""

    name = "made"
    supports_checkpointing = True

    def __init__(self, made: Made) -> None:
        super().__init__()
        self.made = made
        self.cursor = cursors()[made.kind]
        self.cursor_field = "at"

    def now(self) -> datetime:
        return DAY0 + timedelta(hours=self.made.now)

    def partitions(self) -> Iterable[Partition]:
        return [Partition({"shop": shop}) for shop in self.made.partitions] or super().partitions()

    def record(self, partition: Partition, value: Json, colour: str) -> dict[str, Json]:
        """One record as the source gives it."""
        record: dict[str, Json] = {**partition, "colour": colour}
        if type(value) is int:
            value = value if "numbers" in self.made.kind else moment(value)
        return record if value is None else {**record, "at": value}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert self.cursor is not None
        begun = len(self.made.rows) - self.made.late
        dated, undated = self._chosen(slice, self.made.rows[:begun])
        late, late_undated = self._chosen(slice, self.made.rows[begun:])
        if self.cursor.ordered:
            dated, late = sorted([*dated, *late], key=lambda pair: pair[0]), []
        half = len(undated) // 2
        records = [*undated[:half], *(r for _, r in dated), *undated[half:], *(r for _, r in late), *late_undated]
        yield from pages(records, slice, self.made.page_size)

    def _chosen(self, slice: Slice, rows: list[tuple[Json, str]]) -> tuple[list[tuple[int, Record]], list[Record]]:
        """Those of some rows that lie in a window, by hour, and those without one."""
        assert slice.window is not None
        dated: list[tuple[int, Record]] = []
        undated: list[Record] = []
        low, high = slice.window.start, slice.window.end
        for value, colour in rows:
            record = self.record(slice.partition, value, colour)
            hour = value
            if type(value) is not int:
                if self.made.everywhere:
                    undated.append(record)
                    continue
                # Where else a source gives such a record is its own affair: here where those of some hour are.
                hour = 7 * len(canonical(record)) % SPAN
            at = self.record(slice.partition, hour, colour)["at"]
            if low <= at and (high is None or at <= high) and (hour == value or slice.window.last or at != high):
                dated.append((hour, record))
        return dated, undated

    def all(self) -> Counter[str]:
        """The model: every record that the source has, as often as it has it."""
        return Counter(
            canonical(self.record(partition, value, colour))
            for partition in self.partitions()
            for value, colour in self.made.rows
        )


COLOURS = st.sampled_from(["red", "red", "blue"])
HOURS = st.one_of(st.sampled_from([0, 24, 25, 48, 50, SPAN]), st.integers(0, SPAN))


def made(*, odd: bool = True) -> st.SearchStrategy[Made]:
    """Made-up sources. odd: some records have no cursor value that can be read."""
    values: st.SearchStrategy[Json] = st.one_of(HOURS, HOURS, st.sampled_from(ODD)) if odd else HOURS
    return st.builds(
        Made,
        kind=st.sampled_from(list(cursors())),
        rows=st.lists(st.tuples(values, COLOURS), max_size=25),
        page_size=st.integers(1, 4),
        partitions=st.one_of(st.just([]), st.lists(st.sampled_from(IDS), max_size=3, unique_by=canonical)),
        everywhere=st.booleans(),
        later=st.lists(st.tuples(st.integers(0, 11), COLOURS), max_size=6),
    )
