import heapq
import pickle
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.engine.executors import threads
from cdk.rest import Budget, Request
from cdk.rest.limits.rate_policies import CallRatePolicy
from cdk.rest.limits.task_share import (
    BudgetAllocator,
    BudgetSlice,
    BudgetUsage,
    Rates,
    TaskShare,
    sharing,
    task_budgets,
)
from cdk.streams.read_slice import ReadPage
from tests.rest.api import NOON, Time, response

TEN = timedelta(seconds=10)
USERS = Request("GET", "https://api.test/users")

limits = st.tuples(st.integers(1, 12), st.sampled_from([1.0, 2.5, 10.0, 60.0]))
some_rates = st.lists(limits, min_size=1, max_size=3)
pauses = st.lists(st.floats(0, 30), min_size=1, max_size=12)


def most_in_a_stretch(moments: Sequence[float], seconds: float) -> int:
    """The most calls in any stretch; a call at its very end is in the next one."""
    ordered = sorted(moments)
    return max(
        (sum(1 for at in ordered[n:] if at < first + seconds - 1e-6) for n, first in enumerate(ordered)), default=0
    )


def calling(portions: Sequence[BudgetSlice], begun: float, each: Sequence[Sequence[float]], weight: int) -> list[float]:
    """When calls are sent by tasks at once: each waits for its calls, and between them as long as it is told."""
    due = [(begun, task, 0) for task in range(len(portions))]
    sent = []
    while due:
        now, task, n = heapq.heappop(due)
        at = portions[task].reserve(now, weight)
        assert at >= now
        sent.extend([at] * weight)
        if n + 1 < len(each[task]):
            heapq.heappush(due, (at + each[task][n], task, n + 1))
    return sent


@given(some_rates, st.integers(1, 3), st.lists(st.lists(pauses, min_size=1, max_size=5), min_size=1, max_size=4))
def test_the_tasks_of_all_epochs_together_keep_to_every_limit(
    rates: list[tuple[int, float]], heaviest: int, epochs: list[list[list[float]]]
) -> None:
    rates = [(max(limit, heaviest), seconds) for limit, seconds in rates]
    now, spent, sent = 1000.0, BudgetUsage(), list[float]()
    for tasks in epochs:
        portions = [
            BudgetSlice(rates, TaskShare(n, len(tasks), now), spent.at(now), heaviest) for n in range(len(tasks))
        ]
        sent += calling(portions, now, tasks, heaviest)
        for portion in portions:
            spent += portion.spent()
        now = max(now, *sent)

    for limit, seconds in rates:
        assert most_in_a_stretch(sent, seconds) <= limit


@given(limits, st.integers(1, 8))
def test_tasks_that_always_want_more_use_what_is_allowed_and_share_it_fairly(
    rate: tuple[int, float], tasks: int
) -> None:
    limit, seconds = rate
    taken = []
    for task in range(tasks):
        portion, times, now = BudgetSlice([rate], TaskShare(task, tasks, 0.0)), 0, 0.0
        while (now := portion.reserve(now)) < 100 * seconds:
            times += 1
        taken.append(times)

    assert sum(taken) >= 100 * limit - tasks
    assert max(taken) - min(taken) <= 100


@given(st.integers(0, 100), st.integers(1, 20))
def test_the_parts_of_a_number_are_the_number_and_differ_by_one_at_most(whole: int, tasks: int) -> None:
    parts = [TaskShare(task, tasks).part(whole) for task in range(tasks)]

    assert sum(parts) == whole
    assert max(parts) - min(parts) <= 1


def test_a_task_alone_keeps_every_rate() -> None:
    window = BudgetSlice([(3, 60.0), (2, 1.0)])

    assert [window.reserve(100, 1) for _ in range(6)] == [100, 100, 101, 160, 160, 161]


def test_a_heavy_request_takes_several_places() -> None:
    window = BudgetSlice([(3, 60.0)], heaviest=3)

    assert [window.reserve(100, weight) for weight in (2, 2, 1, 3)] == [100, 160, 160, 220]


def test_a_limit_that_was_hit_closes_a_moving_window() -> None:
    window = BudgetSlice([(5, 1.0), (10, 60.0)])

    window.learn(100, 0, None)
    assert window.reserve(100, 1) == 101
    window.learn(101, 3, 900)
    assert window.reserve(101, 1) == 101
    window.learn(101, 0, 130)
    assert window.reserve(101, 1) == 130


def test_a_task_knows_what_others_took_before_it_began() -> None:
    earlier = BudgetUsage((92.0, 95.0, 97.0, 99.0), stretch=10.0)
    first, second = (BudgetSlice([(4, 10.0)], TaskShare(task, 2, 100.0), earlier) for task in range(2))

    assert [first.reserve(100.0) for _ in range(2)] == [105.0, 109.0]
    assert [second.reserve(100.0) for _ in range(2)] == [102.0, 107.0]


def test_an_api_that_allows_no_call_closes_the_next_epoch_too() -> None:
    time = Time()
    dealer = BudgetAllocator(time.clock)
    rates: Rates = ((5, 10.0),)
    with sharing(dealer.shares(1)[0]) as first:
        first.slice_of("a", rates).close(NOON.timestamp() + 60)
        dealer.spent(first.spent())

    later = [BudgetSlice(rates, share, share.spent["a"]) for share in dealer.shares(2)]

    assert [portion.reserve(NOON.timestamp()) for portion in later] == [NOON.timestamp() + 60] * 2


def test_what_is_left_is_divided_and_comes_back_when_the_api_counts_anew() -> None:
    portion = BudgetSlice([(100, 60.0)], TaskShare(1, 2, 0.0), renews=True)

    portion.reserve(1.0)
    portion.learn(1.0, 3, 20.0)
    assert [portion.reserve(2.0) for _ in range(3)] == [2.0, 20.0, 20.0]
    assert portion.spent() == BudgetUsage((20.0, 20.0), renewed=20.0, stretch=60.0)


def test_calls_before_the_api_counted_anew_are_forgotten_by_all() -> None:
    spent = BudgetUsage((1.0, 2.0, 21.0), stretch=60.0) + BudgetUsage((20.0,), renewed=20.0, stretch=60.0)

    assert spent == BudgetUsage((20.0, 21.0), renewed=20.0, stretch=60.0)


def test_a_dealer_forgets_what_no_longer_counts() -> None:
    time = Time()
    dealer = BudgetAllocator(time.clock)
    dealer.spent({"a": BudgetUsage((NOON.timestamp(),), stretch=10.0)})

    assert dealer.shares(1)[0].spent["a"].calls == (NOON.timestamp(),)
    time.sleep(10)
    assert dealer.shares(1)[0].spent["a"].calls == ()


def test_a_share_travels() -> None:
    share = TaskShare(1, 2, 3.0, {"a": BudgetUsage((1.0,), 2.0, 0.0, 4.0)})

    assert pickle.loads(pickle.dumps(share)) == share  # noqa: S301 - made here


def test_threads_that_read_in_a_task_keep_to_its_share() -> None:
    def read(_: int) -> list[ReadPage]:
        return [ReadPage([{"known": task_budgets() is mine}])]

    with sharing(TaskShare(0, 2)) as mine:
        pages = [page for _, page in threads(3)(iter(range(9)), lambda n: iter(read(n)))]
    assert [page.records for page in pages] == [[{"known": True}]] * 9
    assert task_budgets() is None


class Machine:
    """A process with a clock of its own, and what it sent."""

    def __init__(self) -> None:
        self.now, self.sent = NOON, list[datetime]()

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def plain(machine: Machine) -> Budget:
    return Budget(4, TEN, clock=lambda: machine.now, sleep=machine.sleep)


def of(policy: CallRatePolicy) -> Callable[[Machine], Budget]:
    return lambda machine: Budget(policies=[policy], clock=lambda: machine.now, sleep=machine.sleep)


BUDGETS: Mapping[str, Callable[[Machine], Budget]] = {
    "plain": plain,
    "moving": of(CallRatePolicy(((4, 10.0), (100, 60.0)))),
    "fixed": of(CallRatePolicy(((4, 10.0),), renews=True)),
}


@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
def test_budgets_that_are_made_anew_in_each_task_and_epoch_count_together(kind: str, tasks: int) -> None:
    now, sent = NOON, list[float]()
    dealer = BudgetAllocator(lambda: now)
    for _ in range(4):
        machines = [Machine() for _ in range(tasks)]
        for machine, share in zip(machines, dealer.shares(tasks), strict=True):
            machine.now = now
            with sharing(share) as mine:
                # Two streams of a source, each with the budget that it was pickled with.
                budgets = [BUDGETS[kind](machine) for _ in range(2)]
                for number in range(5):
                    budgets[number % 2].acquire(USERS)
                    sent.append(machine.now.timestamp())
            dealer.spent(mine.spent())
        now = max(machine.now for machine in machines)

    assert most_in_a_stretch(sent, 10.0) <= 4
    assert len(sent) == 4 * 5 * tasks


def test_a_budget_outside_of_a_share_counts_alone() -> None:
    time = Time()
    one, other = (Budget(1, TEN, clock=time.clock, sleep=time.sleep) for _ in range(2))

    one.acquire(USERS)
    other.acquire(USERS)

    assert time.slept == []


def test_budgets_with_other_settings_count_alone() -> None:
    time = Time()
    with sharing(TaskShare()):
        for calls in (1, 2, 3):
            Budget(calls, TEN, clock=time.clock, sleep=time.sleep).acquire(USERS)

    assert time.slept == []


@pytest.mark.parametrize("renews", [False, True])
def test_what_an_api_says_is_followed_in_a_share(*, renews: bool) -> None:
    time = Time()
    with sharing(TaskShare(0, 2, NOON.timestamp())):
        shared = Budget(
            policies=[CallRatePolicy(((5, 10.0),), renews=renews)],
            remaining_header="RateLimit-Remaining",
            reset_header="RateLimit-Reset",
            reset="either",
            clock=time.clock,
            sleep=time.sleep,
        )
        shared.acquire(USERS)
        shared.observe(response(headers={"RateLimit-Remaining": "0", "RateLimit-Reset": "30"}))
        shared.acquire(USERS)

    assert time.slept == [30]
