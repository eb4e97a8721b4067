"""How many workers there are: more begin only while this process waits. Without sleeping: clocks are told."""

import threading
import time
from collections.abc import Iterator
from itertools import count

import pytest

from cdk import Done
from cdk.engine.executors import threads
from cdk.streams.reading import ReadPage


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that computes all the time."""
    monkeypatch.setattr(time, "process_time", time.monotonic)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that never computes."""
    monkeypatch.setattr(time, "process_time", lambda: 0.0)


class Reads:
    """Reads that note where they run, and how many at once."""

    def __init__(self, together: threading.Barrier | None = None) -> None:
        self.threads: list[int] = []
        self.most, self._open, self._lock, self._together = 0, 0, threading.Lock(), together

    def __call__(self, piece: int) -> Iterator[ReadPage]:
        with self._lock:
            self.threads.append(threading.get_ident())
            self._open += 1
            self.most = max(self.most, self._open)
        if self._together is not None:
            self._together.wait(timeout=20)
        yield ReadPage([{"piece": piece}], None)
        with self._lock:
            self._open -= 1
        yield ReadPage((), Done())


@pytest.mark.usefixtures("busy")
def test_a_busy_process_gets_no_further_workers() -> None:
    reads = Reads()

    pages = list(threads(8)(iter(range(50)), reads))

    assert [piece for piece, page in pages if page.records] == list(range(50))
    assert reads.most == 1
    assert len(set(reads.threads)) <= 2


@pytest.mark.usefixtures("busy")
def test_a_busy_process_reads_on_the_thread_of_its_caller() -> None:
    reads = Reads()

    list(threads(8)(iter(range(20)), reads))

    assert reads.threads[0] != threading.get_ident()
    assert set(reads.threads[1:]) == {threading.get_ident()}


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("workers", [2, 3, 8])
def test_a_process_that_waits_gets_all_the_workers_it_may_have(workers: int) -> None:
    """Each read waits for as many others: with fewer workers none would end."""
    reads = Reads(threading.Barrier(workers))

    pages = list(threads(workers)(iter(range(2 * workers)), reads))

    assert sorted(piece for piece, page in pages if page.records) == list(range(2 * workers))
    assert reads.most == workers


@pytest.mark.usefixtures("waiting")
def test_no_worker_begins_without_work() -> None:
    reads = Reads()

    list(threads(64)(iter([1]), reads))

    assert len(reads.threads) == 1


@pytest.mark.usefixtures("busy")
def test_work_that_appears_only_once_other_work_has_ended_is_read() -> None:
    """As a planner does that gives nothing for now; its iterator is asked again by the next run."""
    numbers, execute, seen = count(), threads(4), list[int]()
    for _ in range(3):
        seen += [piece for piece, page in execute(iter([next(numbers), next(numbers)]), Reads()) if page.records]

    assert seen == [0, 1, 2, 3, 4, 5]
