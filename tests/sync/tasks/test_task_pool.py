"""Tasks beside the driver's thread: each is handed back once, when it ends, with its result or its error."""

import threading
from collections.abc import Callable

import pytest

from cdk.base.run import RunScope, current_run
from cdk.sync.tasks.messages import BundleResult
from cdk.sync.tasks.task_pool import InlineTasks, TaskPool, ThreadTasks


@pytest.mark.parametrize("make", [InlineTasks, ThreadTasks])
def test_a_task_is_handed_back_once_with_its_result_or_its_error(make: Callable[[], TaskPool]) -> None:
    pool, result, error = make(), BundleResult(), ValueError("no")

    def fail() -> BundleResult:
        raise error

    pool.start(1, lambda: result)
    pool.start(2, fail)
    ended = pool.ended(None)
    while len(ended) < 2:
        ended += pool.ended(None)

    assert {task.number: (task.result, task.error) for task in ended} == {1: (result, None), 2: (None, error)}
    assert pool.ended(0) == []


def test_who_ends_first_is_handed_back_first_and_nobody_waits_for_the_other() -> None:
    pool, go_on = ThreadTasks(), threading.Event()

    def slow() -> BundleResult:
        go_on.wait()
        return BundleResult()

    pool.start(1, slow)
    assert pool.ended(0.001) == []
    pool.start(2, BundleResult)
    assert [task.number for task in pool.ended(None)] == [2]
    go_on.set()
    assert [task.number for task in pool.ended(None)] == [1]


def test_a_task_works_for_the_run_that_started_it() -> None:
    pool, seen = ThreadTasks(), list[str]()

    def note() -> BundleResult:
        seen.append(current_run().id)
        return BundleResult()

    with RunScope("mine").working():
        pool.start(1, note)
        pool.ended(None)

    assert seen == ["mine"]
