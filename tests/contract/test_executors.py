"""What every executor promises (cdk.engine.executors)."""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import pytest

from cdk import Checkpoint, Done, Item, Page, Partition, Position, ServerError, Slice, Stream
from cdk.base.process.concurrency import Learned
from cdk.engine.executors import Executor, Threads, serial
from cdk.streams.page import ReadPage
from cdk.streams.read_slice import read_slice
from tests.samples import Users

PAGES = 6
EXECUTORS: dict[str, tuple[Executor, int]] = {
    "serial": (serial, 1),
    "one": (Threads(1), 1),
    "two": (Threads(2, Learned(2)), 2),
    "eight": (Threads(8, Learned(8)), 8),
    "up to eight": (Threads(8), 8),
}


pytestmark = pytest.mark.parametrize(("execute", "count"), EXECUTORS.values(), ids=EXECUTORS.keys())


@pytest.fixture(params=["as it is", "waiting", "busy"], autouse=True)
def _pace(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process is told of itself: workers begin where it waits, and the caller reads where it is busy."""
    if request.param == "waiting":
        monkeypatch.setattr(time, "process_time", lambda: 0.0)
    if request.param == "busy":
        monkeypatch.setattr(time, "process_time", lambda: 10 * time.monotonic())


class Numbers(Stream):
    """Pages of one record each; counts what was read, which a test may look at."""

    supports_checkpointing = True

    def __init__(self, breaks_at: int | None = None) -> None:
        super().__init__()
        self._breaks_at = breaks_at
        self.read: list[int] = []

    def read_records(self, slice: Slice) -> Iterator[Item]:
        n = slice.partition["n"]
        if n == self._breaks_at:
            raise ServerError(f"slice {n} is broken")
        for page in range(PAGES):
            self.read.append(n)
            yield Page([{"n": n, "page": page}], {"page": page + 1})

    def pages(self, slice: Slice) -> Iterator[ReadPage]:
        return read_slice(self, slice)


def planned(count: int, log: list[int] | None = None) -> Iterator[Slice]:
    for n in range(count):
        if log is not None:
            log.append(n)
        yield Slice(Partition({"n": n}))


def workers() -> set[int | None]:
    return {thread.ident for thread in threading.enumerate()}


def test_every_page_of_every_slice_comes_once_and_in_order(execute: Executor, count: int) -> None:  # noqa: ARG001
    positions: defaultdict[int, list[Position | None]] = defaultdict(list)
    for slice, page in execute(planned(20), Numbers().pages):
        assert all(record["n"] == slice.partition["n"] for record in page.records)
        positions[slice.partition["n"]].append(page.position)

    whole = [*(Checkpoint({"page": n + 1}) for n in range(PAGES)), Done()]
    assert positions == dict.fromkeys(range(20), whole)


def test_no_slices_are_no_pages(execute: Executor, count: int) -> None:  # noqa: ARG001
    assert list(execute(iter(()), Numbers().pages)) == []


def test_pages_are_given_back_on_the_callers_thread(execute: Executor, count: int) -> None:  # noqa: ARG001
    planners: set[int] = set()

    def planning() -> Iterator[Slice]:
        for slice in planned(9):
            planners.add(threading.get_ident())
            yield slice

    list(execute(planning(), Numbers().pages))

    assert planners == {threading.get_ident()}


@pytest.mark.parametrize("broken", [0, 5])
def test_an_error_of_a_slice_reaches_the_caller_and_leaves_no_threads(
    execute: Executor,
    count: int,  # noqa: ARG001
    broken: int,
) -> None:
    before = workers()

    with pytest.raises(ServerError, match=f"slice {broken} is broken"):
        list(execute(planned(50), Numbers(breaks_at=broken).pages))

    assert workers() <= before


def test_an_error_of_the_planning_reaches_the_caller_and_leaves_no_threads(execute: Executor, count: int) -> None:  # noqa: ARG001
    before = workers()

    def planning() -> Iterator[Slice]:
        yield from planned(3)
        raise ServerError("the parent is broken")

    with pytest.raises(ServerError, match="the parent is broken"):
        list(execute(planning(), Numbers().pages))

    assert workers() <= before


@pytest.mark.parametrize("pages", [0, 1, 7, 40])
def test_closing_stops_the_work_and_leaves_no_threads(execute: Executor, count: int, pages: int) -> None:
    before, stream = workers(), Numbers()
    reading = execute(planned(1000), stream.pages)
    taken = list(itertools.islice(reading, pages))
    assert isinstance(reading, Iterator)
    reading.close()  # type: ignore[attr-defined]

    assert workers() <= before
    assert len(stream.read) <= len(taken) + 3 * count


def test_a_slice_is_taken_only_when_somebody_can_read_it(execute: Executor, count: int) -> None:
    log: list[int] = []
    ended = 0
    for _, page in execute(planned(30, log), Numbers().pages):
        assert len(log) - ended <= count + (count > 1)  # one may wait while all are at work
        ended += isinstance(page.position, Done)

    assert log == list(range(30))


def test_a_slow_consumer_holds_the_readers_back(execute: Executor, count: int) -> None:
    stream = Numbers()
    for i, _ in enumerate(execute(planned(30), stream.pages), start=1):
        # One page a thread lies in the queue, one more in its hands.
        assert len(stream.read) <= i + 2 * count


def test_planning_may_itself_wait_for_reads(execute: Executor, count: int) -> None:  # noqa: ARG001
    stream = Numbers()

    def planning() -> Iterator[Slice]:
        """As a substream plans: each parent is a read of its own, through the same kind of executor."""
        for _, page in execute(iter([Slice()]), partial(read_slice, Users())):
            yield from (Slice(Partition({"n": record["id"]})) for record in page.records)

    pages = list(execute(planning(), stream.pages))

    assert len(pages) == 15 * (PAGES + 1)


def test_slices_are_read_at_once_where_there_are_threads(
    execute: Executor, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice waits for as many others as there are threads: only reading at once gets them all through."""
    if count > 1:
        # It begins with what an earlier call came to, and grows with pages, which there are none of here.
        execute = Threads(count, Learned(count))
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    together = threading.Barrier(count)

    def read(slice: Slice) -> Iterator[ReadPage]:  # noqa: ARG001
        together.wait(timeout=20)
        yield ReadPage((), Done())

    assert len(list(execute(planned(2 * count), read))) == 2 * count
