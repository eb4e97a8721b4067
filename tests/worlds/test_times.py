"""Worlds in time: syncs of one pipeline, whole and cut, with other writers between them and in the middle of them.

What each sync ends in is one of three: right, refused before the first request, or an error that loses nothing.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cdk import Json
from cdk.base.errors import TransientError
from cdk.spark.pipeline import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.spark.stream_report import Status, StreamReport
from cdk.spark.sync import SyncRunner
from cdk.spark.tasks import Workers, here
from tests.spark.given_source import Given
from tests.worlds.server import INCREMENTAL, WHOLE, Server
from tests.worlds.table import problems, rows

MODES = [
    *((stream.__name__, mode) for stream in INCREMENTAL for mode in ("append", "append_dedup")),
    *((stream.__name__, mode) for stream in WHOLE for mode in ("overwrite", "append_dedup")),
]
STREAMS = {stream.__name__: stream for stream in (*WHOLE, *INCREMENTAL)}
TYPES: tuple[Mapping[str, Json], ...] = ({"type": "integer"}, {"type": "number"}, {"type": "string"})
VALUES = st.sampled_from([None, 1, 2**40, 0.5, "x", True, {"a": 1}])
FIELDS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=2)
RECORDS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 24]), FIELDS), min_size=1, max_size=5)
REQUESTS = st.integers(0, 6)


class Times(RuleBasedStateMachine):
    """One table, the pipeline that fills it, and everybody else.

    removed: serial numbers of rows that somebody else deleted. foreign: those of rows that somebody else added.
    cut: a sync has failed since the last one that got to its end, so rows may be missing. past: by the version of the
    table, what `removed` and `foreign` were.
    """

    def __init__(self) -> None:
        super().__init__()
        self._temporary = TemporaryDirectory()
        self.folder = Path(self._temporary.name)
        self.table = self.folder / "things"
        self.server = Server()
        self.removed: frozenset[int] = frozenset()
        self.foreign: frozenset[int] = frozenset()
        self.past: dict[int, tuple[frozenset[int], frozenset[int], int]] = {}
        self.synced = 0
        self.cut = False
        self.schema: dict[str, Json] = {}
        self.next_foreign = -1

    def teardown(self) -> None:
        self._temporary.cleanup()

    @initialize(
        mode=st.sampled_from(MODES),
        interval=st.sampled_from([0, 30]),
        by=st.sampled_from([None, "part", "n"]),
        records=RECORDS,
    )
    def begin(self, mode: tuple[str, str], interval: int, by: str | None, records: list[tuple[int, int, Json]]) -> None:
        self.stream, self.mode = mode
        self.interval, self.by = interval, by
        self.put(records)

    # What the source does.

    @rule(records=RECORDS)
    def put(self, records: list[tuple[int, int, Json]]) -> None:
        for id, hours, fields in records:
            self.server.put(id, fields, hours)

    @rule(name=st.sampled_from("abc"), kind=st.integers(0, 2))
    def declare(self, name: str, kind: int) -> None:
        """The schema declares a field, as a type that is as wide as the one before."""
        before = self.schema.get(name)
        self.schema[name] = TYPES[kind if before is None else max(kind, TYPES.index(before))]

    # What the pipeline does.

    @rule(size=st.integers(1, 5))
    def sync(self, size: int) -> None:
        self.server.page_size = size
        report = self._sync()
        assert report.status is Status.DONE, report.failure
        self._completed()

    @rule(size=st.integers(1, 5), request=REQUESTS)
    def sync_that_is_cut(self, size: int, request: int) -> None:
        self.server.page_size = size
        self._while(request, self.server.fail)
        self.cut = True

    @rule(size=st.integers(1, 5), request=REQUESTS)
    def sync_while_somebody_optimizes(self, size: int, request: int) -> None:
        self.server.page_size = size
        self._while(request, self._optimize)

    @rule(size=st.integers(1, 5), request=REQUESTS)
    def sync_while_somebody_vacuums(self, size: int, request: int) -> None:
        def work() -> None:
            self._optimize()
            self._vacuum()

        self.server.page_size = size
        self._while(request, work)

    @rule(size=st.integers(1, 5), request=REQUESTS)
    def sync_while_somebody_appends(self, size: int, request: int) -> None:
        self.server.page_size = size
        # An overwrite that is complete takes away what was there before it, whenever it came.
        assume(self.mode != "overwrite")
        self._while(request, self._append)

    # What others do.

    @precondition(lambda self: self._exists())
    @rule()
    def optimize(self) -> None:
        self._optimize()

    @precondition(lambda self: self._exists())
    @rule()
    def vacuum(self) -> None:
        self._vacuum()

    @precondition(lambda self: self._exists())
    @rule()
    def append(self) -> None:
        self._append()

    @precondition(lambda self: self._exists())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        numbers = sorted(self._numbers())
        assume(numbers)
        n = data.draw(st.sampled_from(numbers))
        DeltaTable(str(self.table)).delete(f"n = {n}")
        self.foreign -= {n}
        self.removed |= {n}

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        versions = sorted(set(self.past) - {DeltaTable(str(self.table)).version()})
        assume(versions)
        version = data.draw(st.sampled_from(versions))
        # The table is what it was; the columns that it has gained since are gone with the rest.
        DeltaTable(str(self.table)).restore(version)
        self.removed, self.foreign, self.synced = self.past[version]
        self.cut = True

    @precondition(lambda self: self._exists())
    @rule(name=st.sampled_from("de"))
    def add_column(self, name: str) -> None:
        table = DeltaTable(str(self.table))
        if name not in [field.name for field in table.schema().fields]:
            table.alter.add_columns(Field(name, PrimitiveType("string")))

    # What must hold.

    @invariant()
    def nothing_is_there_twice_and_what_is_there_is_whole(self) -> None:
        if not self._exists():
            return
        known = {record["n"]: record for record in self.server.records}
        numbers = Counter[int]()
        for row in rows(self.table):
            numbers[row["n"]] += 1
            if row["n"] >= 0:
                assert not (lost := list(problems(row, known[row["n"]]))), lost
        assert not (twice := [n for n, times in numbers.items() if times > 1]), twice
        if not self.cut:
            assert set(numbers) == self._expected()
        self.past[DeltaTable(str(self.table)).version()] = (self.removed, self.foreign, self.synced)

    def _expected(self) -> set[int]:
        read = self.server.records[: self.synced]
        if self.mode == "append_dedup":
            numbers = set({record["id"]: record["n"] for record in read}.values())
        else:
            numbers = {record["n"] for record in read}
        return (numbers - self.removed) | self.foreign

    def _completed(self) -> None:
        self.synced, self.cut = len(self.server.records), False
        if STREAMS[self.stream] in WHOLE:
            self.removed = frozenset()
        if self.mode == "overwrite":
            self.foreign = frozenset()

    def _while(self, request: int, work: Callable[[], None]) -> None:
        """Sync, and do some work at a request. It may fail then; the next sync that is left alone makes it right."""
        errors: list[Exception] = []
        done: list[bool] = []

        def watched() -> None:
            done.append(True)
            try:
                work()
            except Exception as error:
                errors.append(error)
                raise

        self.server.at = {request: watched}
        report = self._sync()
        self.server.at = {}
        # An error of this test must not pass for one of the server.
        assert all(isinstance(error, TransientError) for error in errors), errors
        if report.status is Status.DONE:
            self._completed()
        else:
            assert done, report.failure
            assert report.failure is not None
            assert report.failure.failure_type != "system_error", report.failure
            self.cut = True

    def _optimize(self) -> None:
        if self._exists():
            DeltaTable(str(self.table)).optimize.compact()

    def _vacuum(self) -> None:
        if self._exists():
            DeltaTable(str(self.table)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
            # Versions whose files are gone cannot be restored.
            self.past = {}

    def _append(self) -> None:
        if not self._exists():
            return
        n, self.next_foreign = self.next_foreign, self.next_foreign - 1
        schema = pa.schema(DeltaTable(str(self.table)).schema().to_arrow())
        row = {"n": n, "id": 1000 - n, "part": 0}
        known = {name: value for name, value in row.items() if name in schema.names}
        write_deltalake(str(self.table), pa.Table.from_pylist([known], schema), mode="append")
        self.foreign |= {n}

    def _exists(self) -> bool:
        return DeltaTable.is_deltatable(str(self.table))

    def _numbers(self) -> set[int]:
        return {row["n"] for row in rows(self.table)}

    def _sync(self) -> StreamReport:
        own: Mapping[str, Json] = {
            "n": {"type": "integer"},
            "id": {"type": "integer"},
            "at": {"type": "string"},
            "part": {"type": "integer"},
        }
        stream = STREAMS[self.stream](self.server, {"type": "object", "properties": {**own, **self.schema}})
        options: dict[str, Json] = {"write_mode": self.mode}
        if self.by is not None:
            options["partition_by"] = self.by
        pipeline = Pipeline(
            name="world",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams={stream.name: StreamOptions.model_validate(options)},
            checkpoint_interval=timedelta(seconds=self.interval),
        )
        (report,) = SyncRunner(pipeline, Given([stream]), workers=Workers(here, 1)).run().streams
        return report


TestTimes = Times.TestCase
TestTimes.settings = settings(max_examples=25, stateful_step_count=12, report_multiple_bugs=False)
