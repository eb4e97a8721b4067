"""Worlds of streaming reads, whose queries end and start anew between any two batches: every row comes once.

A batch that was planned is read again where the query ended before Spark committed it, later and by another process.
No offset holds the secret that names one of the partitions.
A frame whose filters skip slices has every row of the filters.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import Filter, GreaterThanOrEqual, In, InputPartition, LessThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles

from cdk import (
    Cursor,
    DatetimeCursor,
    Item,
    Page,
    ParentState,
    Partition,
    Record,
    Slice,
    Stream,
    StreamState,
    following_partitions,
)
from cdk.base.secret_masking import SecretMarks, Secrets
from cdk.spark.datasource.filter_pushdown import BatchReader, PushdownReader
from cdk.spark.datasource.open_stream import OpenStream
from cdk.spark.datasource.streaming import Offset, StreamReader
from cdk.spark.datasource.task_reader import TaskReader
from tests.samples import DAY0, moment

SECRET = "hunter2-hunter2"
ACCOUNTS = (SECRET, "b", "c")
LAST = (9, 17, 999)
"""The last hours of things."""
SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}, "at": {"type": "string", "format": "date-time"}}}


@dataclass
class World:
    """A source with a row for each hour and account, which it shows once `delay` hours have passed.

    dropped: accounts that it no longer lists. A thing has the rows of an account whose hours leave the same remainder,
    up to its last one, which is also its own date.
    """

    delay: int
    hour: int = 0
    dropped: set[str] = field(default_factory=set)

    @property
    def now(self) -> datetime:
        return DAY0 + timedelta(hours=self.hour, minutes=20)

    @property
    def accounts(self) -> Sequence[str]:
        """An account comes every ten hours."""
        return [name for n, name in enumerate(ACCOUNTS) if 10 * n <= self.hour and name not in self.dropped]

    def hours(self, thing: int | None = None) -> Iterator[int]:
        """The hours of the rows that are visible."""
        hours = range(self.hour - self.delay + 1)
        return (n for n in hours if thing is None or (n % len(LAST) == thing and n <= LAST[thing]))

    def rows(self, account: str, thing: int | None = None) -> Iterator[Record]:
        return ({"id": f"{account}-{hour}", "at": moment(hour)} for hour in self.hours(thing))

    def things(self, account: str) -> Iterator[Record]:
        for thing in range(len(LAST)):
            if rows := list(self.rows(account, thing)):
                yield {"thing": thing, "at": rows[-1]["at"]}


def within(records: Iterable[Record], slice: Slice) -> Iterator[Record]:
    window = slice.window
    assert window is not None
    return (record for record in records if window.start <= record["at"] <= (window.end or "9"))


class OfWorld(Stream):
    name = "rows"
    supports_checkpointing = True
    schema = SCHEMA

    def __init__(self, world: World, cursor: Cursor | None) -> None:
        super().__init__()
        self.world, self.cursor = world, cursor

    def now(self) -> datetime:
        return self.world.now

    def partitions(self) -> Iterable[Partition]:
        return (Partition({"account": name}, extra={"id": name}) for name in self.world.accounts)

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.partition["account"] == slice.extra.get("id", slice.partition["account"])
        yield from within(self.world.rows(slice.partition["account"]), slice)


class Whole(OfWorld):
    """Has no cursor: each account is read once, in pages."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        name, place = slice.partition["account"], (slice.start.cursor or {"n": 0})["n"]
        for n in range(place, 3):
            yield Page([{"id": f"{name}-{n}"}], {"n": n + 1, "url": f"?key={SECRET}"} if n < 2 else None)


class Things(OfWorld):
    name = "things"

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield from within(self.world.things(slice.partition["account"]), slice)


class OfThings(OfWorld):
    """Follows the things, which are dated by their last row."""

    def partitions_since(self, parents: Mapping[str, StreamState]) -> Iterable[Partition | ParentState]:
        cursor = DatetimeCursor("at", start=DAY0, step=timedelta(hours=7))
        return following_partitions(Things(self.world, cursor), parents, thing="thing")

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.extra.get("thing", slice.partition["thing"]) == slice.partition["thing"]
        yield from within(self.world.rows(slice.partition["account"], slice.partition["thing"]), slice)


REQUESTED_END = -1
"""The end of a cursor of a manifest: each record belongs to the window whose request has brought it."""


@dataclass
class Plan:
    """How a world is read. end, lookback: of the cursor, in hours. spare: how much the lag is longer than the delay."""

    kind: type[OfWorld]
    delay: int
    spare: int
    step: timedelta | None
    lookback: int
    granularity: timedelta | None
    end: int | None

    @property
    def cursor(self) -> Cursor | None:
        if self.kind is Whole:
            return None
        by_request = self.end == REQUESTED_END
        return DatetimeCursor(
            "at",
            start=DAY0,
            step=self.step,
            end=None if self.end is None or by_request else DAY0 + timedelta(hours=self.end),
            lookback=timedelta(hours=self.lookback),
            granularity=self.granularity,
            by_request=by_request,
            rereads_edge=not by_request,
            state_format="%Y-%m-%dT%H:%M:%SZ" if by_request else None,
        )

    def opened(self, world: World) -> OpenStream:
        stream = self.kind(world, self.cursor)
        stream.guard(SecretMarks([("key", SECRET)]))
        return OpenStream(stream, Secrets([SECRET]), StreamState(), [SECRET])

    def expected(self, world: World) -> set[str]:
        """The rows of the accounts that the source lists, up to where a batch of now ends."""
        if self.kind is Whole:
            return {f"{name}-{n}" for name in world.accounts for n in range(3)}
        upper = world.hour - self.delay - self.spare
        last = self.end if self.end is not None and 0 <= self.end <= upper else upper - self.lookback
        return {f"{name}-{hour}" for name in world.accounts for hour in self.hours(world) if hour <= last}

    def hours(self, world: World) -> Iterator[int]:
        """The hours of all rows that are visible."""
        if self.kind is not OfThings:
            return world.hours()
        return itertools.chain.from_iterable(world.hours(thing) for thing in range(len(LAST)))


class Query:
    """A streaming query over a world, and the rows of the batches that were committed."""

    def __init__(self, world: World, plan: Plan) -> None:
        self.world, self._plan = world, plan
        self.rows: Counter[str] = Counter()
        self._reader = self._started()
        self.offset: Offset = self._sent(self._reader.initialOffset())

    def _started(self) -> StreamReader:
        opened, lag = self._plan.opened(self.world), timedelta(hours=self._plan.delay + self._plan.spare)
        return StreamReader(opened, TaskReader.of(opened, 2), lag=lag, slices=None)

    @staticmethod
    def _sent(offset: Offset) -> Offset:
        text = json.dumps(offset)
        assert SECRET not in text
        sent: Offset = json.loads(text)
        return sent

    def batch(self, limit: ReadLimit, *, restarts: bool, repeats: int | None) -> bool:
        """Read and commit a batch, and return whether there was one.

        restarts: the query starts anew before. repeats: it ends after the batch was read, and so many hours pass.
        """
        if restarts:
            self._reader = self._started()
        end = self._sent(self._reader.latestOffset(self.offset, limit))
        if end == self.offset:
            return False
        rows = self._read(end)
        if repeats is not None:
            self.world.hour += repeats
            self._reader = self._started()
            assert self._read(end) == rows
        self.rows += rows
        self.offset = end
        return True

    def _read(self, end: Offset) -> Counter[str]:
        return rows_of(self._reader, self._reader.partitions(self.offset, end))


def rows_of(reader: StreamReader | BatchReader, partitions: Sequence[InputPartition]) -> Counter[str]:
    batches = (batch for each in partitions for batch in reader.read(each))
    return Counter(id for batch in batches for id in batch.column("id").to_pylist())


@dataclass
class Turn:
    """What happens until some batches are read.

    hours: that pass. drop: an account that goes, or comes back. restarts, repeats: see `Query.batch`.
    """

    hours: int
    drop: str | None = None
    batches: int = 99
    limit: int | None = None
    restarts: bool = True
    repeats: int | None = None

    def run(self, query: Query) -> None:
        world = query.world
        world.hour += self.hours
        world.dropped ^= set() if self.drop is None else {self.drop}
        limit = ReadAllAvailable() if self.limit is None else ReadMaxFiles(self.limit)
        restarts = self.restarts
        for _ in range(self.batches):
            if not query.batch(limit, restarts=restarts, repeats=self.repeats):
                return
            restarts = False


TURNS = st.builds(
    Turn,
    hours=st.integers(0, 12),
    drop=st.sampled_from([*[None] * 4, *ACCOUNTS]),
    batches=st.integers(1, 3),
    limit=st.sampled_from([None, 1, 2, 5]),
    restarts=st.booleans(),
    repeats=st.sampled_from([None, None, 0, 7]),
)
PLANS = st.builds(
    Plan,
    kind=st.sampled_from([OfWorld, Whole, OfThings]),
    delay=st.integers(0, 3),
    spare=st.integers(0, 2),
    step=st.sampled_from([None, timedelta(hours=5), timedelta(days=1)]),
    lookback=st.sampled_from([0, 0, 4]),
    granularity=st.sampled_from([None, timedelta(seconds=1)]),
    end=st.sampled_from([None, REQUESTED_END, 20]),
)


@given(PLANS, st.lists(TURNS, max_size=8))
@settings(max_examples=60)
def test_a_query_that_ends_between_batches_brings_every_row_once(plan: Plan, turns: list[Turn]) -> None:
    world = World(plan.delay)
    query = Query(world, plan)

    for turn in [*turns, Turn(hours=30)]:
        turn.run(query)
        assert query.rows.total() == len(query.rows)

    assert plan.expected(world) - set(query.rows) == set()
    rows = range(3 if plan.kind is Whole else world.hour + 1)
    assert set(query.rows) <= {f"{name}-{n}" for name in ACCOUNTS for n in rows}


@given(PLANS, st.integers(0, 40), st.sets(st.sampled_from([*ACCOUNTS, "d"])), st.integers(-2, 42), st.booleans())
@settings(max_examples=40)
def test_a_filtered_frame_has_every_row_of_the_filter_once(
    plan: Plan,
    hour: int,
    names: set[str],
    since: int,
    above: bool,  # noqa: FBT001 - drawn
) -> None:
    world = World(plan.delay, hour)
    opened = plan.opened(world)
    frame = PushdownReader(opened, TaskReader.of(opened, 2), partition_columns=("account",))
    kind = GreaterThanOrEqual if above else LessThanOrEqual
    filters: list[Filter] = [In(("account",), tuple(names)), kind(("at",), DAY0 + timedelta(hours=since))]

    assert frame.pushFilters(filters) == filters
    rows = rows_of(frame, frame.partitions())

    # Windows of a manifest that has no granularity touch, and a source that counts both ends brings a record twice.
    assert rows.total() == len(rows) or (plan.end == REQUESTED_END and plan.granularity is None)
    assert {id.rpartition("-")[0] for id in rows} <= names
    hours = [n for n in plan.hours(world) if (n >= since if above else n <= since)]
    if plan.end is not None and plan.end >= 0:
        hours = [n for n in hours if n <= plan.end]
    wanted = range(3) if plan.kind is Whole else hours
    assert {f"{name}-{n}" for name in names & {*world.accounts} for n in wanted} <= set(rows)
