"""Worlds of Python streams that keep their own state, each of whose syncs may end at any record."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import (
    Checkpoint,
    CountCursor,
    Item,
    Json,
    Page,
    PagedStream,
    Partition,
    Record,
    Slice,
    Source,
    StateMixin,
    Stream,
)
from cdk.base.errors import TransientError
from cdk.base.task_map import run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.streams.page import Token
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.worlds.table import rows

SIZE = 2
MODES = {"append": "incremental", "append_dedup": "incremental", "overwrite": "full_refresh"}


@dataclass(eq=False)
class World:
    """What a source has of each partition, ascending, and how many records the sync of now may read."""

    counts: list[int]
    inclusive: bool
    budget: int = 0

    def since(self, part: int, after: int) -> Iterator[Record]:
        """The records of a partition behind a value; with those at it where the source is inclusive."""
        for n in range(max(1, after + (not self.inclusive)), self.counts[part] + 1):
            if self.budget <= 0:
                raise TransientError("the source is gone")
            self.budget -= 1
            yield {"id": 1000 * part + n, "n": n}

    @property
    def ids(self) -> list[int]:
        return [1000 * part + n for part, count in enumerate(self.counts) for n in range(1, count + 1)]


class OfWorld(StateMixin):
    primary_key = "id"
    cursor_field: str | None = "n"

    def __init__(self, world: World, *, partitioned: bool) -> None:
        super().__init__()
        if not partitioned:
            self.state = {}
        self.name, self.world, self.partitioned = "things", world, partitioned
        self.schema = {"properties": {"id": {"type": "integer"}, "n": {"type": "integer"}}}

    def partitions(self) -> Iterable[Partition]:
        if not self.partitioned:
            return super().partitions()
        return (Partition({"part": part}) for part in range(len(self.world.counts)))

    @staticmethod
    def part(slice: Slice) -> int:
        return int(slice.partition["part"]) if slice.partition else 0


class Counted(OfWorld):
    """Has a cursor of the kit's."""

    cursor = CountCursor("n", start=0)

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        return self.world.since(self.part(slice), slice.window.start)


class StateAtEnd(OfWorld):
    def read_records(self, slice: Slice) -> Iterator[Item]:
        last = self.state.get("n", 0)
        for record in self.world.since(self.part(slice), last):
            last = record["n"]
            yield record
        self.state = {"n": last}


class StateAfterEach(OfWorld):
    def read_records(self, slice: Slice) -> Iterator[Item]:
        for record in self.world.since(self.part(slice), self.state.get("n", 0)):
            yield record
            self.state = {"n": record["n"]}


class ListReturned(OfWorld):
    """Reads all, and sets its state, before the first record is handed out."""

    def read_records(self, slice: Slice) -> Iterable[Item]:
        found = list(self.world.since(self.part(slice), self.state.get("n", 0)))
        if found:
            self.state = {"n": found[-1]["n"]}
        return found


class GeneratorReturned(OfWorld):
    """Looks at its state when it is called, and sets it while the records are handed out."""

    def read_records(self, slice: Slice) -> Iterable[Item]:
        return self._behind(slice, self.state.get("n", 0))

    def _behind(self, slice: Slice, last: int) -> Iterator[Item]:
        for record in self.world.since(self.part(slice), last):
            yield record
            self.state = {"n": record["n"]}


class CheckpointAtEnd(OfWorld):
    def read_records(self, slice: Slice) -> Iterator[Item]:
        last = (slice.start.cursor or {"n": 0})["n"]
        for record in self.world.since(self.part(slice), last):
            last = record["n"]
            yield record
        yield Checkpoint({"n": last})


class Tokens(OfWorld):
    """Has no cursor: pages are asked for by what they come behind."""

    cursor_field = None

    def read_records(self, slice: Slice) -> Iterator[Item]:
        page: list[Record] = []
        after = (slice.start.cursor or {"after": 0})["after"]
        for record in self.world.since(self.part(slice), after + self.world.inclusive):
            page.append(record)
            if len(page) == SIZE:
                yield Page(page, {"after": record["n"]})
                page = []
        yield Page(page, None)


class PagesBackwards(PagedStream, OfWorld):
    """Reads what is newer than its state in pages, the newest record first; its state is the newest of all."""

    def read_page(self, slice: Slice, token: Token | None) -> Page:
        since, place = (slice.start.cursor or {"n": 0})["n"], (token or {"place": 0})["place"]
        records = sorted(self.world.since(self.part(slice), since), key=lambda record: -record["n"])
        newest = max([self.state.get("n", 0), *(record["n"] for record in records[place : place + SIZE])])
        self.state = {"n": newest}
        return Page(records[place : place + SIZE], {"place": place + SIZE} if place + SIZE < len(records) else None)


KINDS = [Counted, StateAtEnd, StateAfterEach, ListReturned, GeneratorReturned, CheckpointAtEnd, Tokens, PagesBackwards]


class Written(Source):
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def streams(self, _: Json) -> Sequence[Stream]:
        return [self._stream]


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.sampled_from(KINDS),
    st.booleans(),
    st.booleans(),
    st.sampled_from(sorted(MODES)),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4), st.integers(0, 2)), max_size=5),
    st.sampled_from([0, 30]),
    st.integers(1, 3),
    st.sampled_from([None, 0, 1]),
)
@example(
    counts=[1, 1],
    kind=Counted,
    partitioned=True,
    inclusive=False,
    mode="append_dedup",
    syncs=[(9, 0, 1), (0, 1, 1), (1, 9, 0)],
    interval=0,
    tasks=1,
    minimum=1,
)
@example(
    counts=[5],
    kind=PagesBackwards,
    partitioned=False,
    inclusive=False,
    mode="append",
    syncs=[(9, 0, 2)],
    interval=0,
    tasks=1,
    minimum=None,
)
@settings(max_examples=40, deadline=None)
def test_every_row_comes_once_however_often_the_source_goes_away(  # noqa: PLR0917 - as the world is
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[int],
    kind: type[OfWorld],
    partitioned: bool,  # noqa: FBT001 - drawn
    inclusive: bool,  # noqa: FBT001
    mode: str,
    syncs: list[tuple[int, int, int]],
    interval: int,
    tasks: int,
    minimum: int | None,
) -> None:
    """minimum: the generation before which rows are to leave, of a platform that numbers them, and is at the first."""
    folder = tmp_path_factory.mktemp("lake")
    if not partitioned:
        counts = counts[:1]
    world = World(counts, inclusive)
    sync_mode = "full_refresh" if kind is Tokens else MODES[mode]
    # A platform asks for a full refresh by the next number.
    numbered = minimum is not None and sync_mode == "incremental"
    generations = {"generation_id": 1, "minimum_generation_id": minimum} if numbered else {}
    pipeline = Pipeline(
        name="world",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(folder)),
        streams={"things": StreamOptions.model_validate({"sync_mode": sync_mode, "write_mode": mode, **generations})},
        checkpoint_interval=timedelta(seconds=interval),
    )

    def sync(budget: int) -> Status:
        world.budget = budget
        stream = kind(world, partitioned=partitioned)
        (report,) = SyncRunner(pipeline, Written(stream), workers=Workers(run_inline, tasks)).run().streams
        refreshes.append(report.status)
        got = Counter(row["id"] for row in rows(folder / "things"))
        # Refreshes that append have each row once, those that were not cut and the one of now.
        most = 1 + refreshes[:-1].count(Status.DONE) if kind is Tokens and mode == "append" else 1
        # A list that grows at its head moves the place at which the read of it was interrupted: records are read
        # again, and the new ones are read by the next sync.
        moved = kind is PagesBackwards and world.ids != first
        if mode == "append_dedup" or (not moved and (kind is Tokens or not inclusive)):
            assert max(got.values(), default=1) <= most
        if report.status is Status.DONE and not moved:
            # A refresh that goes on leaves out the partitions that it has read to their end.
            assert set(world.ids if sync_mode == "incremental" else before) <= set(got)
        return report.status

    refreshes: list[Status] = []
    first = before = world.ids
    for budget, part, more in syncs:
        sync(budget)
        if part < len(counts):
            counts[part] += more
    assert sync(1000) is Status.DONE
    before = world.ids
    assert sync(1000) is Status.DONE
    assert sorted({row["id"] for row in rows(folder / "things")}) == world.ids
