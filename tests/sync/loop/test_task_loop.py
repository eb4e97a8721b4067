"""Which slices tasks read, and when is committed, without Spark: tasks run in this process, by clocks of the test."""

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count, pairwise
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cdk import Item, Json, JsonSchema, Page, PagedStream, Partition, Slice, Stream, TransientError
from cdk.base.process.interruption import Interruption
from cdk.base.process.request_lease import RequestLease, current_lease, leasing
from cdk.base.run import RunScope
from cdk.base.task_map import ClusterLost, TaskMap, run_inline
from cdk.base.times.clock import system_clock
from cdk.lake.admin.locate import OpenTables
from cdk.lake.admin.table_audit import audit
from cdk.lake.delta.write_modes import WriteModeName
from cdk.lake.parquet.table_rows import MANY
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import LocalFolder
from cdk.rest import Budget, Request
from cdk.rest.http.activity import activities
from cdk.state.window import Window
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.loop.task_loop import TaskLoop
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.messages import BundleJob, BundleResult
from cdk.sync.tasks.task_pool import Call, EndedTask, InlineTasks, TaskPool
from cdk.sync.tasks.workers import Workers, beside_the_driver, job_name
from tests.samples import Users
from tests.sync.loop.simulated_tasks import Chances, Clock, PageTime, SimulatedCluster, SimulatedTasks, TaskTime


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


class Pages(Parts):
    """Partitions that are known at once, and whose slices can stop."""

    supports_checkpointing = True

    def __init__(self, clock: Clock, count: int) -> None:
        super().__init__(clock, count, 0)


class Always(Chances):
    """Always the same number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def below(self, limit: int) -> int:
        return self._number % limit


class Watched:
    """A sync of one stream. bundles: of each task, its seconds and how many slices it had; commits: when they were."""

    def __init__(
        self,
        folder: Path,
        stream: Stream,
        clock: Clock,
        *,
        interval: float = 30,
        concurrency: int = 4,
        tasks: int = 2,
        join_small_files: bool = True,
        pool: TaskPool | None = None,
        mode: WriteModeName = "append",
        run: type[StreamSync] = StreamSync,
    ) -> None:
        self.run = run(
            StreamPlan(stream, LocalFolder(folder / "table"), "full_refresh", mode), OpenTables("test"), sync="s1"
        )
        self.bundles: list[tuple[float, int]] = []
        self.commits: list[float] = []
        self.clock = clock
        pipeline = Pipeline(
            name="test",
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(folder), join_small_files=join_small_files),
            checkpoint_interval=timedelta(seconds=interval),
            concurrency=concurrency,
        )
        workers = Workers(self._spread, tasks, make_pool=InlineTasks if pool is None else lambda: pool)
        self.loop = TaskLoop(pipeline, [self.run], workers, self._watch, clock)

    def read_all(self) -> list[tuple[float, int]]:
        self.loop.read_all()
        return self.bundles

    def _spread(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        match list(items):
            case [(BundleJob() as job, list(slices))]:
                self.bundles.append((job.seconds, len(slices)))
                self.clock.now += 1
                # A busy machine may take longer than that.
                return run_inline(work, [(replace(job, seconds=3600 if job.seconds else 0), slices)])
            case _:
                """Other work than reading."""
        return run_inline(work, items)

    def _watch(self, seconds: float) -> None:
        del seconds
        if self.run.report.commits > len(self.commits):
            self.commits.append(self.clock.now)


def test_commits_are_made_by_the_clock_at_doubling_times_up_to_the_interval(tmp_path: Path) -> None:
    clock = Clock()
    sync = Watched(tmp_path, Parts(clock, 100, seconds=0.5), clock, interval=20)
    sync.read_all()

    gaps = [late - early for early, late in pairwise([0, *sync.commits])]
    assert [round(gap / 4) for gap in gaps[:3]] == [1, 2, 4]
    assert all(gap <= 20 for gap in gaps)
    assert (sync.run.report.status, sync.run.report.written) == (Status.DONE, 100)


def test_a_task_ends_when_the_next_commit_is_due_or_soon_after(tmp_path: Path) -> None:
    clock = Clock()
    seconds = [seconds for seconds, _ in Watched(tmp_path, Parts(clock, 600, seconds=0), clock).read_all()]

    assert seconds[0] == 4
    assert all(1 <= each <= 24 for each in seconds)


def test_whoever_could_read_gets_a_slice_however_long_planning_takes(tmp_path: Path) -> None:
    clock = Clock()
    sync = Watched(tmp_path, Parts(clock, 4, seconds=3600), clock, concurrency=5)

    assert [slices for _, slices in sync.read_all()] == [1, 1, 1, 1]
    assert sync.run.report.written == 4


def test_a_task_that_gets_few_slices_because_planning_is_slow_is_short(tmp_path: Path) -> None:
    clock = Clock()
    sync = Watched(tmp_path, Parts(clock, 3, seconds=1), clock, concurrency=8)

    # Behind the last one comes no other.
    assert [seconds for seconds, _ in sync.read_all()][:-1] == [1, 1]


@pytest.mark.parametrize(("concurrency", "first"), [(1, 64), (2, 64), (10, 320)])
def test_bundles_begin_small_and_grow_with_what_tasks_get_through(tmp_path: Path, concurrency: int, first: int) -> None:
    clock = Clock()
    sync = Watched(tmp_path, Pages(clock, 3_000), clock, concurrency=concurrency, tasks=2)
    sizes = [slices for _, slices in sync.read_all()]

    assert sizes[0] == first
    assert max(sizes) > first
    assert sum(sizes) == 3_000


@pytest.mark.parametrize("interval", [0.5, 4])
def test_no_commit_is_further_away_than_the_interval(tmp_path: Path, interval: float) -> None:
    clock = Clock()
    sync = Watched(tmp_path, Parts(clock, 30, seconds=0.5), clock, interval=interval)

    assert all(seconds <= interval for seconds, _ in sync.read_all())
    assert sync.run.report.written == 30


def test_a_sync_whose_workers_are_lost_cancels_its_tasks_and_says_what_was_lost(tmp_path: Path) -> None:
    cancelled = []

    def lost(_work: Callable[[Any], Any], _items: Sequence[Any]) -> list[Any]:
        raise TransientError("Spark is gone")

    def cancel() -> None:
        cancelled.append(True)
        raise OSError("so is the way to it")

    sync = Watched(tmp_path, Parts(Clock(), 4, seconds=0), Clock())
    sync.loop._workers = replace(sync.loop._workers, spread=lost, cancel=cancel)

    # Nothing has been prepared or committed by tasks yet.
    with pytest.raises(TransientError, match="Spark is gone"):
        sync.read_all()
    assert cancelled == [True]
    assert sync.run.report.commits == 0


def test_what_tasks_have_brought_is_committed_when_their_workers_are_lost(tmp_path: Path) -> None:
    class LostSoon(Watched):
        def _spread(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            if len(self.bundles) == 3:
                raise TransientError("Spark is gone")
            return super()._spread(work, items)

    clock = Clock()
    sync = LostSoon(tmp_path, Pages(clock, 40), clock, interval=1000)
    sync.loop._bundles._queue_of(0).bundle_size = 2
    with pytest.raises(TransientError, match="Spark is gone"):
        sync.read_all()

    read = sum(slices for _, slices in sync.bundles)
    assert (sync.run.report.written, sync.run.saved.records) == (read, read)
    assert 0 < read < 40
    assert sync.run.report.failure is None


def test_nobody_waits_for_the_slowest(tmp_path: Path) -> None:
    clock = Clock()
    # Of the tasks that run, the second ends; the first one only when it is alone.
    sync = Watched(tmp_path, Pages(clock, 12), clock, interval=1, pool=SimulatedTasks(clock, Always(1)))
    sync.loop._bundles._queue_of(0).bundle_size = 2
    sync.read_all()

    assert sync.run.report.commits > 1
    assert sync.run.report.written == 12


class Ordered:
    """Tasks that read as soon as they start, and of which one ends at a time, a minute after the other.

    last: the one that started last ends first. ends: called with what the first brings.
    """

    def __init__(self, clock: Clock, *, last: bool = False, ends: Callable[[BundleResult], None] | None = None) -> None:
        self._clock, self._last, self._ends = clock, last, ends
        self._read: list[EndedTask] = []

    def start(self, number: int, call: Call, /) -> None:
        inline = InlineTasks()
        inline.start(number, call)
        self._read += inline.ended(None)

    def ended(self, seconds: float | None, /) -> list[EndedTask]:
        del seconds
        self._clock.now += 60
        ended = self._read.pop(-1 if self._last else 0)
        if self._ends is not None and ended.result is not None:
            self._ends(ended.result)
            self._ends = None
        return [ended]


def test_a_task_that_started_before_the_stream_began_anew_brings_nothing(tmp_path: Path) -> None:
    def lose(brought: BundleResult) -> None:
        for file in brought.files[0]:
            (tmp_path / "table" / file.path).unlink()

    clock = Clock()
    # The commit of what the first task read fails, while the second task, which has read the other slice, still runs.
    sync = Watched(tmp_path, Pages(clock, 2), clock, interval=1, pool=Ordered(clock, ends=lose))
    bundles = sync.read_all()

    assert [slices for _, slices in bundles] == [1, 1, 2]
    table = DeltaTable(str(tmp_path / "table"))
    assert (sync.run.report.status, sync.run.report.written, table.count()) == (Status.DONE, 2, 2)
    assert {path.name for path in (tmp_path / "table").glob("*.parquet")} == {Path(f).name for f in table.file_uris()}


class Versions(Pages):
    """The same key in each partition: the last one has what counts."""

    primary_key = "id"
    schema: JsonSchema | None = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"id": {"type": "integer"}, "part": {"type": "integer"}},
    }

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield {"id": 1, "part": slice.partition["part"]}


def test_what_comes_later_in_the_read_waits_for_what_comes_before_it(tmp_path: Path) -> None:
    clock = Clock()
    pool = Ordered(clock, last=True)
    sync = Watched(tmp_path, Versions(clock, 4), clock, interval=1, pool=pool, mode="append_dedup")
    bundles = sync.read_all()

    # The task with the last slice ends a minute before the other, when a commit is due.
    assert [slices for _, slices in bundles] == [2, 2]
    (row,) = (
        row for file in DeltaTable(str(tmp_path / "table")).file_uris() for row in pq.read_table(file).to_pylist()
    )
    assert row["part"] == 3


class Uneven(Ordered):
    """Of two tasks that began together, the second ends five seconds after the first, which takes a minute."""

    def ended(self, seconds: float | None, /) -> list[EndedTask]:
        ended = super().ended(seconds)
        self._clock.now -= 55 * (ended[0].number % 2)
        return ended


def test_a_wave_whose_commit_was_due_in_its_middle_is_committed_before_the_next(tmp_path: Path) -> None:
    clock = Clock()
    sync = Watched(tmp_path, Versions(clock, 40), clock, interval=60, pool=Uneven(clock), mode="append_dedup")
    sync.loop._bundles._queue_of(0).bundle_size = 2
    waves = len(sync.read_all()) // 2

    assert waves == 10
    assert sync.run.report.commits >= waves


def test_what_is_read_beside_a_commit_makes_the_next_one_come_earlier(tmp_path: Path) -> None:
    clock = Clock()

    class SlowToCommit(StreamSync):
        def commit(self, files: Sequence[DataFile], spread: TaskMap = run_inline) -> None:
            clock.now += 60
            super().commit(files, spread)

    sync = Watched(tmp_path, Pages(clock, 40), clock, interval=100, pool=Ordered(clock), run=SlowToCommit)
    sync.loop._bundles._queue_of(0).bundle_size = 2
    seconds = [seconds for seconds, _ in sync.read_all()]

    # Of the 80 seconds between two commits a task reads a quarter beside the first of them.
    assert max(seconds) == 60


class Late:
    """Tasks that end a page after their time, but for each third one, which has nothing to read any more."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.waits = clock, list[float]()
        self.sync: Watched | None = None
        self._running: list[tuple[float, float, EndedTask]] = []
        self._uncommitted, self._commits = list[float](), 0

    def start(self, number: int, call: Call, /) -> None:
        assert self.sync is not None
        now, pool = self.clock.now, InlineTasks()
        pool.start(number, call)
        (ended,) = pool.ended(None)
        seconds, _ = self.sync.bundles[-1]
        self._running.append((now + (seconds / 2 if number % 3 == 0 else seconds + 0.1), now, ended))
        self.clock.now = now

    def ended(self, seconds: float | None, /) -> list[EndedTask]:
        assert self.sync is not None
        if self.sync.run.report.commits > self._commits:
            self._commits = self.sync.run.report.commits
            self.waits += [self.clock.now - began for began in self._uncommitted]
            self._uncommitted.clear()
        self._running.sort(key=lambda task: task[0])
        if seconds is not None and self._running[0][0] > self.clock.now + seconds:
            self.clock.now += seconds
            return []
        end, began, ended = self._running.pop(0)
        self.clock.now = max(self.clock.now, end)
        self._uncommitted.append(began)
        return [ended]


def test_what_was_read_waits_for_its_commit_an_interval_and_a_page_at_most(tmp_path: Path) -> None:
    pool = Late(Clock())
    pool.sync = Watched(tmp_path, Pages(pool.clock, 120), pool.clock, pool=pool, interval=10)
    pool.sync.loop._bundles._queue_of(0).bundle_size = 4
    pool.sync.read_all()

    assert len(pool.waits) > 5
    assert max(pool.waits) <= 10 + 0.1


class Stuck(PagedStream):
    """A slice that waits until all others are committed, and these, in one task with it."""

    name = "stuck"

    def __init__(self) -> None:
        super().__init__()
        self.others_committed, self.waited = threading.Event(), False

    def partitions(self) -> Iterable[Partition]:
        return [Partition.of(part=n) for n in range(40)]

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        del token
        part = slice.partition["part"]
        if part == 5:
            self.waited = self.others_committed.wait(60)
        return Page([{"id": part}], None)


def test_slices_that_share_a_task_with_one_that_goes_on_do_not_wait_for_it(tmp_path: Path) -> None:
    stream = Stuck()
    plan = StreamPlan(stream, LocalFolder(tmp_path / "table"), "full_refresh", "append")
    run = StreamSync(plan, OpenTables("test"), sync="s1")
    pipeline = Pipeline(
        name="test",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(tmp_path)),
        checkpoint_interval=timedelta(seconds=0.3),
        concurrency=2,
    )

    def watch(_: float) -> None:
        if run.report.written == 39:
            stream.others_committed.set()

    with RunScope(shared={Interruption: Interruption()}).working():
        activities().folder = tmp_path
        workers = replace(beside_the_driver(2), copy_stream=lambda stream: stream)
        loop = TaskLoop(pipeline, [run], workers, watch)
        loop.read_all()

    assert stream.waited
    assert (run.report.status, run.report.written, run.report.completed_slices) == (Status.DONE, 40, 40)
    files = DeltaTable(str(tmp_path / "table")).file_uris()
    assert sorted(row["id"] for file in files for row in pq.read_table(file).to_pylist()) == list(range(40))
    assert loop.readers.process.slices == 40


def joining(
    folder: Path, clock: Clock, stream: Stream, joins: int, interval: float = 10
) -> tuple[Watched, SimulatedCluster]:
    """A sync that a cluster joins: at the how manieth look for it, 0: never."""
    sync = Watched(folder, stream, clock, interval=interval)
    cluster = SimulatedCluster(sync._spread, 4, joins)
    sync.loop._workers = replace(sync.loop._workers, cluster=cluster)
    sync.loop._bundles._queue_of(0).bundle_size = 2
    return sync, cluster


class OnAndOn(PagedStream):
    """Pages that take a second each; of partitions that are known at once."""

    name = "on"

    def __init__(self, clock: Clock, partitions: int, pages: int) -> None:
        super().__init__()
        self._clock, self._partitions, self._pages = clock, partitions, pages
        self.at_page: Callable[[], None] = lambda: None

    def partitions(self) -> Iterable[Partition]:
        return [Partition.of(part=n) for n in range(self._partitions)]

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page = 0 if token is None else int(token["page"])
        self._clock.now += 1
        self.at_page()
        return Page([{"id": f"{slice.partition['part']}/{page}"}], {"page": page + 1} if page < self._pages else None)


class Attempts(InlineTasks):
    """Tasks that the driver looks at after each attempt; the results of all but the last are lost."""

    def __init__(self, attempts: int) -> None:
        super().__init__()
        self._calls, self._attempts = list[tuple[int, Call]](), attempts

    def start(self, number: int, call: Call, /) -> None:
        self._calls.append((number, call))

    def ended(self, seconds: float | None, /) -> list[EndedTask]:
        if self._attempts == 0:
            self._attempts = 1
            return super().ended(seconds)
        self._attempts -= 1
        super().ended(seconds)
        for number, call in self._calls:
            super().start(number, call)
        self._calls = self._calls if self._attempts else []
        return []


def late_sync(folder: Path, stream: OnAndOn, pool: TaskPool, pages: Sequence[PageTime], tasks: int) -> StreamSync:
    """A sync each of whose slices is read to its end, in tasks that are late at some pages."""
    live, rest = folder / "live", get_args(PageTime)[:1] * 1000
    live.mkdir()
    late = TaskTime([*pages, *rest], live)
    stream.at_page = late.page
    with RunScope(shared={Interruption: Interruption()}).working():
        activities().folder = live
        sync = Watched(folder, stream, Clock(), concurrency=tasks, tasks=tasks, pool=pool)
        sync.run._to_end = True
        sync.loop._workers = replace(sync.loop._workers, spread=SimulatedTasks(time=late).spread)
        sync.read_all()
    return sync.run


def test_of_several_attempts_at_a_task_the_interim_results_of_one_count(tmp_path: Path) -> None:
    first: list[PageTime] = ["in time", "late", "in time", "in time"]
    second: list[PageTime] = ["late", "in time", "late", "in time"]
    run = late_sync(tmp_path, OnAndOn(Clock(), 2, 3), Attempts(2), [*first, *second], 1)

    files = DeltaTable(str(tmp_path / "table")).file_uris()
    rows = sorted(row["id"] for file in files for row in pq.read_table(file).to_pylist())
    assert rows == [f"{part}/{page}" for part in range(2) for page in range(4)]
    assert (run.report.status, run.report.written) == (Status.DONE, 8)


class Spelled(OnAndOn):
    """Pages with an undeclared field, which each partition spells in a way of its own."""

    schema: JsonSchema | None = {"type": "object", "properties": {"id": {"type": "string"}}}  # noqa: RUF012 - as an author writes it

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page = super().read_page(slice, token)
        name = "Late" if slice.partition["part"] else "late"
        return Page([{**record, name: 1} for record in page.records], page.next)


def test_what_a_task_brings_after_rows_that_do_not_fit_the_table_is_read_again(tmp_path: Path) -> None:
    pages: list[PageTime] = ["in time", "in time", "in time", "in time", "late", "in time"]
    run = late_sync(tmp_path, Spelled(Clock(), 2, 2), Ordered(Clock()), pages, 2)

    files = DeltaTable(str(tmp_path / "table")).file_uris()
    rows = sorted(row["id"] for file in files for row in pq.read_table(file).to_pylist())
    assert rows == [f"{part}/{page}" for part in range(2) for page in range(3)]
    assert (run.report.status, run.report.written) == (Status.DONE, 6)


@pytest.mark.parametrize(
    ("partitions", "pages", "begins"), [(8, 3, True), (1, 20, False), (3, 0, False)], ids=["many", "one", "short"]
)
def test_a_cluster_starts_when_slices_wait_after_seconds_of_reading(
    tmp_path: Path, partitions: int, pages: int, *, begins: bool
) -> None:
    clock = Clock()
    # Each slice is handed back at each page.
    sync, cluster = joining(tmp_path, clock, OnAndOn(clock, partitions, pages), 0, interval=0)
    sync.read_all()

    assert cluster.started == begins
    assert cluster.left
    readers = sync.loop.readers
    assert (readers.spark.tasks, readers.version) == (0, "")
    assert (readers.process.slices, readers.process.records) == (partitions, partitions * (pages + 1))


def test_a_cluster_that_has_joined_reads_all_that_is_handed_out_from_then_on(tmp_path: Path) -> None:
    clock = Clock()
    sync, cluster = joining(tmp_path, clock, OnAndOn(clock, 8, 9), 2)
    sync.read_all()

    readers = sync.loop.readers
    assert readers.version == "simulated"
    assert readers.process.tasks == 2
    assert readers.spark.tasks > 0
    assert readers.process.records + readers.spark.records == sync.run.report.written == 80
    assert not cluster.left


def test_a_sync_whose_cluster_is_lost_goes_on_in_its_own_process(tmp_path: Path) -> None:
    clock, tasks = Clock(), count()
    sync, cluster = joining(tmp_path, clock, OnAndOn(clock, 8, 9), 2)

    def lost(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        if next(tasks) == 2:
            raise ClusterLost("Spark is gone", "run again")
        return sync._spread(work, items)

    cluster._there = replace(cluster._there, spread=lost)
    sync.read_all()

    readers = sync.loop.readers
    assert (sync.run.report.status, sync.run.report.written) == (Status.DONE, 80)
    assert readers.process.records + readers.spark.records == 80
    assert readers.process.tasks > 2


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


@pytest.mark.parametrize("names", [("late", "late"), ("late", "Late"), ("a b", "a_b"), ("one", "another")])
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
    columns = {name.replace(" ", "_").lower() for name in names}
    assert sum(row["_airbyte_additional"] is not None for row in rows) == (names[0] != names[1] and len(columns) == 1)
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

    assert [slices for _, slices in watched.read_all()] == [1, 1]
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


def test_a_sync_whose_time_is_up_commits_what_is_covered_and_the_next_goes_on_there(tmp_path: Path) -> None:
    clock, ends = Clock(), list[float]()

    class Timed(Watched):
        def _spread(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            ends.extend(clock.now + job.seconds for job, _ in items if isinstance(job, BundleJob))
            return super()._spread(work, items)

    def read(longest: timedelta | None) -> StreamSync:
        with RunScope(shared={Interruption: Interruption(longest, clock)}).working():
            watched = Timed(tmp_path, Pages(clock, 1000), clock)
            watched.read_all()
        return watched.run

    first = read(timedelta(seconds=2.5))
    assert set(ends) == {2.5}
    second = read(None)

    assert first.report.status is Status.INTERRUPTED
    assert 0 < first.report.written == first.saved.records < 1000
    assert (second.report.status, second.report.resumed) == (Status.DONE, True)
    assert first.report.written + second.report.written == 1000


def test_a_sync_that_is_interrupted_with_nothing_left_to_read_is_done(tmp_path: Path) -> None:
    clock, interruption = Clock(), Interruption()

    class Last(Parts):
        def read_records(self, slice: Slice) -> Iterator[Item]:
            yield from super().read_records(slice)
            if slice.partition["part"] == 2:
                assert interruption.request("SIGTERM")

    with RunScope(shared={Interruption: interruption}).working():
        sync = Watched(tmp_path, Last(clock, 3, seconds=0), clock)
        sync.read_all()

    assert (sync.run.report.status, sync.run.report.written) == (Status.DONE, 3)


def test_planning_that_may_send_no_more_requests_is_not_taken_for_the_end(tmp_path: Path) -> None:
    class Asking(Pages):
        def partitions(self) -> Iterable[Partition]:
            for partition in super().partitions():
                current_lease().count()
                yield partition

    def read(most: int | None) -> StreamSync:
        clock = Clock()
        with RunScope(shared={Interruption: Interruption()}).working(), leasing(RequestLease(most)):
            watched = Watched(tmp_path, Asking(clock, 40), clock)
            watched.read_all()
        return watched.run

    first, second = read(30), read(None)

    assert (first.report.status, second.report.status) == (Status.INTERRUPTED, Status.DONE)
    assert first.report.written + second.report.written == 40


class ManyPages(PagedStream):
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
    Watched(tmp_path, ManyPages(), Clock(), interval=0, join_small_files=join_small_files).read_all()

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


BEGAN = system_clock()


class Made(PagedStream):
    """Partitions of some pages each, of two records; from a page on, with one field more, of a type by partition."""

    def __init__(
        self,
        name: str,
        pages: Sequence[int],
        *,
        stops: bool,
        late: int,
        values: Sequence[Json],
        limited: bool = False,
        most: int | None = None,
        one_task: bool = False,
    ) -> None:
        super().__init__()
        self.in_one_task = one_task
        self._clock = Clock()
        self._budget = Budget(2, timedelta(seconds=7), clock=self._now, sleep=self._sleep) if limited else None
        self.name, self.supports_checkpointing, self.max_concurrency = name, stops, most
        self._pages, self._late, self._values = pages, late, values
        self.step: Callable[[], None] = lambda: None
        self.sent = 0

    def partitions(self) -> Iterable[Partition]:
        for n in range(len(self._pages)):
            if n % 2:
                self.send()
            yield Partition.of(part=n)

    def send(self) -> None:
        current_lease().count()
        self.sent += 1

    def _now(self) -> datetime:
        return BEGAN + timedelta(seconds=self._clock.now)

    def _sleep(self, seconds: float) -> None:
        self._clock.now += seconds

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        self.step()
        if self._budget is not None:
            self._budget.acquire(Request("GET", "https://api.test/"))
        self.send()
        part, page = slice.partition["part"], 0 if token is None else int(token["page"])
        more = {"late": self._values[part % len(self._values)]} if page >= self._late else {}
        records = [{"id": f"{part}/{page}/{n}", **more} for n in range(2)]
        return Page(records, {"page": page + 1} if page + 1 < self._pages[part] else None)

    @property
    def ids(self) -> list[str]:
        return sorted(f"{p}/{page}/{n}" for p, count in enumerate(self._pages) for page in range(count) for n in (0, 1))

    @property
    def late_ids(self) -> set[str]:
        parts = [part for part in range(len(self._pages)) if self._values[part % len(self._values)] is not None]
        return {id for id in self.ids if int(id.split("/")[0]) in parts and int(id.split("/")[1]) >= self._late}


class Killed(BaseException):
    """The driver's end."""


class Mortal(SimulatedTasks):
    """Tasks of a driver that is killed, or interrupted, after so many steps: a page, a start or an end of a task."""

    def __init__(
        self, clock: Clock, chances: Chances, dies: Callable[[int], bool], life: tuple[int, str], late: TaskTime
    ) -> None:
        super().__init__(clock, chances, dies, late)
        (self._life, self._end), self._late, self.interruption = life, late, Interruption()

    def page(self) -> None:
        self._late.page()
        self.step()

    def step(self) -> None:
        self._life -= 1
        if self._end == "interrupted" and self._life == 0:
            assert self.interruption.request("Ctrl-C")

    def start(self, number: int, call: Call, /) -> None:
        assert not self.interruption.why
        self.step()
        super().start(number, call)

    def ended(self, seconds: float | None, /) -> list[EndedTask]:
        ended = super().ended(seconds)
        for _ in ended:
            self.step()
        if self._end == "killed" and self._life <= 0:
            raise Killed
        return ended


@pytest.mark.parametrize("deaths", [0, 1])
def test_tasks_that_die_or_are_copied_send_no_more_requests_than_there_are(tmp_path: Path, deaths: int) -> None:
    clock, died = Clock(), count()
    stream = Made("a", [4, 4, 4], stops=True, late=9, values=[None])
    # Each task reads right after its start; it then dies, or a copy of it was there before.
    chances = Chances([1, 0, 1, 0, 0]) if deaths else Always(1)
    pool = SimulatedTasks(clock, chances, lambda _: next(died) < deaths)
    with RunScope(shared={Interruption: Interruption()}).working(), leasing(RequestLease(6)):
        watched = Watched(tmp_path, stream, clock, pool=pool)
        watched.read_all()

    assert watched.run.report.status is Status.INTERRUPTED
    assert stream.sent <= 6


MADE = st.builds(
    Made,
    st.sampled_from(["a"]),
    st.lists(st.integers(1, 4), max_size=5),
    stops=st.booleans(),
    late=st.integers(0, 4),
    values=st.lists(st.sampled_from([1, 0.5, "text", None, {"a": 1}]), min_size=1, max_size=3),
    limited=st.booleans(),
    most=st.sampled_from([None, None, 1, 2]),
    one_task=st.booleans(),
)


@given(
    streams=st.lists(MADE, min_size=1, max_size=3),
    mode=st.sampled_from(["append", "overwrite"]),
    tasks=st.integers(1, 4),
    concurrency=st.integers(1, 6),
    interval=st.sampled_from([0, 5, 30]),
    chances=st.lists(st.integers(0, 59), min_size=60, max_size=150),
    lives=st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["killed", "interrupted", "limited"])), max_size=3),
    deaths=st.sets(st.integers(1, 12), max_size=2),
    joins=st.integers(0, 12),
    more=st.integers(0, 4),
    late=st.lists(st.sampled_from(get_args(PageTime)), min_size=1, max_size=9),
)
@settings(max_examples=30, deadline=None)
def test_whatever_ends_first_and_whoever_dies_each_row_lands_once(  # noqa: PLR0917 - what a schedule is made of
    tmp_path_factory: pytest.TempPathFactory,
    streams: list[Made],
    mode: WriteModeName,
    tasks: int,
    concurrency: int,
    interval: int,
    chances: list[int],
    lives: list[tuple[int, str]],
    deaths: set[int],
    joins: int,
    more: int,
    late: list[PageTime],
) -> None:
    folder, clock, chance = tmp_path_factory.mktemp("lake"), Clock(), Chances(chances)
    ended, live = count(1), folder / "live"
    for n, stream in enumerate(streams):
        stream.name = f"s{n}"
    pipeline = Pipeline(
        name="test",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(folder)),
        checkpoint_interval=timedelta(seconds=interval),
        concurrency=concurrency,
    )

    def watch(loop: TaskLoop) -> None:
        for n, stream in enumerate(streams):
            bundles = [task.bundle for task in loop._running.values() if n in task.targets]
            most = stream.max_concurrency
            assert most is None or sum(bundle.threads for bundle in bundles) <= most
        alone = {n for n, stream in enumerate(streams) if stream.in_one_task}
        assert sum(not alone.isdisjoint(task.targets) for task in loop._running.values()) <= 1

    def sync(life: int, end: str = "killed") -> list[StreamSync]:
        tables = OpenTables("test")
        plans = [StreamPlan(one, LocalFolder(folder / one.name), "full_refresh", mode) for one in streams]
        runs = [StreamSync(plan, tables, sync="s1") for plan in plans]
        shutil.rmtree(live, ignore_errors=True)
        live.mkdir()
        pool = Mortal(clock, chance, lambda _: next(ended) in deaths, (life, end), TaskTime(late, live))
        for stream in streams:
            stream.step, stream.sent = pool.page, 0
        requests = RequestLease(life if end == "limited" else None)
        cluster = SimulatedCluster(pool.spread, tasks + more, joins)
        workers = Workers(pool.spread, tasks, make_pool=lambda: pool, cluster=cluster)
        with RunScope(shared={Interruption: pool.interruption}).working(), leasing(requests):
            activities().folder = live
            loop = TaskLoop(pipeline, runs, workers, lambda _: watch(loop), clock)
            loop.read_all()
        assert cluster.left != bool(loop.readers.version)
        assert pool.most <= min(concurrency, tasks + more)
        assert (loop.readers.process.tasks + loop.readers.spark.tasks) == pool.started
        return runs

    for life, end in lives:
        with suppress(Killed):
            after = sync(life, end)
            assert end != "limited" or sum(stream.sent for stream in streams) <= life
            for run in after:
                report = run.report
                assert report.status in {Status.DONE, Status.INTERRUPTED}, report.failure
                shown = run.table.row_count()
                hides = mode == "overwrite" and report.status is Status.INTERRUPTED
                assert shown == (0 if hides else report.total)
    runs = sync(10_000)

    for run, stream in zip(runs, streams, strict=True):
        assert run.report.status is Status.DONE, run.report.failure
        table = DeltaTable(str(folder / stream.name))
        files, kinds = table.file_uris(), dict.fromkeys(pa.schema(table.schema().to_arrow()))
        assert all(field in kinds for file in files for field in pq.read_schema(file).remove_metadata())
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        assert sorted(row["id"] for row in rows) == stream.ids
        assert {row["id"] for row in rows if row.get("late") is not None} == stream.late_ids
        assert not audit(LocalFolder(folder / stream.name)).contradictions
