"""Whatever records come, in whatever pages: each is in the table as often as its write mode says, and whole."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import Json, Record
from cdk.spark.pipeline import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.spark.stream_report import Status, StreamReport
from cdk.spark.sync import SyncRunner
from cdk.spark.tasks import Workers, here
from tests.spark.given_source import Given
from tests.worlds.server import INCREMENTAL, MISSING, WHOLE, Server
from tests.worlds.table import key_of, problems, rows

NAMES = ("a", "b", "A", "c d", "é", "_airbyte_raw_id", "\ud800", "")
TEXTS = st.sampled_from(
    ["", "x", "8", "12", "2024-01-01", "2024-01-01T00:00:00Z", "\ud800", "\x00", "a,b", "null", "ü"]
)
NUMBERS = st.sampled_from([0, 1, -1, 2**53 + 1, 2**63, 10**23, 0.5, 1e300, float("nan"), float("inf"), -0.0])
PYTHON = st.sampled_from(
    [
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 1, 5, tzinfo=timezone(timedelta(hours=9))),
        date(2024, 2, 29),
        UUID(int=7),
        Decimal("1.25"),
        Decimal(10**22 + 1),
    ]
)
SCALARS = st.one_of(st.none(), st.booleans(), TEXTS, NUMBERS, PYTHON)
IDS = st.sampled_from([0, 1, 2, 0, 1, 2, "1", "A7", None, MISSING, 1.5, True, 2**70])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=3,
)
FIELDS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4)
TYPES: Sequence[Mapping[str, Json]] = (
    {"type": "integer"},
    {"type": "number"},
    {"type": "string"},
    {"type": "boolean"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": "integer", "airbyte_type": "big_integer"},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}},
    {},
)
SCHEMAS = st.dictionaries(st.sampled_from(("a", "b", "c d")), st.sampled_from(TYPES), max_size=3)
OWN: Sequence[Mapping[str, Json]] = (
    {"n": {"type": "integer"}, "id": {"type": "integer"}, "part": {"type": "integer"}},
    {"n": {"type": "integer"}, "id": {"type": "string"}, "part": {"type": "integer"}, "v": {"type": "string"}},
    {"n": {"type": "integer"}, "id": {"type": "integer"}, "part": {"type": "integer"}, "at": {"type": "string"}},
)
"""What is declared of the fields that every record has; what is not gets a column when it is met."""


@dataclass(frozen=True)
class World:
    """A server, and a pipeline that reads it.

    own: the place in OWN. batches: what is put before
    each sync: id, hours, form, fields. fails: for each sync, the request that fails, or None.
    """

    stream: str
    own: int
    as_text: bool
    options: Mapping[str, Json]
    schema: Mapping[str, Json]
    page_sizes: Sequence[int]
    batches: Sequence[Sequence[tuple[Json, int, int, Mapping[str, Json]]]]
    fails: Sequence[int | None]
    interval: int


STREAMS = {stream.__name__: stream for stream in (*WHOLE, *INCREMENTAL)}


@st.composite
def worlds(draw: st.DrawFn) -> World:
    stream = draw(st.sampled_from(sorted(STREAMS)))
    whole = STREAMS[stream] in WHOLE
    mode = draw(st.sampled_from(["append", "append_dedup", *(["overwrite"] if whole else [])]))
    syncs = draw(st.integers(1, 3))
    options: dict[str, Json] = {"write_mode": mode, "schema": draw(st.sampled_from(["evolve", "evolve", "discard"]))}
    if draw(st.booleans()):
        options["partition_by"] = draw(st.sampled_from(["part", "n"]))
    if mode == "append_dedup" and draw(st.booleans()):
        options["history"] = True
    record = st.tuples(IDS, st.sampled_from([0, 1, 7, 24]), st.integers(0, 2), FIELDS)
    return World(
        stream,
        draw(st.integers(0, 2)),
        draw(st.booleans()),
        options,
        draw(SCHEMAS),
        draw(st.lists(st.integers(1, 5), min_size=syncs, max_size=syncs)),
        draw(st.lists(st.lists(record, max_size=8), min_size=syncs, max_size=syncs)),
        draw(st.lists(st.none() | st.integers(0, 4), min_size=syncs, max_size=syncs)),
        draw(st.sampled_from([0, 30])),
    )


class Run:
    """A world as it goes on: syncs, and what the table must have after each."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder, self.server = world, folder, Server(as_text=world.as_text)
        self.expected: Counter[int] = Counter()
        self.logged: Counter[int] = Counter()
        self._read = 0

    def sync(self) -> StreamReport:
        world = self.world
        schema = {"type": "object", "properties": {**OWN[world.own], **world.schema}}
        stream = STREAMS[world.stream](self.server, schema)
        pipeline = Pipeline(
            name="world",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams={stream.name: StreamOptions.model_validate(world.options)},
            checkpoint_interval=timedelta(seconds=world.interval),
        )
        (report,) = SyncRunner(pipeline, Given([stream]), workers=Workers(here, 1)).run().streams
        return report

    def completed(self) -> None:
        """Bring the model to where a sync that got to its end brings the table."""
        present = Counter(record["n"] for record in self.server.records)
        whole = STREAMS[self.world.stream] in WHOLE
        new = present if whole else Counter(record["n"] for record in self.server.records[self._read :])
        self._read = len(self.server.records)
        self.logged += new
        match self.world.options["write_mode"]:
            case "append":
                self.expected += new
            case "overwrite":
                self.expected = present
            case _:
                kind = OWN[self.world.own]["id"]["type"]
                newest = {key_of(record, kind): record["n"] for record in self.server.records}
                self.expected = Counter(newest.values())

    def check(self) -> None:
        assert self.expected == Counter(row["n"] for row in self.rows())
        if self.world.options.get("history"):
            assert self.logged == Counter(row["n"] for row in rows(self.folder / "things_history"))
        by_number = {record["n"]: record for record in self.server.records}
        for row in self.rows():
            record: Record = by_number[row["n"]]
            assert not (lost := list(problems(row, record))), lost

    def rows(self) -> list[Record]:
        return rows(self.folder / "things")


HALF = World(
    stream="Counted",
    own=0,
    as_text=False,
    options={"write_mode": "append_dedup", "schema": "discard"},
    schema={},
    page_sizes=[3],
    batches=[[(1, 1, 0, {"\ud800": 1})]],
    fails=[None],
    interval=30,
)
"""Half a character in the name of a field, beside a cursor that has no column."""


@example(HALF)
@settings(max_examples=50)
@given(worlds())
def test_a_sync_puts_into_the_table_what_it_read(world: World) -> None:
    with TemporaryDirectory() as folder:
        run = Run(world, Path(folder))
        for batch, size, fails in zip(world.batches, world.page_sizes, world.fails, strict=True):
            for id, hours, form, fields in batch:
                run.server.put(id, fields, hours, form)
            run.server.page_size = size
            run.server.at = {} if fails is None else {fails: run.server.fail}
            report = run.sync()
            run.server.at = {}
            if report.status is not Status.DONE:
                assert fails is not None, report.failure
                assert report.failure is not None
                assert report.failure.message == "the server is down"
                report = run.sync()
            assert report.status is Status.DONE, report.failure
            run.completed()
            run.check()
