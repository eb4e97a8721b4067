"""Parents that are followed, three deep: no child is lost, whenever it comes and wherever a read is interrupted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import (
    Checkpoint,
    DatetimeCursor,
    Item,
    Page,
    ParentState,
    Partition,
    Slice,
    Stream,
    StreamState,
    following_partitions,
)
from cdk.base.values import Json
from cdk.engine.read import read
from cdk.state.wire import decode, encode
from tests.samples import DAY0

LEVELS = ("shops", "orders", "lines")
PAGE = 2
Where = tuple[int, int]
"""The shop and the order that a line belongs to."""
Read = tuple[int, int | None, Sequence[Where], int]
"""The hours before it, after how many items it is interrupted if it is, what comes in it, from which second on."""


class Source:
    """Whatever changes changes what it belongs to. Each request takes a second, and so does a look at the clock."""

    def __init__(self, behind: int) -> None:
        """behind: by how many hours its clock is behind that of the reader."""
        self.now, self.ticks, self._behind = DAY0, 0, timedelta(hours=behind)
        self.rows: dict[str, dict[str, Json]] = {level: {} for level in LEVELS}
        self.coming: dict[int, Where] = {}

    def put(self, where: Where) -> None:
        shop, order = str(where[0]), f"{where[0]}-{where[1]}"
        line = f"{order}-{len(self.rows['lines'])}"
        at = f"{self.now - self._behind:%Y-%m-%dT%H:%M:%SZ}"
        for level, id, parent in (("lines", line, order), ("orders", order, shop), ("shops", shop, "")):
            self.rows[level][id] = {"id": id, "parent": parent, "at": at}

    def tick(self) -> datetime:
        """The time, which goes on while it is looked at."""
        now = self.now
        self.now += timedelta(seconds=1)
        if (where := self.coming.pop(self.ticks, None)) is not None:
            self.put(where)
        self.ticks += 1
        return now

    def page(self, level: str, parent: str, start: str, end: str, after: tuple[str, str]) -> list[Json]:
        """The next rows of a window, oldest first; `after`: time and id of the last one before."""
        self.tick()
        rows = [row for row in self.rows[level].values() if row["parent"] == parent and start <= row["at"] <= end]
        return sorted((row for row in rows if _place(row) > after), key=_place)[:PAGE]


def _place(row: Mapping[str, Json]) -> tuple[str, str]:
    return row["at"], row["id"]


class Level(Stream):
    """The rows of a level, by the changes of those they belong to."""

    supports_checkpointing = True

    def __init__(self, source: Source, name: str, lags: Mapping[str, int], *, step: bool, back: int) -> None:
        super().__init__()
        self.name, self._source = name, source
        lag = timedelta(hours=lags.get(name, 0))
        self.cursor = DatetimeCursor(
            "at",
            start=DAY0 - timedelta(days=2),
            end=lambda now: now - lag,
            step=timedelta(days=1) if step else None,
            lookback=timedelta(hours=back if name == LEVELS[-1] else 0),
        )
        above = LEVELS.index(name) - 1
        self._parent = Level(source, LEVELS[above], lags, step=step, back=back) if above >= 0 else None

    def now(self) -> datetime:
        return self._source.tick()

    def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        if self._parent is None:
            return super().partitions_since(parents)
        return following_partitions(self._parent, parents, **{self._parent.name: "id"})

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        parent = "" if self._parent is None else str(slice.partition[self._parent.name])
        start = slice.start.cursor if isinstance(slice.start, Checkpoint) else {"at": "", "id": ""}
        more = True
        while more:
            rows = self._source.page(self.name, parent, str(slice.window.start), str(slice.window.end), _place(start))
            more = len(rows) == PAGE
            start = {name: rows[-1][name] for name in ("at", "id")} if more else {}
            yield Page(rows, start or None)


def through_the_wire(state: StreamState) -> StreamState:
    return decode(encode(state, incremental=True, exact=True), cursor_field="at")


def lines(stream: Stream, state: StreamState, cut: int | None) -> tuple[set[str], StreamState]:
    """The lines of a read, which is interrupted after so many items, and the state it leaves."""
    reading, ids = read(stream, state), set[str]()
    for item in islice(reading, cut):
        if isinstance(item, StreamState):
            state = item
        else:
            ids |= {str(record["id"]) for record in item}
    reading.close()
    return ids, through_the_wire(state)


WHERE = st.tuples(st.integers(0, 2), st.integers(0, 1))
READS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 30]),
        st.one_of(st.none(), st.integers(1, 12)),
        st.lists(WHERE, max_size=4),
        st.integers(0, 12),
    ),
    min_size=1,
    max_size=5,
)


@given(
    lags=st.fixed_dictionaries({level: st.sampled_from([0, 0, 1, 24]) for level in LEVELS}),
    step=st.booleans(),
    back=st.sampled_from([0, 0, 1, 24]),
    behind=st.sampled_from([0, 0, 2]),
    before=st.lists(WHERE, max_size=4),
    reads=READS,
)
@example(  # the parents stand at the clock of their own read, which is a little later
    lags=dict.fromkeys(LEVELS, 0), step=False, back=0, behind=0, before=[(0, 0)], reads=[(1, None, [(0, 0)], 0)]
)
@example(  # the parents are read further than their children
    lags={"lines": 1}, step=False, back=0, behind=0, before=[(0, 0)], reads=[(0, None, [], 0), (1, None, [(0, 0)], 0)]
)
@example(  # an interrupted plan is read to its end, and what came since is not
    lags={},
    step=False,
    back=0,
    behind=0,
    before=[(0, 0)] * 9 + [(0, 1)],
    reads=[(1, 6, [(0, 0), (0, 1)], 5), (1, 12, [], 0)],
)
@example(  # a parent that changes while it is listed comes again
    lags={},
    step=False,
    back=0,
    behind=2,
    before=[],
    reads=[(0, None, [(0, 0), (0, 0), (1, 0)], 0), (0, None, [(0, 0), (1, 0)], 6)],
)
@settings(deadline=None)
def test_every_child_is_read_whenever_it_came(  # noqa: PLR0917 - all that a world is made of
    lags: Mapping[str, int],
    step: bool,  # noqa: FBT001
    back: int,
    behind: int,
    before: Sequence[Where],
    reads: Sequence[Read],
) -> None:
    source = Source(behind)
    stream = Level(source, "lines", lags, step=step, back=back)
    state, seen = StreamState(), set[str]()
    for where in before:
        source.put(where)
    for hours, cut, coming, request in reads:
        source.now += timedelta(hours=hours)
        source.ticks, source.coming = 0, {request + 2 * n: where for n, where in enumerate(coming)}
        ids, state = lines(stream, state, cut)
        seen |= ids
    source.coming = {}
    for _ in range(3):
        source.now += timedelta(hours=50)
        ids, state = lines(stream, state, None)
        seen |= ids

    assert seen == set(source.rows["lines"])
