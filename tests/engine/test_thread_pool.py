"""How many workers there are, and when there is none: that depends on how much this process waits.

Without sleeping: clocks are told.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import closing
from contextvars import ContextVar
from itertools import count

import pytest

from cdk import Checkpoint, Done, ServerError
from cdk.base.process.concurrency import Concurrency, Learned
from cdk.base.times.clock import sleep
from cdk.engine.executors import Threads
from cdk.engine.thread_pool import AdaptiveThreadPool, repeating_in_a_thread
from cdk.rest import HttpClient, Request
from cdk.streams.page import ReadPage
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

    pages = list(Threads(8)(iter(range(50)), reads))

    assert [piece for piece, page in pages if page.records] == list(range(50))
    assert reads.most == 1
    assert len(set(reads.threads)) <= 2


@pytest.mark.usefixtures("busy")
def test_a_busy_process_reads_on_the_thread_of_its_caller() -> None:
    reads = Reads()

    list(Threads(8)(iter(range(20)), reads))

    assert set(reads.threads) == {threading.get_ident()}


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("workers", [2, 3, 8])
def test_as_many_are_read_at_once_as_it_begins_with(workers: int) -> None:
    """Each read waits for as many others: with fewer workers none would end."""
    reads = Reads(threading.Barrier(workers))

    pages = list(Threads(workers, Learned(workers))(iter(range(2 * workers)), reads))

    assert sorted(piece for piece, page in pages if page.records) == list(range(2 * workers))
    assert reads.most == workers


class Told(Concurrency):
    """A level that the test says."""

    def completed(self, seconds: float, reading: int) -> None:  # noqa: ARG002 - the signature is that of the kit
        assert reading >= 1


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("resumable", [True, False])
def test_where_fewer_are_to_be_read_at_once_those_that_can_wait_are_resumed_later(resumable: bool) -> None:  # noqa: FBT001
    """Eight pieces of six pages; after the first four pages one is read at a time, later four again."""
    reading, at_once, lock = set[int](), list[int](), threading.Lock()

    def read(piece: int) -> Iterator[ReadPage]:
        for page in range(6):
            with lock:
                reading.add(piece)
                at_once.append(len(reading))
            yield ReadPage([{"page": page}], Checkpoint({"page": page}) if resumable else None)
            with lock:
                reading.discard(piece)
        yield ReadPage((), Done())

    concurrency, pages = Told(8, Learned(4)), defaultdict[int, list[int]](list)
    with AdaptiveThreadPool(concurrency, read) as pool:
        for n, (piece, page) in enumerate(pool.pages(iter(range(8)))):
            concurrency.level = 1 if 4 <= n < 30 else 4
            pages[piece] += [record["page"] for record in page.records]

    assert pages == {piece: list(range(6)) for piece in range(8)}
    assert max(at_once) <= 4


@pytest.mark.usefixtures("waiting")
def test_a_piece_whose_job_others_wait_for_is_never_laid_aside() -> None:
    place = threading.Semaphore()

    def read(piece: int) -> Iterator[ReadPage]:
        assert place.acquire(timeout=20)
        yield ReadPage((), Checkpoint({"job": piece}), runs_job=True)
        place.release()
        yield ReadPage([{"piece": piece}], Checkpoint({"job": piece, "done_targets": 1}))
        yield ReadPage((), Done())

    concurrency, pieces = Told(4, Learned(4)), list[int]()
    with AdaptiveThreadPool(concurrency, read) as pool:
        for piece, page in pool.pages(iter(range(12))):
            concurrency.level = 1
            pieces += [piece for _ in page.records]

    assert sorted(pieces) == list(range(12))


def test_laid_aside_pieces_are_closed_with_the_read() -> None:
    opened, closed, together = list[int](), list[int](), threading.Barrier(3)

    def read(piece: int) -> Iterator[ReadPage]:
        opened.append(piece)
        try:
            together.wait(timeout=20)
            for page in range(1_000):
                yield ReadPage([{"page": page}], Checkpoint({"page": page}))
        finally:
            closed.append(piece)

    concurrency = Told(3, Learned(3))
    with AdaptiveThreadPool(concurrency, read) as pool:
        for n, _ in enumerate(pool.pages(iter(range(9)))):
            concurrency.level = 1
            if n == 50:
                break

    assert sorted(closed) == sorted(opened) == [0, 1, 2]


@pytest.mark.usefixtures("waiting")
def test_no_worker_begins_without_work() -> None:
    reads = Reads()

    list(Threads(64)(iter([1]), reads))

    assert len(reads.threads) == 1


@pytest.mark.usefixtures("busy")
def test_work_that_appears_only_once_other_work_has_ended_is_read() -> None:
    """As a planner does that gives nothing for now; its iterator is asked again by the next run."""
    numbers, execute, seen = count(), Threads(4), list[int]()
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
    """Where two might be read at once a worker began it."""
    read, concurrency, pages = LongRead(monkeypatch, pages=40, waits_from=40), Told(4, Learned(2)), list[ReadPage]()

    with AdaptiveThreadPool(concurrency, read) as pool:
        for _, page in pool.pages(iter([7])):
            pages.append(page)
            concurrency.level = 1

    assert [page.records for page in pages] == [*([{"piece": 7, "page": n}] for n in range(40)), ()]
    assert read.threads[0] != threading.get_ident()
    assert set(read.threads[12:]) == {threading.get_ident()}
    assert set(read.values) == {7}


def test_a_piece_that_turns_out_to_wait_is_read_on_by_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    read = LongRead(monkeypatch, pages=40, waits_from=20)

    with AdaptiveThreadPool(Told(4), read) as pool:
        pages = list(pool.pages(iter([7])))

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

    pages = Threads(4)(iter([7]), noting)
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
        list(Threads(4, Learned(4))(iter(range(4)), sleepers.read))

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

    pages = Threads(4, Learned(4))(iter(range(4)), read)
    assert isinstance(pages, Generator)
    next(pages)
    pages.close()

    assert 1 <= len(route.requests) <= 4


def test_an_error_of_what_is_repeated_beside_a_block_is_raised_where_the_block_ends() -> None:
    called = threading.Event()

    def fail() -> None:
        called.set()
        raise ServerError("there is no token")

    with pytest.raises(ServerError, match="there is no token"), repeating_in_a_thread(fail, 0.001):
        assert called.wait(60)


def test_an_api_that_says_429_is_asked_less() -> None:
    """Eight slices at once, all of which are refused once."""
    api, refused = MockApi(), threading.Barrier(8)
    for n in range(8):
        api.get(f"/users/{n}").returns(status=429).returns(json=[])

    def read(n: int) -> Iterator[ReadPage]:
        client = HttpClient(api, sleep=lambda _: (refused.wait(timeout=20), None)[1])
        client.send(Request("GET", f"https://api.test/users/{n}"))
        yield ReadPage([{"n": n}])

    execute = Threads(8, Learned(8))

    assert len(list(execute(iter(range(8)), read))) == 8
    assert (execute.learned.level, execute.learned.complaints) == (4, 1)
