"""Tasks whose process dies: the slice that kills it is found, fails its stream by name, and everything else lands."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import Json, Page, PagedStream, Partition, Slice, list_partitions
from cdk.base.task_map import TaskLost, run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.loop.bundles import Bundle, Bundles, Suspects, Suspicion
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.tasks.messages import SliceTask
from cdk.sync.tasks.workers import Workers
from tests.spark.given_source import Given
from tests.sync.loop.simulated_tasks import Chances, SimulatedTasks
from tests.sync.tasks.test_task_concurrency import Parts as Dealt
from tests.sync.tasks.test_task_concurrency import dealt, syncs

Item = TypeVar("Item")
Result = TypeVar("Result")
PARTS = 8
MOST_TASKS = 500


class Died(BaseException):
    """What ends a task of these tests, and the process of a real one."""


class Parts(PagedStream):
    """Partitions of two pages each. deadly: the parts whose second page takes the process with it."""

    def __init__(self, name: str, deadly: frozenset[int], *, kills: bool = False) -> None:
        super().__init__({})
        self.name, self.deadly, self.kills = name, deadly, kills

    def partitions(self) -> Iterator[Partition]:
        return list_partitions("part", range(PARTS))

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        part = slice.partition["part"]
        if token is not None and part in self.deadly:
            if self.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise Died
        return Page([{"id": f"{part}-{token is not None}"}], None if token else {"page": 2})


class Tasks(SimulatedTasks):
    """Tasks of a cluster that gives up on one whose process dies."""

    def spread(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if self.started > MOST_TASKS:
            raise KeyboardInterrupt  # what is never guilty would be read for ever
        try:
            return run_inline(work, items)
        except Died:
            raise TaskLost(0, "killed") from None


def sync(folder: Path, streams: Sequence[Parts], workers: Workers | None) -> SyncResult:
    pipeline = Pipeline(
        name="parts", source=SourceOptions(connector="given"), target=TargetOptions(path=str(folder)), concurrency=3
    )
    return SyncRunner(pipeline, Given(streams), workers=workers).run()


def count(folder: Path, name: str) -> int:
    files = DeltaTable(str(folder / name)).file_uris()
    return len(set(pq.read_table(files)["id"].to_pylist())) if files else 0


def test_a_slice_is_guilty_only_when_it_dies_alone_and_after_others_were_ruled_out() -> None:
    suspects = Suspects()
    one, other = (SliceTask(0, 0, Slice(Partition.of(part=n)), 1) for n in range(2))

    # A single slice in a task has not been tried alone on purpose.
    assert suspects.accuse(Bundle([one], 1)) is None
    assert suspects.suspicion(one.slice) is Suspicion.APART
    assert suspects.accuse(Bundle([one], 1, suspicion=Suspicion.APART)) is None
    assert suspects.suspicion(one.slice) is Suspicion.ALONE
    assert suspects.accuse(Bundle([one], 1, suspicion=Suspicion.ALONE)) is one
    assert suspects.suspicion(other.slice) is Suspicion.NONE

    suspects.clear(one.slice)
    assert suspects.suspicion(one.slice) is Suspicion.NONE


DEADLY = st.frozensets(st.integers(0, PARTS - 1), max_size=2)


@given(deadly=st.lists(DEADLY, min_size=1, max_size=3), chances=st.lists(st.integers(0, 59), max_size=60))
@settings(max_examples=15, deadline=None)
def test_a_deadly_slice_ends_its_stream_and_no_other(
    deadly: list[frozenset[int]], chances: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, tasks = tmp_path_factory.mktemp("lake"), Tasks(chances=Chances(chances))
    streams = [Parts(f"s{n}", parts) for n, parts in enumerate(deadly)]

    result = sync(folder, streams, Workers(tasks.spread, 3, make_pool=lambda: tasks))

    for stream, report in zip(streams, result.streams, strict=True):
        if stream.deadly:
            assert report.failure is not None
            assert any(
                f'{{"part":{part}}}: the process that reads it died' in report.failure.message for part in stream.deadly
            )
            assert report.failure.failure_type == "transient_error"
        else:
            assert report.status is Status.DONE
            assert count(folder, stream.name) == 2 * PARTS


def test_tasks_that_are_too_much_together_are_read_one_after_the_other(tmp_path: Path) -> None:
    tasks = Tasks(dies=lambda running: running > 1)

    result = sync(tmp_path, [Parts("s", frozenset())], Workers(tasks.spread, 3, make_pool=lambda: tasks))

    assert result.ok
    assert count(tmp_path, "s") == 2 * PARTS
    assert tasks.started <= 6 * PARTS


def test_of_a_wave_that_is_dealt_nothing_is_read_that_an_earlier_attempt_planned(tmp_path: Path) -> None:
    (stream,) = streams = syncs(tmp_path, [Dealt(200, None, stops=True, mode="append_dedup")])
    bundles = Bundles(streams, 2, 2, lambda: 0.0)
    bundles.plan(1)
    first = bundles.next()
    assert first is not None
    assert bundles._queue_of(0).wave

    stream._begin(resumed=True)
    assert bundles.next() is None
    bundles.ended(first, 0, 1.0)
    bundles.plan(1)
    again = dealt(bundles)

    assert {planned.attempt for bundle in again for planned in bundle.slices} == {stream.attempt}
    assert len(again) == 2


def test_from_a_bundle_of_which_no_task_was_started_nothing_is_learned(tmp_path: Path) -> None:
    bundles = Bundles(syncs(tmp_path, [Dealt(500, None, stops=True, mode="append")]), 1, 1, lambda: 0.0)
    bundles.plan(1)
    (first,) = dealt(bundles)
    bundles.discard(first)
    bundles.plan(1)
    (second,) = dealt(bundles)

    assert len(first.slices) == len(second.slices) > 1
    assert {planned.number for planned in first.slices}.isdisjoint(planned.number for planned in second.slices)
