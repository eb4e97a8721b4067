"""Streams that are not read again for a window that was read before; tasks run in this process."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdk import ConfigError, Item, Json, Slice, Stream
from cdk.base.errors import ServerError
from cdk.base.task_map import run_inline
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.run_lock import only_run
from cdk.spark.sync_runner import SyncRunner
from cdk.state import StateKey, StateLog, StateRecord, open_store
from cdk.sync.loop import runner as sync_module
from cdk.sync.loop.runner import SyncResult
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
from tests.spark.dying import dying_at
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
            streams={stream.name: StreamOptions(write_mode="append") for stream in streams},
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


def test_a_stream_whose_read_was_begun_by_a_sync_that_was_cut_does_not_count(lake: Lake) -> None:
    with dying_at("done", sync_module):
        lake.sync(Days({}))

    # It read before the day was over, and the run that finds it done begins after.
    (resumed,) = lake.at(hours=13).sync(Days({})).streams
    assert (resumed.resumed, resumed.status) == (True, Status.DONE)
    assert lake.at(hours=13).statuses(Days({})) == [Status.DONE]
    assert lake.at(hours=13).statuses(Days({})) == [Status.REDUNDANT]


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
