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
from cdk.base.task_map import TaskLost
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.loop.runner import SyncResult
from cdk.sync.loop.suspects import Suspects
from cdk.sync.reports.stream_report import Status
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.tasks.messages import SliceTask
from cdk.sync.tasks.workers import Workers
from tests.spark.given_source import Given

Item = TypeVar("Item")
Result = TypeVar("Result")
PARTS = 8
MOST_JOBS = 500


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


class Tasks:
    """Runs tasks here, and gives up on a job as Spark does. jobs: how many tasks each had.

    knows: whether it says which task died. crowd: so many tasks of a job, or more, run out of memory together, and the
    first of them is blamed.
    """

    def __init__(self, *, knows: bool = True, crowd: int = 99) -> None:
        self.jobs: list[int] = []
        self._knows, self._crowd = knows, crowd

    def spread(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        self.jobs.append(len(items))
        if len(self.jobs) > MOST_JOBS:
            raise KeyboardInterrupt  # what is never found guilty would be read for ever
        if len(items) >= self._crowd:
            raise TaskLost(0, "killed")
        results = []
        for n, item in enumerate(items):
            try:
                results.append(work(item))
            except Died:
                raise TaskLost(n if self._knows else None, "killed") from None
        return results


def sync(folder: Path, streams: Sequence[Parts], workers: Workers | None) -> SyncResult:
    pipeline = Pipeline(
        name="parts", source=SourceOptions(connector="given"), target=TargetOptions(path=str(folder)), concurrency=3
    )
    return SyncRunner(pipeline, Given(streams), workers=workers).run()


def count(folder: Path, name: str) -> int:
    files = DeltaTable(str(folder / name)).file_uris()
    return len(set(pq.read_table(files)["id"].to_pylist())) if files else 0


def test_a_slice_is_guilty_only_when_it_dies_alone_and_after_others_were_ruled_out() -> None:
    suspects, lost = Suspects(), TaskLost(0, "killed")
    one, other = (SliceTask(n, 0, Slice(Partition.of(part=n))) for n in range(2))

    # A single slice in an epoch of its own has not been tried alone on purpose.
    assert suspects.accuse(suspects.bundles([one], 3), lost) is None
    assert suspects.bundles([one, other], 2) == [[one]]
    assert suspects.accuse([[one]], lost) is None
    assert suspects.bundles([other, one], 2) == [[one]]
    assert suspects.accuse([[one]], lost) is one

    suspects.clear(one.slice)
    assert suspects.bundles([one, other], 2) == [[one], [other]]


def test_the_slices_of_the_task_that_died_are_suspected_and_no_others() -> None:
    suspects = Suspects()
    one, other, third = (SliceTask(n, 0, Slice(Partition.of(part=n))) for n in range(3))

    assert suspects.accuse([[one], [other, third]], TaskLost(1, "killed")) is None
    assert suspects.bundles([one, other, third], 2) == [[other], [third]]


DEADLY = st.frozensets(st.integers(0, PARTS - 1), max_size=2)


@given(deadly=st.lists(DEADLY, min_size=1, max_size=3), knows=st.booleans())
@settings(max_examples=15, deadline=None)
def test_a_deadly_slice_ends_its_stream_and_no_other(
    deadly: list[frozenset[int]],
    knows: bool,  # noqa: FBT001 - a case
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder, tasks = tmp_path_factory.mktemp("lake"), Tasks(knows=knows)
    streams = [Parts(f"s{n}", parts) for n, parts in enumerate(deadly)]

    result = sync(folder, streams, Workers(tasks.spread, 3))

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
    tasks = Tasks(crowd=2)

    result = sync(tmp_path, [Parts("s", frozenset())], Workers(tasks.spread, 3))

    assert result.ok
    assert count(tmp_path, "s") == 2 * PARTS
    assert len(tasks.jobs) <= 6 * PARTS
