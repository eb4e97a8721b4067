"""How many tasks a sync reads with, and how many slices each: from what tasks that have ended came to."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import Json, JsonSchema, Page, PagedStream, Partition, Slice, list_partitions
from cdk.base.process.concurrency import Learned
from cdk.base.task_map import run_inline
from cdk.lake.admin.locate import OpenTables
from cdk.lake.delta.write_modes import WriteModeName
from cdk.lake.storage.folder import LocalFolder
from cdk.state.position import Done
from cdk.sync.loop.bundles import Bundle, Bundles
from cdk.sync.loop.stream_sync import StreamSync
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.messages import SliceResult
from cdk.sync.tasks.task_concurrency import TaskConcurrency


def test_there_are_two_tasks_at_first_of_one_slice_each() -> None:
    at_once = TaskConcurrency(10)

    assert (at_once.tasks_of(1), at_once.tasks_of(64), at_once.learned.level) == (1, 2, 1)


def test_a_task_that_its_machine_holds_back_is_followed_by_one_more() -> None:
    at_once = TaskConcurrency(6)
    counts = []
    for _ in range(9):
        at_once.ended(1, Learned(1, held_back=True), 1)
        counts.append(at_once.tasks_of(64))

    assert counts == [3, 4, 5, 6, 6, 6, 6, 6, 6]


def test_a_task_that_gets_no_more_out_of_its_api_is_followed_by_no_more() -> None:
    at_once = TaskConcurrency(20)
    at_once.ended(1, Learned(4), 1)

    assert (at_once.learned.level, at_once.tasks_of(64), at_once.growing) == (4, 2, False)
    assert at_once.count.settled == 5


def test_a_task_too_short_to_learn_anything_changes_nothing() -> None:
    at_once = TaskConcurrency(20)
    at_once.ended(1, Learned(7), 0)
    at_once.ended(2, Learned(2), 0)

    assert at_once.learned.level == 7


def test_where_tasks_of_one_slice_are_refused_fewer_run_but_never_none() -> None:
    at_once = TaskConcurrency(20)
    for _ in range(6):
        at_once.ended(1, Learned(1, held_back=True), 1)
    assert at_once.tasks_of(64) == 8

    for _ in range(20):
        at_once.ended(1, Learned(1, complaints=2, held_back=True), 0)

    assert at_once.tasks_of(64) == 1
    assert at_once.count.complaints == 40
    assert at_once.count.settled == 1


class Parts(PagedStream):
    """Partitions, none of which is read here. mode: how they would be written."""

    primary_key = "id"

    def __init__(
        self, count: int, most: int | None, *, stops: bool, mode: WriteModeName, one_task: bool = False
    ) -> None:
        super().__init__()
        self.in_one_task = one_task
        self.count, self.max_concurrency, self.supports_checkpointing, self.mode = count, most, stops, mode

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "properties": {"id": {"type": "integer"}}}

    def partitions(self) -> Iterable[Partition]:
        return list_partitions("part", range(self.count))

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        raise NotImplementedError

    def sync(self, folder: Path, tables: OpenTables) -> StreamSync:
        run = StreamSync(StreamPlan(self, LocalFolder(folder), "full_refresh", self.mode), tables, sync="s1")
        run.prepare(run_inline)
        return run


def syncs(folder: Path, streams: list[Parts]) -> list[StreamSync]:
    tables = OpenTables("test")
    return [stream.sync(folder / f"s{n}", tables) for n, stream in enumerate(streams)]


def bundles_of(folder: Path, streams: list[Parts], tasks: int, concurrency: int) -> Bundles:
    return Bundles(syncs(folder, streams), tasks, concurrency, lambda: 0.0)


def dealt(bundles: Bundles) -> list[Bundle]:
    return list(iter(bundles.next, None))


def what(bundle: Bundle) -> tuple[int, int]:
    return bundle.slices[0].stream, bundle.threads


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("mode", ["append", "append_dedup"])
def test_streams_with_limits_are_read_beside_each_other_each_within_its_own(
    tmp_path: Path, mode: WriteModeName, *, stops: bool
) -> None:
    streams = [Parts(1_000, most, stops=stops, mode=mode) for most in (1, 3)]
    bundles = bundles_of(tmp_path, streams, 4, 40)
    for _ in range(4):
        bundles.concurrency.ended(1, Learned(1, held_back=True), 1)
    bundles.plan(1)
    first = dealt(bundles)

    assert [what(bundle) for bundle in first] == [(0, 1), (1, 3)]
    assert not bundles.divisible
    bundles.ended(first[0], len(first[0].slices), 1.0)
    bundles.plan(1)
    assert bundles.divisible
    assert [what(bundle) for bundle in dealt(bundles)] == [(0, 1)]


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("count", [3, 500])
def test_streams_that_share_a_process_are_read_in_one_task_by_all_threads_but_one_for_each_other(
    tmp_path: Path, count: int, *, stops: bool
) -> None:
    streams = [Parts(count, None, stops=stops, mode="append", one_task=True) for _ in range(2)]
    bundles = bundles_of(tmp_path, [*streams, Parts(1, None, stops=True, mode="append")], 4, 20)
    for _ in range(4):
        bundles.concurrency.ended(1, Learned(1, held_back=True), 1)
    bundles.plan(1)

    first, second = dealt(bundles)

    assert {planned.stream for planned in first.slices} == {0, 1}
    assert (len(first.slices) >= min(2 * count, 20), first.threads >= min(2 * count, 17)) == (True, True)
    assert [planned.stream for planned in second.slices] == [2]
    assert first.threads + second.threads <= 20


def test_the_limit_of_a_stream_holds_over_its_tasks(tmp_path: Path) -> None:
    bundles = bundles_of(tmp_path, [Parts(1_000, 3, stops=True, mode="append")], 4, 4)
    bundles.plan(1)

    assert [bundle.threads for bundle in dealt(bundles)] == [2, 1]


@pytest.mark.parametrize(
    ("stops", "counts", "threads"),
    [
        (True, [1], [9]),
        (True, [1, 1], [5, 5]),
        (True, [3], [5, 5]),
        (True, [1, 1, 1], [5, 5]),
        (True, [500], [5, 5]),
        (False, [1], [5]),
    ],
)
def test_threads_that_no_slice_needs_go_to_those_that_are_read_but_for_what_may_come(
    tmp_path: Path, counts: list[int], threads: list[int], *, stops: bool
) -> None:
    bundles = bundles_of(tmp_path, [Parts(count, None, stops=stops, mode="append") for count in counts], 2, 10)
    bundles.plan(1)

    assert [bundle.threads for bundle in dealt(bundles)] == threads


def test_a_task_gets_few_more_slices_than_the_last_came_to_for_nobody_else_gets_at_them(tmp_path: Path) -> None:
    bundles = bundles_of(tmp_path, [Parts(3_000, None, stops=True, mode="append")], 2, 8)
    bundles.plan(1)
    first, _ = dealt(bundles)
    bundles.ended(first, 80, 8.0)
    bundles.plan(1)
    (again,) = dealt(bundles)

    assert len(first.slices) > 2 * 80
    assert len(again.slices) == 90


def test_streams_take_turns_where_there_are_fewer_tasks(tmp_path: Path) -> None:
    streams = [Parts(1_000, most, stops=True, mode="append") for most in (1, 1, None, 1)]
    bundles, turns = bundles_of(tmp_path, streams, 2, 8), list[int]()
    bundles.concurrency.ended(1, Learned(1, complaints=1), 0)
    for _ in range(8):
        bundles.plan(1)
        (bundle,) = dealt(bundles)
        turns.append(bundle.slices[0].stream)
        bundles.ended(bundle, len(bundle.slices), 1.0)

    assert turns == [0, 1, 2, 3] * 2


def test_suspects_are_read_within_the_limit_of_their_stream_and_keep_no_other_waiting(tmp_path: Path) -> None:
    streams = [Parts(10, 2, stops=False, mode="append"), Parts(5, None, stops=False, mode="append")]
    runs = syncs(tmp_path, streams)
    bundles = Bundles(runs, 6, 24, lambda: 0.0)
    for _ in range(6):
        bundles.concurrency.ended(1, Learned(1, held_back=True), 1)
    bundles.plan(1)
    first = dealt(bundles)
    bundles.suspects.accuse(first[0])
    for bundle in first:
        bundles.ended(bundle, 0, 1.0)
        for planned in bundle.slices:
            runs[planned.stream].untouched(planned.slice)
    bundles.plan(1)
    again = dealt(bundles)

    assert [what(bundle) for bundle in again if bundle.suspicion] == [(0, 1), (0, 1)]
    assert {bundle.slices[0].stream for bundle in again if not bundle.suspicion} == {1}


PARTS = st.builds(
    Parts,
    st.integers(1, 90),
    st.sampled_from([None, None, 1, 3]),
    stops=st.booleans(),
    mode=st.sampled_from(["append", "append_dedup"]),
    one_task=st.booleans(),
)


@given(
    made=st.lists(PARTS, min_size=1, max_size=3),
    tasks=st.integers(1, 6),
    concurrency=st.integers(1, 12),
    ends=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 12), st.booleans(), st.integers(0, 90)), max_size=60),
)
@settings(max_examples=60, deadline=None)
def test_no_schedule_reads_more_at_once_than_the_pipeline_and_the_streams_allow(
    made: list[Parts],
    tasks: int,
    concurrency: int,
    ends: list[tuple[int, int, bool, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    runs = syncs(tmp_path_factory.mktemp("lake"), made)
    bundles = Bundles(runs, min(tasks, concurrency), concurrency, lambda: 0.0)
    running, read, chances = list[Bundle](), list[tuple[int, Slice]](), iter(ends)
    while True:
        bundles.plan(1)
        while (bundle := bundles.next()) is not None:
            running.append(bundle)
            check(running, runs, min(tasks, concurrency), concurrency)
        if not running:
            break
        which, settled, complains, most = next(chances, (0, 1, False, 90))
        bundle = running.pop(which % len(running))
        began = bundle.slices[: max(1, most)]
        for planned in began:
            runs[planned.stream].add_result(planned.slice, SliceResult(planned.number, (Done(),)))
        for planned in bundle.slices[len(began) :]:
            runs[planned.stream].untouched(planned.slice)
        at_once = Learned(min(settled, bundle.threads), complaints=int(complains), held_back=not complains)
        bundles.ended(bundle, len(began), 1.0, at_once)
        read += [(planned.stream, planned.slice) for planned in began]

    assert len(read) == sum(stream.count for stream in made)


def check(running: list[Bundle], runs: list[StreamSync], tasks: int, concurrency: int) -> None:
    assert len(running) <= tasks
    assert sum(bundle.threads for bundle in running) <= concurrency
    assert all(1 <= bundle.first_threads <= bundle.threads for bundle in running)
    limited = dict[int, int]()
    for bundle in running:
        for n in {planned.stream for planned in bundle.slices}:
            if (limit := runs[n].stream.max_concurrency) is not None:
                limited[n] = limited.get(n, 0) + bundle.threads
                assert limited[n] <= limit
    alone = [bundle for bundle in running if any(runs[one.stream].stream.in_one_task for one in bundle.slices)]
    assert len(alone) <= 1
