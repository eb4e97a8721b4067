"""What the source has no more leaves the table with the commit that completes the read; tasks run in this process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from cdk import ConfigError, Item, Json, JsonSchema, Page, PagedStream, Slice, Stream
from cdk.base.errors import ServerError
from cdk.base.task_map import run_inline
from cdk.base.values import canonical, from_json
from cdk.lake.admin.edits import import_state
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin
from cdk.lake.arrow.columns import DELETED_AT
from cdk.lake.delta import stream_table
from cdk.lake.storage.folder import LocalFolder
from cdk.spark.cluster.executors import executors
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.counts import StaleCount
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StateOptions, StreamOptions, TargetOptions
from cdk.sync.settings.stream_options import RemoveStaleOptions
from cdk.sync.tables import stale_removal
from cdk.sync.tasks.workers import Workers
from tests.spark.given_source import Given

PAGE = 4


class Users(PagedStream):
    """The users that `ids` says, in pages; `broken` is a page that the source does not give."""

    name = "users"
    primary_key = "id"

    def __init__(self, ids: Sequence[Json], *, broken: int | None = None, team: str = "a", at: int = 0) -> None:
        super().__init__({})
        self.ids, self.broken, self.team, self.at = list(ids), broken, team, at

    def json_schema(self) -> JsonSchema:
        return {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "team": {"type": "string"}, "at": {"type": "integer"}},
        }

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        n = token["page"] if token else 0
        if n == self.broken:
            raise ServerError("the source is ill")
        rows = [{"id": id, "team": self.team, "at": self.at} for id in self.ids[n * PAGE : (n + 1) * PAGE]]
        return Page(rows, {"page": n + 1} if (n + 1) * PAGE < len(self.ids) else None)


@dataclass(frozen=True)
class Lake:
    """Syncs of `users` into one table, its rows, and what was said of them."""

    folder: Path
    options: StreamOptions
    state: StateOptions = field(default_factory=StateOptions)
    workers: Workers | None = field(default_factory=lambda: Workers(run_inline, 1))
    name: str = "shop"

    def asking(self, **options: Json) -> "Lake":
        """The same lake, with other options of `remove_stale`."""
        return replace(self, options=self.options.model_copy(update={"remove_stale": RemoveStaleOptions(**options)}))

    def runner(self, *streams: Stream) -> SyncRunner:
        pipeline = Pipeline(
            name=self.name,
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams={stream.name: self.options for stream in streams},
            state=self.state,
        )
        return SyncRunner(pipeline, Given(streams), workers=self.workers)

    def sync(self, stream: Stream) -> StreamReport:
        (report,) = self.runner(stream).run().streams
        return report

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.folder / "users"))

    @property
    def rows(self) -> dict[int, datetime | None]:
        """The moment of removal of each row, by its id."""
        return {row["id"]: row[DELETED_AT] for row in self.table.to_pyarrow_table().to_pylist()}

    @property
    def shown(self) -> list[int]:
        return sorted(id for id, removed in self.rows.items() if removed is None)

    @property
    def flagged(self) -> list[int]:
        return sorted(id for id, removed in self.rows.items() if removed is not None)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, StreamOptions(write_mode="append_dedup", remove_stale=RemoveStaleOptions()))


def count(*figures: int, removal: str = "soft", kept: str = "", refused: bool = False) -> StaleCount:
    previous, current, gone, removed = figures
    return StaleCount(removal, previous, current, gone, removed, kept, refused)


def test_rows_that_a_complete_read_does_not_see_are_flagged_and_those_that_come_back_are_shown(lake: Lake) -> None:
    first = lake.sync(Users(range(10)))
    second = lake.sync(Users(range(8)))
    flagged = lake.rows
    third = lake.sync(Users([*range(1, 8), 9]))

    assert (first.status, first.stale) == (Status.DONE, count(0, 10, 0, 0))
    assert (second.status, second.stale, second.total) == (Status.DONE, count(10, 8, 2, 2), 10)
    assert [id for id, removed in flagged.items() if removed is not None] == [8, 9]
    assert all(removed is None or removed.tzinfo is not None for removed in flagged.values())
    assert (third.stale, lake.shown, lake.flagged) == (count(8, 8, 1, 1), [*range(1, 8), 9], [0, 8])
    assert lake.rows[8] == flagged[8]


def test_rows_are_deleted_where_that_is_asked(lake: Lake) -> None:
    lake = lake.asking(removal="hard")
    lake.sync(Users(range(10)))
    report = lake.sync(Users(range(8)))
    ids = lake.table.to_pyarrow_table()["id"].to_pylist()

    assert (report.stale, report.total, sorted(ids)) == (count(10, 8, 2, 2, removal="hard"), 8, list(range(8)))
    assert DELETED_AT not in lake.table.to_pyarrow_table().column_names


def test_rows_are_only_counted_where_that_is_asked(lake: Lake) -> None:
    lake = lake.asking(removal="report", fail_safe_threshold=0, fail_safe_min=0)
    lake.sync(Users(range(10)))
    report = lake.sync(Users(range(8)))

    assert (report.status, report.stale) == (
        Status.DONE,
        count(10, 8, 2, 0, removal="report", kept="removal is report"),
    )
    assert len(lake.table.to_pyarrow_table()) == 10


def test_without_being_asked_nothing_is_removed(tmp_path: Path) -> None:
    lake = Lake(tmp_path, StreamOptions(write_mode="append_dedup"))
    lake.sync(Users(range(10)))

    assert (lake.sync(Users(range(3))).stale, len(lake.table.to_pyarrow_table())) == (None, 10)


def test_rows_that_were_read_before_anybody_asked_are_removed_by_the_next_complete_read(tmp_path: Path) -> None:
    before = Lake(tmp_path, StreamOptions(write_mode="append_dedup"))
    before.sync(Users(range(10)))

    lake = before.asking()
    report = lake.sync(Users(range(8)))

    assert (report.stale, lake.flagged) == (count(10, 8, 2, 2), [8, 9])


def test_the_removal_and_the_state_are_one_commit(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    before = lake.table.version()
    report = lake.sync(Users(range(8)))

    # The rows that were read, then the removal with the state that says that all was.
    assert (lake.table.version() - before, report.commits) == (2, 2)
    last = lake.table.history(1)[0]
    assert "spark-cdk.state" in last
    lake.table.restore(lake.table.version() - 1)
    again = lake.sync(Users(range(8)))
    assert (again.resumed, again.read, again.stale, lake.flagged) == (True, 0, count(10, 8, 2, 2), [8, 9])


def test_a_read_that_fails_removes_nothing_and_the_one_that_goes_on_from_it_does(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    failed = lake.sync(Users([*range(6), 10, 11], broken=1))

    assert (failed.status, failed.stale, lake.flagged) == (Status.FAILED, None, [])

    report = lake.sync(Users([*range(6), 10, 11]))
    assert (report.resumed, report.stale) == (True, count(10, 8, 4, 4))
    assert (lake.shown, lake.flagged) == ([*range(6), 10, 11], [6, 7, 8, 9])


def test_streams_that_are_not_synced_lose_nothing(lake: Lake) -> None:
    class Others(Users):
        name = "others"

    lake.runner(Users(range(10)), Others(range(10))).run()
    lake.runner(Others(range(8))).run()

    assert (lake.shown, lake.flagged) == (list(range(10)), [])


def test_a_preview_removes_nothing(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    list(lake.runner(Users(range(8))).preview(100))

    assert lake.shown == list(range(10))


@pytest.mark.parametrize("point", ["before_state_blob", "after_state_blob", "after_commit"])
@pytest.mark.parametrize("commit", [1, 2])
@pytest.mark.parametrize("removal", ["soft", "hard"])
def test_a_sync_that_is_killed_anywhere_removes_by_the_next_one_and_never_too_much(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, point: str, commit: int, removal: str
) -> None:
    lake = lake.asking(removal=removal)
    lake.sync(Users(range(10)))
    reached = 0

    def crash(name: str) -> None:
        nonlocal reached
        reached += name == point
        if reached == commit:
            raise SystemExit(name)

    monkeypatch.setattr(stream_table, "crash_point", crash)
    with pytest.raises(SystemExit):
        lake.sync(Users(range(8)))
    monkeypatch.undo()

    removed = {8, 9}
    there = lake.table.to_pyarrow_table().to_pylist()
    assert {row["id"] for row in there if row.get(DELETED_AT) is None} in [set(range(10)), set(range(8))]
    report = lake.sync(Users(range(8)))
    there = lake.table.to_pyarrow_table().to_pylist()
    assert (report.status, report.read) == (Status.DONE, 8 if commit == 1 and point != "after_commit" else 0)
    assert len(there) == (10 if removal == "soft" else 8)
    assert {row["id"] for row in there if row.get(DELETED_AT) is None} == set(range(10)) - removed


class Whole(Users):
    """Users from a source that never says where to go on."""

    name = "users"
    supports_checkpointing = False

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield from ({"id": id, "team": self.team, "at": self.at} for id in self.ids)


def test_a_stream_without_checkpoints_that_was_read_and_not_completed_removes_by_the_next_sync(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sync(Whole(range(10)))
    reached = 0

    def crash(name: str) -> None:
        nonlocal reached
        reached += name == "before_state_blob"
        if reached == 2:
            raise SystemExit(name)

    monkeypatch.setattr(stream_table, "crash_point", crash)
    with pytest.raises(SystemExit):
        lake.sync(Whole(range(8)))
    monkeypatch.undo()

    assert lake.flagged == []
    assert (lake.sync(Whole(range(8))).stale, lake.flagged) == (count(10, 8, 2, 2), [8, 9])


def test_a_source_without_a_single_row_is_an_error_that_removes_nothing(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    report = lake.sync(Users([]))

    assert (report.status, lake.shown) == (Status.FAILED, list(range(10)))
    assert report.failure is not None
    assert "streams.users.remove_stale: the set: found no entities, expected some of the 10" in report.failure.message
    assert report.stale is not None
    assert report.stale.refused

    allowed = lake.asking(allow_empty=True, fail_safe_threshold=100).sync(Users([]))
    assert (allowed.status, lake.shown) == (Status.DONE, [])


def test_too_many_rows_at_once_are_an_error_until_a_person_accepts_them(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    refused = lake.sync(Users(range(2)))

    assert (refused.status, lake.shown) == (Status.FAILED, list(range(10)))
    assert refused.failure is not None
    assert "found 8 of 10 entities missing (80.0 %), expected at most 75 %" in refused.failure.message
    plan = refused.failure.message.rpartition("accept_removals: ")[2]

    other = lake.asking(accept_removals=plan).sync(Users(range(1)))
    assert (other.status, lake.shown) == (Status.FAILED, list(range(10)))
    accepted = lake.asking(accept_removals=plan).sync(Users(range(2)))
    assert (accepted.status, lake.shown, lake.flagged) == (Status.DONE, [0, 1], list(range(2, 10)))


def test_after_a_refusal_the_source_is_read_anew(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    lake.sync(Users(range(2)))
    report = lake.sync(Users(range(9)))

    assert (report.status, report.resumed, report.read) == (Status.DONE, False, 9)
    assert (report.stale, lake.flagged) == (count(10, 9, 1, 1), [9])


def test_new_rows_do_not_hide_that_all_old_ones_are_gone(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    report = lake.sync(Users(range(100, 200)))

    assert (report.status, lake.flagged) == (Status.FAILED, [])
    assert report.stale is not None
    assert (report.stale.previous, report.stale.current, report.stale.missing) == (10, 100, 10)


@pytest.mark.parametrize(("left", "status"), [(2, Status.DONE), (1, Status.FAILED)])
def test_exactly_the_threshold_passes(lake: Lake, left: int, status: Status) -> None:
    lake.sync(Users(range(8)))

    assert lake.sync(Users(range(left))).status is status


def test_a_few_may_go_whatever_the_percentage(lake: Lake) -> None:
    lake.sync(Users(range(6)))
    assert lake.sync(Users(range(1))).status is Status.DONE
    assert lake.flagged == [1, 2, 3, 4, 5]

    assert lake.asking(fail_safe_min=0).sync(Users([7])).status is Status.FAILED
    assert lake.shown == [0, 7]


def test_a_sync_that_ignores_the_old_state_compares_with_nothing(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    report = replace(lake, state=StateOptions(ignore_old_state=True)).sync(Users(range(8)))

    assert (report.status, lake.flagged) == (Status.DONE, [])
    assert report.stale == count(10, 8, 2, 0, kept="the run ignores the saved state")


def test_a_read_that_was_begun_before_anybody_asked_removes_nothing(tmp_path: Path) -> None:
    before = Lake(tmp_path, StreamOptions(write_mode="append_dedup"))
    before.sync(Users(range(10)))
    before.sync(Users(range(8), broken=1))

    lake = before.asking()
    resumed = lake.sync(Users(range(8)))

    assert (resumed.resumed, resumed.status, lake.flagged) == (True, Status.DONE, [])
    assert resumed.stale is not None
    assert resumed.stale.retained_because.startswith("it is uncertain whether the read was complete")
    assert (lake.sync(Users(range(8))).stale, lake.flagged) == (count(10, 8, 2, 2), [8, 9])


class Changes(Users):
    """Users with a cursor."""

    name = "users"
    cursor_field = "at"


def test_a_row_that_comes_back_older_counts_as_seen(lake: Lake) -> None:
    lake = replace(lake, options=lake.options.model_copy(update={"sync_mode": "full_refresh"}))
    lake.sync(Changes(range(10), at=5))
    report = lake.sync(Changes(range(10), at=4))

    assert (report.stale, lake.flagged) == (count(10, 10, 0, 0), [])
    assert set(lake.table.to_pyarrow_table()["at"].to_pylist()) == {4}


def test_after_a_reset_the_read_begins_anew_and_removes(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    admin = Admin(LocalFolder(lake.folder), "shop")
    admin.reset(StreamLocation("users", LocalFolder(lake.folder / "users")))

    assert (lake.sync(Users(range(8))).stale, lake.flagged) == (count(10, 8, 2, 2), [8, 9])


def test_rows_of_another_writer_stay(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    write_deltalake(lake.table, pa.table({"id": [77]}), mode="append", schema_mode="merge")
    report = lake.sync(Users(range(8)))

    assert (report.stale, lake.flagged) == (count(10, 8, 2, 2), [8, 9])
    assert 77 in lake.shown


def test_files_that_are_compacted_meanwhile_are_compared_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sync(Users(range(10)))
    lake.sync(Users(range(6, 16), broken=1))
    commits = 0

    def compact(name: str) -> None:
        nonlocal commits
        commits += name == "before_state_blob"
        if (name, commits) == ("before_state_blob", 2):
            lake.table.optimize.compact()

    monkeypatch.setattr(stream_table, "crash_point", compact)
    report = lake.sync(Users(range(6, 16)))

    assert (report.status, report.stale) == (Status.DONE, count(10, 10, 6, 6))
    assert (lake.shown, lake.flagged) == (list(range(6, 16)), list(range(6)))
    assert len(lake.table.to_pyarrow_table()) == 16


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {
                "sync_mode": "full_refresh",
                "write_mode": "overwrite",
                "remove_stale": RemoveStaleOptions(removal="hard"),
            },
            "an overwrite leaves no rows of earlier reads; of these options it supports .*: leave removal out",
        ),
        ({"sync_mode": "full_refresh", "write_mode": "append"}, "only tables with one row per key can tell"),
        ({"sync_mode": "incremental"}, "an incremental sync reads only what is new, and cannot tell what is missing"),
    ],
)
def test_a_table_that_cannot_tell_what_is_gone_is_refused(
    lake: Lake, options: Mapping[str, Json], expected: str
) -> None:
    lake = replace(lake, options=lake.options.model_copy(update=dict(options)))

    with pytest.raises(ConfigError, match=f"^streams.users.remove_stale: {expected}"):
        lake.sync(Changes(range(10)))
    assert not (lake.folder / "users").exists()


class Told(Users):
    """Users whose source says when they were deleted, as a text or as a number."""

    name = "users"
    kind = "string"

    def json_schema(self) -> JsonSchema:
        properties = {"id": {"type": "integer"}, DELETED_AT: {"type": self.kind}}
        return {"type": "object", "properties": properties}


def test_a_column_of_the_source_takes_the_moment_as_a_text(lake: Lake) -> None:
    lake.sync(Told(range(10)))
    lake.sync(Told(range(8)))

    flags = lake.rows
    assert lake.flagged == [8, 9]
    assert datetime.fromisoformat(str(flags[8])).tzinfo is not None
    assert str(flags[8]).endswith("Z")


def test_a_column_of_the_source_that_takes_no_moment_is_refused(lake: Lake) -> None:
    class Numbered(Told):
        name = "users"
        kind = "integer"

    report = lake.sync(Numbered(range(10)))

    assert report.failure is not None
    assert f"streams.users.remove_stale: the column {DELETED_AT} is int64" in report.failure.message


@pytest.mark.parametrize("removal", ["soft", "hard"])
def test_a_divided_table_with_a_history_loses_the_same_rows(tmp_path: Path, removal: str) -> None:
    options = StreamOptions(write_mode="append_dedup", history=True, partition_by="team")
    lake = Lake(tmp_path, options).asking(removal=removal)
    lake.sync(Users(range(10), team="a"))
    lake.sync(Users(range(5, 10), team="b"))
    report = lake.sync(Users(range(6, 12), team="b"))

    there = lake.table.to_pyarrow_table().to_pylist()
    assert [(row["id"], row["team"]) for row in there if row.get(DELETED_AT) is None] == [
        (id, "b") for id in sorted(row["id"] for row in there if row.get(DELETED_AT) is None)
    ]
    assert report.stale == count(5, 6, 1, 1, removal=removal)
    assert sorted(row["id"] for row in there) == (list(range(12)) if removal == "soft" else list(range(6, 12)))
    history = DeltaTable(str(tmp_path / "users_history")).to_pyarrow_table()
    assert len(history) == 10 + 5 + 6


@pytest.mark.spark
def test_spark_removes_the_same_rows(lake: Lake, session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stale_removal, "SMALL_ROWS", 0)
    lake = replace(lake, workers=executors(session))
    lake.sync(Users(range(10)))
    report = lake.sync(Users(range(8)))

    assert (report.stale, lake.flagged) == (count(10, 8, 2, 2), [8, 9])


def test_the_report_of_a_run_has_what_was_removed(lake: Lake) -> None:
    lake.sync(Users(range(10)))
    runner = lake.runner(Users(range(8)))
    (stream,) = runner.run().to_json()["streams"]

    assert stream["stale"] == {
        "removal": "soft",
        "previous": 10,
        "current": 8,
        "missing": 2,
        "removed": 2,
        "retained_because": None,
    }


@pytest.mark.parametrize(
    ("options", "state", "expected"),
    [
        ({}, {}, "rows that the source no longer has would be flagged after a complete read"),
        ({"removal": "hard"}, {}, "rows that the source no longer has would be deleted after a complete read"),
        ({"removal": "report"}, {}, "rows that the source no longer has would be counted after a complete read"),
        (
            {},
            {"ignore_old_state": True},
            "rows that the source no longer has would stay: the run ignores the saved state",
        ),
    ],
)
def test_a_preview_says_what_would_become_of_rows(
    lake: Lake, options: Mapping[str, Json], state: Mapping[str, Json], expected: str
) -> None:
    lake = replace(lake.asking(**options), state=StateOptions(**state))

    assert list(lake.runner(Users(range(3))).notes()) == [f"users: {expected}"]
    assert not (lake.folder / "users").exists()


def _roll_back(lake: Lake, number: int) -> None:
    Admin(LocalFolder(lake.folder), "shop").rollback(_location(lake), number)


def _location(lake: Lake) -> StreamLocation:
    return StreamLocation("users", LocalFolder(lake.folder / "users"))


def _ids(lake: Lake) -> list[int]:
    return sorted(lake.table.to_pyarrow_table()["id"].to_pylist())


def _number(lake: Lake) -> int:
    number = Admin(LocalFolder(lake.folder), "shop").status(_location(lake)).number
    assert number is not None
    return number


def test_after_a_rollback_of_the_state_rows_of_later_reads_are_no_rows_of_the_next_one(lake: Lake) -> None:
    lake = lake.asking(removal="hard", fail_safe_threshold=100)
    lake.sync(Users([1, 2, 3]))
    number = _number(lake)
    lake.sync(Users([1, 2, 3, 4]))

    _roll_back(lake, number)
    report = lake.sync(Users([1, 2]))

    assert (_ids(lake), report.stale) == ([1, 2], count(4, 2, 2, 2, removal="hard"))


def test_after_a_rollback_to_an_interrupted_read_what_later_reads_saw_stays(lake: Lake) -> None:
    lake = lake.asking(removal="hard", fail_safe_threshold=100)
    lake.sync(Users(range(10)))
    assert lake.sync(Users(range(10), broken=1)).status == Status.FAILED
    number = _number(lake)
    lake.sync(Users(range(10)))
    lake.sync(Users(range(10)))

    _roll_back(lake, number)
    resumed = lake.sync(Users(range(9)))
    shown = _ids(lake)
    whole = lake.sync(Users(range(9)))

    assert (shown, resumed.stale and resumed.stale.removed) == ([*range(10)], 0)
    assert (_ids(lake), whole.stale and whole.stale.removed) == ([*range(9)], 1)


def test_what_a_state_that_was_set_by_hand_skips_is_not_gone(lake: Lake) -> None:
    lake = lake.asking(removal="hard", fail_safe_threshold=100)
    lake.sync(Users(range(12)))
    assert lake.sync(Users(range(12), broken=1)).status == Status.FAILED
    location, admin = _location(lake), Admin(LocalFolder(lake.folder), "shop")
    saved = location.open("shop").saved
    assert saved is not None
    further = from_json(canonical(saved.state).replace('"page":1', '"page":2').encode())
    assert further != saved.state
    admin.change(location, lambda saved: import_state(saved, Users([]), further))

    report = lake.sync(Users(range(12)))

    assert (_ids(lake), report.read, report.stale and report.stale.removed) == ([*range(12)], 4, 0)


def test_rows_that_another_pipeline_has_read_since_are_not_gone(lake: Lake) -> None:
    lake = lake.asking(removal="hard", fail_safe_threshold=100)
    other = replace(lake, name="other", options=StreamOptions(write_mode="append_dedup"))
    lake.sync(Users(range(10)))
    assert lake.sync(Users(range(10), broken=1)).status == Status.FAILED

    other.sync(Users(range(10)))
    resumed = lake.sync(Users(range(10)))

    why = "the pipeline other has written to the table since the read started; the next complete read removes them"
    assert (_ids(lake), resumed.stale) == ([*range(10)], count(10, 6, 4, 0, removal="hard", kept=why))
    assert (lake.sync(Users(range(9))).stale, _ids(lake)) == (count(10, 9, 1, 1, removal="hard"), [*range(9)])


def test_each_read_of_several_pipelines_has_a_number_of_its_own(lake: Lake) -> None:
    lake = lake.asking(removal="hard", fail_safe_threshold=100)
    renamed = replace(lake, name="renamed")

    lake.sync(Users(range(10)))
    for sync, present in ((renamed, 9), (lake, 8), (renamed, 7), (lake, 6)):
        assert sync.sync(Users(range(present))).stale == count(present + 1, present, 1, 1, removal="hard")
        assert _ids(lake) == [*range(present)]


@pytest.mark.parametrize("removal", ["hard", "soft", "report"])
def test_a_removal_warns_of_another_pipeline_that_wrote_last(
    lake: Lake, removal: str, caplog: pytest.LogCaptureFixture
) -> None:
    lake = lake.asking(removal=removal)
    other = replace(lake, name="other", options=StreamOptions(write_mode="append_dedup"))

    def warned(of: Lake) -> bool:
        caplog.clear()
        of.sync(Users(range(10)))
        return "other' also writes to this table: remove_stale removes its rows, too" in caplog.text

    assert [warned(each) for each in (other, lake, lake, other, lake)] == [
        False,
        removal != "report",
        False,
        False,
        removal != "report",
    ]
