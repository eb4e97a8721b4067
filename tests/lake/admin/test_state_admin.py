"""What a sync makes of a state that a person has changed; tasks run in this process."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdk import DatetimeCursor, Item, Json, Page, Partition, ServerError, Slice, Stream
from cdk.base.errors import BadState, StateConflict, StateError
from cdk.base.task_map import run_inline
from cdk.base.values import canonical
from cdk.lake.admin import state_admin
from cdk.lake.admin.commit_log import commits
from cdk.lake.admin.edits import Change, import_state, rewound, set_state
from cdk.lake.admin.locate import StreamLocation, locations_in
from cdk.lake.admin.state_admin import Admin
from cdk.lake.admin.verify import audits, findings
from cdk.lake.arrow.columns import table_schema
from cdk.lake.delta import row_history as history_module
from cdk.lake.delta import table_guard
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import WriteModeName
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.run_lock import only_run
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.settings.stream_plan import StreamPlan, plan_stream
from cdk.sync.tables.table_writer import import_into_table
from cdk.sync.tasks.workers import Workers
from tests.samples import Orders, ShopOrders, TypedOrders, Users, told
from tests.spark.dying import dying_at
from tests.spark.given_source import Given

NOON = datetime(2024, 2, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Lake:
    """One stream, its table, and what changes its state."""

    folder: Path
    stream: Stream
    options: StreamOptions = field(default_factory=StreamOptions)
    pipeline: str = "shop"

    def sync(self) -> int:
        """Sync, and say how many rows were added."""
        report = self._run()
        assert report.failure is None
        return report.written

    def refused(self) -> str:
        """Sync, which must fail, and say why."""
        report = self._run()
        assert report.failure is not None
        return report.failure.message

    def _run(self) -> StreamReport:
        return self._runner.run().streams[0]

    @property
    def preview_failure(self) -> str:
        """Why a preview of the sync fails."""
        (preview,) = self._runner.preview(0)
        assert preview.failure is not None
        return preview.failure.message

    @property
    def _runner(self) -> SyncRunner:
        pipeline = Pipeline(
            name=self.pipeline,
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams={self.stream.name: self.options},
        )
        return SyncRunner(pipeline, Given([self.stream]), workers=Workers(run_inline, 1))

    @property
    def plan(self) -> StreamPlan:
        return plan_stream(self.stream, self.options, LocalFolder(self.folder))

    @property
    def one(self) -> StreamLocation:
        return self.plan.location

    @property
    def admin(self) -> Admin:
        return Admin(LocalFolder(self.folder), self.pipeline, clock=lambda: NOON)

    @property
    def rows(self) -> list[str]:
        table = DeltaTable(str(self.folder / self.stream.name)).to_pyarrow_table()
        return [canonical(told(row, self.stream)) for row in table.to_pylist()]

    @property
    def table(self) -> StreamTable:
        return self.one.open(self.pipeline)


DEDUP = StreamOptions(write_mode="append_dedup", history=True)


def moved(lake: Lake, *days: int) -> None:
    """Commits without rows, each moving the state to a day."""
    for day in days:
        table = StreamTable(lake.one.root, "shop", "orders", table_schema({}))
        table.commit(TableState("incremental", "append", state={"updated_at": f"2024-01-0{day}T00:00:00Z"}))


def test_after_a_reset_everything_is_read_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Orders())
    everything = lake.sync()

    lake.admin.reset(lake.one)

    assert lake.sync() == everything
    assert sorted(lake.rows) == sorted(2 * list(dict.fromkeys(lake.rows)))
    generations = DeltaTable(str(tmp_path / "orders")).to_pyarrow_table()["_airbyte_generation_id"].to_pylist()
    assert sorted(generations) == [1] * everything + [2] * everything
    assert lake.sync() == 0


def test_after_a_reset_of_a_partition_only_that_one_is_read_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path, ShopOrders())
    everything = lake.sync()

    lake.admin.reset(lake.one, Partition.of(shop="b"))

    assert lake.sync() == everything // 3
    assert len([row for row in lake.rows if '"shop":"b"' in row]) == 2 * everything // 3


def test_after_a_rewind_what_lies_behind_the_moment_is_read_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Orders())
    lake.sync()
    newer = [row for row in lake.rows if canonical("2024-01-04T00:00:00Z") <= row.partition('"updated_at":')[2]]

    lake.admin.change(lake.one, lambda saved: rewound(saved, lake.stream, "2024-01-04"))

    assert lake.sync() == len(newer) == 10
    assert (len(lake.rows), len(set(lake.rows))) == (21 + len(newer), 21)


@pytest.mark.parametrize("pages", [None, 2])
def test_after_a_rewind_rows_without_a_cursor_value_are_there_once(tmp_path: Path, pages: int | None) -> None:
    class PartlyDated(Orders):
        name = "orders"
        schema = TypedOrders.schema
        fails = pages is not None

        def read_records(self, slice: Slice) -> Iterator[Item]:
            yield Page([{"id": 100}, {"id": 100}, {"id": 101, "updated_at": None}], {"offset": 0})
            for number, page in enumerate(super().read_records(slice)):
                if self.fails and number == pages:
                    raise ServerError("the third page is broken")
                yield page

    lake = Lake(tmp_path, PartlyDated())
    if pages is not None:
        lake.refused()
        PartlyDated.fails = False
        lake.admin.change(lake.one, lambda saved: rewound(saved, lake.stream, "2024-01-01"))
        DeltaTable(str(tmp_path / "orders")).delete("updated_at >= '2024-01-01'")
    assert (lake.sync() > 0, len(lake.rows)) == (True, 21 + 3)

    lake.admin.change(lake.one, lambda saved: rewound(saved, lake.stream, "2024-01-04"))
    DeltaTable(str(tmp_path / "orders")).delete("updated_at >= '2024-01-04'")

    assert (lake.sync(), len(lake.rows), len(set(lake.rows))) == (10, 21 + 3, 21 + 2)


def test_a_start_that_is_moved_to_an_earlier_value_reads_nothing_older_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = TypedOrders()
    stream.cursor = DatetimeCursor("updated_at", start="2024-01-03T00:00:00Z", step=timedelta(days=1))
    lake = Lake(tmp_path, stream, StreamOptions(write_mode="append_dedup"))
    later = lake.sync()
    lake.sync()
    assert "its cursor starts at" not in caplog.text
    stream.cursor = Orders.cursor

    assert lake.sync() == 0
    assert "starts at 2024-01-01T00:00:00Z now, and started at 2024-01-03T00:00:00Z" in caplog.text
    assert "to the new start, which also reads everything newer again. Records that it reads again" in caplog.text

    caplog.clear()
    lake.admin.change(lake.one, lambda saved: rewound(saved, stream, "2024-01-01"))
    assert lake.sync() == len(lake.rows) == 21
    assert later < 21
    assert "its cursor starts at" not in caplog.text


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_a_lookback_that_becomes_longer_says_once_that_records_are_added_again(
    tmp_path: Path, mode: WriteModeName, caplog: pytest.LogCaptureFixture
) -> None:
    stream = TypedOrders()
    lake = Lake(tmp_path, stream, StreamOptions(write_mode=mode))
    added = [lake.sync()]
    for days in (0, 2, 2, 1):
        caplog.clear()
        stream.cursor = DatetimeCursor("updated_at", start="2024-01-01T00:00:00Z", lookback=timedelta(days=days))
        added.append(lake.sync())
        text = "orders: the lookback of its cursor is 2 days, 0:00:00 now, and was 0:00:00 when the state was saved"
        assert (text in caplog.text) is (mode == "append" and len(added) == 3)

    assert (added[1], added[2] > 0, added[3:]) == (0, True, [0, 0])


def test_a_start_that_is_spelled_otherwise_is_no_earlier_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stream = Orders()
    lake = Lake(tmp_path, stream)
    lake.sync()
    stream.cursor = DatetimeCursor("updated_at", start="2024-01-01", formats=["%Y-%m-%d"])
    lake.sync()

    assert "its cursor starts at" not in caplog.text


def test_after_a_rewind_a_table_with_one_row_for_each_key_has_none_twice(tmp_path: Path) -> None:
    lake = Lake(tmp_path, TypedOrders(), DEDUP)
    lake.sync()
    history = tmp_path / "orders_history"
    logged = DeltaTable(str(history)).to_pyarrow_table().num_rows

    lake.admin.change(lake.one, lambda saved: rewound(saved, lake.stream, "2024-01-04"))
    assert DeltaTable(str(history)).to_pyarrow_table().num_rows == logged
    lake.sync()

    assert len(lake.rows) == len(set(lake.rows)) == 21
    assert DeltaTable(str(history)).to_pyarrow_table().num_rows == logged + 10


def test_a_missing_file_of_a_history_is_a_finding(tmp_path: Path) -> None:
    lake = Lake(tmp_path, TypedOrders(), DEDUP)
    lake.sync()
    next((tmp_path / "orders_history").glob("part-*.parquet")).unlink()

    (finding,) = findings(lake.one, "shop", audits(lake.one)[0])

    assert (finding.stream, finding.broken) == ("orders, history", True)
    assert finding.text.startswith("a file of the table is missing: part-")


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_history_whose_state_is_damaged_stays_that_of_its_stream_and_lacks_no_row(
    tmp_path: Path, content: str
) -> None:
    lake = Lake(tmp_path, TypedOrders(), DEDUP)
    lake.sync()
    for path in (tmp_path / "orders_history" / "_cdk_state" / "shop").iterdir():
        path.write_text(content)

    (found,) = locations_in(LocalFolder(tmp_path), "shop")
    assert (found.stream, found.history) == ("orders", LocalFolder(tmp_path / "orders_history"))
    lake.admin.reset(lake.one)
    assert lake.sync() == 21
    assert DeltaTable(str(tmp_path / "orders_history")).to_pyarrow_table().num_rows == 42


def test_a_stream_with_the_name_of_a_history_stays_one_though_its_state_is_damaged(tmp_path: Path) -> None:
    Lake(tmp_path, Orders()).sync()
    other = Lake(tmp_path, Other())
    other.sync()
    for path in (tmp_path / "orders_history" / "_cdk_state" / "shop").iterdir():
        path.write_text("{")

    assert [found.stream for found in locations_in(LocalFolder(tmp_path), "shop")] == ["orders", "orders_history"]
    assert "expected the JSON an earlier run wrote" in other.refused()


def test_what_a_history_still_lacks_is_added_before_the_state_moves(tmp_path: Path) -> None:
    lake = Lake(tmp_path, TypedOrders(), DEDUP)

    with dying_at("before_history", history_module):
        lake.sync()
    history = tmp_path / "orders_history"
    assert DeltaTable(str(history)).to_pyarrow_table().num_rows == 0

    lake.admin.reset(lake.one)
    assert DeltaTable(str(history)).to_pyarrow_table().num_rows == len(lake.rows) == 21
    lake.sync()

    assert DeltaTable(str(history)).to_pyarrow_table().num_rows == 42
    (found,) = locations_in(LocalFolder(tmp_path), "shop")
    assert (found.stream, found.history) == ("orders", LocalFolder(history))


@pytest.mark.parametrize("options", [StreamOptions(), DEDUP], ids=["append", "append_dedup"])
def test_after_a_rollback_of_the_table_a_sync_brings_back_what_is_missing(
    tmp_path: Path, options: StreamOptions
) -> None:
    stream = TypedOrders()
    lake = Lake(tmp_path, stream, options)
    stream.hours = Orders.hours[:9]
    lake.sync()
    first = sorted(lake.rows)
    number = lake.admin.status(lake.one).number
    assert number is not None
    stream.hours = Orders.hours
    lake.sync()
    whole = sorted(lake.rows)

    done = lake.admin.rollback(lake.one, number, tables=True)

    assert done.version == lake.table.version
    assert (sorted(lake.rows), len(first)) == (first, 9)
    restored = lake.table.saved
    assert restored is not None
    assert not restored.logged  # the history has had those rows
    lake.sync()
    assert sorted(lake.rows) == whole
    assert len(whole) == 21
    if options.history:
        # What came after the rollback's state is there twice, as it came; what came before, once.
        assert DeltaTable(str(tmp_path / "orders_history")).to_pyarrow_table().num_rows == 21 + 12


def test_after_a_rollback_of_the_state_alone_rows_come_again(tmp_path: Path) -> None:
    stream = Orders()
    lake = Lake(tmp_path, stream)
    stream.hours = Orders.hours[:9]
    lake.sync()
    number = lake.admin.status(lake.one).number
    assert number is not None
    stream.hours = Orders.hours
    later = lake.sync()

    lake.admin.rollback(lake.one, number)

    assert lake.sync() == later
    assert len(lake.rows) == 21 + later


def restored_by_another(lake: Lake, number: int) -> None:
    DeltaTable(str(lake.one.root)).restore(number + 1)


def rolled_back_with_tables(lake: Lake, number: int) -> None:
    lake.admin.rollback(lake.one, number, tables=True)


@pytest.mark.parametrize("back", [restored_by_another, rolled_back_with_tables])
def test_a_rollback_to_a_state_whose_rows_a_restore_removed_says_that_none_reads_them(
    tmp_path: Path, back: Callable[[Lake, int], None]
) -> None:
    stream = Orders()
    lake = Lake(tmp_path, stream)
    for hours in (9, 15, 21):
        stream.hours = Orders.hours[:hours]
        lake.sync()
    back(lake, 2)
    assert len(lake.rows) == 15

    if back is rolled_back_with_tables:
        (said,) = lake.admin.rollback(lake.one, 3).change.consequences
        assert said.startswith("The rows of state 3 are not in the table")
        assert (lake.sync(), len(lake.rows)) == (0, 15)
        lake.admin.rollback(lake.one, 4)
        lake.sync()
    else:
        (said,) = lake.admin.rollback(lake.one, 2).change.consequences
        assert said.startswith("What was read since is read again")
        lake.sync()
    (said,) = lake.admin.rollback(lake.one, 1).change.consequences
    assert said.startswith("What was read since is read again")


def test_a_rollback_to_a_state_of_another_write_mode_says_what_the_current_one_does(tmp_path: Path) -> None:
    stream = TypedOrders()
    stream.hours = Orders.hours[:9]
    Lake(tmp_path, stream).sync()
    stream.hours = Orders.hours
    lake = Lake(tmp_path, stream, StreamOptions(write_mode="append_dedup"))
    lake.sync()

    (said,) = lake.admin.rollback(lake.one, 1).change.consequences

    assert said.endswith("replace the rows with their keys: nothing is duplicated.")
    assert (lake.sync(), len(lake.rows)) == (12, 21)


class Torn(Users):
    """Users, whose second page may be missing."""

    torn = True

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        if token is not None and self.torn:
            raise ServerError("the source is down")
        return super().read_page(slice, token)


@pytest.mark.parametrize("tables", [False, True])
def test_a_rollback_to_an_interrupted_read_says_that_only_the_sync_after_the_next_reads_all(
    tmp_path: Path, *, tables: bool
) -> None:
    stream = Torn()
    lake = Lake(tmp_path, stream, StreamOptions(write_mode="append"))
    assert "the source is down" in lake.refused()
    number = lake.admin.status(lake.one).number
    assert number is not None
    stream.torn = False
    lake.sync()
    everything = len(lake.rows)
    lake.sync()

    said = " ".join(lake.admin.rollback(lake.one, number, tables=tables).change.consequences)

    assert "The next sync resumes the read that was interrupted then; the one after it reads everything again." in said
    assert 0 < lake.sync() < everything
    assert lake.sync() == everything


def test_a_rollback_to_where_the_table_stands_changes_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Orders())
    lake.sync()
    number = lake.admin.status(lake.one).number
    assert number is not None
    before = lake.table.version

    done = [lake.admin.rollback(lake.one, number, tables=tables).version for tables in (False, True)]

    assert (done, lake.table.version) == ([None, None], before)


def test_a_reset_of_a_full_refresh_reads_it_again_though_the_sync_before_was_cut(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Users())
    everything = lake.sync()
    sync = lake.table.saved
    assert sync is not None
    with pytest.raises(SystemExit), only_run(tmp_path, "shop"):
        raise SystemExit
    (tmp_path / "_cdk" / "shop.sync").write_text(f"{sync.sync} by process 1 on host")

    lake.admin.reset(lake.one)

    assert lake.sync() == everything
    assert len(lake.rows) == everything


Move = Callable[[Lake], object]


@pytest.mark.parametrize(
    "edit",
    [
        lambda lake: lake.admin.reset(lake.one),
        lambda lake: lake.admin.rollback(lake.one, 1),
        lambda lake: lake.admin.at(lake.one, 1),
        lambda lake: lake.admin.fork(lake.one, "store"),
        lambda lake: lake.admin.change(lake.one, lambda saved: Change("", saved, (), ())),
    ],
    ids=["reset", "rollback", "at", "fork", "change"],
)
def test_an_edit_of_a_table_that_does_not_exist_creates_none(tmp_path: Path, edit: Move) -> None:
    lake = Lake(tmp_path, Orders())

    with pytest.raises(StateError, match="nothing was committed for this stream yet"):
        edit(lake)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        lambda lake: lake.admin.reset(lake.one),
        lambda lake: lake.admin.rollback(lake.one, 1),
        lambda lake: lake.admin.rollback(lake.one, 1, tables=True),
    ],
    ids=["reset", "rollback", "rollback --tables"],
)
def test_a_sync_that_was_reading_elsewhere_is_refused_after_a_change(tmp_path: Path, change: Move) -> None:
    lake = Lake(tmp_path, Orders())
    moved(lake, 2, 3)
    reading = lake.table

    change(lake)

    with pytest.raises(StateConflict, match="another run moved"):
        reading.commit(TableState("incremental", "append"))


def test_a_restore_that_a_sync_overtakes_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path, Orders())
    moved(lake, 2, 3)
    other = lake.table

    class Slow(DeltaTable):
        def restore(self, *args: Json, **more: Json) -> dict[str, Json]:
            other.commit(TableState("incremental", "append", state={"updated_at": "2024-01-09T00:00:00Z"}))
            return super().restore(*args, **more)

    monkeypatch.setattr(table_guard, "DeltaTable", Slow)
    with pytest.raises(StateConflict, match="a sync moved this stream's state in the meantime"):
        lake.admin.rollback(lake.one, 1, tables=True)

    saved = lake.table.saved
    assert saved is not None
    assert saved.state == {"updated_at": "2024-01-09T00:00:00Z"}


def test_a_restore_whose_handle_is_newer_than_the_state_it_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path, Orders())
    moved(lake, 2, 3)
    other = lake.table

    def late(*args: Json) -> Json:
        found = list(commits(*args))
        other.commit(TableState("incremental", "append", state={"updated_at": "2024-01-09T00:00:00Z"}))
        return iter(found)

    monkeypatch.setattr(state_admin, "commits", late)
    with pytest.raises(StateConflict):
        lake.admin.rollback(lake.one, 1, tables=True)
    saved = lake.table.saved
    assert saved is not None
    assert saved.state == {"updated_at": "2024-01-09T00:00:00Z"}


def test_a_rollback_needs_the_commit_of_its_rows(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Orders())
    moved(lake, 2, 3, 4)
    DeltaTable(str(lake.one.root)).create_checkpoint()
    for version in (0, 1):
        (tmp_path / "orders" / "_delta_log" / f"{version:020}.json").unlink()

    with pytest.raises(StateError, match="the table's log no longer has the commit of state 1"):
        lake.admin.rollback(lake.one, 1, tables=True)
    assert lake.admin.rollback(lake.one, 1).version == 4


def test_the_note_of_a_change_says_when(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Orders())
    lake.sync()

    lake.admin.reset(lake.one)

    commit, saved = next(lake.admin.log(lake.one))
    assert '"at":"2024-02-01T12:00:00+00:00"' in commit.note
    assert saved is not None
    assert saved.state is None


def test_the_note_of_a_long_change_has_as_many_moves_as_fit(tmp_path: Path) -> None:
    lake = Lake(tmp_path, ShopOrders())
    lake.sync()
    states: Json = [
        {"partition": {"shop": f"{n}-{'x' * 300}"}, "cursor": {"updated_at": "2024-01-01T00:00:00Z"}} for n in range(15)
    ]
    lake.admin.change(lake.one, lambda saved: set_state(saved, lake.stream, {"states": states}))

    commit, _ = next(lake.admin.log(lake.one))

    assert commit.edit == "set"
    assert 5 < len(json.loads(commit.note)["moves"]) < 15


def test_a_change_that_changes_nothing_commits_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Orders())
    lake.sync()
    before = lake.table.version

    done = lake.admin.change(lake.one, lambda saved: Change("nothing", saved, (), ()))

    assert (done.version, lake.table.version) == (None, before)


def created_again(lake: Lake) -> None:
    """The rows in a table whose log begins anew, as a clone leaves it, or who removes a table and creates it."""
    root = lake.folder / lake.stream.name
    rows = DeltaTable(str(root)).to_pyarrow_table()
    shutil.rmtree(root / "_delta_log")
    write_deltalake(str(root), rows)


def test_a_table_whose_marker_is_gone_is_not_read_again_on_its_own(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Orders())
    everything = lake.sync()
    created_again(lake)

    assert "marker, which names the current one, is missing" in lake.refused()
    assert len(lake.rows) == everything

    number = max(lake.admin.status(lake.one).retained)
    lake.admin.rollback(lake.one, number)
    assert (lake.sync(), len(lake.rows)) == (0, everything)
    assert (lake.admin.status(lake.one).number or 0) > number


def test_a_table_whose_marker_is_gone_is_read_again_after_a_reset(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Orders())
    everything = lake.sync()
    created_again(lake)

    lake.admin.reset(lake.one)

    assert (lake.sync(), len(lake.rows)) == (everything, 2 * everything)


def copied(lake: Lake) -> None:
    """The rows in a table of the same name that somebody else has created, with nothing beside it."""
    root = lake.folder / lake.stream.name
    rows = DeltaTable(str(root)).to_pyarrow_table()
    shutil.rmtree(root)
    write_deltalake(str(root), rows)


def stripped(lake: Lake) -> None:
    """The table of a pipeline that was renamed, without the folder of its states."""
    shutil.rmtree(lake.folder / lake.stream.name / "_cdk_state")


@pytest.mark.parametrize("lose", [copied, stripped])
def test_rows_of_a_sync_without_any_state_are_not_read_again_on_their_own(
    tmp_path: Path, lose: Callable[[Lake], None]
) -> None:
    old = Lake(tmp_path, Orders())
    everything = old.sync()
    lose(old)
    new = Lake(tmp_path, Orders(), pipeline="store")

    assert "no state that says how far the source was read" in new.refused()
    assert "no state that says how far the source was read" in new.preview_failure
    assert len(new.rows) == everything

    new.admin.reset(new.one)

    assert (new.sync(), len(new.rows)) == (everything, 2 * everything)


def test_rows_of_a_sync_without_any_state_go_on_from_a_state_that_is_imported(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Orders())
    everything = lake.sync()
    saved = lake.table.saved
    assert saved is not None
    copied(lake)

    import_into_table(lake.admin, lake.plan, saved.state, replaces=False)

    assert (lake.sync(), len(lake.rows)) == (0, everything)


@pytest.mark.parametrize("blob", [None, {}])
def test_an_empty_state_is_not_imported_where_a_sync_would_add_all_rows_again(tmp_path: Path, blob: Json) -> None:
    Lake(tmp_path, Orders()).sync()
    new = Lake(tmp_path, Orders(), pipeline="store")

    with pytest.raises(StateError, match="a state of the pipeline 'shop', but none of 'store'"):
        import_into_table(new.admin, new.plan, blob, replaces=True)
    assert "a state of the pipeline 'shop', but none of 'store'" in new.refused()


def test_a_state_is_imported_beside_that_of_another_pipeline_and_says_whose_rows_are_there(tmp_path: Path) -> None:
    old = Lake(tmp_path, Orders())
    old.sync()
    saved = old.table.saved
    assert saved is not None
    new = Lake(tmp_path, Orders(), pipeline="store")

    owner, _ = import_into_table(new.admin, new.plan, saved.state, replaces=False).change.consequences

    assert owner.startswith("The table has rows and a state of the pipeline 'shop', but none of 'store'.")
    assert new.sync() == 0


BACK = "The next sync reads again what lies after the new position"
SKIPPED = "No sync reads what lies between the old and the new position"
EITHER = "The next sync resumes from the new position"


def at(day: int) -> Json:
    return {"updated_at": f"2024-01-{day:02}T00:00:00Z"}


def shops(**days: int) -> Json:
    return {"states": [{"partition": {"shop": shop}, "cursor": at(day)} for shop, day in days.items()]}


@pytest.mark.parametrize(
    ("stream", "before", "after", "said"),
    [
        (Orders(), at(2), at(3), [SKIPPED + ": it is skipped."]),
        (Orders(), at(3), at(2), [BACK + "."]),
        (Orders(), at(3), at(3), ["Every cursor is already at this position."]),
        (Orders(), at(3), {}, ["The next sync reads the stream from its start."]),
        (Orders(), None, at(3), ["The next sync resumes from there, and what lies before it is not read."]),
        (
            ShopOrders(),
            shops(a=3, b=2),
            shops(a=2, b=3),
            [f"{BACK} of 1 partition.", f"{SKIPPED} of 1 partition: it is skipped."],
        ),
        (ShopOrders(), shops(a=2, b=2), shops(a=3, b=3, c=1), [f"{SKIPPED} of 3 partitions: it is skipped."]),
        (ShopOrders(), shops(a=2, b=2, c=3), shops(a=2), [f"{BACK} of 2 partitions."]),
        (Users(), {"page": 3}, {"page": 5}, [EITHER]),
    ],
)
def test_an_import_says_what_is_read_again_and_what_is_skipped(
    stream: Stream, before: Json, after: Json, said: list[str]
) -> None:
    change = import_state(TableState("incremental", "append", state=before), stream, after)

    assert len(change.consequences) == len(said)
    for sentence, start in zip(change.consequences, said, strict=True):
        assert sentence.startswith(start)
        adds = "are added as further rows" in sentence
        assert adds != sentence.startswith((SKIPPED, "Every cursor"))


@pytest.mark.parametrize("to", ["9001-01-01", "9999-12-31T23:59:59Z"])
def test_a_rewind_beyond_all_windows_is_refused_by_the_year(to: str) -> None:
    with pytest.raises(StateError, match="before the cursor's own end, and before the year 9000"):
        rewound(TableState("incremental", "append", state=at(3)), Orders(), to)


ENDED = {"__ab_full_refresh_sync_complete": True}


class Unpaged(Users):
    supports_checkpointing = False


@pytest.mark.parametrize(
    ("stream", "before", "after", "expected"),
    [
        (Orders(), at(3), shops(a=3), "expected a state without partitions"),
        (Orders(), at(3), ENDED, "expected a value of 'updated_at'"),
        (ShopOrders(), shops(a=3), ENDED, "expected a value of 'updated_at'"),
        (Unpaged(), None, {"page": 3}, "expected an empty state"),
    ],
)
def test_a_state_that_the_stream_never_has_is_refused(stream: Stream, before: Json, after: Json, expected: str) -> None:
    with pytest.raises(BadState, match=expected):
        set_state(TableState("incremental", "append", state=before), stream, after)


def test_partitions_that_only_a_sync_can_list_are_accepted_with_a_note() -> None:
    change = set_state(TableState("incremental", "append"), Orders(), shops(a=3))

    assert change.consequences[1].startswith("Only a sync lists the stream's partitions")


def test_an_imported_full_refresh_that_has_partitions_left_goes_on_with_them() -> None:
    blob = {"use_global_cursor": False, **shops(a=3), "_cdk": {"after": {"shop": "a"}}}

    change = import_state(TableState("full_refresh", "append", complete=True), ShopOrders(), blob)

    assert change.consequences[0].startswith("The next sync resumes from there")
    assert not change.saved.complete


def test_rows_of_a_sync_without_any_state_are_merged_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(tmp_path, TypedOrders(), DEDUP)
    lake.sync()
    copied(lake)
    caplog.clear()

    assert (lake.sync(), len(lake.rows)) == (21, 21)
    assert "no state that says how far the source was read" in caplog.text


def test_a_stream_begins_in_a_table_with_rows_of_others(tmp_path: Path) -> None:
    lake = Lake(tmp_path, Orders())
    root = tmp_path / "orders"
    write_deltalake(str(root), pa.table({"id": [1, 2], "_airbyte_raw_id": pa.nulls(2, pa.string())}))

    read = lake.sync()

    assert len(lake.rows) == read + 2


def test_an_overwrite_that_replaces_rows_of_another_pipeline_is_warned_of_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = StreamOptions(sync_mode="full_refresh", write_mode="overwrite")
    shop, store = (Lake(tmp_path, Orders(), options, pipeline) for pipeline in ("shop", "store"))

    warned: list[bool] = []
    for lake in (shop, shop, store, store, shop, shop, store):
        caplog.clear()
        lake.sync()
        warned.append("replaces those of the other. Give one of them another target" in caplog.text)

    assert warned == [False, False, True, False, True, False, True]


def test_a_renamed_pipeline_appends_nothing_again(tmp_path: Path) -> None:
    old = Lake(tmp_path, Orders())
    everything = old.sync()
    new = Lake(tmp_path, Orders(), pipeline="store")

    assert "a state of the pipeline 'shop', but none of 'store'" in new.refused()
    assert len(old.rows) == everything

    old.admin.fork(old.one, "store")
    assert (new.sync(), len(old.rows)) == (0, everything)


def test_a_renamed_pipeline_appends_nothing_again_to_a_table_that_was_restored_to_before(tmp_path: Path) -> None:
    old, new = Lake(tmp_path, Orders()), Lake(tmp_path, Orders(), pipeline="store")
    everything = old.sync()
    version = old.table.version
    old.admin.fork(old.one, "store")
    DeltaTable(str(tmp_path / "orders")).restore(version)

    assert "a state of the pipeline 'shop', but none of 'store'" in new.refused()
    assert len(old.rows) == everything

    old.admin.fork(old.one, "store")
    assert (new.sync(), len(old.rows)) == (0, everything)


def test_a_renamed_pipeline_says_that_a_history_gets_all_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Lake(tmp_path, TypedOrders(), DEDUP).sync()
    Lake(tmp_path, TypedOrders(), DEDUP, pipeline="store").sync()

    assert "it is read from its start, and each record is added to its history once more" in caplog.text


def test_a_sync_mode_that_replaces_the_rows_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Lake(tmp_path, TypedOrders()).sync()
    Lake(tmp_path, TypedOrders(), StreamOptions(sync_mode="full_refresh")).sync()

    assert (
        "as full_refresh it is read from its start, and replaces, once the read is complete, the 21 rows" in caplog.text
    )


class Other(Orders):
    """Orders whose table lies where the history of `orders` would lie."""

    name = "orders_history"


@pytest.mark.parametrize("same", [True, False])
def test_a_history_lies_in_no_table_of_another_stream_whoever_came_first(tmp_path: Path, *, same: bool) -> None:
    pipeline = "shop" if same else "store"
    orders, other = Lake(tmp_path, TypedOrders(), DEDUP), Lake(tmp_path, Other(), pipeline=pipeline)
    other.sync()

    assert f"the table of the stream 'orders_history' of the pipeline '{pipeline}'" in orders.refused()

    shutil.rmtree(tmp_path / "orders_history")
    orders.sync()

    assert "the history of the stream 'orders' of the pipeline 'shop'" in other.refused()
    assert len(DeltaTable(str(tmp_path / "orders_history")).to_pyarrow_table()) == 21


def test_a_renamed_pipeline_that_merges_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Lake(tmp_path, TypedOrders(), DEDUP).sync()
    new = Lake(tmp_path, TypedOrders(), DEDUP, pipeline="store")
    caplog.clear()

    assert new.sync() == 21
    assert len(new.rows) == 21
    assert "state of the pipeline 'shop'" in caplog.text


@pytest.mark.parametrize("blob", [{"updated": "2024-01-01T00:00:00Z"}, {"updated_at": "soon"}])
def test_a_state_that_the_stream_cannot_go_on_from_is_refused(tmp_path: Path, blob: Json) -> None:
    lake = Lake(tmp_path, Orders())
    lake.sync()
    version = lake.table.version

    with pytest.raises(BadState, match="state of orders"):
        lake.admin.change(lake.one, lambda saved: import_state(saved, lake.stream, blob))
    assert lake.table.version == version
