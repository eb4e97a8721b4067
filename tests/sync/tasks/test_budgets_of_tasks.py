"""What a task does whose API allows the next call only later."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from cdk import Json, Page, PagedStream, Partition, Slice
from cdk.base.task_map import attempting
from cdk.lake.arrow.columns import columns
from cdk.rest import Budget, Request
from cdk.rest.limits.task_budgets import sharing
from cdk.rest.limits.task_share import TaskShare
from cdk.sync.tasks.bundle_task import read_bundle, run_bundle
from cdk.sync.tasks.messages import BundleJob, BundleResult, SliceTask, WriteTarget
from tests.rest.api import Time


class Limited(PagedStream):
    """Five pages of a record; two calls in ten seconds."""

    def __init__(self, time: Time, calls: int = 1) -> None:
        super().__init__()
        self._calls = calls
        self._budget = Budget(2, timedelta(seconds=10), clock=time.clock, sleep=time.sleep)

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        n = token["page"] if token else 0
        for _ in range(self._calls):
            self._budget.acquire(Request("GET", f"https://api.test/{slice.partition.get('part')}/{n}"))
        return Page([{"id": n}], {"page": n + 1} if n < 4 else None)


class Whole(Limited):
    supports_checkpointing = False


def read(folder: Path, stream: Limited, time: Time, seconds: float = 4) -> BundleResult:
    target = WriteTarget(stream, folder, columns(stream.json_schema()), 1)
    tasks = [SliceTask(n, 0, Slice(Partition.of(part=n))) for n in range(2)]
    with sharing(TaskShare()):
        return read_bundle(BundleJob({0: target}, seconds, 1), tasks, time.seconds)


def test_rows_are_brought_where_the_next_call_is_allowed_after_the_end_of_the_task(tmp_path: Path) -> None:
    time = Time()
    first, second = read(tmp_path, Limited(time), time).progress

    assert (first.rows, first.done, first.failure) == (2, False, None)
    assert (second.rows, second.positions, second.failure) == (0, (), None)
    assert time.slept == []


def test_a_call_that_is_allowed_before_the_end_is_waited_for(tmp_path: Path) -> None:
    time = Time()
    result = read(tmp_path, Limited(time), time, seconds=15)

    assert [progress.rows for progress in result.progress] == [4, 0]
    assert time.slept == [10]


def test_a_slice_between_two_checkpoints_waits_as_long_as_it_takes(tmp_path: Path) -> None:
    time = Time()

    assert [progress.rows for progress in read(tmp_path, Limited(time, calls=3), time, seconds=1).progress] == [2]
    assert time.slept == [10, 10]
    assert [progress.rows for progress in read(tmp_path, Whole(time), time, seconds=1).progress] == [5]


def test_a_task_that_was_begun_before_calls_nothing_and_hands_its_slices_back(tmp_path: Path) -> None:
    time = Time()
    target = WriteTarget(Limited(time), tmp_path, {}, 1)
    with attempting(1):
        result = run_bundle((BundleJob({0: target}, 4, 1), [SliceTask(0, 0, Slice())]))

    assert result.spent is None
    assert [(progress.rows, progress.failure) for progress in result.progress] == [(0, None)]
