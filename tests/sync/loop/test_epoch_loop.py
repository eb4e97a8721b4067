"""How a sync is cut into epochs, without Spark: tasks run in this process, and clocks are told."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk import Item, Json, JsonSchema, Page, PagedStream, Partition, Slice, Stream
from cdk.base.task_map import run_inline
from cdk.lake.admin.locate import OpenTables
from cdk.lake.parquet.rewrite import MANY
from cdk.lake.storage.folder import LocalFolder
from cdk.state.window import Window
from cdk.sync.loop.epoch_loop import EpochLoop, job_name
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.workers import Workers
from tests.samples import Users


class Clock:
    """Stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Parts(Stream):
    """A record a partition; each partition takes some seconds to be found."""

    name = "parts"

    def __init__(self, clock: Clock, count: int, seconds: float) -> None:
        super().__init__()
        self._clock, self._count, self._seconds = clock, count, seconds

    def partitions(self) -> Iterable[Partition]:
        for n in range(self._count):
            self._clock.now += self._seconds
            yield Partition.of(part=n)

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield {"id": slice.partition["part"]}


class Watched:
    """A sync of one stream. epochs: of each, its seconds and the slices that were handed out."""

    def __init__(
        self,
        folder: Path,
        stream: Stream,
        clock: Clock,
        *,
        interval: float = 30,
        concurrency: int = 4,
        join_small_files: bool = True,
    ) -> None:
        self.run = StreamSync(
            StreamPlan(stream, LocalFolder(folder / "table"), "full_refresh", "append"), OpenTables("test"), sync="s1"
        )
        self.epochs: list[tuple[float, int]] = []
        pipeline = Pipeline(
            name="test",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(folder), join_small_files=join_small_files),
            checkpoint_interval=timedelta(seconds=interval),
            concurrency=concurrency,
        )
        self._epochs = EpochLoop(pipeline, [self.run], Workers(run_inline, 2), self._watch, clock)

    def read_all(self) -> list[tuple[float, int]]:
        self._epochs.read_all()
        return self.epochs

    def _watch(self, seconds: float) -> None:
        if seconds:
            self.epochs.append((seconds, self.run.standing.reading))


def test_epochs_double_up_to_the_interval_and_planning_takes_no_longer_than_they_may_read(tmp_path: Path) -> None:
    clock = Clock()
    sync = Watched(tmp_path, Parts(clock, 100, seconds=0.5), clock, interval=10)

    # A commit looks for one more, which tells whether it is the last.
    assert sync.read_all() == [(4, 8), (8, 17), (10, 21), (10, 21), (10, 21), (10, 12)]
    assert (sync.run.report.status, sync.run.report.written) == (Status.DONE, 100)


def test_no_reader_is_without_a_slice_however_long_planning_takes(tmp_path: Path) -> None:
    clock = Clock()
    sync = Watched(tmp_path, Parts(clock, 10, seconds=3600), clock, concurrency=5)

    assert [slices for _, slices in sync.read_all()] == [5, 5]
    assert sync.run.report.written == 10


@pytest.mark.parametrize(("concurrency", "slices"), [(1, 128), (2, 256), (100, 10_000)])
def test_slices_that_are_known_at_once_are_handed_out_by_the_thousand(
    tmp_path: Path, concurrency: int, slices: int
) -> None:
    clock = Clock()
    sync = Watched(tmp_path, Parts(clock, 20_000, seconds=0), clock, concurrency=concurrency)

    assert len(sync._epochs._plan()) == slices


@pytest.mark.parametrize("interval", [0.5, 4])
def test_an_epoch_is_never_longer_than_the_interval(tmp_path: Path, interval: float) -> None:
    clock = Clock()
    sync = Watched(tmp_path, Parts(clock, 30, seconds=0.5), clock, interval=interval)

    assert {seconds for seconds, _ in sync.read_all()} == {interval}
    assert sync.run.report.written == 30


class Two(Stream):
    """Two slices, each with a record whose undeclared field has the name that is given for it."""

    name = "two"
    schema: JsonSchema | None = {"type": "object", "properties": {"id": {"type": "integer"}}}  # noqa: RUF012 - as an author writes it

    def __init__(self, names: Sequence[Json]) -> None:
        super().__init__()
        self._names = names

    def partitions(self) -> Iterable[Partition]:
        return [Partition.of(part=n) for n in range(len(self._names))]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        part = slice.partition["part"]
        yield {"id": part, self._names[part]: f"value {part}"}


@pytest.mark.parametrize("names", [("late", "late"), ("late", "Late"), ("one", "another")])
def test_the_slices_of_a_task_whose_files_do_not_fit_the_table_are_read_again(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    # Each slice is read by a task of its own, and both tasks bring a column: that of the second comes too late.
    watched = Watched(tmp_path, Two(names), Clock())
    watched.read_all()

    assert watched.run.report.status is Status.DONE
    assert (watched.run.report.read, watched.run.report.written) == (2, 2)
    root = tmp_path / "table"
    rows = [row for file in DeltaTable(str(root)).file_uris() for row in pq.read_table(file).to_pylist()]
    assert sorted(row["id"] for row in rows) == [0, 1]
    assert all(f"value {row['id']}" in str(row) for row in rows)
    # Nothing is left of the files that did not fit.
    assert {path.name for path in root.glob("*.parquet")} == {Path(f).name for f in DeltaTable(str(root)).file_uris()}


class Typed(Two):
    """Slices whose undeclared field has the values that are given for it."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        part = slice.partition["part"]
        yield {"id": part, "x": self._names[part]}


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, 2], pa.int64(), [1, 2]),
        ([1, None], pa.int64(), [1, None]),
        ([1, 0.5], pa.float64(), [1.0, 0.5]),
        ([0.5, 1], pa.float64(), [0.5, 1.0]),
        ([1, "a"], pa.string(), ["1", "a"]),
        (["a", True], pa.string(), ["a", "true"]),
        ([2**53 + 1, 0.5], pa.string(), [str(2**53 + 1), "0.5"]),
    ],
)
def test_tasks_that_find_other_types_agree_and_nothing_is_read_again(
    tmp_path: Path, values: Sequence[Json], kind: pa.DataType, expected: Sequence[Json]
) -> None:
    watched = Watched(tmp_path, Typed(values), Clock())
    epochs = watched.read_all()

    assert [slices for _, slices in epochs] == [2]
    root = tmp_path / "table"
    assert pa.schema(DeltaTable(str(root)).schema().to_arrow()).field("x").type == kind
    tables = [pq.read_table(file) for file in DeltaTable(str(root)).file_uris()]
    assert {table.schema.field("x").type for table in tables if "x" in table.column_names} == {kind}
    rows = sorted((row["id"], row.get("x")) for table in tables for row in table.to_pylist())
    assert rows == list(enumerate(expected))
    assert {path.name for path in root.glob("*.parquet")} == {Path(f).name for f in DeltaTable(str(root)).file_uris()}


def test_an_interval_of_nothing_commits_each_page(tmp_path: Path) -> None:
    sync = Watched(tmp_path, Users(), Clock(), interval=0)
    sync.read_all()

    assert (sync.run.report.pages, sync.run.report.commits, sync.run.report.written) == (5, 5, 15)


class Pages(PagedStream):
    """A record a page, as many as make files worth joining."""

    name = "pages"

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        del slice
        page = 0 if token is None else int(token["page"])
        return Page([{"id": page}], {"page": page + 1} if page < MANY else None)


@pytest.mark.parametrize(("join_small_files", "files"), [(True, 1), (False, MANY + 1)])
def test_small_files_are_joined_at_the_end_unless_the_pipeline_says_otherwise(
    tmp_path: Path, *, join_small_files: bool, files: int
) -> None:
    Watched(tmp_path, Pages(), Clock(), interval=0, join_small_files=join_small_files).read_all()

    table = DeltaTable(str(tmp_path / "table"))
    assert (len(table.file_uris()), table.count()) == (files, MANY + 1)


def test_streams_are_named_with_the_stretch_they_are_read_in() -> None:
    days = [Slice(window=Window(f"2024-01-{n:02}", f"2024-01-{n + 1:02}")) for n in (1, 2, 3)]

    assert job_name("shop", [("orders", days[0]), ("users", Slice()), *(("orders", day) for day in days[1:])]) == (
        "shop: orders 2024-01-01..2024-01-04, users"
    )


def test_of_many_streams_three_are_named() -> None:
    assert job_name("shop", [(name, Slice()) for name in "abcdef"]) == "shop: a, b, c (3 more)"


def test_partitions_are_left_out_and_long_values_cut() -> None:
    slice = Slice(Partition.of(customer="hunter2"), Window("x" * 100))

    assert job_name("shop", [("visits", slice)]) == f"shop: visits {'x' * 39}….."
