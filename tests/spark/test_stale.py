"""Stale rows at table scale, on a real session; the rules are those of the sets in memory."""

import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from cdk import BadState, ConfigError, StateError
from cdk.base.values import Json
from cdk.lake.parquet.dedup import DELETED_AT
from cdk.lake.storage.folder import Disk
from cdk.spark import stale as module
from cdk.spark.flagged import FlaggedTable
from cdk.spark.stale import ENTITY_TABLE, StaleReport, StaleRows, after
from cdk.state.handlers import RemovalRefused, StaleEntityRemovalHandler, StatefulOptions, stateful_run
from cdk.state.handlers.entity_set import LEAVING, THERE, UNSURE, met, missed
from cdk.state.log import Mode, StateLog, open_session
from cdk.state.stores import StateKey
from cdk.state.stores.memory import MemoryStore
from tests.state.handlers.sinks import Catalog, Crash

pytestmark = pytest.mark.spark

KEY = StateKey("catalog")
SLOT = "entities:rows"
# Of Spark's usual 200 partitions after a shuffle, all but one would be empty.
_SHUFFLE = "spark.sql.shuffle.partitions"


@pytest.fixture(scope="module")
def spark(session: SparkSession) -> Iterator[SparkSession]:
    usual = session.conf.get(_SHUFFLE)
    session.conf.set(_SHUFFLE, 1)
    yield session
    assert usual is not None
    session.conf.set(_SHUFFLE, usual)


class Rows(Catalog):
    """The sink of the sets in memory, asked with tables of keys. cut: the process dies after the removal."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = False

    def remove(self, keys: pa.Table, *, hard: bool) -> pa.Table:
        done = super().remove(keys["id"].to_pylist(), hard=hard)
        if self.cut:
            raise Crash
        return pa.table({"id": pa.array(done, pa.string())})

    def revive(self, keys: pa.Table) -> pa.Table:
        return pa.table({"id": pa.array(super().revive(keys["id"].to_pylist()), pa.string())})


class World:
    """A log, a folder and a sink, and runs over them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.store, self.sink = spark, folder / "a set", MemoryStore(), Rows()

    @property
    def log(self) -> StateLog:
        return StateLog(self.store, KEY)

    def frame(self, ids: Sequence[str]) -> DataFrame:
        return self.spark.createDataFrame(pa.table({"id": pa.array(ids, pa.string())}))

    def run(
        self,
        ids: Sequence[str],
        *,
        complete: bool = True,
        preview: bool = False,
        mode: Mode | None = None,
        **options: Json,
    ) -> StaleReport:
        with stateful_run(self.log, StatefulOptions(enabled=True, **options), preview=preview, mode=mode) as run:
            stale = StaleRows(self.spark, self.folder, run, "rows", ["id"])
            for id in ids if run.writes else ():
                self.sink.write(id)
            report = stale.settle(self.frame(ids), self.sink, complete=complete)
            run.session.commit("final")
            if run.writes:
                stale.sweep()
        return report

    def snapshots(self) -> int:
        return len(list(self.folder.glob("*.set")))


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A complete run has seen ten rows, r0 to r9."""
    world = World(spark, tmp_path_factory.mktemp("first"))
    world.run(rows(10))
    return world


@pytest.fixture
def world(first: World, tmp_path: Path) -> World:
    """The same, for one test."""
    world = World(first.spark, tmp_path)
    shutil.copytree(first.folder, world.folder)
    world.store.objects.update(first.store.objects)
    world.sink.entities.update(first.sink.entities)
    return world


def rows(count: int) -> list[str]:
    return [f"r{i}" for i in range(count)]


def test_the_rules_are_those_of_sets_in_memory(spark: SparkSession) -> None:
    numbers = [None, THERE, LEAVING, UNSURE, -1, -2]
    cases = [(n, seen) for n, seen in product(numbers, (False, True)) if seen or n is not None]
    before, seen = zip(*cases, strict=True)
    frame = spark.createDataFrame(pa.table({"_before": pa.array(before, pa.int32()), "_seen": seen}))
    ways = list(product((False, True), (0, 1, 2)))
    columns = [after(first=first, grace=grace).alias(f"{first} {grace}") for first, grace in ways]

    for row in frame.select("*", *columns).collect():
        assert list(row[2:]) == [
            met(row._before, first=first) if row._seen else missed(row._before, grace) for first, grace in ways
        ]


def test_what_is_gone_is_removed_once_and_what_comes_back_is_revived(world: World) -> None:
    gone = world.run([*rows(8), "r1"])
    again = world.run(rows(8))
    back = world.run(rows(10))

    assert gone == StaleReport(previous=10, current=8, gone=2, removed=2)
    assert again == StaleReport(previous=8, current=8, gone=0)
    assert back == StaleReport(previous=8, current=10, gone=0, revived=2)
    assert world.sink.calls == [("remove", ("r8", "r9")), ("revive", ("r8", "r9"))]
    assert world.sink.hidden == set()


def test_a_run_that_died_after_it_removed_rows_is_made_good(world: World) -> None:
    world.sink.cut = True
    with pytest.raises(Crash):
        world.run(rows(8))
    world.sink.cut = False
    report = world.run(rows(9))

    assert (report.removed, report.revived) == (1, 1)
    assert world.sink.shown == set(rows(9))


def test_without_a_proof_and_in_other_modes_nothing_is_removed_and_nothing_forgotten(world: World) -> None:
    before = dict(world.store.objects), world.snapshots()
    preview = world.run(rows(8), preview=True)
    unchanged = dict(world.store.objects), world.snapshots()
    partial = world.run(["new"], complete=False)
    fresh = world.run(rows(8), ignore_old_state=True)
    told = world.run(rows(8), remove_stale_metadata=False)

    assert unchanged == before
    assert [report.kept for report in (preview, partial, fresh, told)] == [
        "",
        "nothing says that all of it was read",
        "the run ignores what was known",
        "remove_stale_metadata is false",
    ]
    assert [what for what, _ in world.sink.calls] == ["revive"]
    assert preview == StaleReport(previous=10, current=8, gone=2)
    assert world.run(rows(8)).removed == 3


def test_a_run_again_from_an_earlier_record_removes_what_that_one_knew(world: World) -> None:
    lost, draft = world.folder / "1-lost", world.folder / "99-draft"
    for folder in (lost, draft):
        folder.mkdir()
        folder.with_suffix(".set").touch()
    world.run(rows(9))
    world.run([*rows(9), "later"])
    report = world.run(rows(8), mode=Mode("at:1"))

    assert (report.previous, report.removed) == (10, 2)
    assert world.run(rows(8)).gone == 1
    # Sets that no longer count were swept, and what may still come to count was not.
    assert not lost.exists()
    assert draft.exists()
    assert world.snapshots() == 3 + 1
    with pytest.raises(StateError, match="compared: found no such folder"):
        world.run(rows(8), mode=Mode("at:1"))


def test_guards_refuse_until_the_very_plan_is_accepted(world: World) -> None:
    with pytest.raises(RemovalRefused, match="found no entity"):
        world.run([])
    with pytest.raises(RemovalRefused, match="found 8 of 10 entities missing") as refused:
        world.run(rows(2))
    plan = refused.value.message.rpartition(": ")[2]
    with pytest.raises(RemovalRefused, match="which is another plan"):
        world.run(["r3", "r4"], accept_removals=plan)
    assert world.sink.hidden == set()

    assert world.run(["r1", "r0"], accept_removals=plan).removed == 8


def test_any_runs_have_the_outcome_of_sets_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    world, log, other = World(spark, tmp_path), StateLog(MemoryStore(), KEY), Catalog()
    days = [(10, True, ""), (6, True, "r7"), (9, True, "r8"), (5, False, ""), (7, True, ""), (8, True, "")]
    for count, complete, stubborn in days:
        world.sink.stubborn = other.stubborn = {stubborn}
        options: dict[str, Json] = {"grace_runs": 1, "fail_safe_threshold": 100}
        report = world.run(rows(count), complete=complete, **options)
        with stateful_run(log, StatefulOptions(enabled=True, **options)) as run:
            handler = StaleEntityRemovalHandler(run, "rows")
            for id in rows(count):
                handler.seen(id)
                other.write(id)
            if complete:
                handler.complete()
            (memory,) = handler.settle(other)
            run.session.commit("final")

        assert (report.previous, report.current, report.gone, report.removed, report.revived, report.kept) == (
            memory.previous,
            memory.current,
            len(memory.gone),
            memory.removed,
            memory.revived,
            memory.kept,
        )
        assert world.sink.entities == other.entities


def test_the_sink_is_asked_in_chunks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 3)
    world.run(rows(3))

    assert sorted(len(ids) for _, ids in world.sink.calls) == [1, 3, 3]


def test_keys_are_joined_where_they_lie_unless_they_are_few(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan() -> str:
        with stateful_run(world.log, StatefulOptions(enabled=True), preview=True) as run:
            known = StaleRows(world.spark, world.folder, run, "rows", ["id"])
            assert known._shown is not None
            return str(known._known(known._shown)._jdf.queryExecution().executedPlan())

    world.run(rows(6))
    few = plan()
    monkeypatch.setattr(module, "_CHUNK", 3)
    many = plan()

    assert "BroadcastHashJoin" in few
    assert "SortMergeJoin" in many
    assert "Broadcast" not in many


def test_rows_of_a_delta_table_are_flagged_and_shown_again(spark: SparkSession, tmp_path: Path) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    where, log = tmp_path / "table", StateLog(MemoryStore(), KEY)
    table = pa.table({"id": [1, 2, 3, None], "part": ["a", "b", "c", None], "n": [1, 2, 3, 4]})
    write_deltalake(where, table)
    sink = FlaggedTable(Disk(where), ["id", "part"], clock=lambda: noon)
    flags = []
    for seen in ([1, 2, 3, None], [1, 3], [1, None], [1, 2, 3, None]):
        with stateful_run(log, StatefulOptions(enabled=True)) as run:
            frame = spark.createDataFrame(table).where(" or ".join(f"id <=> {id or 'null'}" for id in seen))
            StaleRows(spark, tmp_path / "set", run, "rows", ["id", "part"]).settle(frame, sink, complete=True)
            run.session.commit("final")
        found = DeltaTable(where).to_pyarrow_table().sort_by("n").to_pydict()
        flags.append([found["n"][i] for i, flag in enumerate(found.get(DELETED_AT, [None] * 4)) if flag == noon])

    assert flags == [[], [2, 4], [2, 3], []]


def test_keys_of_other_types_are_refused(world: World) -> None:
    with stateful_run(world.log, StatefulOptions(enabled=True)) as run:
        stale = StaleRows(world.spark, world.folder, run, "rows", ["id"])
        for sql, words in (
            ("select 1 as id", "found id int, expected id string"),
            ("select now() as id", "type timestamp"),
        ):
            with pytest.raises(ConfigError, match=words):
                stale.settle(world.spark.sql(sql), world.sink, complete=True)


@pytest.mark.parametrize("value", [[], {"name": "1-a"}, {"name": 1, "held": False, "removed": False, "revived": 0}])
def test_a_state_that_cannot_be_read_is_said_when_the_run_begins(
    spark: SparkSession, tmp_path: Path, value: Json
) -> None:
    world = World(spark, tmp_path)
    with open_session(world.log) as session:
        session.propose(SLOT, ENTITY_TABLE.of(value))
        session.commit("final")
    with pytest.raises(BadState, match=f"state of default/catalog {SLOT}"):
        world.run(rows(8))
