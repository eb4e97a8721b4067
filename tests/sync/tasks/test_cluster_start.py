"""Workers that start beside a sync: looked for, never waited for."""

import logging
import threading

import pytest

from cdk.sync.tasks.workers import ClusterStart


def until_over(start: ClusterStart[str]) -> str | None:
    start._over.wait()
    return start.joined()


def test_a_cluster_that_nobody_started_does_not_join() -> None:
    start = ClusterStart(lambda: "workers")

    assert start.joined() is None
    assert not start.started


def test_workers_join_once_they_are_ready_and_the_driver_waits_for_nothing() -> None:
    ready = threading.Event()

    def slow() -> str:
        ready.wait()
        return "workers"

    start = ClusterStart(slow)
    start.begin()
    assert (start.started, start.starting, start.joined()) == (True, True, None)
    ready.set()
    assert until_over(start) == "workers"
    assert not start.starting


def test_a_start_that_fails_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> str:
        raise OSError("no Java")

    start = ClusterStart(fail)
    start.begin()
    with caplog.at_level(logging.WARNING):
        assert until_over(start) is None
        assert start.joined() is None

    assert [record.getMessage() for record in caplog.records] == [
        "everything is read in this process, because no cluster joined: no Java"
    ]
    assert (start.started, start.starting) == (True, False)


def test_a_start_that_nobody_needs_any_more_is_ended() -> None:
    ended = threading.Event()

    def slow() -> str:
        ended.wait()
        raise OSError("killed")

    start = ClusterStart(slow, ended.set)
    start.begin()
    start.leave()

    assert ended.is_set()
    assert start.joined() is None
