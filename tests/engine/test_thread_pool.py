"""How many workers there are, and when there is none: that depends on how much this process waits.

Without sleeping: clocks are told.
"""

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from contextvars import ContextVar
from itertools import count

import pytest

from cdk import Done, ServerError
from cdk.base.times.clock import sleep
from cdk.engine.executors import threads
from cdk.rest import HttpClient, Request
from cdk.streams.read_slice import ReadPage
from cdk.testing.mock_api import MockApi


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


class LongRead:
    """A piece of many pages, each of which takes a tenth of a second; notes where each was read.

    waits_from: the page from which on the process waits all that time. `value` is set while the piece is read.
    """

    value: ContextVar[int] = ContextVar("value", default=0)

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pages: int, waits_from: int) -> None:
        self.threads: list[int] = []
        self.values: list[int] = []
        self._pages, self._waits_from = pages, waits_from
        self._wall = self._cpu = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self._wall)
        monkeypatch.setattr(time, "process_time", lambda: self._cpu)

    def __call__(self, piece: int) -> Iterator[ReadPage]:
        before = self.value.set(piece)
        try:
            for page in range(self._pages):
                self.threads.append(threading.get_ident())
                self.values.append(self.value.get())
                self._wall += 0.11
                self._cpu += 0.11 if page < self._waits_from else 0.0
                yield ReadPage([{"piece": piece, "page": page}], None)
            yield ReadPage((), Done())
        finally:
            # An error in another context than that of `set`.
            self.value.reset(before)


def test_a_piece_that_keeps_the_process_busy_is_read_on_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    read = LongRead(monkeypatch, pages=40, waits_from=40)

    pages = list(threads(4)(iter([7]), read))

    assert [page.records for _, page in pages] == [*([{"piece": 7, "page": n}] for n in range(40)), ()]
    assert read.threads[0] != threading.get_ident()
    assert set(read.threads[12:]) == {threading.get_ident()}
    assert set(read.values) == {7}


def test_a_piece_that_turns_out_to_wait_is_read_on_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    read = LongRead(monkeypatch, pages=40, waits_from=20)

    pages = list(threads(4)(iter([7]), read))

    assert [page.records for _, page in pages] == [*([{"piece": 7, "page": n}] for n in range(40)), ()]
    assert set(read.threads[12:20]) == {threading.get_ident()}
    assert threading.get_ident() not in read.threads[22:]
    assert set(read.values) == {7}


@pytest.mark.parametrize("taken", [1, 15, 30])
def test_a_piece_is_closed_wherever_it_is_read(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[int]()

    read = LongRead(monkeypatch, pages=40, waits_from=20)

    def noting(piece: int) -> Iterator[ReadPage]:
        try:
            yield from read(piece)
        finally:
            closed.append(piece)

    pages = threads(4)(iter([7]), noting)
    with closing(pages):  # type: ignore[type-var] # an executor is a generator
        for _ in range(taken):
            next(pages)

    assert closed == [7]


AN_HOUR = 3600.0


class Sleepers:
    """Pieces of which the last one ends the read, once all others wait for an hour."""

    def __init__(self, count: int) -> None:
        self.waiting = threading.Barrier(count)
        self.woken: list[int] = []
        self.count = count

    def wait(self, n: int) -> None:
        self.waiting.wait()
        sleep(AN_HOUR)
        self.woken.append(n)

    def read(self, n: int) -> Iterator[ReadPage]:
        if n < self.count - 1:
            self.wait(n)
        else:
            self.waiting.wait()
            raise ServerError("broken")
        yield ReadPage([])


def test_an_error_does_not_wait_for_siblings_that_sleep() -> None:
    sleepers = Sleepers(4)

    with pytest.raises(ServerError):
        list(threads(4)(iter(range(4)), sleepers.read))

    assert sleepers.woken == []


def test_closing_a_read_does_not_wait_for_a_retry() -> None:
    api = MockApi()
    route = api.get("/users").returns(status=503, headers={"Retry-After": "500"})
    asked = threading.Event()

    def read(n: int) -> Iterator[ReadPage]:
        if n == 0:
            asked.wait()
            yield ReadPage([{"id": 1}])
        asked.set()
        HttpClient(api).send(Request("GET", "https://api.test/users"))

    pages = threads(4)(iter(range(4)), read)
    assert isinstance(pages, Generator)
    next(pages)
    pages.close()

    assert 1 <= len(route.requests) <= 4
