"""Tables that others change while a sync reads hold what the sync says, whatever the write mode."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake import Field as DeltaField
from deltalake.schema import PrimitiveType
from msgspec.structs import replace

from cdk import CountCursor, Item, Json, Page, PagedStream, Slice, Stream
from cdk.base.task_map import run_inline
from cdk.lake.admin.locate import OpenTables, StreamLocation
from cdk.lake.arrow.columns import EXTRACTED_AT, RAW_ID
from cdk.lake.delta.receipt import CommitRows, Receipt
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import MODES, AppendDedup, WriteModeName, WriteModeSetup, traits_of
from cdk.lake.parquet.dedup import Identity
from cdk.lake.parquet.writer import DataFile, TableWriter
from cdk.lake.storage.folder import LocalFolder
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tables.stream_commit import LOST_IN_A_ROW
from cdk.sync.tasks.workers import Workers
from tests.spark.featured_table import FEATURES, delete_by_vector, give
from tests.spark.given_source import Given

FULL = {"sync_mode": "full_refresh", "write_mode": "overwrite"}
INT, NUMBER = {"type": "integer"}, {"type": "number"}


class Users(Stream):
    """Records that are given, and what a neighbour does to the table while they are read."""

    name = "users"
    primary_key = "id"
    cursor = CountCursor("n", start=0)

    def __init__(
        self,
        records: Sequence[Mapping[str, Json]],
        meanwhile: Callable[[], object] = lambda: None,
        size: Mapping[str, Json] = INT,
    ) -> None:
        self.records, self.meanwhile, self.size = records, meanwhile, size

    def json_schema(self) -> Mapping[str, Json]:
        return {"properties": {"id": INT, "n": INT, "size": self.size}}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        after = 0 if slice.window is None else int(slice.window.start)
        yield Page([record for record in self.records if int(record["n"]) >= after], None)
        self.meanwhile()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Users, (self.records,))


def reported(folder: Path, stream: Stream, *, pipeline: str = "shop", **options: Any) -> StreamReport:
    settings = Pipeline(
        name=pipeline,
        source=SourceOptions(connector="users"),
        target=TargetOptions(path=str(folder)),
        streams={"users": StreamOptions(**options)},
        checkpoint_interval=timedelta(),
        concurrency=1,
    )
    (report,) = SyncRunner(settings, Given([stream]), workers=Workers(run_inline, 1)).run().streams
    return report


def sync(folder: Path, stream: Stream, **options: Any) -> StreamReport:
    report = reported(folder, stream, **options)
    assert report.failure is None
    return report


def of(n: int, id: int | None = None, size: float = 1) -> dict[str, Json]:
    return {"id": n if id is None else id, "n": n, "size": size}


def rows(folder: Path) -> list[tuple[int, int, float]]:
    found = pa.table(DeltaTable(str(folder / "users")).scan(columns=["id", "n", "size"])).to_pylist()
    return sorted((row["id"], row["n"], row["size"]) for row in found)


def compact(folder: Path) -> None:
    table = DeltaTable(str(folder / "users"))
    assert table.optimize.compact()["numFilesRemoved"] > 1


def compact_and_vacuum(folder: Path) -> None:
    compact(folder)
    assert DeltaTable(str(folder / "users")).vacuum(0, dry_run=False, enforce_retention_duration=False)


def append(folder: Path) -> None:
    more = pa.table({"id": pa.array([77]), "n": pa.array([77]), "size": pa.array([77])})
    write_deltalake(str(folder / "users"), more, mode="append", schema_mode="merge")


def filled(folder: Path, **options: Any) -> list[dict[str, Json]]:
    """A table of three files; the records that it was filled with."""
    for n in (1, 2, 3):
        sync(folder, Users([of(n)]), **options)
    return [of(n) for n in (1, 2, 3)]


@pytest.mark.parametrize("feature", ["", "a change feed", "deletion vectors"])
@pytest.mark.parametrize("neighbour", [compact, compact_and_vacuum, append])
def test_a_merge_beside_a_neighbour_is_done_again_on_the_files_that_are_there(
    tmp_path: Path, neighbour: Callable[[Path], None], feature: str
) -> None:
    filled(tmp_path, write_mode="append_dedup")
    if feature:
        give(tmp_path / "users", FEATURES[feature])

    new = [of(10, 1), of(11, 2), of(12, 3), of(13)]
    report = sync(tmp_path, Users(new, lambda: neighbour(tmp_path)), write_mode="append_dedup")

    others = [(77, 77, 77)] if neighbour is append else []
    assert rows(tmp_path) == [(1, 10, 1), (2, 11, 1), (3, 12, 1), (13, 13, 1), *others]
    assert report.total == len(rows(tmp_path))


@pytest.mark.parametrize("feature", ["", "a change feed"])
def test_a_new_key_that_two_pipelines_bring_at_once_is_there_once(tmp_path: Path, feature: str) -> None:
    sync(tmp_path, Users([of(1)]), write_mode="append_dedup")
    if feature:
        give(tmp_path / "users", FEATURES[feature])

    def other() -> None:
        sync(tmp_path, Users([of(5, 50)]), pipeline="market", write_mode="append_dedup")

    sync(tmp_path, Users([of(6, 50)], other), write_mode="append_dedup")

    assert rows(tmp_path) == [(1, 1, 1), (50, 6, 1)]


@pytest.mark.parametrize("feature", ["", "deletion vectors", "CHECK constraints"])
@pytest.mark.parametrize("neighbour", [compact, append])
def test_an_overwrite_beside_a_neighbour_leaves_its_generation_alone(
    tmp_path: Path, neighbour: Callable[[Path], None], feature: str
) -> None:
    filled(tmp_path, write_mode="append")
    if feature:
        give(tmp_path / "users", FEATURES[feature])

    sync(tmp_path, Users([of(n) for n in range(4, 9)], lambda: neighbour(tmp_path)), **FULL)

    assert rows(tmp_path) == [(n, n, 1) for n in range(4, 9)]


def test_an_overwrite_keeps_a_column_that_somebody_adds_meanwhile(tmp_path: Path) -> None:
    def add() -> None:
        one = pa.table({"id": pa.array([9]), "note": pa.array(["x"])})
        write_deltalake(str(tmp_path / "users"), one, mode="append", schema_mode="merge")

    sync(tmp_path, Users([of(1)]), **FULL)
    sync(tmp_path, Users([of(2)], add), **FULL)

    table = pa.table(DeltaTable(str(tmp_path / "users")).scan(columns=["id", "note"]))
    assert table.to_pylist() == [{"id": 2, "note": None}]


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
@pytest.mark.parametrize("neighbour", [compact, append])
def test_columns_that_get_wider_beside_a_neighbour_keep_each_row_once(
    tmp_path: Path, mode: str, neighbour: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, write_mode=mode)
    begun: list[str] = []

    def meanwhile(name: str) -> None:
        if name == "before_state_blob" and not begun:
            begun.append(name)
            neighbour(tmp_path)

    monkeypatch.setattr("cdk.lake.delta.stream_table.crash_point", meanwhile)
    sync(tmp_path, Users([of(4, size=1.5)], size=NUMBER), write_mode=mode)

    others = [(77, 77, 77)] if neighbour is append else []
    assert rows(tmp_path) == [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1.5), *others]
    assert begun


def test_a_commit_that_is_refused_for_another_reason_is_not_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sync(tmp_path, Users([of(1)]), write_mode="append_dedup")

    def forbid() -> None:
        table = DeltaTable(str(tmp_path / "users"))
        table.alter.set_table_properties({"delta.appendOnly": "true"})

    report = reported(tmp_path, Users([of(2, 1)], forbid), write_mode="append_dedup")

    assert report.failure is not None
    assert "append-only" in report.failure.message
    assert rows(tmp_path) == [(1, 1, 1)]
    # Once, as the table has changed; what it then refuses it would refuse again.
    assert caplog.text.count("trying again") == 1


def test_a_file_that_delta_rs_has_written_again_is_merged_with(tmp_path: Path) -> None:
    filled(tmp_path, write_mode="append_dedup")
    DeltaTable(str(tmp_path / "users")).update(predicate="id = 2", updates={"size": "2"})

    sync(tmp_path, Users([of(4, 2, size=5)]), write_mode="append_dedup")

    assert rows(tmp_path) == [(1, 1, 1), (2, 4, 5), (3, 3, 1)]


def test_each_name_has_a_mode_that_says_what_it_does_in_words_of_its_own() -> None:
    assert get_args(WriteModeName) == tuple(MODES)
    assert len({*MODES.values()}) == len({traits_of(name).reread for name in ("other", *MODES)}) - 1 == len(MODES)


SCHEMA = pa.schema([("id", pa.int64()), (EXTRACTED_AT, pa.timestamp("us", "UTC")), (RAW_ID, pa.string())])
BEGIN = TableState("full_refresh", "append_dedup", "s1")


def staged(mode: AppendDedup, *ids: int) -> list[DataFile]:
    writer = TableWriter(mode.staging, SCHEMA)
    columns = [list(ids), [0] * len(ids), [f"{n:04}" for n in range(len(ids))]]
    writer.write([pa.record_batch(columns, schema=SCHEMA)])
    return writer.close()


def with_history(lake: Path) -> AppendDedup:
    table = StreamTable(lake / "users", "test", "users", SCHEMA)
    location = StreamLocation("users", table.root, history=LocalFolder(lake / "users_history"))
    history = partial(OpenTables("test").history, location, table)
    mode = AppendDedup(WriteModeSetup(table, SCHEMA, Identity(("id",)), history=history))
    mode.prepare(run_inline)
    return mode


def logged_ids(root: Path) -> list[int]:
    return sorted(i for file in DeltaTable(str(root)).file_uris() for i in pq.read_table(file)["id"].to_pylist())


def test_a_history_whose_files_were_joined_gets_no_row_again_by_a_commit_of_state_alone(tmp_path: Path) -> None:
    mode = with_history(tmp_path)
    done = mode.commit(BEGIN, CommitRows(staged(mode, 1, 2, 2), Receipt(read=3)))
    done = mode.commit(done.saved, CommitRows(staged(mode, 2), Receipt(read=1)))
    DeltaTable(str(tmp_path / "users_history")).optimize.compact()
    mode.commit(replace(done.saved, complete=True), CommitRows([], Receipt(), finished=True))
    with_history(tmp_path)  # a further run makes good what the last one did not get to

    assert logged_ids(tmp_path / "users") == [1, 2]
    assert logged_ids(tmp_path / "users_history") == [1, 2, 2, 2]


def test_a_commit_forgets_the_files_it_has_named_for_the_history(tmp_path: Path) -> None:
    mode = with_history(tmp_path)
    mode.commit(BEGIN, CommitRows(staged(mode, 1), Receipt(read=1)))

    assert mode.table.saved is not None
    assert len(mode.table.saved.logged or ()) == 1
    mode.commit(replace(mode.table.saved, complete=True), CommitRows([], Receipt(), finished=True))
    assert mode.table.saved.logged is None


@pytest.mark.parametrize(
    ("feature", "refusal"),
    [
        ("a change feed", ""),
        ("deletion vectors", ""),
        ("CHECK constraints", "the table's constraints refuse rows that were read"),
        ("row tracking", "the table has row tracking"),
    ],
)
@pytest.mark.parametrize("mode", ["append", "overwrite", "append_dedup"])
def test_a_feature_that_a_table_gets_while_a_sync_reads_is_kept(
    tmp_path: Path, mode: str, feature: str, refusal: str
) -> None:
    root = tmp_path / "users"
    filled(tmp_path, write_mode="append_dedup")

    def meanwhile() -> None:
        give(root, FEATURES[feature])
        if feature == "deletion vectors":
            files = pa.table(DeltaTable(str(root)).get_add_actions(flatten=True)).to_pylist()
            delete_by_vector(root, {file["path"]: [0] for file in files if file["min.id"] == 1})

    # 12345 is too much for the constraint.
    stream = Users([of(4, 2, size=12345), of(5)], meanwhile)
    report = reported(tmp_path, stream, **(FULL if mode == "overwrite" else {"write_mode": mode}))

    left = {"append": [1, 2, 3], "overwrite": [], "append_dedup": [1, 3]}[mode]
    there = [(id, id, 1) for id in left if feature != "deletion vectors" or id != 1]
    if refusal:
        assert report.failure is not None
        assert refusal in report.failure.message
        assert "spark-cdk.state" not in DeltaTable(str(root)).history(1)[0]
    else:
        assert report.failure is None
        assert rows(tmp_path) == sorted([*there, (2, 4, 12345), (5, 5, 1)])


def test_a_constraint_that_somebody_drops_meanwhile_refuses_nothing(tmp_path: Path) -> None:
    filled(tmp_path, write_mode="append")
    table = DeltaTable(str(tmp_path / "users"))
    table.alter.add_constraint({"small": "size < 100"})

    sync(tmp_path, Users([of(4, size=12345)], lambda: table.alter.drop_constraint("small")), write_mode="append")

    assert rows(tmp_path) == [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 12345)]


def test_a_first_commit_that_a_constraint_refuses_can_be_made_later(tmp_path: Path) -> None:
    root = str(tmp_path / "users")
    write_deltalake(root, pa.table({"id": [1], "n": [1], "size": [1]}))
    table = DeltaTable(root)
    table.alter.add_constraint({"small": "size < 100"})

    report = reported(tmp_path, Users([of(4, size=12345)]), write_mode="append")
    assert report.failure is not None
    assert "the table's constraints refuse rows" in report.failure.message
    table.update_incremental()
    table.alter.drop_constraint("small")
    sync(tmp_path, Users([of(4, size=12345)]), write_mode="append")

    assert rows(tmp_path) == [(1, 1, 1), (4, 4, 12345)]


class Pages(PagedStream):
    """Numbers, a page each, and what a neighbour does to the table before each page."""

    name = "users"

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile = meanwhile

    def json_schema(self) -> Mapping[str, Json]:
        return {"properties": {"id": INT, "n": INT, "size": INT}}

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        del slice
        self.meanwhile()
        n = token["n"] if token else 1
        return Page([of(n)], {"n": n + 1} if n < 3 else None)


def test_a_column_that_somebody_adds_between_two_pages_keeps_no_generation_from_its_end(tmp_path: Path) -> None:
    def add() -> None:
        table = DeltaTable(str(tmp_path / "users"))
        table.alter.add_columns(DeltaField(f"more{table.version()}", PrimitiveType("string")))

    sync(tmp_path, Pages(add), **FULL)

    assert rows(tmp_path) == [(1, 1, 1), (2, 2, 1), (3, 3, 1)]


class Noted(Users):
    """Users with another column."""

    name = "users"

    def json_schema(self) -> Mapping[str, Json]:
        return {"properties": {**super().json_schema()["properties"], "note": {"type": "string"}}}


def test_a_sync_that_is_refused_leaves_the_columns_as_they_are(tmp_path: Path) -> None:
    filled(tmp_path, write_mode="append")
    before = DeltaTable(str(tmp_path / "users")).version()

    report = reported(tmp_path, Noted([of(4)]), pipeline="market", write_mode="append")

    assert report.failure is not None
    assert "a state of the pipeline 'shop'" in report.failure.message
    assert DeltaTable(str(tmp_path / "users")).version() == before


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_rows_that_a_vector_deletes_while_a_column_becomes_wider_stay_deleted(tmp_path: Path, mode: str) -> None:
    root = tmp_path / "users"
    sync(tmp_path, Users([{**of(1), "note": 1}, {**of(2), "note": 1}]), write_mode=mode)

    def delete() -> None:
        give(root, FEATURES["deletion vectors"])
        (path,) = pa.table(DeltaTable(str(root)).get_add_actions())["path"].to_pylist()
        delete_by_vector(root, {path: [0]})

    wide = {**of(3), "note": "x"}
    report = reported(tmp_path, Users([wide], delete), write_mode=mode)

    assert report.failure is not None
    assert "the table has deletion vectors (deletionVectors), so wider columns is refused" in report.failure.message
    assert rows(tmp_path) == [(2, 2, 1)]
    sync(tmp_path, Users([wide]), write_mode=mode)
    assert rows(tmp_path) == [(2, 2, 1), (3, 3, 1)]


def doubled(folder: Path) -> int:
    """Two jobs join the table's files at once, and each of its rows is there twice; the version before that."""
    root = str(folder / "users")
    one, other = DeltaTable(root), DeltaTable(root)
    one.optimize.compact()
    other.optimize.compact()
    return int(DeltaTable(root).version()) - 1


@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_a_table_whose_rows_two_others_have_doubled_is_refused_before_a_request(tmp_path: Path, mode: str) -> None:
    filled(tmp_path, write_mode=mode)
    before, read = doubled(tmp_path), list[int]()

    report = reported(tmp_path, Users([of(4)], lambda: read.append(1)), write_mode=mode)

    assert report.failure is not None
    assert "had 3 rows before it and 6 after it" in report.failure.message
    assert read == []
    DeltaTable(str(tmp_path / "users")).restore(before)
    sync(tmp_path, Users([of(4)]), write_mode=mode)
    assert rows(tmp_path) == [(n, n, 1) for n in (1, 2, 3, 4)]


def test_an_overwrite_replaces_rows_that_two_others_have_doubled(tmp_path: Path) -> None:
    filled(tmp_path, write_mode="append")
    doubled(tmp_path)

    sync(tmp_path, Users([of(4)]), **FULL)

    assert rows(tmp_path) == [(4, 4, 1)]


class Mixed(Pages):
    """Numbers, a page each; an undeclared field becomes text on the second."""

    name = "users"

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page = super().read_page(slice, token)
        return Page([{**record, "note": 1 if record["n"] == 1 else "x"} for record in page.records], page.next)


def vacuumed_sync(folder: Path, mode: str, times: int) -> tuple[StreamReport, list[list[str]]]:
    """A sync whose first tasks' files VACUUM takes before the driver sees them; what each VACUUM took."""
    root, vacuums = str(folder / "users"), list[list[str]]()

    def spread(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        results = run_inline(work, items)
        if len(vacuums) < times:
            vacuums.append(DeltaTable(root).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True))
        return results

    pipeline = Pipeline(
        name="shop",
        source=SourceOptions(connector="users"),
        target=TargetOptions(path=str(folder)),
        streams={"users": StreamOptions(write_mode=mode, primary_key="id")},
    )
    (report,) = SyncRunner(pipeline, Given([Mixed(lambda: None)]), workers=Workers(spread, 1)).run().streams
    return report, vacuums


@pytest.mark.parametrize("mode", ["append", "overwrite", "append_dedup"])
def test_files_that_a_vacuum_takes_before_their_columns_are_known_are_read_again(tmp_path: Path, mode: str) -> None:
    report, vacuums = vacuumed_sync(tmp_path, mode, 1)

    assert report.failure is None
    assert vacuums[0]
    assert rows(tmp_path) == [(1, 1, 1), (2, 2, 1), (3, 3, 1)]


def test_files_that_a_vacuum_takes_again_and_again_before_their_columns_are_known_fail_the_stream(
    tmp_path: Path,
) -> None:
    report, vacuums = vacuumed_sync(tmp_path, "append", 1000)

    assert report.failure is not None
    assert (report.failure.failure_type, len(vacuums)) == ("transient_error", LOST_IN_A_ROW)
    assert "VACUUM removes files that no version names yet" in report.failure.message
    assert rows(tmp_path) == []
