"""The history of a merged table in a world that is killed, widened, compacted, vacuumed, restored and removed."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec.structs import replace

from cdk import CountCursor, Item, Json, Page, Slice, Stream
from cdk.base.task_map import run_inline
from cdk.lake.admin.edits import Change
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin
from cdk.lake.parquet import table_rows
from cdk.lake.storage.folder import LocalFolder
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.spark.dying import dying_if_reached
from tests.spark.featured_table import FEATURES, delete_by_vector, give
from tests.spark.given_source import Given

INT, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
TYPES = (INT, NUMBER, TEXT)
"""Of the column `v`: each is wider than the one before."""
POINTS = ("task_ended", "merged", "before_state_blob", "after_state_blob", "after_commit", "before_history", "done")
"""Where the driver of a sync dies."""


class Edits(Stream):
    """Edits of three things, in pages of three that have each thing once; the cursor counts the edits."""

    name = "things"
    primary_key = "id"
    supports_checkpointing = True
    cursor = CountCursor("n", start=0)

    def __init__(self, width: int = 0, *, wide: bool = False) -> None:
        self.edits: list[dict[str, Json]] = []
        self.width, self.wide = width, wide
        self.first = 0  # the number of the first edit that it still gives

    def edit(self, *, more: bool = False) -> None:
        """A page of edits; with `more`, of a field that is not declared."""
        n = len(self.edits)
        self.edits += [{"id": i, "n": n + i, "v": n, **({"w": "x"} if more else {})} for i in range(3)]

    def json_schema(self) -> Mapping[str, Json]:
        inner = {"x": INT, "y": INT} if self.wide else {"x": INT}
        at = {"type": "object", "properties": inner}
        return {"properties": {"id": INT, "n": INT, "v": TYPES[self.width], "at": at}}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        # By number, not by place: an interrupted read goes on with what is left, though the source has forgotten some.
        since = max(int(slice.window.start), self.first, (slice.start.cursor or {}).get("n", 0))
        for n in range(since - since % 3, len(self.edits), 3):
            edits = [edit for edit in self.edits[n : n + 3] if edit["n"] >= since]
            yield Page(edits, {"n": n + 3} if n + 3 < len(self.edits) else None)


def sync(folder: Path, stream: Stream, *, history: bool = True, name: str = "shop") -> StreamReport:
    pipeline = Pipeline(
        name=name,
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(folder)),
        streams={"things": StreamOptions(write_mode="append_dedup", history=history)},
        checkpoint_interval=timedelta(),
    )
    (report,) = SyncRunner(pipeline, Given([stream]), workers=Workers(run_inline, 1)).run().streams
    return report


def rows(table: Path) -> Counter[int]:
    """The edits that a reader of the table sees, by their numbers. Raises AssertionError: it cannot be read."""
    log = DeltaTable(str(table))
    columns = {field.name: field.type for field in pa.schema(log.schema().to_arrow())}
    numbers: Counter[int] = Counter()
    for path in log.file_uris():
        part = pq.ParquetFile(path).read()
        assert all(columns[field.name] == field.type for field in part.schema if not pa.types.is_nested(field.type))
        numbers.update(part["n"].to_pylist())
    return numbers


def columns(table: Path) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in DeltaTable(str(table)).schema().fields]


class Histories(RuleBasedStateMachine):
    """Syncs of one stream, and what happens to its tables between them. The model: all edits, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.table, self.history = self.folder / "things", self.folder / "things_history"
        self.stream = Edits()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(table_rows, "MANY", 3)

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.folder)

    @rule(more=st.booleans(), twice=st.booleans())
    def edit(self, *, more: bool, twice: bool) -> None:
        for _ in range(1 + twice):
            self.stream.edit(more=more)

    @rule(wide=st.booleans())
    def widen(self, *, wide: bool) -> None:
        """The schema's types become wider: a struct gains a field, or files have to be written again."""
        self.stream.wide |= wide
        self.stream.width = min(self.stream.width + (not wide), 2)

    @rule()
    def sync(self) -> None:
        report = sync(self.folder, self.stream)
        assert report.failure is None
        newest = len(self.stream.edits) - 3
        assert rows(self.table) == Counter(range(max(newest, 0), newest + 3))
        assert rows(self.history) == Counter(range(newest + 3))
        assert set(columns(self.table)) <= set(columns(self.history))

    @rule(point=st.sampled_from(POINTS), time=st.integers(1, 4))
    def sync_and_die(self, point: str, time: int) -> None:
        with dying_if_reached(point, time):
            sync(self.folder, self.stream)

    @rule()
    def sync_without_history(self) -> None:
        assert sync(self.folder, self.stream, history=False).failure is None

    def _there(self) -> bool:
        return DeltaTable.is_deltatable(str(self.history))

    def _whole(self) -> bool:
        return self._there() and all(Path(path).exists() for path in DeltaTable(str(self.history)).file_uris())

    @precondition(_whole)
    @rule(main=st.booleans())
    def optimize(self, *, main: bool) -> None:
        DeltaTable(str(self.table if main else self.history)).optimize.compact()

    @precondition(_there)
    @rule()
    def vacuum_history(self) -> None:
        DeltaTable(str(self.history)).vacuum(0, enforce_retention_duration=False, dry_run=False, full=True)

    @precondition(_there)
    @rule()
    def remove_history(self) -> None:
        shutil.rmtree(self.history)

    @precondition(_there)
    @rule()
    def lose_state_of_history(self) -> None:
        shutil.rmtree(self.history / "_cdk_state", ignore_errors=True)

    @precondition(_whole)
    @rule()
    def lose_a_file(self) -> None:
        for path in DeltaTable(str(self.history)).file_uris()[:1]:
            Path(path).unlink()

    @precondition(_there)
    @rule(back=st.integers(1, 6))
    def restore_history(self, back: int) -> None:
        """Somebody brings back an older version of the history, if its files are there."""
        log = DeltaTable(str(self.history))
        older = max(log.version() - back, 0)
        files = DeltaTable(str(self.history), version=older).file_uris()
        if older < log.version() and all(Path(path).exists() for path in files):
            log.restore(older)

    @rule(back=st.integers(1, 6))
    def restore_table(self, back: int) -> None:
        """Somebody undoes the newest edits, which the source has forgotten, and each thing is edited once more."""
        self.sync()
        log = DeltaTable(str(self.table))
        log.restore(max(log.version() - back, 0))
        self.stream.first = len(self.stream.edits)
        self.stream.edit()

    @precondition(_there)
    @rule()
    def commit_state_alone(self) -> None:
        """A person changes the state, and with it no row."""
        admin, one = (
            Admin(LocalFolder(self.folder), "shop"),
            StreamLocation("things", LocalFolder(self.table), None, LocalFolder(self.history)),
        )
        if (saved := one.open("shop").saved) is not None:
            table = one.open("shop")
            admin.commit(one, table, Change("note", replace(saved, source={"at": table.version}), (), ()))


TestHistories: Any = Histories.TestCase
TestHistories.settings = settings(max_examples=10, stateful_step_count=12, deadline=None, report_multiple_bugs=False)


def histories(*steps: Callable[[Histories], None]) -> None:
    """These things happen, one after the other; `sync` looks at the tables."""
    world = Histories()
    try:
        for step in steps:
            step(world)
    finally:
        world.teardown()


def edit(world: Histories) -> None:
    world.edit(more=False, twice=False)


def widen(world: Histories) -> None:
    world.widen(wide=False)


def die(point: str, time: int = 1) -> Callable[[Histories], None]:
    return lambda world: world.sync_and_die(point, time)


def test_a_widening_without_new_rows_adds_no_row_again() -> None:
    histories(edit, Histories.sync, widen, Histories.sync, Histories.sync)


def test_a_history_without_rows_has_the_columns_of_its_table() -> None:
    begun = [Histories.sync_without_history, Histories.sync] * 2
    histories(*begun, lambda world: world.widen(wide=True), Histories.sync)


def test_neither_joined_files_nor_a_commit_of_state_alone_add_rows_again() -> None:
    more = [edit, Histories.sync] * 4
    histories(*more, Histories.commit_state_alone, Histories.sync, Histories.sync)


def test_a_sync_killed_between_the_two_commits_of_a_widening_widens_the_history_later() -> None:
    histories(edit, Histories.sync, edit, widen, die("after_commit"), Histories.sync)


def test_a_history_that_lost_a_file_is_filled_with_the_columns_that_only_its_table_has_yet() -> None:
    histories(edit, Histories.sync, widen, die("after_commit"), Histories.lose_a_file, Histories.sync)


def test_rows_that_the_history_still_lacks_are_widened_with_it() -> None:
    histories(edit, Histories.sync, edit, die("before_history"), widen, Histories.sync)


def test_files_that_were_vacuumed_before_the_history_had_them_come_from_the_table() -> None:
    histories(edit, Histories.sync, edit, die("before_history"), Histories.vacuum_history, Histories.sync)


def test_a_history_that_is_behind_by_many_commits_gets_all_of_them() -> None:
    histories(
        edit, Histories.sync, edit, Histories.sync, edit, Histories.sync, lambda w: w.restore_history(2), Histories.sync
    )


@pytest.mark.parametrize("later", [0, 1])
def test_a_history_that_is_restored_has_the_rows_again_that_a_restore_of_its_table_had_undone(later: int) -> None:
    histories(
        edit,
        Histories.sync,
        edit,
        lambda w: w.restore_table(3),
        *[Histories.sync] * later,
        lambda w: w.restore_history(3 + later),
        Histories.sync,
        Histories.sync,
    )


@pytest.mark.parametrize("syncs", [1, 2])
@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_history_gets_the_rows_that_come_after_its_table_was_brought_back_from_a_copy(syncs: int, late: int) -> None:
    """syncs: those that the copy lacks. late: how many then die before the history has their rows."""

    def bring_back(world: Histories) -> None:
        copy = world.folder.with_name(f"{world.folder.name}-copy")
        shutil.copytree(world.table, copy)
        for _ in range(syncs):
            edit(world)
            world.sync()
        shutil.rmtree(world.table)
        copy.rename(world.table)
        world.stream.first = len(world.stream.edits)

    histories(edit, Histories.sync, bring_back, *[edit, die("before_history")] * late, edit, Histories.sync)


@pytest.mark.parametrize("died", [1, 2])
def test_a_pipeline_that_fills_a_history_leaves_another_the_rows_that_it_died_before(died: int, tmp_path: Path) -> None:
    one, other = Edits(), Edits()
    other.edits = [{"id": 10 + n, "n": 100 + n, "v": 0} for n in range(3)]
    one.edit()
    sync(tmp_path, one)
    for _ in range(died):
        one.edit()
        with dying_if_reached("before_history", 1):
            sync(tmp_path, one)

    for name, stream in (("market", other), ("shop", one), ("market", other)):
        assert sync(tmp_path, stream, name=name).failure is None

    assert rows(tmp_path / "things_history") == Counter([*range(3 * (1 + died)), *range(100, 103)])


def test_a_history_gets_the_rows_of_a_table_that_is_made_anew() -> None:
    def make_anew(world: Histories) -> None:
        shutil.rmtree(world.table)
        world.stream.first = len(world.stream.edits)

    histories(*[edit, Histories.sync] * 3, make_anew, *[edit, Histories.sync] * 2)


@pytest.mark.parametrize("lost", [Histories.remove_history, Histories.lose_state_of_history, Histories.lose_a_file])
def test_what_is_lost_of_a_history_is_made_again_of_the_table(lost: Callable[[Histories], None]) -> None:
    histories(edit, Histories.sync, edit, Histories.sync, lost, edit, Histories.sync)


def test_rows_that_came_while_there_was_no_history_are_added() -> None:
    histories(edit, Histories.sync, edit, Histories.sync_without_history, edit, Histories.sync)


def test_a_history_that_cannot_be_opened_stops_no_sync(caplog: pytest.LogCaptureFixture) -> None:
    world = Histories()
    edit(world)
    world.sync()
    edit(world)
    (world.history / "_delta_log" / f"{1:020}.json").write_text("{")

    report = sync(world.folder, world.stream)

    assert (report.failure, rows(world.table)) == (None, Counter(range(3, 6)))
    assert "its history lacks rows" in caplog.text
    world.remove_history()
    world.sync()
    world.teardown()


@pytest.mark.parametrize("history", [True, False], ids=["a history that follows", "one that is filled later"])
def test_a_row_that_a_vector_deleted_from_its_table_stays_in_the_history_as_every_row_that_came(
    tmp_path: Path, *, history: bool
) -> None:
    stream = Edits()
    stream.edit()
    sync(tmp_path, stream, history=history)
    give(tmp_path / "things", FEATURES["deletion vectors"])
    (path,) = DeltaTable(str(tmp_path / "things")).file_uris()
    delete_by_vector(tmp_path / "things", {Path(path).name: [1]})
    stream.edit()
    sync(tmp_path, stream)

    assert rows(tmp_path / "things_history") == Counter(range(6))
