"""How many slices are read at once, against APIs that are made up: no thread, no clock, no waiting."""

import heapq
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.process.concurrency import Concurrency, Learned, complain_to, note_complaint

PAGE = 0.05
BACKOFF = 1.0


@dataclass
class Api:
    """Answers in 50 ms up to `capacity` requests at once, beyond which they queue; refuses those beyond `limit`."""

    capacity: float = 1_000
    limit: int = 1_000
    noise: float = 0.0
    """How much of a page's time is by chance."""
    random: Random = field(default_factory=lambda: Random(1))
    page: float = PAGE

    def seconds(self, requests: int) -> float:
        return self.page * max(1.0, requests / self.capacity) * (1 + self.noise * self.random.uniform(-1, 1))


@dataclass
class Reader:
    """Reads pages in as many threads as it may, on a clock of its own."""

    concurrency: Concurrency
    api: Api
    now: float = 0.0
    slices: int = 1_000_000
    levels: list[int] = field(default_factory=list)
    refused: int = 0
    _ends: list[tuple[float, float]] = field(default_factory=list)

    def read(self, pages: int) -> float:
        """Read so many pages; how many came in a second."""
        began, self.levels = self.now, []
        for _ in range(pages):
            while len(self._ends) < min(self.concurrency.level, self.slices):
                self._begin()
            self.now, seconds = heapq.heappop(self._ends)
            self.concurrency.completed(seconds, len(self._ends) + 1)
            self.levels.append(self.concurrency.level)
        return pages / (self.now - began)

    def _begin(self) -> None:
        seconds = self.api.seconds(len(self._ends) + 1)
        if len(self._ends) + 1 > self.api.limit:
            self.concurrency.complain()
            self.refused += 1
            seconds += BACKOFF
        heapq.heappush(self._ends, (self.now + seconds, seconds))

    @property
    def usual(self) -> float:
        """The middle one of the levels of the last read."""
        return sorted(self.levels)[len(self.levels) // 2]


def test_it_begins_with_one_and_doubles_to_the_ceiling_within_a_page_a_thread() -> None:
    reader = Reader(Concurrency(10), Api())
    reader.read(1 + 2 + 4 + 8)

    assert reader.levels[0] == 2
    assert reader.levels[-1] == 10
    assert sorted(set(reader.levels)) == [2, 4, 8, 10]


def test_two_thousand_requests_take_little_longer_than_at_the_ceiling_all_the_time() -> None:
    reader = Reader(Concurrency(10), Api())
    reader.read(2_000)

    assert reader.now <= 1.1 * 2_000 * PAGE / 10


@pytest.mark.parametrize("capacity", [1, 2, 3, 5, 8, 13, 30])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_it_converges_near_what_an_api_can_do_at_once(capacity: int, noise: float) -> None:
    reader = Reader(Concurrency(64), Api(capacity, noise=noise))
    reader.read(3_000)

    throughput = reader.read(2_000)

    assert throughput >= 0.8 * capacity / PAGE
    assert reader.usual <= 1.5 * capacity + 1


@pytest.mark.parametrize("limit", [1, 2, 4, 10, 25])
def test_an_api_that_refuses_more_is_kept_below_its_limit_and_asked_again_ever_more_rarely(limit: int) -> None:
    reader = Reader(Concurrency(64), Api(limit=limit))
    reader.read(2_000)
    before = reader.refused

    throughput = reader.read(10_000)

    assert limit / 2 <= reader.usual <= limit
    assert throughput >= 0.5 * limit / PAGE
    assert reader.refused - before <= 100


@pytest.mark.parametrize("less", [Api(capacity=3), Api(limit=3)], ids=["slower", "refusing"])
def test_it_shrinks_when_an_api_can_do_less_and_recovers_when_it_can_do_more_again(less: Api) -> None:
    reader = Reader(Concurrency(20), Api())
    reader.read(1_000)
    assert reader.usual >= 15

    reader.api = less
    reader.read(1_000)
    reader.read(1_000)
    assert reader.usual <= 4

    reader.api = Api()
    reader.read(20_000)
    reader.read(1_000)
    assert reader.usual >= 15


def test_pages_that_are_larger_for_a_while_cost_little() -> None:
    """They take longer for a reason that has nothing to do with how many are read at once."""
    reader = Reader(Concurrency(10), Api())
    reader.read(500)
    reader.api = Api(page=5 * PAGE)

    assert reader.read(1_000) >= 0.8 * 10 / (5 * PAGE)


def test_complaints_that_come_together_halve_it_once() -> None:
    concurrency = Concurrency(16, Learned(16))
    for _ in range(16):
        concurrency.complain()
        concurrency.completed(PAGE, 16)

    assert (concurrency.level, concurrency.learned.complaints) == (8, 1)


def test_a_process_that_computes_gets_no_further_thread() -> None:
    reader = Reader(Concurrency(10, load=lambda: 0.9), Api())
    reader.read(500)

    assert set(reader.levels) == {1}


def test_a_level_that_nobody_makes_use_of_is_not_raised() -> None:
    reader = Reader(Concurrency(64), Api(), slices=3)
    reader.read(2_000)

    assert reader.levels[-1] == 4
    assert reader.concurrency.learned.level == 2


def test_it_goes_on_from_where_an_earlier_one_got_to() -> None:
    reader = Reader(Concurrency(10, Learned(7)), Api())
    reader.read(7)

    assert reader.levels[:6] == [7] * 6
    assert reader.levels[-1] == 10


@given(
    ceiling=st.integers(-1, 40),
    begin=st.integers(-1, 60),
    pages=st.lists(st.tuples(st.floats(0, 100), st.integers(1, 50), st.booleans()), max_size=300),
    load=st.sampled_from([lambda: 0.0, lambda: 1.0]),
)
def test_it_is_never_above_the_ceiling_and_never_below_one(
    ceiling: int, begin: int, pages: list[tuple[float, int, bool]], load: Callable[[], float]
) -> None:
    concurrency = Concurrency(ceiling, Learned(begin), load)
    for seconds, reading, complains in pages:
        if complains:
            concurrency.complain()
        concurrency.completed(seconds, reading)

        assert 1 <= concurrency.level <= max(1, ceiling)
        assert 1 <= concurrency.learned.level <= max(1, ceiling)


@given(
    capacity=st.integers(1, 30),
    limit=st.integers(1, 60),
    ceiling=st.integers(1, 40),
    noise=st.sampled_from([0.0, 0.1, 0.3]),
    seed=st.integers(0, 100),
)
def test_whatever_the_api_most_of_its_throughput_is_used(
    capacity: int, limit: int, ceiling: int, noise: float, seed: int
) -> None:
    api = Api(capacity, limit, noise, Random(seed))
    reader = Reader(Concurrency(ceiling), api)
    reader.read(3_000)

    assert reader.read(3_000) >= 0.4 * min(capacity, limit, ceiling) / PAGE
    assert max(reader.levels) <= ceiling


def test_a_complaint_counts_for_whoever_reads_there() -> None:
    concurrency = Concurrency(8, Learned(8))
    context = copy_context()
    context.run(complain_to, concurrency)
    note_complaint()
    concurrency.completed(PAGE, 8)
    assert concurrency.level == 8

    context.run(note_complaint)
    concurrency.completed(PAGE, 8)
    assert concurrency.level == 4
