"""What a task does with its slices, without Spark: the budget, the files, and what counts of a slice that breaks."""

import errno
import os
import pickle
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cdk import (
    Checkpoint,
    Done,
    Item,
    Json,
    Page,
    PagedStream,
    Partition,
    Record,
    ServerError,
    Slice,
    StaleToken,
    Stream,
)
from cdk.base.process.concurrency import Learned
from cdk.base.records.raw_json_lines import JsonLines
from cdk.lake.arrow.columns import columns
from cdk.lake.parquet.writer import DEFAULT_LIMITS, Limits
from cdk.lake.storage.folder import unwritable
from cdk.rest.http.egress import Egress, limited
from cdk.rest.http.metrics import HttpMetrics
from cdk.rest.limits.task_budgets import max_wait_seconds
from cdk.state.stream_state import StreamState
from cdk.sync.tasks.bundle_task import read_bundle, run_bundle
from cdk.sync.tasks.interim_results import InterimResults
from cdk.sync.tasks.messages import BundleJob, BundleResult, SliceResult, SliceTask, WriteTarget
from tests.samples import STREAMS, Orders, Plain, Users
from tests.streams.test_stream_copies import Restless


class Clock:
    """Stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Slow(PagedStream):
    """Five pages of two records, a second each; the pages of a partition begin with its number."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        self._clock.now += 1
        n = token["page"] if token else 0
        first = 100 * slice.partition.get("part", 0) + 10 * n
        return Page([{"id": first}, {"id": first + 1}], {"page": n + 1} if n < 4 else None)


class Scripted(Stream):
    """Yields what it is given; an error in it is raised."""

    supports_checkpointing = True

    def __init__(self, *items: Item | Exception) -> None:
        super().__init__()
        self._items = items

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        for item in self._items:
            if isinstance(item, Exception):
                raise item
            yield item


class Uncheckpointed(Scripted):
    supports_checkpointing = False


def target(folder: Path, stream: Stream, name: str = "t") -> WriteTarget:
    root = folder / name
    root.mkdir(exist_ok=True)
    return WriteTarget(stream, root, columns(stream.json_schema()), 1)


def run(
    folder: Path,
    stream: Stream,
    slices: Sequence[Slice] = (Slice(),),
    *,
    seconds: float = 0,
    threads: int = 1,
    clock: Callable[[], float] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> BundleResult:
    pieces = [SliceTask(number, 0, slice) for number, slice in enumerate(slices)]
    result = read_bundle(
        BundleJob({0: target(folder, stream)}, seconds, threads, limits=limits, learned=Learned(threads)),
        pieces,
        clock or Clock(),
    )
    check_files(folder, result)
    again: BundleResult = pickle.loads(pickle.dumps(result))  # noqa: S301 - as it travels to the driver
    assert again == result
    return result


def counted(result: BundleResult) -> list[SliceResult]:
    """How far the slices got and what became of their records, without pages, requests and warnings."""
    others = {"pages": 0, "http": HttpMetrics(), "warning": "", "doubt": "", "followed": False}
    return [replace(progress, may_have_missed=False, **others) for progress in result.progress]


def check_files(folder: Path, result: BundleResult, name: str = "t") -> None:
    """The files hold the rows that are reported, and no other file is left behind."""
    files = result.files.get(0, [])
    assert sum(file.rows for file in files) == sum(progress.rows for progress in result.progress)
    assert [file.rows for file in files] == [pq.read_metadata(folder / name / file.path).num_rows for file in files]
    assert {folder / name / file.path for file in files} == set((folder / name).iterdir())


def records(folder: Path, result: BundleResult, number: int = 0, name: str = "t") -> list[Json]:
    """The rows in the files, as they were read."""
    tables = [pq.read_table(folder / name / file.path) for file in result.files.get(number, [])]
    return [orjson.loads(text) for table in tables for text in table["_airbyte_additional"].to_pylist()]


def ids(folder: Path, result: BundleResult) -> list[int]:
    return sorted(record["id"] for record in records(folder, result))


@pytest.mark.parametrize(
    ("seconds", "pages"), [(0, 1), (0.5, 1), (1, 1), (1.5, 2), (2, 2), (4, 4), (4.5, 5), (5, 5), (100, 5)]
)
def test_a_slice_is_cut_at_the_page_where_the_budget_is_spent(tmp_path: Path, seconds: float, pages: int) -> None:
    clock = Clock()
    result = run(tmp_path, Slow(clock), seconds=seconds, clock=clock)

    (progress,) = result.progress
    last = Checkpoint({"page": pages}) if pages < 5 else Done()
    assert progress.positions[-1] == last
    assert (progress.read, progress.rows, progress.failure) == (2 * pages, 2 * pages, None)
    assert ids(tmp_path, result) == [10 * n + i for n in range(pages) for i in range(2)]
    assert clock.now == 100 + pages


def test_a_slice_that_was_cut_goes_on_where_it_was(tmp_path: Path) -> None:
    clock = Clock()
    result = run(tmp_path, Slow(clock), [Slice(start=Checkpoint({"page": 3}))], seconds=100, clock=clock)

    assert ids(tmp_path, result) == [30, 31, 40, 41]
    reached, end = result.progress[0].positions
    assert isinstance(reached, Checkpoint)
    assert (reached.cursor, end) == ({"page": 4}, Done())


@pytest.mark.parametrize(("threads", "begun"), [(1, 1), (2, 2), (3, 3), (5, 5), (9, 5)])
def test_without_a_budget_each_reader_reads_a_page_and_the_other_slices_wait(
    tmp_path: Path, threads: int, begun: int
) -> None:
    slices = [Slice(Partition.of(part=n)) for n in range(5)]
    clock = Clock()
    result = run(tmp_path, Slow(clock), slices, threads=threads, clock=clock)

    assert sorted(progress.number for progress in result.progress) == list(range(begun))
    assert all(progress.positions == (Checkpoint({"page": 1}),) for progress in result.progress)
    assert ids(tmp_path, result) == [100 * n + i for n in range(begun) for i in range(2)]


def test_slices_that_are_not_begun_leave_no_trace(tmp_path: Path) -> None:
    clock = Clock()
    slices = [Slice(Partition.of(part=n)) for n in range(3)]
    result = run(tmp_path, Slow(clock), slices, seconds=7, clock=clock)

    assert [progress.positions[-1] for progress in result.progress] == [Done(), Checkpoint({"page": 2})]


@pytest.mark.parametrize("seconds", [0, 100])
def test_a_stream_that_cannot_resume_is_read_to_its_end_whatever_the_budget(tmp_path: Path, seconds: float) -> None:
    result = run(tmp_path, Plain(), seconds=seconds)

    assert counted(result) == [SliceResult(0, (Done(),), read=7, rows=7)]
    assert ids(tmp_path, result) == list(range(7))


def test_an_empty_slice_is_done_and_writes_no_file(tmp_path: Path) -> None:
    result = run(tmp_path, Scripted())

    assert counted(result) == [SliceResult(0, (Done(),))]
    assert result.files == {}


BROKEN = ServerError("the source is down")


@pytest.mark.parametrize(
    ("items", "positions", "covered"),
    [
        ([BROKEN], (), []),
        ([{"id": 1}, BROKEN], (), []),
        ([Page([{"id": 1}], {"page": 1}), BROKEN], (Checkpoint({"page": 1}),), [1]),
        ([{"id": 1}, Checkpoint({"at": 1}), {"id": 2}, {"id": 3}, BROKEN], (Checkpoint({"at": 1}),), [1]),
        ([Checkpoint({"at": 0}), {"id": 1}, BROKEN], (Checkpoint({"at": 0}),), []),
    ],
)
def test_of_a_slice_that_fails_only_what_a_checkpoint_covers_counts(
    tmp_path: Path, items: list[Item | Exception], positions: tuple[Checkpoint, ...], covered: list[int]
) -> None:
    result = run(tmp_path, Scripted(*items), seconds=100)

    (progress,) = result.progress
    assert progress.failure is not None
    assert (progress.failure.message, progress.failure.failure_type) == ("the source is down", "transient_error")
    assert "ServerError" in progress.failure.detail
    assert progress.positions == positions
    assert (progress.read, progress.rows) == (len(covered), len(covered))
    assert ids(tmp_path, result) == covered


def test_an_error_that_is_none_of_ours_is_named_with_its_type(tmp_path: Path) -> None:
    (progress,) = run(tmp_path, Scripted({"id": 1}, KeyError("user"))).progress

    assert progress.failure is not None
    message, kind = progress.failure.message, progress.failure.failure_type
    assert (message.partition(" (")[0], kind) == ("KeyError: 'user'", "system_error")


class OnePartBreaks(Users):
    name = "users"

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        if slice.partition["part"] == 1 and token is not None:
            raise ServerError("part 1 is down")
        return super().read_page(slice, token)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_slice_that_fails_stops_no_other(tmp_path: Path, threads: int) -> None:
    slices = [Slice(Partition.of(part=n)) for n in range(3)]
    result = run(tmp_path, OnePartBreaks(), slices, seconds=100, threads=threads)

    progress = {item.number: item for item in result.progress}
    assert [progress[n].rows for n in range(3)] == [15, 3, 15]
    assert [progress[n].failure is None for n in range(3)] == [True, False, True]
    assert progress[1].positions == (Checkpoint({"page": 1}),)


@pytest.mark.parametrize("bad", [{"id": 1j}, {"id": {1, 2}}, "no record", None])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_record_that_is_no_json_fails_its_slice_and_no_other(tmp_path: Path, bad: Json, threads: int) -> None:
    pages = [Page([{"id": 1}], {"page": 1}), Page([{"id": 2}, bad], {"page": 2}), Page([{"id": 3}], None)]
    streams = [Scripted(*pages), Users()]
    job = BundleJob({n: target(tmp_path, stream, str(n)) for n, stream in enumerate(streams)}, 100, threads)
    result = read_bundle(job, [SliceTask(0, 0, Slice()), SliceTask(1, 1, Slice())], Clock())

    progress = {item.number: item for item in result.progress}
    failure = progress[0].failure
    assert failure is not None
    assert "JSON" in failure.message
    assert (progress[0].positions, progress[0].rows) == ((Checkpoint({"page": 1}),), 1)
    assert records(tmp_path, result, 0, "0") == [{"id": 1}]
    assert (progress[1].failure, progress[1].rows) == (None, 15)
    assert len(records(tmp_path, result, 1, "1")) == 15


def test_slices_that_are_read_together_have_each_their_own_attributes(tmp_path: Path) -> None:
    slices = [Slice(Partition.of(shop=n)) for n in range(4)]

    result = run(tmp_path, Restless([3] * 4, together=4), slices, seconds=100, threads=4)

    rows = records(tmp_path, result)
    assert len(rows) == 12
    assert all(row["shop"] == row["of"] for row in rows)


@pytest.mark.parametrize(("threads", "begin"), [(1, 1), (5, 1), (5, 3)])
def test_a_task_says_how_many_slices_it_came_to_read_at_once(tmp_path: Path, threads: int, begin: int) -> None:
    job = BundleJob({0: target(tmp_path, Users())}, 100, threads, learned=Learned(begin))

    result = read_bundle(job, [SliceTask(0, 0, Slice())], Clock())

    # One slice teaches nothing of several.
    assert result.concurrency is not None
    assert (result.concurrency.level, result.concurrency.complaints) == (begin, 0)


def test_rows_of_several_targets_go_to_their_own_tables(tmp_path: Path) -> None:
    job = BundleJob({0: target(tmp_path, Plain(), "a"), 1: target(tmp_path, Users(), "b")}, 100, 2)
    result = read_bundle(job, [SliceTask(0, 1, Slice()), SliceTask(1, 0, Slice())], Clock())

    assert len(records(tmp_path, result, 0, "a")) == 7
    assert len(records(tmp_path, result, 1, "b")) == 15


def test_a_task_that_cannot_write_leaves_no_file_behind(tmp_path: Path) -> None:
    good, bad = target(tmp_path, Plain(), "a"), target(tmp_path, Users(), "b")
    (tmp_path / "b").rmdir()

    pieces = [SliceTask(0, 0, Slice()), SliceTask(1, 1, Slice())]
    result = read_bundle(BundleJob({0: good, 1: bad}, 100, 1), pieces, Clock())

    assert Path(result.missing_file).parent == tmp_path / "b"
    assert (list((tmp_path / "a").iterdir()), result.progress) == ([], [])


def test_a_target_that_cannot_be_written_fails_its_slices_and_no_other(tmp_path: Path) -> None:
    good, bad = target(tmp_path, Plain(), "a"), target(tmp_path, Users(), "b")
    (tmp_path / "b").rmdir()
    (tmp_path / "b").touch()

    pieces = [SliceTask(0, 0, Slice()), SliceTask(1, 1, Slice())]
    result = read_bundle(BundleJob({0: good, 1: bad}, 100, 1), pieces, Clock())

    (failed,) = result.progress
    assert failed.failure is not None
    assert failed.failure.message == f"{tmp_path / 'b'}: the target cannot be written: Not a directory"
    assert (failed.number, result.files, list((tmp_path / "a").iterdir())) == (1, {}, [])


@pytest.mark.parametrize("last", [JsonLines(b'{"id":3}', 1), [{"id": 3}]])
def test_records_that_cannot_become_rows_fail_all_slices_of_their_stream_and_no_other(
    tmp_path: Path, last: Sequence[Record]
) -> None:
    pages = [Page(JsonLines(b'{"id":1}', 1), {"page": 1}), Page(JsonLines(b'{"id":no}', 1), {"page": 2})]
    streams = [Users(), Scripted(*pages, Page(last, {"page": 3}))]
    job = BundleJob({n: target(tmp_path, stream, str(n)) for n, stream in enumerate(streams)}, 100, 1)

    result = read_bundle(job, [SliceTask(0, 0, Slice()), SliceTask(1, 1, Slice()), SliceTask(2, 1, Slice())], Clock())

    assert [progress.number for progress in result.progress] == [1, 2]
    for progress in result.progress:
        assert progress.failure is not None
        assert progress.failure.message.startswith("JSONDecodeError: ")
        assert (progress.positions, progress.rows) == ((), 0)
    assert (result.files, list((tmp_path / "0").iterdir())) == ({}, [])


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, ". Free some space, then run the sync again"), (errno.EROFS, "")]
)
def test_of_a_full_disk_the_error_says_what_to_do(number: int, advice: str) -> None:
    error = unwritable(OSError(number, "Error writing bytes to file"), "t")

    assert str(error) == f"t: the target cannot be written: {os.strerror(number)}{advice}"


class Late(Slow):
    """Slow pages, in the middle of some of which its task turns out to be late."""

    def __init__(self, clock: Clock, *pages: int) -> None:
        super().__init__(clock)
        self.pages = pages
        self.look: Callable[[], None] = lambda: None

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        if (token["page"] if token else 0) + 10 * slice.partition.get("part", 0) in self.pages:
            for _ in range(2):
                self._clock.now += 1000
                self.look()
        return super().read_page(slice, token)


@contextmanager
def looking(stream: Late, call: Callable[[], None], seconds: float) -> Iterator[None]:
    assert seconds == 0.5
    stream.look = call
    yield


def read_late(folder: Path, stream: Late, clock: Clock) -> tuple[BundleResult, InterimResults]:
    interim = InterimResults(folder, 3, 0.5, b"key")
    slices = [SliceTask(n, 0, Slice(Partition.of(part=n))) for n in range(4)]
    job = BundleJob({0: target(folder, stream)}, 100, 1, interim=interim)
    return read_bundle(job, slices, clock, partial(looking, stream)), interim


def test_a_task_that_is_late_hands_over_what_it_has_and_begins_nothing_more(tmp_path: Path) -> None:
    clock = Clock()
    result, interim = read_late(tmp_path, Late(clock, 13), clock)

    (first,) = result.earlier
    assert interim.load(0) == first
    far = [(item.number, item.last, item.rows) for item in first.progress]
    assert far == [(0, Done(), 10), (1, Checkpoint({"page": 3}), 6)]
    assert [(item.number, item.last, item.rows) for item in result.progress] == [(1, Checkpoint({"page": 4}), 2)]
    assert (first.unfinished, first.threads, result.unfinished) == (frozenset({1}), 1, frozenset())
    assert result.attempt == first.attempt != ""
    ids = [sorted(record["id"] for record in records(tmp_path, one)) for one in (first, result)]
    assert ids == [[0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 100, 101, 110, 111, 120, 121], [130, 131]]


def test_what_was_handed_back_is_not_begun_where_there_turns_out_to_be_time(tmp_path: Path) -> None:
    class Waiting(Late):
        def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
            # The first page may wait for its turn, and brings its task more time.
            max_wait_seconds()
            return super().read_page(slice, token)

    clock = Clock()
    result, _ = read_late(tmp_path, Waiting(clock, 0), clock)

    assert [(item.number, item.last) for item in result.progress] == [(0, Done())]
    assert [one.unfinished for one in result.earlier] == [{0}]


def test_a_task_is_late_as_often_as_it_has_something_new(tmp_path: Path) -> None:
    clock = Clock()
    stream = Late(clock, 0, 2, 3)
    stream.supports_checkpointing = False
    result, interim = read_late(tmp_path, stream, clock)

    # The slices that wait are handed back at once; then there is nothing new until the end.
    (first,) = result.earlier
    assert (first.progress, first.unfinished, first.files) == ([], frozenset({0}), {})
    assert [(item.number, item.rows) for item in result.progress] == [(0, 10)]
    assert interim.load(1) is None


def test_what_was_handed_over_stays_when_the_task_cannot_write_any_more(tmp_path: Path) -> None:
    class Vanishing(Late):
        def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
            page = super().read_page(slice, token)
            if self._clock.now > 1000:
                shutil.move(tmp_path / "t", tmp_path / "moved")
            return page

    clock = Clock()
    result, _ = read_late(tmp_path, Vanishing(clock, 13), clock)

    assert Path(result.missing_file).parent == tmp_path / "t"
    (first,) = result.earlier
    assert {path.name for path in (tmp_path / "moved").iterdir()} == {file.path for file in first.files[0]}


def many(count: int) -> list[Record]:
    return [{"id": i} for i in range(count)]


SMALL = Limits(held_bytes=1)


def test_much_that_waits_goes_to_a_file_that_counts_when_the_slice_ends(tmp_path: Path) -> None:
    result = run(tmp_path, Uncheckpointed(*many(3500)), limits=SMALL)

    assert counted(result) == [SliceResult(0, (Done(),), read=3500, rows=3500)]
    assert ids(tmp_path, result) == list(range(3500))
    assert len(result.files[0]) == 2


def test_much_that_waits_leaves_nothing_behind_when_the_slice_fails(tmp_path: Path) -> None:
    result = run(tmp_path, Uncheckpointed(*many(3500), BROKEN), limits=SMALL)

    assert (result.progress[0].rows, result.progress[0].positions, result.files) == (0, (), {})


def test_much_that_waits_is_covered_by_the_next_checkpoint_and_no_further(tmp_path: Path) -> None:
    items: list[Item | Exception] = [
        *many(1500),
        Checkpoint({"at": 1}),
        *many(2500),
        Checkpoint({"at": 2}),
        *many(1500),
        BROKEN,
    ]
    result = run(tmp_path, Scripted(*items), seconds=100, limits=SMALL)

    assert (result.progress[0].rows, result.progress[0].positions) == (4000, (Checkpoint({"at": 2}),))
    assert ids(tmp_path, result) == sorted([*range(1500), *range(2500)])


class Expiring(Scripted):
    """Its token expires in the middle of the slice."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        if isinstance(slice.start, Checkpoint):
            yield from many(1500)
            raise StaleToken("the token has expired")
        yield from super().read_records(slice)


@pytest.mark.parametrize("held", [1, 2**20])
def test_a_slice_that_is_read_again_from_its_start_does_not_keep_what_waited(tmp_path: Path, held: int) -> None:
    stream = Expiring({"id": 0}, {"id": 1}, Checkpoint({"at": 9}), {"id": 2})
    result = run(tmp_path, stream, [Slice(start=Checkpoint({"at": 5}))], limits=Limits(held_bytes=held))

    assert counted(result) == [SliceResult(0, (Checkpoint({"at": 9}), Done()), read=3, rows=3, restarted=True)]
    assert ids(tmp_path, result) == [0, 1, 2]


def test_records_that_an_earlier_run_had_are_counted_and_not_written(tmp_path: Path) -> None:
    stream = Orders()
    reader = stream.checkpoint_reader(StreamState())
    slices = list(iter(reader.next, None))
    first = run(tmp_path, stream, slices, seconds=100)
    for progress in first.progress:
        for position in progress.positions:
            reader.observe(slices[progress.number], position, progress.edge)
    state = reader.get_checkpoint()
    assert state is not None
    for file in first.files[0]:
        (tmp_path / "t" / file.path).unlink()

    again = run(tmp_path, stream, list(iter(stream.checkpoint_reader(state).next, None)), seconds=100)

    assert sum(progress.rows for progress in first.progress) == 21
    assert [(progress.read, progress.rows, progress.skipped) for progress in again.progress] == [(2, 0, 2)]
    assert again.files == {}


@given(st.sampled_from(STREAMS), st.integers(0, 30), st.sampled_from([1, 3]), st.sampled_from([1, 2**20]))
@settings(max_examples=60, deadline=None)
def test_the_files_hold_the_rows_that_are_reported_whatever_the_budget(
    tmp_path_factory: pytest.TempPathFactory, stream: Stream, ticks: int, threads: int, held: int
) -> None:
    clock = Clock()

    def ticking() -> float:
        clock.now += 1
        return clock.now

    slices = list(iter(stream.checkpoint_reader(StreamState()).next, None))
    folder, limits = tmp_path_factory.mktemp("table"), Limits(held_bytes=held)
    result = run(folder, stream, slices, seconds=ticks, threads=threads, clock=ticking, limits=limits)

    assert len(records(folder, result)) == sum(progress.rows for progress in result.progress)
    assert all(progress.failure is None and progress.positions for progress in result.progress)


class Beside(PagedStream):
    """Connects itself."""

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        socket.create_connection(("127.0.0.1", 9)).close()
        return Page([], None)


def test_a_task_connects_nowhere_where_no_request_may_go(tmp_path: Path) -> None:
    job = BundleJob({0: target(tmp_path, Beside())}, 4, 1)
    with limited(Egress.parse("public")):
        failure = run_bundle((job, [SliceTask(0, 0, Slice())])).progress[0].failure

    assert failure is not None
    assert "no request may go to 127.0.0.1:9 with --egress public" in failure.message
    assert failure.message.endswith(", in read_page)")
