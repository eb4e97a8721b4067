"""What an API allows, divided over the tasks and the planning of a sync."""

from collections.abc import Mapping

from cdk.base.process.request_lease import RequestLease, leasing
from cdk.rest.limits.run_budgets import RunBudgets
from cdk.rest.limits.task_share import BudgetAllocator, BudgetUsage, TaskBudgets, TaskShare, task_budgets
from tests.rest.api import NOON, Time

RATES = ((6, 10.0),)
NOW = NOON.timestamp()


def calls(share: TaskShare, count: int) -> tuple[list[float], Mapping[str, BudgetUsage]]:
    """When a task may make so many calls, in seconds from noon, and what it spends so."""
    budgets = TaskBudgets(share)
    return [budgets.slice_of("a", RATES).reserve(NOW) - NOW for _ in range(count)], budgets.spent()


def plan(budgets: RunBudgets, count: int) -> list[float]:
    with budgets.planning():
        mine = task_budgets()
        assert mine is not None
        return [mine.slice_of("a", RATES).reserve(NOW) - NOW for _ in range(count)]


def test_the_idle_tasks_share_what_is_free_and_the_last_one_gets_all() -> None:
    budgets = RunBudgets(3, BudgetAllocator(Time().clock))
    first, second = budgets.lease(3, last=False), budgets.lease(2, last=False)

    assert (len(first.lanes), len(second.lanes)) == (1, 1)
    budgets.release(first, {})
    assert len(budgets.lease(2, last=True).lanes) == 2
    assert budgets.exhausted


def test_planning_that_calls_has_a_lane_of_its_own_beside_the_tasks() -> None:
    budgets = RunBudgets(2, BudgetAllocator(Time().clock))
    assert plan(budgets, 3) == [0, 0, 0]

    # Three of six calls are taken, one of each lane; planning and two tasks have one more each.
    shares = [budgets.lease(2, last=False), budgets.lease(1, last=False)]
    assert [calls(share, 2)[0] for share in shares] == [[0, 10], [0, 10]]
    assert plan(budgets, 2) == [0, 10]


def test_planning_that_calls_nothing_leaves_all_to_the_tasks() -> None:
    budgets = RunBudgets(2, BudgetAllocator(Time().clock))
    plan(budgets, 0)

    assert [calls(budgets.lease(idle, last=False), 4)[0] for idle in (2, 1)] == [[0, 0, 0, 10], [0, 0, 0, 10]]


def test_tasks_are_lent_half_of_the_requests_that_are_left_and_the_last_one_all() -> None:
    with leasing(RequestLease(400)) as lease:
        budgets = RunBudgets(3, BudgetAllocator(Time().clock))
    first, last = budgets.lease(2, last=False), budgets.lease(1, last=True)

    assert (first.requests, last.requests, budgets.requests_spent, budgets.exhausted) == (100, 300, True, True)
    budgets.release(first, {}, 40)
    assert (lease.unsent, budgets.exhausted) == (60, False)
    budgets.release(last, {}, None)
    assert lease.unsent == 60


def test_the_next_sync_of_the_process_knows_what_this_one_has_spent() -> None:
    allocator = BudgetAllocator(Time().clock)
    budgets = RunBudgets(1, allocator)
    share = budgets.lease(1, last=True)
    moments, spent = calls(share, 4)
    budgets.release(share, spent)

    assert moments == [0, 0, 0, 0]
    assert calls(RunBudgets(1, allocator).lease(1, last=True), 3)[0] == [0, 0, 10]


def test_more_tasks_get_lanes_of_their_own_once_those_that_run_have_ended() -> None:
    budgets = RunBudgets(2, BudgetAllocator(Time().clock))
    first, second = budgets.lease(2, last=False), budgets.lease(1, last=False)
    budgets.grow(3)
    budgets.release(first, calls(first, 3)[1])

    assert budgets.exhausted
    budgets.release(second, {})
    assert not budgets.exhausted
    shares = [budgets.lease(idle, last=False) for idle in (3, 2, 1)]
    assert [calls(share, 2)[0] for share in shares] == [[0, 10], [0, 10], [0, 10]]
    assert budgets.exhausted
