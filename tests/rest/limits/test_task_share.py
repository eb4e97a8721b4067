import heapq
import pickle
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cdk.base.process.concurrency import Learned
from cdk.engine.executors import Threads
from cdk.rest import Budget, Request
from cdk.rest.limits.budget_lanes import BudgetAllocator, BudgetLanes
from cdk.rest.limits.budget_slice import BudgetSlice, TermEnded
from cdk.rest.limits.rate_policies import CallRatePolicy
from cdk.rest.limits.task_budgets import TaskBudgets, sharing, task_budgets
from cdk.rest.limits.task_share import BudgetUsage, Rates, TaskShare
from cdk.streams.page import ReadPage
from tests.rest.api import NOON, Time, response

TEN = timedelta(seconds=10)
USERS = Request("GET", "https://api.test/users")

limits = st.tuples(st.integers(1, 12), st.sampled_from([1.0, 2.5, 10.0, 60.0]))
some_rates = st.lists(limits, min_size=1, max_size=3)
pauses = st.lists(st.floats(0, 30), min_size=1, max_size=12)


def leased(lanes: BudgetLanes, tasks: int = 1, *streams: int) -> TaskShare:
    share = lanes.lease(tasks, streams)
    assert share is not None
    return share


def most_in_a_stretch(moments: Sequence[float], seconds: float) -> int:
    """The most calls in any period; a call at its very end is in the next one."""
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


class Leases:
    """Tasks that begin and end at any time, each with the lanes that it leased, against the clock of an API."""

    def __init__(self, lanes: int, rates: Rates, heaviest: int) -> None:
        self.now, self.sent = 1000.0, list[float]()
        self._rates, self._heaviest = rates, heaviest
        self._allocator = BudgetAllocator(lambda: datetime.fromtimestamp(self.now, UTC))
        self._lanes = self._allocator.divide(lanes)
        self._tasks: list[tuple[TaskShare, TaskBudgets, int]] = []

    def begin(self, tasks: int) -> None:
        """One of so many; each stream of two reads in every second of them."""
        share = self._lanes.lease(tasks, [tasks % 2])
        if share is not None:
            share = pickle.loads(pickle.dumps(share))  # noqa: S301 - made here
            self._tasks.append((share, TaskBudgets(share), tasks % 2))

    def call(self, task: int) -> None:
        if self._tasks:
            _, budgets, _ = self._tasks[task % len(self._tasks)]
            try:
                portion = budgets.slice_of("a", self._rates, self._heaviest)
            except TermEnded:
                return  # it has shown that it needs a part
            at = portion.reserve(self.now, self._heaviest)
            assert at >= self.now - 1e-5  # a datetime has microseconds
            self.sent.extend([at] * self._heaviest)

    def end(self, task: int) -> None:
        if self._tasks:
            share, budgets, stream = self._tasks.pop(task % len(self._tasks))
            self._lanes.release(share, budgets.usage(), [stream])

    def die(self, task: int) -> None:
        """What it waited for is not sent any more."""
        if self._tasks:
            share, budgets, stream = self._tasks.pop(task % len(self._tasks))
            waits = [at for usage in budgets.usage().values() for at in usage.calls if at > self.now + 1e-5]
            for at in waits:
                self.sent.remove(at)
            self._lanes.release(share, None, [stream])

    def divide(self, lanes: int) -> None:
        """Only while no task runs, and all that was waited for is over."""
        while self._tasks:
            self.end(0)
        self.now = max([self.now, *self.sent])
        self._lanes = self._allocator.divide(lanes, self._lanes.lost)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(1, 5)),
        st.tuples(st.just("call"), st.integers(0, 7)),
        st.tuples(st.just("call"), st.integers(0, 7)),
        st.tuples(st.just("end"), st.integers(0, 7)),
        st.tuples(st.just("die"), st.integers(0, 7)),
        st.tuples(st.just("wait"), st.floats(0, 30)),
        st.tuples(st.just("divide"), st.integers(1, 8)),
    ),
    max_size=80,
)


@given(some_rates, st.integers(1, 3), st.integers(1, 8), steps)
def test_tasks_that_begin_and_end_at_any_time_keep_to_every_limit_together(
    rates: list[tuple[int, float]], heaviest: int, lanes: int, steps: list[tuple[str, float]]
) -> None:
    rates = [(max(limit, heaviest), seconds) for limit, seconds in rates]
    leases = Leases(lanes, rates, heaviest)
    for step, number in steps:
        match step:
            case "wait":
                leases.now += number
            case "begin":
                leases.begin(int(number))
            case "call":
                leases.call(int(number))
            case "end":
                leases.end(int(number))
            case "die":
                leases.die(int(number))
            case _:
                leases.divide(int(number))

    for limit, seconds in rates:
        assert most_in_a_stretch(leases.sent, seconds) <= limit


@given(limits, st.integers(1, 8))
def test_tasks_that_always_want_more_use_what_is_allowed_and_share_it_fairly(
    rate: tuple[int, float], tasks: int
) -> None:
    limit, seconds = rate
    taken = []
    for task in range(tasks):
        portion, times, now = BudgetSlice([rate], TaskShare((task,), tasks)), 0, 0.0
        while (now := portion.reserve(now)) < 100 * seconds:
            times += 1
        taken.append(times)

    assert sum(taken) >= 100 * limit - tasks
    assert max(taken) - min(taken) <= 100


@given(st.integers(0, 100), st.integers(1, 20))
def test_the_parts_of_a_number_are_the_number_and_differ_by_one_at_most(whole: int, tasks: int) -> None:
    parts = [TaskShare((task,), tasks).part(whole) for task in range(tasks)]

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


def test_a_task_knows_what_was_spent_on_its_lanes_before_it_began() -> None:
    time = Time()
    now = NOON.timestamp()
    allocator = BudgetAllocator(time.clock)
    allocator.add_usage({"a": BudgetUsage((now - 8, now - 5, now - 3, now - 1), period_seconds=10.0, limit=4, lanes=4)})
    lanes = allocator.divide(2)
    first, second = (TaskBudgets(leased(lanes, tasks)).slice_of("a", [(4, 10.0)]) for tasks in (2, 1))

    assert [first.reserve(now) - now for _ in range(2)] == [5, 9]
    assert [second.reserve(now) - now for _ in range(2)] == [2, 7]


@given(st.floats(0, 1e8), st.sampled_from([8, 9]))
def test_a_clock_that_is_set_back_between_two_tasks_makes_no_wait_longer(back: float, wait: int) -> None:
    time, rates = Time(), ((3, 10.0),)
    allocator, now = BudgetAllocator(time.clock), NOON.timestamp()
    calls, closed = (now - 2, now - 1, now), now + 9 * (wait == 9)
    allocator.add_usage({"a": BudgetUsage(calls, closed, period_seconds=10.0, limit=3, lanes=3)})
    time.now -= timedelta(seconds=back)
    later = time.now.timestamp()

    lanes = allocator.divide(1)

    at = TaskBudgets(leased(lanes)).slice_of("a", rates).reserve(later)
    assert at - later == pytest.approx(wait, abs=1e-3)


def test_a_task_knows_what_all_tasks_before_it_have_spent_on_its_lanes() -> None:
    lanes, now = BudgetAllocator(Time().clock).divide(1), NOON.timestamp()

    for _ in range(3):
        with sharing(leased(lanes)) as task:
            assert task.slice_of("a", [(3, 10.0)]).reserve(now) == now
        lanes.release(task.share, task.usage())

    assert TaskBudgets(leased(lanes)).slice_of("a", [(3, 10.0)]).reserve(now) == now + 10


def test_an_api_that_allows_no_call_closes_later_tasks_too() -> None:
    time = Time()
    lanes = BudgetAllocator(time.clock).divide(2)
    rates: Rates = ((5, 10.0),)
    with sharing(leased(lanes, 2)) as first:
        first.slice_of("a", rates).close(NOON.timestamp() + 60)
    lanes.release(first.share, first.usage())

    later = [TaskBudgets(leased(lanes, tasks)).slice_of("a", rates) for tasks in (2, 1)]

    assert [portion.reserve(NOON.timestamp()) for portion in later] == [NOON.timestamp() + 60] * 2


def test_who_is_left_alone_leases_what_the_others_had() -> None:
    time = Time()
    lanes = BudgetAllocator(time.clock).divide(3)
    shares = [leased(lanes, tasks) for tasks in (3, 2, 1)]
    for share in shares[1:]:
        lanes.release(share, {})

    assert lanes.free == 2
    lanes.release(shares[0], {})
    alone = TaskBudgets(leased(lanes)).slice_of("a", [(7, 10.0)])

    assert [alone.reserve(NOON.timestamp()) - NOON.timestamp() for _ in range(8)] == [0] * 7 + [10]


def test_what_is_left_is_divided_and_comes_back_when_the_api_counts_anew() -> None:
    portion = BudgetSlice([(100, 60.0)], TaskShare((1,), 2), fixed_window=True)

    portion.reserve(1.0)
    portion.learn(1.0, 3, 20.0)
    assert [portion.reserve(2.0) for _ in range(3)] == [2.0, 20.0, 20.0]
    known = BudgetUsage((20.0, 20.0), renewed=20.0, period_seconds=60.0, limit=100, lanes=100)
    assert replace(portion.usage(), used=0.0) == known


def test_calls_before_the_api_counted_anew_are_forgotten_by_all() -> None:
    spent = BudgetUsage((1.0, 2.0, 21.0), period_seconds=60.0) + BudgetUsage((20.0,), renewed=20.0, period_seconds=60.0)

    assert spent == BudgetUsage((20.0, 21.0), renewed=20.0, period_seconds=60.0)


def test_what_no_longer_counts_is_forgotten() -> None:
    time = Time()
    allocator = BudgetAllocator(time.clock)
    allocator.add_usage({"a": BudgetUsage((NOON.timestamp(),), period_seconds=10.0)})

    assert leased(allocator.divide(1)).spent["a"].calls == (NOON.timestamp(),)
    time.sleep(10)
    assert leased(allocator.divide(1)).spent["a"].calls == ()


def test_a_share_travels() -> None:
    share = TaskShare((1,), 2, 3.0, {"a": BudgetUsage((1.0,), 2.0, 0.0, 4.0)}, {"a": (1.0,)})

    assert pickle.loads(pickle.dumps(share)) == share  # noqa: S301 - made here


def test_threads_that_read_in_a_task_keep_to_its_share() -> None:
    def read(_: int) -> list[ReadPage]:
        return [ReadPage([{"known": task_budgets() is mine}])]

    with sharing(TaskShare((0,), 2)) as mine:
        pages = [page for _, page in Threads(3, Learned(3))(iter(range(9)), lambda n: iter(read(n)))]
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
    "fixed": of(CallRatePolicy(((4, 10.0),), fixed_window=True)),
}


@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
def test_budgets_that_are_made_anew_in_each_task_count_together(kind: str, tasks: int) -> None:
    now, sent = NOON, list[float]()
    lanes = BudgetAllocator(lambda: now).divide(tasks)
    for _ in range(4):
        machines, spent = [Machine() for _ in range(tasks)], list[tuple[TaskShare, Mapping[str, BudgetUsage]]]()
        for machine in machines:
            share = leased(lanes, tasks - len(spent))
            machine.now = now
            with sharing(share) as mine:
                # Two streams of a source, each with the budget that it was pickled with.
                budgets = [BUDGETS[kind](machine) for _ in range(2)]
                for number in range(5):
                    budgets[number % 2].acquire(USERS)
                    sent.append(machine.now.timestamp())
            spent.append((share, mine.usage()))
        for share, usage in spent:
            lanes.release(share, usage)
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


@pytest.mark.parametrize("fixed_window", [False, True])
def test_what_an_api_says_is_followed_in_a_share(*, fixed_window: bool) -> None:
    time = Time()
    with sharing(TaskShare((0,), 2, NOON.timestamp())):
        shared = Budget(
            policies=[CallRatePolicy(((5, 10.0),), fixed_window=fixed_window)],
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
