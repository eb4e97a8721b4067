"""Streams that are not read again for a window that was read before; tasks run in this process."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

import pytest
from deltalake import DeltaTable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from cdk import ConfigError, Item, Json, JsonSchema, Page, PagedStream, Partition, Slice, Stream, list_partitions
from cdk.base.errors import ServerError, StateError
from cdk.base.task_map import run_inline
from cdk.lake.admin.edits import import_state
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin
from cdk.lake.delta.write_modes import WriteModeName
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.run_lock import only_run
from cdk.spark.sync_runner import SyncRunner
from cdk.state import StateKey, StateLog, StateRecord, open_store
from cdk.sync.loop import runner as sync_module
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import (
    Pipeline,
    ProviderOptions,
    SourceOptions,
    StateOptions,
    StreamOptions,
    TargetOptions,
)
from cdk.sync.settings.stream_options import SkipOptions
from cdk.sync.tasks.workers import Workers
from tests.spark.dying import dying_at, dying_if_reached
from tests.spark.given_source import Given

NOON = datetime(2024, 5, 12, 12, tzinfo=UTC)
YESTERDAY = "2024-05-11T00:00:00+00:00 to 2024-05-12T00:00:00+00:00"


class Days(Stream):
    """A few rows, the same each time; counts how often it was read."""

    name = "days"
    read = 0

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        type(self).read += 1
        yield from ({"id": i} for i in range(3))


class Hours(Days):
    name = "hours"


@pytest.fixture(autouse=True)
def unread() -> None:
    Days.read = Hours.read = 0


@dataclass(frozen=True)
class Lake:
    """Syncs at a moment that a test chooses, with their log."""

    folder: Path
    options: SkipOptions = field(default_factory=SkipOptions)
    now: datetime = NOON
    state: Mapping[str, Json] = field(default_factory=dict)
    stream: StreamOptions = field(default_factory=partial(StreamOptions, write_mode="append"))

    def at(self, **later: float) -> "Lake":
        return replace(self, now=self.now + timedelta(**later))

    def asking(self, **options: Json) -> "Lake":
        return replace(self, options=SkipOptions(**options))

    def runner(self, *streams: Stream, **config: Json) -> SyncRunner:
        provider = ProviderOptions(type="local", config={"path": str(self.folder / "log")})
        pipeline = Pipeline(
            name="shop",
            source=SourceOptions(connector="given", config=config),
            target=TargetOptions(path=str(self.folder / "lake")),
            streams={stream.name: self.stream for stream in streams},
            checkpoint_interval=timedelta(),
            state=StateOptions(state_provider=provider, **self.state),
            skip_redundant_runs=self.options,
        )
        return SyncRunner(pipeline, Given(streams), workers=Workers(run_inline, 1), clock=lambda: self.now)

    def sync(self, *streams: Stream, **config: Json) -> SyncResult:
        return self.runner(*streams, **config).run()

    def statuses(self, *streams: Stream, **config: Json) -> list[Status]:
        return [report.status for report in self.sync(*streams, **config).streams]

    @property
    def log(self) -> StateLog:
        return StateLog(open_store(f"{self.folder}/log"), StateKey("shop"))

    @property
    def records(self) -> list[StateRecord]:
        return list(self.log.history())[::-1]

    @property
    def files(self) -> list[tuple[Path, int]]:
        return sorted((path, path.stat().st_mtime_ns) for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_a_window_that_was_read_is_not_read_again_and_nothing_is_written(lake: Lake) -> None:
    assert lake.statuses(Days({})) == [Status.DONE]
    before = lake.files
    result = lake.at(hours=11).sync(Days({}))
    (report,) = result.streams

    assert (report.status, report.window, report.total, Days.read) == (Status.REDUNDANT, YESTERDAY, 3, 1)
    assert result.ok
    assert lake.files == before
    assert (result.to_json()["status"], result.to_json()["streams"][0]["window"]) == ("done", YESTERDAY)
    assert result.to_json()["streams"][0]["status"] == "redundant"


def test_a_redundant_sync_counts_no_rows_that_another_writer_has_removed(lake: Lake) -> None:
    lake.sync(Days({}))
    DeltaTable(str(lake.folder / "lake" / "days")).delete("id = 1")

    (report,) = lake.sync(Days({})).streams
    assert (report.status, report.total) == (Status.REDUNDANT, 2)


def test_the_window_is_in_the_log_after_the_commits_it_tells_of(lake: Lake) -> None:
    lake.sync(Days({}))
    tables, window = lake.records

    assert (sorted(tables.slots), sorted(window.slots)) == (["stream:days"], ["stream:days", "window:days"])
    assert (window.status, window.effects) == ("final", tables.effects)
    assert window.run["id"] == tables.run["id"]
    covered = lake.log.value(window, "window:days").value["covered"]
    assert covered == [YESTERDAY.split(" to ")]


def test_the_next_day_is_read(lake: Lake) -> None:
    lake.sync(Days({}))

    assert lake.at(hours=13).statuses(Days({})) == [Status.DONE]
    assert lake.at(hours=14).statuses(Days({})) == [Status.REDUNDANT]
    assert Days.read == 2


def test_a_day_that_has_not_settled_is_not_asked_for(lake: Lake) -> None:
    lake = lake.asking(settle=timedelta(hours=6))
    lake.sync(Days({}))

    assert lake.at(hours=17).statuses(Days({})) == [Status.REDUNDANT]
    assert lake.at(hours=18).statuses(Days({})) == [Status.DONE]


def test_a_window_that_is_asked_for_and_not_over_is_read_by_every_sync(lake: Lake) -> None:
    lake = lake.asking(start_time=NOON - timedelta(days=2), end_time=NOON)

    assert lake.statuses(Days({})) == [Status.DONE]
    assert lake.statuses(Days({})) == [Status.DONE]
    # The second has nothing new to say of the window.
    assert [max(record.slots) for record in lake.records] == ["stream:days", "window:days", "window:days"]
    assert lake.at(hours=12).statuses(Days({})) == [Status.DONE]
    assert lake.at(hours=12).statuses(Days({})) == [Status.REDUNDANT]


def test_a_sync_can_be_forced_and_forgets_nothing(lake: Lake) -> None:
    lake.sync(Days({}))
    records = len(lake.records)

    assert lake.asking(force_rerun=True).statuses(Days({})) == [Status.DONE]
    assert replace(lake, state={"ignore_old_state": True}).statuses(Days({})) == [Status.DONE]
    assert lake.statuses(Days({})) == [Status.REDUNDANT]
    assert Days.read == 3
    assert all("window:days" in record.slots for record in lake.records[records - 1 :])


def test_it_can_be_turned_off(lake: Lake) -> None:
    lake = lake.asking(enabled=False)

    assert lake.statuses(Days({})) == [Status.DONE]
    assert lake.statuses(Days({})) == [Status.DONE]
    assert [sorted(record.slots) for record in lake.records] == [["stream:days"]] * 2


class Ill(Hours):
    name = "hours"

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield from super().read_records(slice)
        raise ServerError("the source is ill")


def test_only_the_stream_that_failed_is_read_again(lake: Lake) -> None:
    assert lake.statuses(Days({}), Ill({})) == [Status.DONE, Status.FAILED]
    assert lake.records[-1].status == "partial"

    assert lake.statuses(Days({}), Hours({})) == [Status.REDUNDANT, Status.DONE]
    assert (Days.read, lake.records[-1].status) == (1, "final")


@pytest.mark.parametrize("point", ["done", "noted"])
def test_the_rest_of_a_sync_that_was_killed_completes_its_window(lake: Lake, point: str) -> None:
    with dying_at(point, sync_module):
        lake.sync(Days({}))

    (resumed,) = lake.at(hours=11).sync(Days({})).streams
    assert (resumed.resumed, resumed.status) == (True, Status.DONE)
    assert lake.at(hours=11).statuses(Days({})) == [Status.REDUNDANT]
    assert Days.read == 1


PARTS = ("a", "b", "c")
POINTS = ("task_begins", "files_written", "merged", "before_state_blob", "after_state_blob", "after_commit", "done")


class Parts(Stream):
    """A row of the window that is asked for in each part; the source is down at some part, or never."""

    name = "parts"
    primary_key = "key"
    window: ClassVar[str] = ""
    down_at: ClassVar[str] = ""
    read: ClassVar[int] = 0

    def partitions(self) -> Iterator[Partition]:
        return list_partitions("part", PARTS)

    def json_schema(self) -> JsonSchema:
        return {"properties": {name: {"type": "string"} for name in ("key", "window", "part")}}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        part = str(slice.partition["part"])
        if part == self.down_at:
            raise ServerError("the source is down")
        type(self).read += 1
        yield {"key": f"{self.window} {part}", "window": self.window, "part": part}


def rows_of(folder: Path) -> Counter[tuple[str, str]]:
    """How often the table has each window's parts; none where there is no table."""
    if not (path := folder / "lake" / "parts").exists():
        return Counter()
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return Counter((row["window"], row["part"]) for row in rows)


def read_parts(lake: Lake, window: str = "", *, down_at: str = "") -> Status:
    """Sync a window by its name."""
    Parts.window, Parts.down_at = window, down_at
    (status,) = lake.statuses(Parts({}))
    return status


@pytest.mark.parametrize("mode", ["append", "overwrite", "append_dedup"])
def test_the_rest_of_a_sync_that_failed_completes_its_window(lake: Lake, mode: WriteModeName) -> None:
    lake = replace(lake, stream=StreamOptions(write_mode=mode))
    statuses = [read_parts(lake, down_at=part) for part in ("a", "b", "c", "", "")]

    assert statuses == [*[Status.FAILED] * 3, Status.DONE, Status.REDUNDANT]
    assert rows_of(lake.folder) == {("", part): 1 for part in PARTS}


def test_a_read_that_was_interrupted_begins_anew_for_another_window(lake: Lake) -> None:
    statuses = [read_parts(lake, "one", down_at="b"), *(read_parts(lake.at(days=1), "two") for _ in range(2))]

    assert statuses == [Status.FAILED, Status.DONE, Status.REDUNDANT]
    assert rows_of(lake.folder) == {("one", "a"): 1, **{("two", part): 1 for part in PARTS}}


def lost(lake: Lake) -> None:
    shutil.rmtree(lake.folder / "lake" / "parts")


def restored(lake: Lake) -> None:
    DeltaTable(str(lake.folder / "lake" / "parts")).restore(1)


def rolled_back(lake: Lake) -> None:
    target = LocalFolder(lake.folder / "lake")
    Admin(target, "shop").rollback(StreamLocation("parts", target.join("parts")), 1, tables=True)


@pytest.mark.parametrize("moved", [lost, restored, rolled_back])
def test_windows_whose_rows_are_gone_do_not_count_as_read(lake: Lake, moved: Callable[[Lake], None]) -> None:
    assert [read_parts(lake, "one"), read_parts(lake.at(days=1), "two")] == [Status.DONE] * 2
    assert read_parts(lake, "one") == Status.REDUNDANT

    moved(lake)

    assert read_parts(lake.at(days=2), "three") == Status.DONE
    assert read_parts(lake, "one") == Status.DONE
    assert rows_of(lake.folder).keys() >= {(window, part) for window in ("one", "three") for part in PARTS}


def test_a_sync_after_one_that_was_killed_reads_another_window_whole_and_notes_the_one_before(lake: Lake) -> None:
    with dying_at("done", sync_module):
        lake.sync(Days({}))

    (begun,) = lake.at(hours=13).sync(Days({})).streams
    assert (begun.resumed, begun.status, Days.read) == (False, Status.DONE, 2)
    assert lake.at(hours=13).statuses(Days({})) == [Status.REDUNDANT]
    assert lake.statuses(Days({})) == [Status.REDUNDANT]


def test_a_sync_that_was_killed_with_all_done_is_not_the_next_window(lake: Lake) -> None:
    sync = lake.sync(Days({})).run.sync
    (lake.folder / "lake" / "_cdk" / "shop.sync").write_text(f"{sync} by process 1 on elsewhere")

    assert lake.statuses(Days({})) == [Status.REDUNDANT]
    assert lake.at(hours=24).statuses(Days({})) == [Status.DONE]
    assert Days.read == 2


def test_a_window_that_was_read_is_not_read_again_after_a_later_one_was_interrupted() -> None:
    windows = Windows()
    windows.begin("append")
    for day, down_at in ((0, ""), (2, "b"), (0, ""), (2, "")):
        windows.sync(day=day, down_at=down_at, force=False, point=None, time=1)

    assert windows.rows() == Counter({(f"day {day}", part): 1 for day in (0, 2) for part in PARTS})
    windows.teardown()


@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("back", range(4))
def test_what_is_read_after_a_rollback_completes_the_window_of_the_state(back: int, *, tables: bool) -> None:
    windows = Windows()
    windows.begin("append")
    windows.sync(day=0, down_at="", force=False, point=None, time=1)
    windows.roll_back(back=back, tables=tables)
    # It looks that another sync has nothing to read.
    windows.sync(day=0, down_at="", force=False, point=None, time=1)
    windows.teardown()


def test_what_was_not_over_when_an_interrupted_read_began_is_read_again(lake: Lake) -> None:
    lake = lake.asking(start_time=NOON - timedelta(days=2), end_time=NOON)
    with dying_at("done", sync_module):
        lake.sync(Days({}))

    # The rest of it ends when the window is over.
    assert lake.at(hours=13).statuses(Days({})) == [Status.DONE]
    assert lake.at(hours=13).statuses(Days({})) == [Status.DONE]
    assert lake.at(hours=13).statuses(Days({})) == [Status.REDUNDANT]
    assert Days.read == 2


class Paged(PagedStream):
    """A page of one row each; the pages that were read."""

    name = "days"
    pages: ClassVar[list[int]] = []

    def json_schema(self) -> JsonSchema:
        return {"properties": {"id": {"type": "integer"}}}

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        page = int(token["page"]) if token else 0
        self.pages.append(page)
        return Page([{"id": page}], {"page": page + 1} if page < 2 else None)


def test_a_position_that_a_person_set_is_read_from_and_is_no_window(lake: Lake) -> None:
    lake.sync(Paged({}))
    target = LocalFolder(lake.folder / "lake")
    location = StreamLocation("days", target.join("days"))
    Admin(target, "shop").change(location, lambda saved: import_state(saved, Paged({}), {"page": 2}))

    # Also on another day.
    assert lake.at(hours=24).statuses(Paged({})) == [Status.DONE]
    assert Paged.pages == [0, 1, 2, 2]
    assert lake.at(hours=24).statuses(Paged({})) == [Status.DONE]
    assert lake.at(hours=24).statuses(Paged({})) == [Status.REDUNDANT]


def test_another_config_is_another_window_and_another_secret_is_not(lake: Lake) -> None:
    lake.sync(Days({}), account=1, key="hunter2")

    assert lake.statuses(Days({}), account=1, key="hunter3") == [Status.REDUNDANT]
    assert lake.statuses(Days({}), account=2, key="hunter3") == [Status.DONE]


def test_a_table_that_is_gone_or_does_not_stand_where_it_stood_is_read(lake: Lake, tmp_path: Path) -> None:
    lake.sync(Days({}))
    Admin(LocalFolder(tmp_path / "lake"), "shop").reset(StreamLocation("days", LocalFolder(tmp_path / "lake" / "days")))
    assert lake.statuses(Days({})) == [Status.DONE]
    assert lake.statuses(Days({})) == [Status.REDUNDANT]

    (tmp_path / "lake" / "days").rename(tmp_path / "old")
    assert lake.statuses(Days({})) == [Status.DONE]


def test_while_another_sync_runs_a_redundant_one_needs_no_lock(lake: Lake, tmp_path: Path) -> None:
    lake.sync(Days({}))

    with only_run(tmp_path / "lake", "shop"):
        assert lake.statuses(Days({})) == [Status.REDUNDANT]


def test_a_preview_says_what_is_redundant_and_reads_the_rest(lake: Lake) -> None:
    lake.sync(Days({}))
    before = lake.files
    runner = lake.runner(Days({}), Hours({}))

    assert [preview.plan.name for preview in runner.preview(2)] == ["hours"]
    assert list(runner.notes()) == [f"days: redundant, {YESTERDAY} was read before; a sync would not read it"]
    assert (Days.read, lake.files) == (1, before)


def test_a_preview_before_the_first_sync_makes_nothing(lake: Lake, tmp_path: Path) -> None:
    assert [preview.plan.name for preview in lake.runner(Days({})).preview(0)] == ["days"]
    assert list(tmp_path.iterdir()) == []


def test_without_a_log_it_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(
        name="shop",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(tmp_path / "lake")),
        skip_redundant_runs=SkipOptions(),
    )

    with pytest.raises(ConfigError, match=r"it needs a state log, .* set state\.state_provider") as caught:
        SyncRunner(pipeline, Given([Days({})]), workers=Workers(run_inline, 1)).run()
    assert "skip_redundant_runs" in str(caught.value)
    assert not (tmp_path / "lake").exists()


def test_a_table_that_was_restored_since_is_read(lake: Lake) -> None:
    lake.sync(Days({}))
    older = DeltaTable(str(lake.folder / "lake" / "days"))
    lake.at(hours=24).sync(Days({}))
    assert lake.at(hours=24).statuses(Days({})) == [Status.REDUNDANT]

    DeltaTable(str(lake.folder / "lake" / "days")).restore(older.version())

    assert lake.at(hours=24).statuses(Days({})) == [Status.DONE]


class Windows(RuleBasedStateMachine):
    """Syncs of windows, some of which end early, and what else may happen to a table, its log and the clock.

    The model is what an appending table may have at most: each row once, and once more for each reason to read anew.
    """

    @initialize(mode=st.sampled_from(["append", "overwrite", "append_dedup"]))
    def begin(self, mode: WriteModeName) -> None:
        self.mode, self.folder = mode, Path(mkdtemp())
        self.lake = Lake(self.folder, stream=StreamOptions(write_mode=mode))
        self.reasons = 1
        """To read a window."""
        self.more = Counter[str]()
        """Reasons to read one window."""
        self.open = ""
        """The window of the read that did not come to its end, if the newest one did not."""

    @property
    def root(self) -> LocalFolder:
        return LocalFolder(self.folder / "lake" / "parts")

    def admin(self) -> tuple[Admin, StreamLocation]:
        return Admin(LocalFolder(self.folder / "lake"), "shop"), StreamLocation("parts", self.root)

    def rows(self) -> Counter[tuple[str, str]]:
        return rows_of(self.folder)

    @rule(
        day=st.integers(0, 2),
        force=st.sampled_from([False, False, False, True]),
        down_at=st.sampled_from(["", "", *PARTS]),
        point=st.none() | st.sampled_from(POINTS),
        time=st.integers(1, 4),
    )
    def sync(self, day: int, down_at: str, point: str | None, time: int, *, force: bool) -> None:
        """Sync the window of a day, whichever came before."""
        lake = self.lake.at(days=day).asking(force_rerun=force)
        Parts.window, Parts.down_at, read_before = f"day {day}", down_at, Parts.read
        if force:
            self.more[Parts.window] += 1
        statuses = None
        with nullcontext() if point is None else dying_if_reached(point, time):
            statuses = lake.statuses(Parts({}))
        if self.open not in {"", Parts.window} and statuses != [Status.REDUNDANT]:
            # What was read of the other one is left.
            self.more[self.open] += 1
        ended, rows = statuses in ([Status.DONE], [Status.REDUNDANT]), self.rows()
        if statuses != [Status.REDUNDANT]:
            self.open = "" if ended else Parts.window
        whole = {(Parts.window, part) for part in PARTS}
        if self.mode == "append":
            assert all(count <= self.reasons + self.more[window] for (window, _), count in rows.items())
        else:
            assert set(rows.values()) <= {1}
        if self.mode == "overwrite":
            assert len({window for window, _ in rows}) <= 1
            assert statuses != [Status.DONE] or rows.keys() == whole
        elif ended:
            assert rows.keys() >= whole
        if statuses == [Status.REDUNDANT]:
            assert Parts.read == read_before
        elif ended:
            read = Parts.read
            Parts.down_at = ""
            assert (lake.asking(force_rerun=False).statuses(Parts({})), Parts.read) == ([Status.REDUNDANT], read)

    @rule()
    def lose_log(self) -> None:
        shutil.rmtree(self.folder / "log", ignore_errors=True)
        self.reasons += 1

    @precondition(lambda self: self.rows())
    @rule()
    def lose_table(self) -> None:
        shutil.rmtree(self.folder / "lake" / "parts")
        self.reasons, self.more, self.open = 1, Counter(), ""

    @precondition(lambda self: self.rows())
    @rule()
    def reset(self) -> None:
        admin, location = self.admin()
        admin.reset(location)
        self.reasons, self.open = self.reasons + 1, ""

    @precondition(lambda self: self.rows())
    @rule(back=st.integers(0, 5), tables=st.booleans())
    def roll_back(self, back: int, *, tables: bool) -> None:
        admin, location = self.admin()
        if numbers := admin.status(location).retained[back : back + 1]:
            with suppress(StateError):
                admin.rollback(location, *numbers, tables=tables)
        self.reasons += 1

    @precondition(lambda self: self.rows())
    @rule(back=st.integers(1, 3))
    def restore(self, back: int) -> None:
        table = DeltaTable(self.root.uri)
        if table.version() > back:
            table.restore(table.version() - back)
        self.reasons += 1

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


TestWindows: Any = Windows.TestCase
TestWindows.settings = settings(max_examples=25, stateful_step_count=8, deadline=None, report_multiple_bugs=False)
