"""Each use of a table with each feature is right, or is refused by name before the source is asked for anything."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdk import CountCursor, Item, Json, Page, Slice, Stream
from cdk.base.task_map import run_inline
from cdk.lake.admin.table_facts import TableRequest, tables_of
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import FEATURES, Feature, Use, Way
from cdk.lake.storage.folder import LocalFolder
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.spark import featured_table
from tests.spark.featured_table import HARMLESS, OTHERS, delete_by_vector, give
from tests.spark.given_source import Given

INT, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
FULL, DEDUP = {"sync_mode": "full_refresh"}, {"write_mode": "append_dedup"}
OPTIONS: Mapping[Use, Mapping[str, Any]] = {
    Use.APPEND: {"write_mode": "append"},
    Use.OVERWRITE: {**FULL, "write_mode": "overwrite"},
    Use.APPEND_DEDUP: DEDUP,
    Use.HISTORY: {**DEDUP, "history": True},
    Use.FLAG: {**FULL, **DEDUP, "remove_stale": {"removal": "soft"}},
    Use.DELETE: {**FULL, **DEDUP, "remove_stale": {"removal": "hard"}},
    Use.NEW_COLUMNS: {"write_mode": "append"},
    Use.WIDEN: {"write_mode": "append"},
}


class Users(Stream):
    """Records that are given, and how often they were asked for."""

    name = "users"
    primary_key = "id"
    cursor = CountCursor("n", start=0)

    def __init__(self, records: Sequence[Mapping[str, Json]], **properties: Json) -> None:
        self.records, self.properties = records, {"size": INT, **properties}
        self.reads = 0

    def json_schema(self) -> Mapping[str, Json]:
        return {"properties": {"id": INT, "n": INT, **self.properties}}

    def read_records(self, slice: Slice) -> Iterator[Item]:
        self.reads += 1
        after = 0 if slice.window is None else int(slice.window.start)
        yield Page([record for record in self.records if int(record["n"]) >= after], None)


def runner(folder: Path, stream: Stream, options: Mapping[str, Any]) -> SyncRunner:
    pipeline = Pipeline(
        name="shop",
        source=SourceOptions(connector="users"),
        target=TargetOptions(path=str(folder)),
        streams={"users": StreamOptions(**options)},
        checkpoint_interval=timedelta(),
        concurrency=1,
    )
    return SyncRunner(pipeline, Given([stream]), workers=Workers(run_inline, 1))


def sync(folder: Path, stream: Stream, options: Mapping[str, Any]) -> StreamReport:
    (report,) = runner(folder, stream, options).run().streams
    return report


def of(n: int, id: int | None = None, size: float = 1, **more: Json) -> dict[str, Json]:
    return {"id": n if id is None else id, "n": n, "size": size, **more}


def rows(folder: Path, name: str = "users") -> list[tuple[Any, ...]]:
    """The rows as a reader that knows all features sees them, those that are flagged left out."""
    table = DeltaTable(str(folder / name))
    found = pa.table(table.scan()).to_pylist()
    return sorted((row["id"], row["n"], row["size"]) for row in found if row.get("_ab_cdc_deleted_at") is None)


def fill(folder: Path, use: Use) -> Path:
    """A target whose table has the rows 1, 2 and 3, each in a file of its own where the use allows that."""
    records = [of(1), of(2), of(3)]
    if use in {Use.OVERWRITE, Use.FLAG, Use.DELETE}:
        assert sync(folder, Users(records), OPTIONS[use]).failure is None
    else:
        for record in records:
            assert sync(folder, Users([record]), OPTIONS[use]).failure is None
    return folder


Filled: TypeAlias = Callable[[Use], None]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Use], Path]:
    return cache(lambda use: fill(tmp_path_factory.mktemp("original"), use))


@pytest.fixture
def filled(originals: Callable[[Use], Path], tmp_path: Path) -> Filled:
    """Has the target of a test be as `fill` leaves it: a copy, which takes less time than the syncs."""

    def copy(use: Use) -> None:
        shutil.copytree(originals(use), tmp_path, dirs_exist_ok=True)

    return copy


def featured(folder: Path, use: Use, feature: str) -> bool:
    """Give the table a feature; whether its row 1 was deleted by a vector."""
    root = folder / ("users_history" if use is Use.HISTORY else "users")
    given = {**featured_table.FEATURES, **OTHERS, **HARMLESS}[feature]
    give(root, given)
    if feature != "deletion vectors":
        return False
    table = pa.table(DeltaTable(str(root)).get_add_actions(flatten=True)).to_pylist()
    (path,) = (file["path"] for file in table if file["min.id"] == 1)
    delete_by_vector(root, {path: [0]})
    return True


def after(use: Use, *, deleted: bool) -> list[tuple[Any, ...]]:
    """What a plain reading of the use makes of the rows 1, 2 and 3, of which 1 may be deleted."""
    before = [(id, id, 1) for id in (1, 2, 3) if not (id == 1 and deleted)]
    match use:
        case Use.APPEND | Use.NEW_COLUMNS | Use.HISTORY:
            return [*before, (2, 5, 1), (4, 4, 1)]
        case Use.WIDEN:
            return [*before, (2, 5, 1), (4, 4, 1.5)]
        case Use.APPEND_DEDUP:
            return [*(row for row in before if row[0] != 2), (2, 5, 1), (4, 4, 1)]
        case _:
            return [(2, 5, 1), (4, 4, 1)]


def stream_of(use: Use) -> Users:
    match use:
        case Use.WIDEN:
            return Users([of(4, size=1.5), of(5, 2)], size=NUMBER)
        case Use.NEW_COLUMNS:
            return Users([of(4, note="x"), of(5, 2)])
        case _:
            return Users([of(4), of(5, 2)])


CELLS = [(feature, use) for feature in FEATURES for use in OPTIONS]


@pytest.mark.parametrize(("feature", "use"), CELLS, ids=[f"{feature.name}-{use}" for feature, use in CELLS])
def test_a_cell_of_the_table_is_what_it_says(tmp_path: Path, filled: Filled, feature: Feature, use: Use) -> None:
    filled(use)
    deleted = featured(tmp_path, use, feature.name)
    stream = stream_of(use)
    # What a use begins with may be refused already.
    begins = {Use.FLAG: Use.APPEND_DEDUP, Use.DELETE: Use.APPEND_DEDUP, Use.NEW_COLUMNS: Use.APPEND}.get(use, use)
    refused = next((one for one in (begins, use) if feature.ways.get(one, Way.REFUSED) is Way.REFUSED), None)
    version = DeltaTable(str(tmp_path / "users")).version()

    (preview,) = runner(tmp_path, stream, OPTIONS[use]).preview(0)
    report = sync(tmp_path, stream, OPTIONS[use])

    if refused is not None:
        assert report.failure is not None
        assert f"the table has {feature.name}" in report.failure.message
        assert re.search(rf"{refused}\b.* refused", report.failure.message)
        assert "sync into another path" in report.failure.message
        assert preview.failure is not None
        assert preview.failure.message == report.failure.message
        assert stream.reads == 0
        assert DeltaTable(str(tmp_path / "users")).version() == version
    else:
        assert report.failure is None
        assert preview.failure is None
        assert rows(tmp_path, "users_history" if use is Use.HISTORY else "users") == sorted(after(use, deleted=deleted))


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("use", OPTIONS)
def test_what_is_not_known_is_refused_by_its_name(tmp_path: Path, filled: Filled, name: str, use: Use) -> None:
    filled(use)
    featured(tmp_path, use, name)
    stream = stream_of(use)

    report = sync(tmp_path, stream, OPTIONS[use])

    assert report.failure is not None
    assert "the table has another feature" in report.failure.message
    assert (name if name.isidentifier() or "version" in name else "futureThing") in report.failure.message
    assert report.failure.failure_type == "config_error"
    assert stream.reads == 0


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("use", OPTIONS)
def test_what_asks_nothing_of_writers_changes_nothing(tmp_path: Path, filled: Filled, name: str, use: Use) -> None:
    filled(use)
    featured(tmp_path, use, name)

    assert sync(tmp_path, stream_of(use), OPTIONS[use]).failure is None
    found = rows(tmp_path, "users_history" if use is Use.HISTORY else "users")
    assert found == sorted(after(use, deleted=False))


def test_each_known_feature_is_tried() -> None:
    assert [feature.name for feature in FEATURES] == list(featured_table.FEATURES)


@pytest.mark.parametrize("name", ["NOT NULL columns", "writer version 2"])
def test_a_column_that_may_not_be_null_has_to_be_declared(tmp_path: Path, name: str) -> None:
    theirs = pa.table({"id": pa.array([1]), "n": pa.array([1]), "size": pa.array([1]), "city": pa.array(["x"])})
    write_deltalake(str(tmp_path / "users"), theirs)
    given = {**featured_table.FEATURES, **HARMLESS}[name]
    give(
        tmp_path / "users",
        featured_table.Given(given.writer, version=given.version, fields={"city": {"nullable": False}}),
    )
    stream = Users([of(2)])

    report = sync(tmp_path, stream, {"write_mode": "append"})

    assert report.failure is not None
    assert "NOT NULL columns (city) that the stream's schema does not declare" in report.failure.message
    assert stream.reads == 0


def test_all_that_forbids_a_use_is_said_at_once(tmp_path: Path, filled: Filled) -> None:
    filled(Use.APPEND_DEDUP)
    given = featured_table.Given(
        ["rowTracking", "domainMetadata", "identityColumns"], properties={"delta.appendOnly": "true"}
    )
    give(tmp_path / "users", given)

    report = sync(tmp_path, Users([of(9)]), DEDUP)

    assert report.failure is not None
    for name in ("append-only rows (delta.appendOnly)", "identity columns", "row tracking", "domain metadata"):
        assert f"the table has {name}" in report.failure.message


@pytest.mark.parametrize("state", [True, False])
def test_tables_says_what_the_next_sync_cannot_do(tmp_path: Path, filled: Filled, *, state: bool) -> None:
    if state:
        filled(Use.APPEND_DEDUP)
    else:
        write_deltalake(str(tmp_path / "users"), pa.table({"id": pa.array([1])}))
    give(tmp_path / "users", featured_table.FEATURES["row tracking"])

    (facts,) = tables_of(LocalFolder(tmp_path), "shop", {"users": TableRequest(write_mode="append_dedup")})

    assert facts.next == "fails before it reads: the table has features that forbid it"
    assert facts.hint is not None
    assert facts.hint.startswith("the table has domain metadata") or "the table has row tracking" in facts.hint


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({**DEDUP, "primary_key": "idd"}, "does not declare 'idd'"),
        ({**DEDUP, "primary_key": "tags"}, "expected a string, an integer, a double or a timestamp"),
        ({"partition_by": "nope"}, "nope"),
        ({"partition_by": ["n", "n"]}, "is listed twice"),
    ],
)
def test_a_preview_checks_what_a_sync_checks(
    tmp_path: Path, options: Mapping[str, Any], expected: str, *, there: bool
) -> None:
    def stream() -> Users:
        return Users([of(1)], tags={"type": "array", "items": TEXT})

    if there:
        assert sync(tmp_path, stream(), {"write_mode": "append"}).failure is None
    before = sorted(tmp_path.rglob("*"))

    (preview,) = runner(tmp_path, asked := stream(), options).preview(5)

    assert preview.failure is not None
    assert sorted(tmp_path.rglob("*")) == before
    report = sync(tmp_path, stream(), options)
    assert report.failure is not None
    assert preview.failure.message == report.failure.message
    assert expected in preview.failure.message
    assert asked.reads == 0


def test_a_preview_of_a_new_table_looks_at_the_history_that_is_there(tmp_path: Path, filled: Filled) -> None:
    filled(Use.HISTORY)
    featured(tmp_path, Use.HISTORY, "generated columns")
    shutil.rmtree(tmp_path / "users")
    stream = stream_of(Use.HISTORY)

    (preview,) = runner(tmp_path, stream, OPTIONS[Use.HISTORY]).preview(1)
    report = sync(tmp_path, stream, OPTIONS[Use.HISTORY])

    assert report.failure is not None
    assert preview.failure is not None
    assert preview.failure.message == report.failure.message
    assert "the table has generated columns" in preview.failure.message
    assert stream.reads == 0


def test_a_preview_of_a_stream_without_a_schema_checks_its_key(tmp_path: Path) -> None:
    class Plain(Users):
        name = "users"

        def json_schema(self) -> Mapping[str, Json]:
            return {}

    (preview,) = runner(tmp_path, Plain([of(1)]), DEDUP).preview(0)

    assert preview.failure is not None
    assert "does not declare 'id'" in preview.failure.message


IMAGES = {
    Use.APPEND: {"insert": 2},
    Use.OVERWRITE: {"insert": 2, "delete": 3},
    Use.APPEND_DEDUP: {"insert": 1, "update_preimage": 1, "update_postimage": 1},
    Use.FLAG: {"insert": 1, "update_preimage": 3, "update_postimage": 3},
    Use.DELETE: {"insert": 1, "update_preimage": 1, "update_postimage": 1, "delete": 2},
    Use.NEW_COLUMNS: {"insert": 2},
}


@pytest.mark.parametrize("use", IMAGES)
def test_a_change_feed_has_each_change_of_a_row_once(tmp_path: Path, filled: Filled, use: Use) -> None:
    filled(use)
    featured(tmp_path, use, "a change feed")
    version = DeltaTable(str(tmp_path / "users")).version()

    assert sync(tmp_path, stream_of(use), OPTIONS[use]).failure is None

    feed = DeltaTable(str(tmp_path / "users")).load_cdf(starting_version=version + 1)
    assert Counter(row["_change_type"] for row in pa.table(feed).to_pylist()) == IMAGES[use]


CHECKED = [
    feature for feature in FEATURES if feature.name in {"CHECK constraints", "column invariants", "NOT NULL columns"}
]


@pytest.mark.parametrize("feature", CHECKED, ids=lambda feature: feature.name)
@pytest.mark.parametrize("use", [Use.APPEND, Use.OVERWRITE, Use.APPEND_DEDUP])
def test_rows_that_a_constraint_refuses_are_not_written_and_not_passed(
    tmp_path: Path, filled: Filled, feature: Feature, use: Use
) -> None:
    filled(use)
    featured(tmp_path, use, feature.name)
    before = rows(tmp_path)
    bad = {**of(5), "size": None if feature.name == "NOT NULL columns" else 12345}

    report = sync(tmp_path, Users([of(4), bad]), OPTIONS[use])

    assert report.failure is not None
    assert report.failure.failure_type == "config_error"
    assert "the table's constraints refuse rows that were read" in report.failure.message
    null = "'size' is declared as non-nullable"
    assert (null if feature.name == "NOT NULL columns" else "1 rows failed") in report.failure.message
    assert feature.name in report.failure.message
    assert "12345" not in report.failure.message + report.failure.detail
    assert (rows(tmp_path), report.written) == (before, 0)

    report = sync(tmp_path, Users([of(4), of(5)]), OPTIONS[use])

    assert report.failure is None
    assert rows(tmp_path) == [*([] if use is Use.OVERWRITE else before), (4, 4, 1), (5, 5, 1)]


@pytest.fixture(scope="module")
def many_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    def write(partition_by: str) -> Path:
        folder = tmp_path_factory.mktemp("files")
        for n in range(25):
            one = pa.table({"id": pa.array([n]), "n": pa.array([7]), "size": pa.array([1])})
            write_deltalake(str(folder), one, mode="append", partition_by=partition_by or None)
        return folder

    return cache(write)


JOINED = [feature.name for feature in FEATURES if feature.ways.get(Use.JOIN) is Way.FILES]


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("partition_by", ["", "n"])
def test_files_are_joined_whatever_is_checked_of_their_rows(
    tmp_path: Path, many_files: Callable[[str], Path], name: str, partition_by: str
) -> None:
    root = shutil.copytree(many_files(partition_by), tmp_path / "users")
    give(root, featured_table.FEATURES[name])
    version = DeltaTable(str(root)).version()

    assert StreamTable(root, "shop", "users", pa.schema([])).compact() == 25

    table = DeltaTable(str(root))
    assert sorted(row["id"] for row in pa.table(table.scan()).to_pylist()) == list(range(25))
    assert len(table.file_uris()) < 20
    if name == "a change feed":
        feed = table.load_cdf(starting_version=version + 1, allow_out_of_range=True)
        assert pa.table(feed).num_rows == 0


def test_files_stay_where_vectors_say_which_of_their_rows_count(
    tmp_path: Path, many_files: Callable[[str], Path]
) -> None:
    root = shutil.copytree(many_files(""), tmp_path / "users")
    give(root, featured_table.FEATURES["deletion vectors"])
    before = DeltaTable(str(root)).version()

    assert StreamTable(root, "shop", "users", pa.schema([])).compact() == 0
    assert DeltaTable(str(root)).version() == before


def test_what_vectors_deleted_is_not_counted(tmp_path: Path, filled: Filled) -> None:
    filled(Use.APPEND_DEDUP)
    featured(tmp_path, Use.APPEND_DEDUP, "deletion vectors")

    (facts,) = tables_of(LocalFolder(tmp_path), "shop")
    report = sync(tmp_path, stream_of(Use.APPEND_DEDUP), DEDUP)

    assert (facts.rows, facts.hint) == (2, None)
    assert report.total == 3


@pytest.mark.parametrize("removal", ["soft", "hard", "report"])
def test_rows_that_vectors_deleted_are_not_missed(tmp_path: Path, filled: Filled, removal: str) -> None:
    options = {**FULL, **DEDUP, "remove_stale": {"removal": removal}}
    filled(Use.FLAG)
    featured(tmp_path, Use.FLAG, "deletion vectors")

    report = sync(tmp_path, Users([of(2), of(4)]), options)

    assert report.failure is None
    assert report.stale is not None
    assert (report.stale.previous, report.stale.current, report.stale.missing) == (2, 2, 1)
    assert report.stale.removed == (0 if removal == "report" else 1)
    assert rows(tmp_path) == [(2, 2, 1), *([(3, 3, 1)] if removal == "report" else []), (4, 4, 1)]
