"""What becomes of tables and their states when something fails that no other file here makes fail.

The whole table of failures is in tests/state/log/matrix.py. Tasks run in this process, and what dies is a fork of it.
"""

import multiprocessing
import os
import resource
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from cdk import Json, Page, Slice, Source, Stream, TransientError
from cdk.base.task_map import run_inline
from cdk.base.times.clock import Clock, system_clock
from cdk.spark.sync_runner import SyncRunner
from cdk.state import StaleEntityRemovalHandler, StatefulOptions, StateLog, stateful_run
from cdk.state.handlers.stale import ScopeReport
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.settings.pipeline_file import (
    Pipeline,
    ProviderOptions,
    SourceOptions,
    StateOptions,
    StreamOptions,
    TargetOptions,
)
from cdk.sync.tables.state_log_mirror import open_log
from cdk.sync.tasks.workers import Workers
from tests.samples import Users
from tests.spark.crash import told

EVERYTHING = Counter((n * 10 + i,) for n in range(5) for i in range(3))


def nothing(*_: int) -> None:
    """What happens where nothing is to happen."""


@dataclass(frozen=True)
class Lake:
    """A pipeline with one stream, fifteen users, and a log that follows its table. A commit for every page.

    at_page: called in the source before it gives a page, with the page's number.
    """

    folder: Path
    provider: Mapping[str, Json]
    at_page: Callable[[int], None] = nothing
    bad: int | None = None

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(
            name="shop",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder / "lake")),
            streams={"counted": StreamOptions(sync_mode="full_refresh", write_mode="append")},
            state=StateOptions(state_provider=ProviderOptions.model_validate(self.provider)),
            checkpoint_interval=timedelta(),
        )

    @property
    def table(self) -> Path:
        return self.folder / "lake" / "counted"

    @property
    def rows(self) -> Counter[tuple[Json, ...]]:
        return Counter(told(self.table))

    @property
    def log(self) -> StateLog:
        log = open_log(self.pipeline, (), system_clock)
        assert log is not None
        return log

    def sync(self, clock: Clock = system_clock) -> SyncResult:
        return SyncRunner(self.pipeline, Given(self), workers=Workers(run_inline, 1), clock=clock).run()

    def told_rows(self) -> int:
        """How many rows the newest record tells of."""
        head = self.log.head()
        return sum(effect["rows"] for effect in head.effects) if head else 0


class Given(Source):
    """A source with the stream of a lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def streams(self, config: Mapping[str, Json]) -> list[Stream]:
        del config
        return [Counted(self._lake)]


class Counted(Users):
    """Users, read page after page, for an appended table."""

    name = "counted"

    def __init__(self, lake: Lake) -> None:
        super().__init__()
        self._lake = lake

    def json_schema(self) -> Mapping[str, Json]:
        return {"properties": {"id": {"type": "integer"}}}

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page = super().read_page(slice, token)
        number = page.records[0]["id"] // 10
        self._lake.at_page(number)
        return page if number != self._lake.bad else Page([*page.records, {"id": object()}], page.next)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, {"type": "local", "config": {"path": str(tmp_path / "log")}})


def in_a_fork(lake: Lake, prepare: Callable[[], None] = nothing) -> int:
    """Sync in a process of its own, after `prepare`; how it ended: 0 well, 1 with a failed stream, or by a signal."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_sync, args=(lake, prepare))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _sync(lake: Lake, prepare: Callable[[], None]) -> None:
    prepare()
    raise SystemExit(0 if lake.sync().ok else 1)


@dataclass(frozen=True)
class DieAt:
    """Makes a sync die at one of its points."""

    point: str

    def __call__(self) -> None:
        os.environ["CDK_CRASH_AT"] = self.point


def die_at_the_first_removal() -> None:
    """Die once a state has been removed that nobody needs, before the next one is."""
    removed: list[str] = []

    def watch(event: str, arguments: tuple[Json, ...]) -> None:
        if event == "os.remove" and "_cdk_state" in (path := str(arguments[0])) and path.endswith(".json"):
            if removed:
                os.kill(os.getpid(), signal.SIGKILL)
            removed.append(path)

    sys.addaudithook(watch)


def fill_the_disk(page: int) -> None:
    """From the third page on, no file of this process may grow."""
    if page == 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def states(lake: Lake) -> list[Path]:
    """The files of states, oldest first."""
    return sorted((lake.table / "_cdk_state" / "shop").glob("*.json"), key=lambda path: int(path.stem))


@pytest.mark.parametrize("damage", ["cut", "kind"])
def test_a_state_that_cannot_be_read_fails_the_sync_before_the_source_is_read(lake: Lake, damage: str) -> None:
    assert in_a_fork(lake, DieAt("after_commit:2")) == -signal.SIGKILL
    newest = states(lake)[-1]
    text, rows = newest.read_bytes(), lake.rows
    newest.write_bytes(text[:-20] if damage == "cut" else b'{"format": 99}')
    given: list[int] = []

    (report,) = replace(lake, at_page=given.append).sync().streams

    assert report.failure is not None
    assert newest.name in report.failure.message
    assert (given, lake.rows) == ([], rows)
    newest.write_bytes(text)
    assert lake.sync().ok
    assert lake.rows == EVERYTHING


@pytest.mark.parametrize("point", ["after_commit:1", "after_commit:3", "done"])
def test_rows_that_were_committed_before_the_log_heard_of_them_are_told_by_the_next_sync(
    lake: Lake, point: str
) -> None:
    assert in_a_fork(lake, DieAt(point)) == -signal.SIGKILL
    there = lake.rows.total()
    assert there > 0
    assert lake.log.head() is None

    assert lake.sync().ok
    first, *_ = reversed(list(lake.log.history()))

    assert (first.status, first.effects[0]["rows"]) == ("partial", there)
    assert (lake.rows, lake.told_rows()) == (EVERYTHING, 15)


def test_a_removal_of_states_that_was_cut_harms_nothing_and_is_finished(lake: Lake) -> None:
    for _ in range(2):
        assert in_a_fork(lake, DieAt("after_state_blob")) == -signal.SIGKILL
    assert len(states(lake)) == 2
    assert in_a_fork(lake, die_at_the_first_removal) == -signal.SIGKILL
    assert (lake.rows.total(), len(states(lake))) == (3, 2)

    assert lake.sync().ok

    assert lake.rows == EVERYTHING
    assert len(states(lake)) == 5


def test_a_record_that_cannot_be_written_stops_the_stream_at_what_was_committed(lake: Lake) -> None:
    result = replace(lake, bad=2).sync()

    assert not result.ok
    assert (lake.rows.total(), lake.told_rows()) == (6, 6)
    assert lake.sync().ok
    assert (lake.rows, lake.told_rows()) == (EVERYTHING, 15)


def test_a_log_that_is_away_at_the_end_fails_the_sync_and_is_told_by_the_next(tmp_path: Path) -> None:
    database = tmp_path / "log.db"

    def goes_away(page: int) -> None:
        if page == 4:
            database.rename(tmp_path / "away.db")
            database.mkdir()

    lake = Lake(tmp_path, {"type": "sql", "config": {"url": f"sqlite:///{database}"}})
    with pytest.raises(TransientError, match="the database failed"):
        replace(lake, at_page=goes_away).sync()
    assert lake.rows == EVERYTHING
    database.rmdir()
    (tmp_path / "away.db").rename(database)
    assert lake.log.head() is None

    (report,) = lake.sync().streams

    assert report.written == 0
    assert (lake.rows, lake.told_rows()) == (EVERYTHING, 15)


def test_a_disk_that_is_full_fails_the_sync_and_keeps_what_was_committed(lake: Lake) -> None:
    assert in_a_fork(replace(lake, at_page=fill_the_disk)) == 1
    assert lake.rows.total() == 6

    assert lake.sync().ok
    assert (lake.rows, lake.told_rows()) == (EVERYTHING, 15)


@pytest.mark.parametrize("year", [1971, 2999])
def test_a_clock_that_jumps_changes_no_order(lake: Lake, year: int) -> None:
    assert in_a_fork(lake, DieAt("after_commit:2")) == -signal.SIGKILL

    assert lake.sync(lambda: datetime(year, 1, 1, tzinfo=UTC)).ok

    assert (lake.rows, lake.told_rows()) == (EVERYTHING, 15)
    assert [record.seq for record in lake.log.history()] == [2, 1]


def test_a_table_that_was_dropped_takes_its_state_along(lake: Lake) -> None:
    assert in_a_fork(lake, DieAt("after_commit:2")) == -signal.SIGKILL
    shutil.rmtree(lake.table)

    assert lake.sync().ok

    assert (lake.rows, lake.told_rows()) == (EVERYTHING, 15)


def test_a_table_that_was_restored_takes_its_state_back(lake: Lake) -> None:
    assert in_a_fork(lake, DieAt("after_commit:4")) == -signal.SIGKILL
    assert lake.rows.total() == 12
    table = DeltaTable(str(lake.table))
    table.restore(table.version() - 2)
    assert lake.rows.total() == 6

    assert lake.sync().ok

    assert (lake.rows, lake.told_rows()) == (EVERYTHING, 15)


class Flags:
    """A Delta table of ids, as the handler of stale ids asks for it."""

    def __init__(self, place: Path) -> None:
        write_deltalake(place, pa.table({"id": ["a", "b", "c"]}))
        self.place = place

    def remove(self, ids: Sequence[str], *, hard: bool) -> list[str]:
        assert hard
        DeltaTable(self.place).delete(f"id IN ({', '.join(map(repr, ids))})")
        return list(ids)

    def revive(self, ids: Sequence[str]) -> list[str]:
        assert not ids
        return []

    def takes(self, changes: str) -> None:
        DeltaTable(self.place).alter.set_table_properties({"delta.appendOnly": changes})

    @property
    def rows(self) -> list[str]:
        return sorted(DeltaTable(self.place).to_pyarrow_table()["id"].to_pylist())


def test_a_table_that_refuses_a_removal_is_asked_again(lake: Lake, tmp_path: Path) -> None:
    def looks(*ids: str) -> ScopeReport:
        options = StatefulOptions(enabled=True, removal="hard")
        with stateful_run(lake.log, options) as a_run:
            stale = StaleEntityRemovalHandler(a_run, "rows")
            for id in ids:
                stale.add(id)
            stale.complete()
            (report,) = stale.reconcile(table)
            a_run.session.commit("final")
        return report

    table = Flags(tmp_path / "table")
    looks("a", "b", "c")
    table.takes("true")
    for _ in range(2):
        with pytest.raises(DeltaError):
            looks("a", "b")
        assert table.rows == ["a", "b", "c"]
    table.takes("false")

    assert looks("a", "b").removed == 1
    assert table.rows == ["a", "b"]
    assert looks("a", "b").missing == ()
