from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from cdk import DatetimeCursor, Item, JsonSchema, Partition, Slice, Stream, list_partitions
from cdk.base.errors import ConfigError, ServerError
from cdk.base.task_map import run_inline
from cdk.base.values import JsonValue
from cdk.lake.admin.table_facts import tables_of
from cdk.lake.delta.table_state import TableState
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.object_store import folder_at
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.loop import runner as runner_module
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.resume import resume_point, warn_of_modes, with_cursor_start
from cdk.sync.tasks.workers import Workers
from connectors.shop import Shop
from tests.spark.dying import dying_at
from tests.spark.given_source import Given

FULL, INC = "full_refresh", "incremental"
DONE = TableState(FULL, "append", "s1", 4, complete=True, state={"page": 1}, records=9)
CUT = replace(DONE, complete=False)
INC_DONE, INC_CUT = replace(DONE, sync_mode=INC), replace(CUT, sync_mode=INC)
FRESH = TableState(FULL, "append", "s2", 5)


def planned(sync_mode: Any, write_mode: Any, generation: int | None = None, *, replaces: bool = False) -> StreamPlan:
    stream, *_ = Shop().streams({})
    return StreamPlan(stream, folder_at("t", {}), sync_mode, write_mode, generation=generation, replaces=replaces)


@pytest.mark.parametrize(
    ("saved", "modes", "sync", "start", "resumed"),
    [
        # Nothing yet.
        (None, (FULL, "append"), "s2", TableState(FULL, "append", "s2"), False),
        (None, (INC, "append"), "s2", TableState(INC, "append", "s2"), False),
        # A full refresh that is complete is a new generation; one that was cut goes on.
        (DONE, (FULL, "append"), "s2", FRESH, False),
        (CUT, (FULL, "append"), "s2", replace(CUT, sync="s2"), True),
        # What this very sync has completed before it was cut is done.
        (DONE, (FULL, "append"), "s1", DONE, True),
        # Another way of writing is another generation.
        (CUT, (FULL, "overwrite"), "s2", replace(FRESH, write_mode="overwrite"), False),
        (DONE, (FULL, "overwrite"), "s1", TableState(FULL, "overwrite", "s1", 5), False),
        # An incremental sync goes on from its cursor, cut or not.
        (INC_DONE, (INC, "append"), "s2", replace(INC_CUT, sync="s2"), False),
        (INC_CUT, (INC, "append"), "s2", replace(INC_CUT, sync="s2"), True),
        # Another way of reading is another generation.
        (DONE, (INC, "append"), "s2", TableState(INC, "append", "s2", 5), False),
        (CUT, (INC, "append"), "s2", TableState(INC, "append", "s2", 5), False),
        (INC_DONE, (FULL, "append"), "s2", FRESH, False),
        (INC_CUT, (FULL, "append"), "s2", FRESH, False),
    ],
)
def test_where_a_sync_goes_on(
    saved: TableState | None, modes: tuple[str, str], sync: str, start: TableState, *, resumed: bool
) -> None:
    assert resume_point(planned(*modes), saved, sync) == (start, resumed)


@pytest.mark.parametrize(
    ("saved", "modes", "generation", "start", "resumed"),
    [
        (None, (FULL, "append"), 0, TableState(FULL, "append", "s2", 0), False),
        (DONE, (FULL, "append"), 7, TableState(FULL, "append", "s2", 7), False),
        (CUT, (FULL, "append"), 7, TableState(FULL, "append", "s2", 7), False),
        # The same generation again: the rest of it, and nothing once it is complete.
        (CUT, (FULL, "append"), 4, replace(CUT, sync="s2"), True),
        (DONE, (FULL, "append"), 4, replace(DONE, sync="s2"), True),
        # An incremental stream is read from its start when the platform says that it begins anew.
        (INC_DONE, (INC, "append"), 4, replace(INC_CUT, sync="s2"), False),
        (INC_DONE, (INC, "append"), 5, TableState(INC, "append", "s2", 5), False),
    ],
)
def test_a_platform_that_numbers_generations_says_when_one_begins(
    saved: TableState | None, modes: tuple[str, str], generation: int, start: TableState, *, resumed: bool
) -> None:
    assert resume_point(planned(*modes, generation), saved, "s2") == (start, resumed)


@pytest.mark.parametrize(
    ("before", "modes", "said"),
    [
        (INC_DONE, (INC, "append_dedup"), "its write_mode was append: among the 9 rows of the table, duplicates"),
        (replace(INC_DONE, write_mode="append_dedup"), (INC, "append_dedup"), ""),
        (replace(INC_DONE, records=0), (INC, "append_dedup"), ""),
        (
            DONE,
            (INC, "append"),
            "its sync_mode was full_refresh; as incremental it is read from its start, and is added to",
        ),
        (INC_DONE, (INC, "append"), ""),
        (None, (INC, "append_dedup"), ""),
    ],
)
def test_rows_that_were_read_in_another_mode_and_stay_are_warned_of(
    before: TableState | None, modes: tuple[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_modes(planned(*modes), before)

    assert [said in text for text in caplog.messages] == [True] * bool(said)


class Tasks(Stream):
    """Tasks are numbered in each project."""

    name = "tasks"
    primary_key = "no"

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "properties": {"no": {"type": "integer"}}}

    def partitions(self) -> Iterator[Partition]:
        return list_partitions("project", range(5))

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield from ({"no": no} for no in range(4))


def test_a_key_that_most_rows_share_with_another_one_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = Pipeline(
        name="work",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(tmp_path)),
        streams={"tasks": StreamOptions(write_mode="append_dedup")},
    )
    assert SyncRunner(pipeline, Given([Tasks()]), workers=Workers(run_inline, 1)).run().ok

    (text,) = (text for text in caplog.messages if "the same primary key as another one" in text)
    assert text.startswith("tasks: 16 of the 20 rows that were read have the same primary key as another one")


def test_an_older_catalog_does_not_write_to_a_table() -> None:
    with pytest.raises(ConfigError, match="found generation_id 3, but the table is at generation 4"):
        resume_point(planned(FULL, "append", 3), DONE, "s2")


def test_a_generation_that_is_complete_is_not_read_again_which_is_said(caplog: pytest.LogCaptureFixture) -> None:
    resume_point(planned(FULL, "append", 4), DONE, "s1")
    assert not caplog.messages
    resume_point(planned(FULL, "append", 4), DONE, "s2")

    assert "an earlier sync has read generation_id 4 completely: nothing is read" in caplog.text


KEYED = replace(INC_DONE, write_mode="append_dedup")
REFRESH = replace(KEYED, complete=False, generation=5, refreshing=True)
HIDDEN = replace(INC_CUT, write_mode="overwrite", generation=5)


@pytest.mark.parametrize(
    ("saved", "write_mode", "start", "resumed"),
    [
        # A generation that replaces the rows is hidden until it is whole, however often it is cut.
        (INC_DONE, "append", TableState(INC, "overwrite", "s2", 5, refreshing=True), False),
        (HIDDEN, "append", replace(HIDDEN, sync="s2"), True),
        (replace(HIDDEN, complete=True), "append", replace(HIDDEN, write_mode="append", sync="s2"), False),
        # With one row for each key, the older ones leave at its end. What comes then goes on, interrupted or not.
        (REFRESH, "append_dedup", replace(REFRESH, sync="s2"), True),
        (replace(REFRESH, complete=True), "append_dedup", replace(REFRESH, refreshing=False, sync="s2"), False),
        (
            replace(INC_DONE, write_mode="append_dedup"),
            "append_dedup",
            TableState(INC, "append_dedup", "s2", 5, refreshing=True, records=9),
            False,
        ),
    ],
)
def test_an_incremental_stream_is_refreshed(
    saved: TableState, write_mode: str, start: TableState, *, resumed: bool
) -> None:
    assert resume_point(planned(INC, write_mode, 5, replaces=True), saved, "s2") == (start, resumed)


@pytest.mark.parametrize(
    ("saved", "window", "resumed"),
    [
        # What another window was read for is not gone on with, whether it is complete or not.
        (replace(CUT, window={"start": "1"}), {"start": "1"}, True),
        (replace(CUT, window={"start": "1"}), {"start": "2"}, False),
        (replace(DONE, window={"start": "1"}, sync="s2"), {"start": "1"}, True),
        (replace(DONE, window={"start": "1"}, sync="s2"), {"start": "2"}, False),
        # Where one of the two is unknown, it is.
        (CUT, {"start": "1"}, True),
        (replace(CUT, window={"start": "1"}), None, True),
        # A cursor goes on in any case.
        (replace(INC_CUT, window={"start": "1"}), {"start": "2"}, True),
    ],
)
def test_a_full_refresh_goes_on_for_its_window_only(
    saved: TableState, window: dict[str, str] | None, *, resumed: bool
) -> None:
    plan = replace(planned(saved.sync_mode, "append"), window=window)

    assert resume_point(plan, saved, "s2")[1] is resumed


class Parts(Stream):
    """A row in each part; the source is down at some part, or never."""

    name = "parts"
    down_at: ClassVar[str] = ""

    def partitions(self) -> Iterator[Partition]:
        return list_partitions("part", ["a", "b"])

    def json_schema(self) -> JsonSchema:
        return {"properties": {"part": {"type": "string"}}}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        if slice.partition["part"] == self.down_at:
            raise ServerError("the source is down")
        yield dict(slice.partition)


MORNING = datetime(2024, 5, 12, 8, tzinfo=UTC)


def completed(folder: Path, hour: int, *, down_at: str = "") -> int | None:
    """Sync at an hour; the hour that the table says it was completely read at."""
    pipeline = Pipeline(
        name="shop",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(folder)),
        streams={"parts": StreamOptions()},
        checkpoint_interval=timedelta(),
    )
    Parts.down_at, now = down_at, MORNING + timedelta(hours=hour)
    SyncRunner(pipeline, Given([Parts({})]), workers=Workers(run_inline, 1), clock=lambda: now).run()
    return known(folder)


def known(folder: Path) -> int | None:
    (facts,) = tables_of(LocalFolder(folder), "shop")
    return None if facts.completed is None else (facts.completed - MORNING) // timedelta(hours=1)


def test_a_table_is_as_old_as_the_beginning_of_what_was_read(tmp_path: Path) -> None:
    assert [completed(tmp_path, hour, down_at=part) for hour, part in enumerate(["b", "b", ""])] == [None, None, 0]
    assert completed(tmp_path, 3) == 3
    # What began and read nothing began later.
    assert [completed(tmp_path, 4, down_at="a"), completed(tmp_path, 5)] == [3, 5]


def test_the_rest_of_a_sync_that_was_killed_makes_a_table_no_younger(tmp_path: Path) -> None:
    with dying_at("done", runner_module):
        completed(tmp_path, 0)

    assert known(tmp_path) == 0
    assert completed(tmp_path, 1) == 0
    assert completed(tmp_path, 2) == 2


class Filtered(Stream):
    """A stream that requests what its config says."""

    cursor = DatetimeCursor("at", start="2024-01-01T00:00:00Z")

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield from ()

    @property
    def requested(self) -> JsonValue:
        return self.config.get("status")


@pytest.mark.parametrize(("status", "warned"), [("open", False), ("all", True), (None, False)])
def test_a_state_of_other_requests_is_warned_of_once(
    status: str | None,
    warned: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    def plan(status: str | None) -> StreamPlan:
        return StreamPlan(Filtered({"status": status}), folder_at("t", {}), "incremental", "append")

    saved = replace(with_cursor_start(plan("open"), INC_DONE), state={"at": "2024-01-02T00:00:00Z"})
    assert caplog.text == ""

    changed = with_cursor_start(plan(status), saved)

    assert ("its requests differ" in caplog.text) is warned
    caplog.clear()
    with_cursor_start(plan(status), changed)
    assert caplog.text == ""
