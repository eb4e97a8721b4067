"""Whatever records come, in whatever pages: each is in the table as often as its write mode says, and whole."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import Json, Record, Stream
from cdk.base.errors import FatalError
from cdk.base.records.exact_json import WrittenNumber
from cdk.base.task_map import run_inline
from cdk.lake.parquet.writer import Limits
from cdk.protocol.lines import record_lines
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.spark.given_source import Given
from tests.worlds.server import (
    DIALECTS,
    INCREMENTAL,
    LATE,
    MISSING,
    NUMBERED,
    WHOLE,
    Counted,
    Dated,
    DatedParts,
    Late,
    NumberedDays,
    Ordered,
    OrderedDates,
    Server,
    Unfiltered,
)
from tests.worlds.table import as_read, beside, column_of, key_of, problems, rows


class Colour(Enum):
    RED = "red"
    ROUND = 2.5


NAMES = ("a", "b", "c", "d", "A", "c d", "c_d", "C,d", "é", "_airbyte_raw_id", "\ud800", "")
TEXTS = st.sampled_from(
    ["", "x", "8", "12", "2024-01-01", "2024-01-01T00:00:00Z", "\ud800", "\x00", "a,b", "null", "ü", "x" * 5000]
)
NUMBERS = st.sampled_from([0, 1, -1, 2**53 + 1, 2**63, 10**22 + 1, 10**40, 0.5, 1e300, -0.0])
ENDLESS = st.sampled_from([float("nan"), float("inf")])
PYTHON = st.sampled_from(
    [
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 1, 1, 5, tzinfo=timezone(timedelta(hours=9))),
        datetime(2024, 1, 1, 5, 0, 0, 250),  # noqa: DTZ001 - some sources have no zone
        date(2024, 2, 29),
        time(12, 30),
        UUID(int=7),
        Decimal("1.25"),
        Decimal(10**22 + 1),
        Colour.RED,
        Colour.ROUND,
        (1, "x"),
    ]
)
PLAIN = st.one_of(st.none(), st.booleans(), TEXTS, NUMBERS)
SCALARS = st.one_of(st.none(), st.booleans(), TEXTS, NUMBERS, ENDLESS, PYTHON)
SPELLED = [WrittenNumber(text) for text in (f"{2**53 + 1}.0", f"{2**70}.00", "1e-400", "1.2345678901234567890")]
IDS = st.sampled_from(
    [0, 1, 2, 0, 1, 2, "1", "A7", "x", None, MISSING, 1.5, 1.0, True, 2**53 + 1, 2**70, [1, "ü"], *SPELLED]
)
ODD: st.SearchStrategy[Json] = st.sampled_from([None, "never", [], {"at": 1}, "2024-02-31T00:00:00Z", ""])
"""Values that no cursor can read."""


def _nested(scalars: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        max_leaves=3,
    )


def _fields(values: st.SearchStrategy[Json], names: Sequence[str]) -> st.SearchStrategy[Mapping[str, Json]]:
    return st.dictionaries(st.sampled_from(names), values, max_size=4)


FIELDS = _fields(_nested(SCALARS), NAMES)
OVER_HTTP = _fields(_nested(PLAIN), NAMES)
TYPES: Sequence[Mapping[str, Json]] = (
    {"type": "integer"},
    {"type": "number"},
    {"type": "string"},
    {"type": "boolean"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "date-time", "airbyte_type": "timestamp_without_timezone"},
    {"type": "integer", "airbyte_type": "big_integer"},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}},
    {},
)
DIVIDES = TYPES[0], *TYPES[2:8]
SCHEMAS = st.dictionaries(st.sampled_from(("a", "b", "c d")), st.sampled_from(TYPES), max_size=3)
ID_TYPES: Sequence[Mapping[str, Json]] = (*TYPES[:3], TYPES[7], {})
AT_TYPES: Sequence[Mapping[str, Json] | None] = (None, TYPES[2], TYPES[5], {"type": ["integer", "string"]}, {})
V_TYPES: Sequence[Mapping[str, Json] | None] = (None, TYPES[0], TYPES[2], TYPES[7], {})
LIMITS = st.builds(
    Limits,
    group_rows=st.sampled_from([1, 2, 64_000]),
    file_bytes=st.sampled_from([1, 2**28]),
    partitions_bytes=st.sampled_from([0, 2**26]),
    partitions=st.sampled_from([1, 1000]),
    open_files=st.sampled_from([1, 64]),
    gathered=st.sampled_from([1, 3, 1000]),
    held_bytes=st.sampled_from([1, 2**26]),
)


@dataclass(frozen=True)
class Put:
    """A record that is put: see Server."""

    id: Json
    hours: float = 1
    form: int = 0
    cursor: Json = MISSING
    fields: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """What is put, and a sync. fails: its request that fails, None for none; the sync is then done again.

    late: what is put before it is done again. sizes: records of a page, before and after. schema: what the stream
    declares of some fields besides its own.
    """

    puts: Sequence[Put]
    sizes: tuple[int, int] = (3, 3)
    fails: int | None = None
    late: Sequence[Put] = ()
    schema: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """A server, and a pipeline that reads it.

    own: what is declared of the fields that every record has; what is not gets a column when it is met, if the policy
    says so. text: pages are JSON text, with blanks in it.
    """

    stream: str
    options: Mapping[str, Json]
    turns: Sequence[Turn]
    own: Mapping[str, Json] = field(default_factory=lambda: {"id": TYPES[0]})
    text: bool = False
    dialect: str = "iso"
    first: int = 7
    interval: int = 30
    tasks: int = 1
    limits: Limits = field(default_factory=Limits)


KINDS: Sequence[Callable[[Server, Mapping[str, Json]], Stream]] = (*WHOLE, *INCREMENTAL, *NUMBERED)
STREAMS = {stream.__name__: stream for stream in KINDS}
INCREASING = frozenset([*(stream.__name__ for stream in INCREMENTAL), NumberedDays.__name__])
DAYS = frozenset(stream.__name__ for stream in (Dated, DatedParts, NumberedDays, Unfiltered))
"""Those that read windows of a day, and do not look back."""
MOST_REQUESTS = 1_000
"""More than any sync has reason for."""

SIZES = st.tuples(*[st.sampled_from([1, 1, 2, 2, 3, 5])] * 2)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    stream = draw(st.sampled_from(sorted(STREAMS)))
    whole = stream not in INCREASING
    mode = draw(st.sampled_from(["append", "append_dedup", "append_dedup", *(["overwrite"] if whole else [])]))
    options: dict[str, Json] = {
        "write_mode": mode,
        "schema": draw(st.sampled_from(["evolve", "evolve", "discard", "freeze"])),
    }
    own: dict[str, Json] = {"id": draw(st.sampled_from(ID_TYPES))}
    for name, kinds in (("at", AT_TYPES), ("v", V_TYPES)):
        if (kind := draw(st.sampled_from(kinds))) is not None:
            own[name] = kind
    if draw(st.booleans()):
        options["partition_by"] = draw(st.sampled_from(["part", "n", "e"]))
        own["e"] = draw(st.sampled_from(DIVIDES))
    if mode == "append_dedup" and draw(st.booleans()):
        options["history"] = True
    dialect = draw(st.sampled_from(sorted(DIALECTS)))
    fields = OVER_HTTP if stream.startswith("Numbered") else FIELDS
    if "e" in own:
        fields = st.builds(lambda one, e: {**one, "e": e}, fields, PLAIN if fields is OVER_HTTP else SCALARS)
    hours = [0, 0.5 / 3600, 1, 7, 24]
    record = st.builds(
        Put,
        IDS,
        st.sampled_from(hours if whole else [*hours, -1, -24 if stream == Late.__name__ else -5]),
        st.integers(0, 3),
        st.one_of(st.just(MISSING), st.just(MISSING), st.just(MISSING), ODD),
        fields,
    )
    late = st.just([]) if whole and (mode == "append" or "history" in options) else st.lists(record, max_size=3)
    schemas = st.just(draw(SCHEMAS)) if draw(st.booleans()) else SCHEMAS
    turn = st.builds(
        Turn,
        st.lists(record, min_size=draw(st.sampled_from([0, 0, 5])), max_size=10),
        SIZES,
        st.none() | st.integers(0, 4),
        late,
        schemas,
    )
    return World(
        stream,
        options,
        draw(st.lists(turn, min_size=1, max_size=3)),
        own,
        draw(st.booleans()),
        dialect,
        draw(st.sampled_from([7, 7, 2**63 - 5, 10**22])),
        draw(st.sampled_from([0, 30, 30])),
        draw(st.integers(1, 3)),
        draw(LIMITS),
    )


class Run:
    """A world as it goes on: syncs, and what the table must have after each.

    expected: how often each record is in the table. logged: the same of the history. again: those that may be there
    more often, unless they are merged; changed: those that may be so all the same. owners: the fields that columns
    have, for ever.
    """

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.server = Server(as_text=world.text, blanks=world.text, dialect=world.dialect, first=world.first)
        self.expected: Counter[int] = Counter()
        self.logged: Counter[int] = Counter()
        self.again: set[int] = set()
        self.changed: set[int] = set()
        self.owners: dict[str, str] = {}
        self.schema: Mapping[str, Json] | None = None
        self._read = 0
        # Which row of a key is there hangs on what came in one commit where one has no cursor that can be read.
        self._stands_for: dict[int, int] = {}
        self._warnings: list[str] = []
        self._ids: set[str] = set()

    def put(self, records: Sequence[Put]) -> None:
        for one in records:
            self.server.put(one.id, one.fields, one.hours, one.form, one.cursor)

    def turn(self, turn: Turn) -> None:
        self.put(turn.puts)
        self._warnings.clear()
        self.server.page_size = turn.sizes[0]
        self.server.at = {} if turn.fails is None else {turn.fails: self.server.fail}
        schema, report = self._accepted(turn.schema)
        self.server.at = {}
        if report.status is not Status.DONE:
            assert turn.fails is not None, report.failure
            assert report.failure is not None
            assert report.failure.message == "the server is down", report.failure
            self._settle()
            # The rest of a cut sync does not ask for a window again that was over and read to its end.
            past = 24 if self.world.stream in DAYS else -math.inf
            self.put([replace(one, hours=max(one.hours, past)) for one in turn.late])
            self.server.page_size = turn.sizes[1]
            report = self.sync(schema)
            assert report.status is Status.DONE, report.failure
            if turn.late:
                # What came while a sync was cut may be left to the next.
                report = self.sync(schema)
        assert report.status is Status.DONE, report.failure
        self._completed()
        self.check()
        self._settle()

    def _settle(self) -> None:
        self.server.settle(LATE if self.world.stream == Late.__name__ else timedelta())

    def _accepted(self, schema: Mapping[str, Json]) -> tuple[Mapping[str, Json], StreamReport]:
        """Sync with another schema, or with that of the sync before where the table refuses it; and the schema."""
        before, self.schema, requests = self.schema, schema, self.server.requests
        if before not in (None, schema):
            # A row without a key is told apart by all that it holds, and its columns may hold it in another way now.
            self.changed |= {record["n"] for record in self.server.records if record.get("id") is None}
        report = self.sync(schema)
        if before == schema or report.failure is None or report.failure.failure_type != "config_error":
            return schema, report
        assert before is not None, report.failure
        assert self.server.requests == requests
        self.schema = before
        return before, self.sync(before)

    def sync(self, schema: Mapping[str, Json]) -> StreamReport:
        world = self.world
        known = {"n": {"type": "integer"}, "part": {"type": "integer"}, **world.own, **schema}
        stream = STREAMS[world.stream](self.server, {"type": "object", "properties": known})
        pipeline = Pipeline(
            name="world",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams={stream.name: StreamOptions.model_validate(world.options)},
            checkpoint_interval=timedelta(seconds=world.interval),
            concurrency=world.tasks,
        )
        self.server.most = self.server.requests + MOST_REQUESTS
        workers = Workers(run_inline, world.tasks, limits=world.limits)
        (report,) = SyncRunner(pipeline, Given([stream]), workers=workers).run().streams
        self._warnings += report.warnings
        if report.restarted:
            # Rows of a slice that is read again from its start are there again, which the report says.
            self.again = {record["n"] for record in self.server.records}
        return report

    def _completed(self) -> None:
        """Bring the model to where a sync that got to its end brings the table."""
        records = self.server.records
        whole = self.world.stream not in INCREASING
        new = Counter(record["n"] for record in (records if whole else records[self._read :]))
        self._read = len(records)
        self.logged += new
        match self.world.options["write_mode"]:
            case "append":
                self.expected += new
            case "overwrite":
                self.expected = new
            case _:
                keys = {record["n"]: self.key_of(record) for record in records}
                newest = {keys[n]: n for n in (record["n"] for record in sorted(records, key=self._order))}
                undated = set() if whole else {keys[n] for n in self.server.undated}
                self._stands_for = {n: newest[key] for n, key in keys.items() if key in undated}
                self.expected = Counter(newest.values())

    def _order(self, record: Record) -> tuple[float, float, int]:
        """What tells which of two records is newer: the value of the cursor, and then who comes later."""
        n, stream, value = record["n"], STREAMS[self.world.stream], -1.0
        if stream.__name__ in INCREASING and n not in self.server.undated:
            value = self.server.version(n) if stream in (Counted, Ordered) else self.server.times[n].timestamp()
        if stream is OrderedDates:
            return value, self.server.times[n].timestamp(), n
        return value, self.server.version(n) if stream is Ordered else 0, n

    def check(self) -> None:
        found, records = self.rows(), self.server.records
        again = {"append": self.again, "append_dedup": self.changed, "overwrite": set[int]()}
        self._check_numbers(self.expected, found, again[self.world.options["write_mode"]])
        if self.world.options.get("history"):
            self._check_numbers(self.logged, rows(self.folder / "things_history"), self.again)
        declared = [self.world.own, *(turn.schema for turn in self.world.turns)]
        as_json = {name for schema in declared for name, kind in schema.items() if not kind}
        for row in found:
            record = records[row["n"]]
            assert not (lost := list(problems(row, record, as_json))), lost
            self._check_owners(row, record)
        new = [row for row in found if row["_airbyte_raw_id"] not in self._ids]
        valued = {name for row in new for name in beside(row) if records[row["n"]].get(name) is not None}
        shadowed = {name for name in valued if self.owners.get(column_of(name).lower(), name) != name}
        # One warning of a page is logged in a sync.
        assert not shadowed or any(re.search("gets no column|records of a page", text) for text in self._warnings)
        self._ids |= {row["_airbyte_raw_id"] for row in new}
        assert self._printed() == [as_read(record) for record in records]

    def rows(self) -> Sequence[Record]:
        """The rows of the server's records."""
        return rows(self.folder / "things")

    def key_of(self, record: Record) -> Json:
        """What tells a record apart in the table."""
        return key_of(record, self.world.own["id"].get("airbyte_type", self.world.own["id"].get("type")))

    def _check_owners(self, row: Record, record: Record) -> None:
        """Each column has the values of one field, whatever other records and syncs have."""
        for name in record.keys() - beside(row):
            if record[name] is not None and name in NAMES:
                assert self.owners.setdefault(column_of(name).lower(), name) == name
        for column in row.keys() & {column_of(name) for name in NAMES}:
            if row[column] is not None and not column.startswith("_airbyte"):
                assert record[self.owners[column.lower()]] is not None

    def _check_numbers(self, expected: Counter[int], found: Sequence[Record], again: set[int]) -> None:
        numbers = Counter(row["n"] for row in found)
        if expected is self.expected and self.world.options["write_mode"] == "append_dedup":
            numbers = Counter(self._stands_for.get(row["n"], row["n"]) for row in found)
        assert {n: expected[n] if n in again else times for n, times in numbers.items()} == expected

    def _printed(self) -> Sequence[Record]:
        """The records as `read` prints them."""
        lines = record_lines("things", None, self.server.records, 0).splitlines()
        return [json.loads(line)["record"]["data"] for line in lines]


KNOWN: Mapping[str, World] = {
    "half a character in the name of a field, beside a cursor that has no column": World(
        "Counted", {"write_mode": "append_dedup", "schema": "discard"}, [Turn([Put(1, fields={"\ud800": 1})])]
    ),
    "a number that JSON does not have, in a row without a key, whose column becomes text": World(
        "Divided",
        {"write_mode": "append_dedup", "schema": "evolve"},
        [Turn([Put(0, fields={"d": False}), Put(MISSING, fields={"d": math.nan})], (1, 1)), Turn([], (1, 1))],
        limits=Limits(group_rows=1, file_bytes=1, gathered=1, held_bytes=1),
    ),
    "a field that first appears on a later page": World(
        "Whole", {"write_mode": "append"}, [Turn([Put(1), Put(2, fields={"a": 1})], (1, 1))]
    ),
    "keys of JSON text, on pages that are converted as text and on pages that are decoded": World(
        "Whole",
        {"write_mode": "append_dedup"},
        [Turn([Put([1, "ü"], form=1, fields=fields)]) for fields in ({}, {"a": True})],
        {"id": {}, "at": TYPES[2], "v": TYPES[2]},
        text=True,
    ),
    "keys that do not fit their column, null and missing": World(
        "Whole",
        {"write_mode": "append_dedup"},
        [Turn([Put("1"), Put("A7"), Put(None), Put(MISSING), Put(None), Put(1)])] * 2,
    ),
    "whole numbers of more than 64 bits in a body with blanks": World(
        "Numbered",
        {"write_mode": "overwrite"},
        [Turn([Put(1, fields={"a": 10**22 + 1, "b": 10**22 + 1, "c": [10**22 + 1]})], schema={"a": TYPES[7]})],
        text=True,
    ),
    "half a character in the bodies of an API, where its field has a column, has none, and holds more": World(
        "Numbered",
        {"write_mode": "append_dedup"},
        [
            Turn(
                [
                    Put(1),
                    Put(2, fields=dict.fromkeys(("a", "b", "\ud800"), "x\ud83d") | {"c": [{"a": "\ude00"}]}),
                    Put(3),
                ]
            )
        ],
        {"id": TYPES[0], "a": TYPES[2]},
    ),
    "values of Python in columns of every kind": World(
        "Whole",
        {"write_mode": "append"},
        [
            Turn(
                [Put(1, fields={"a": value, "b": value, "c d": value, "e": value, "c": [value]})],
                schema={"a": TYPES[5], "b": TYPES[2], "c d": {}},
            )
            for value in (
                datetime(2024, 1, 1, 5, tzinfo=timezone(timedelta(hours=9))),
                date(2024, 2, 29),
                UUID(int=7),
                Decimal(10**22 + 1),
                Colour.RED,
            )
        ],
        {"id": TYPES[0], "e": TYPES[7]},
    ),
    "an object that lacks fields of its struct, whose column becomes text": World(
        "Whole",
        {"write_mode": "append"},
        [
            Turn([Put(1, fields={"a": {"a": "x"}}), Put(2, fields={"a": {"b": None}})], schema={"a": TYPES[9]}),
            Turn([], schema={"a": TYPES[0]}),
        ],
    ),
    "an object in a string of a struct, which becomes text": World(
        "Whole",
        {"write_mode": "append"},
        [
            Turn([Put(1, fields={"a": {"a": {"b": -0.0}}}), Put(2, fields={"a": {"a": [1]}})], schema={"a": TYPES[9]}),
            Turn([], schema={"a": TYPES[0]}),
        ],
    ),
    "versions that are texts, from 7 to 12": World(
        "Counted", {"write_mode": "append_dedup"}, [Turn([Put(1, form=1)] * 6)], {"id": TYPES[0], "v": TYPES[2]}
    ),
    "times as texts with fractions and offsets": World(
        "Dated",
        {"write_mode": "append_dedup"},
        [Turn([Put(1, 0.5 / 3600, form) for form in (0, 2, 0, 3, 1, 2, 0)])],
        {"id": TYPES[0], "at": TYPES[2]},
    ),
    "seconds since 1970 that get one more digit": World(
        "Dated", {"write_mode": "append_dedup"}, [Turn([Put(1, 5, 1)] * 4)], dialect="seconds"
    ),
    "months before days before years": World(
        "Dated", {"write_mode": "append_dedup"}, [Turn([Put(1, 24)] * 4)], dialect="days"
    ),
    "another size of numbered pages in the rest of a cut read": World(
        "Numbered", {"write_mode": "append_dedup"}, [Turn([Put(n) for n in range(7)], (2, 3), 2)], interval=0
    ),
    "another size of numbered pages in the rest of an overwrite": World(
        "Numbered", {"write_mode": "overwrite"}, [Turn([Put(n) for n in range(7)], (2, 1), 2)], interval=0
    ),
    "records that come while a read is cut, beside one without a time": World(
        "Dated",
        {"write_mode": "append"},
        [Turn([Put(0, 24), Put(0, 0), Put(MISSING, 0, cursor="never")], (1, 2), 2, [Put(1, 7), Put(2, 7)])],
    ),
    "a record that comes late while a read is cut, days before those of the rest": World(
        "Late",
        {"write_mode": "append"},
        [Turn([Put(1, 1), Put(2, 24), Put(3, 24), Put(4, 1)], (1, 3), 3, [Put(5, -24), *[Put(6, 24)] * 5])],
        interval=0,
    ),
    "fields that would share a column, each alone, in another order with each sync": World(
        "Whole",
        {"write_mode": "append"},
        [
            Turn([Put(1, fields={"C,d": None}), Put(2, fields={"c d": 1}), Put(3, fields={"c_d": 2})], (1, 1)),
            Turn([Put(4, fields={"c_d": 3, "A": 1}), Put(5, fields={"C,d": 4, "a": 2})]),
            Turn([Put(6, fields={"c d": 5, "c_d": 6})], schema={"c d": TYPES[0]}),
        ],
    ),
    "fields that would share a column, met by tasks at one time": World(
        "Divided",
        {"write_mode": "append"},
        [Turn([Put(n, fields={name: n}) for n, name in enumerate(("c d", "a", "c_d", "A", "C,d"))], (1, 1))],
        interval=0,
        tasks=3,
    ),
    "fields that differ in case alone, null at first": World(
        "Whole",
        {"write_mode": "append"},
        [Turn([Put(1, fields={"a": None, "A": None}), Put(2, fields={"A": [1]}), Put(3, fields={"a": {}})], (1, 1))],
    ),
    "one version in two spellings": World(
        "Ordered", {"write_mode": "append"}, [Turn([Put(1, 1, 1), Put(2, 0, 0)], (1, 1))], interval=0
    ),
    "ordered times in other zones than the source reads": World(
        "OrderedDates", {"write_mode": "append"}, [Turn([Put(n, form=2 + n % 2) for n in range(4)], (1, 1))], interval=0
    ),
    "ordered times that windows cannot write, on many pages": World(
        "OrderedDates",
        {"write_mode": "append"},
        [Turn([Put(n, 0.25 / 3600, 1) for n in range(9)], (1, 1), fails=6)],
        interval=0,
    ),
    "days of windows that may be seconds of records": World(
        "Dated", {"write_mode": "append"}, [Turn([Put(1, 24), Put(2, 24)])] * 2, dialect="days as seconds"
    ),
}
"""Worlds in which something was lost, or never ended, once."""


@pytest.mark.parametrize("world", KNOWN.values(), ids=KNOWN)
def test_a_sync_puts_into_the_table_what_it_read_in_a_world_where_it_did_not(world: World) -> None:
    follow(world)


@settings(max_examples=30)
@given(worlds())
def test_a_sync_puts_into_the_table_what_it_read(world: World) -> None:
    follow(world)


def follow(world: World) -> None:
    with TemporaryDirectory() as folder:
        run = Run(world, Path(folder))
        for turn in world.turns:
            run.turn(turn)


@pytest.mark.parametrize("stream", ["Counted", "Dated"])
@pytest.mark.parametrize("cursor", [None, "renamed", {"at": 1}], ids=repr)
def test_what_was_read_later_stays_where_its_cursor_cannot_be_compared(
    tmp_path: Path, stream: str, cursor: Json
) -> None:
    run = Run(World(stream, {"write_mode": "append_dedup"}, []), tmp_path)
    run.put([Put(1), Put(2)])
    assert run.sync({}).warnings == ()
    run.put([Put(1, cursor=cursor)])

    (warning,) = run.sync({}).warnings

    assert {row["id"]: row["n"] for row in rows(tmp_path / "things")} == {1: 2, 2: 1}
    assert "they replace their earlier rows" in warning


@pytest.mark.parametrize("stream", ["Whole", "Unresumable", "Dated", "Ordered"])
@pytest.mark.parametrize("mode", ["append", "append_dedup"])
@pytest.mark.parametrize("value", [b"x", {"a": [b"x"]}], ids=["bytes", "nested"])
def test_what_json_cannot_hold_fails_its_stream_by_name_and_costs_no_row(
    tmp_path: Path, stream: str, mode: str, value: Json
) -> None:
    run = Run(World(stream, {"write_mode": mode}, [], interval=0), tmp_path)
    run.put([Put(1), Put(2), Put(3, fields={"a": value}), Put(4)])
    run.server.page_size = 1

    report = run.sync({})

    assert report.failure is not None
    assert re.search("field 'a'.* bytes", report.failure.message)
    with pytest.raises(FatalError, match=r"field a.* bytes"):
        record_lines("things", None, run.server.records, 0)
    run.server.records[2] = {**run.server.records[2], "a": "x"}
    run.turn(Turn([]))
