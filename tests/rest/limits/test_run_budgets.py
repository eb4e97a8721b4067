"""What an API allows, divided over the tasks and the planning of a sync."""

from collections.abc import Mapping

import pytest

from cdk.base.process.request_lease import RequestLease, leasing
from cdk.rest.limits.budget_lanes import BudgetAllocator
from cdk.rest.limits.budget_slice import TermEnded
from cdk.rest.limits.run_budgets import RunBudgets
from cdk.rest.limits.task_budgets import TaskBudgets, task_budgets
from cdk.rest.limits.task_share import BudgetUsage, TaskShare
from tests.rest.api import NOON, Time

RATES = ((6, 10.0),)
NOW = NOON.timestamp()


def calls(share: TaskShare, count: int) -> tuple[list[float], Mapping[str, BudgetUsage]]:
    """When a task may make so many calls, in seconds from noon, and what it spends so."""
    budgets = TaskBudgets(share)
    return [budgets.slice_of("a", RATES).reserve(NOW) - NOW for _ in range(count)], budgets.usage()


def leased(budgets: RunBudgets, tasks: int, *streams: int) -> TaskShare:
    share = budgets.lease(tasks, streams)
    assert share is not None
    return share


def plan(budgets: RunBudgets, count: int) -> list[float]:
    with budgets.planning():
        mine = task_budgets()
        assert mine is not None
        return [mine.slice_of("a", RATES).reserve(NOW) - NOW for _ in range(count)]


def test_the_idle_tasks_share_what_is_free_and_the_last_one_gets_all() -> None:
    budgets = RunBudgets(3, BudgetAllocator(Time().clock))
    first, second = leased(budgets, 3), leased(budgets, 2)

    assert (len(first.lanes), len(second.lanes)) == (1, 1)
    budgets.release(first, {})
    assert len(leased(budgets, 1).lanes) == 2
    assert budgets.exhausted


def test_planning_that_calls_has_a_lane_of_its_own_beside_the_tasks() -> None:
    budgets = RunBudgets(2, BudgetAllocator(Time().clock))
    assert plan(budgets, 3) == [0, 0, 0]

    # Three of six calls are taken, one of each lane; planning and two tasks have one more each.
    shares = [leased(budgets, 2), leased(budgets, 1)]
    assert [calls(share, 2)[0] for share in shares] == [[0, 10], [0, 10]]
    assert plan(budgets, 2) == [0, 10]


def test_planning_that_calls_nothing_leaves_all_to_the_tasks() -> None:
    budgets = RunBudgets(2, BudgetAllocator(Time().clock))
    plan(budgets, 0)

    assert [calls(leased(budgets, idle), 4)[0] for idle in (2, 1)] == [[0, 0, 0, 10], [0, 0, 0, 10]]


def test_tasks_are_lent_half_of_the_requests_that_are_left_and_the_last_one_all() -> None:
    with leasing(RequestLease(400)) as lease:
        budgets = RunBudgets(3, BudgetAllocator(Time().clock))
    first, last = leased(budgets, 2), leased(budgets, 1)

    assert (first.requests, last.requests, budgets.requests_spent, budgets.exhausted) == (100, 300, True, True)
    budgets.release(first, {}, 40)
    assert (lease.unsent, budgets.exhausted) == (60, False)
    budgets.release(last, {}, None)
    assert lease.unsent == 60


def test_the_next_sync_of_the_process_knows_what_this_one_has_spent() -> None:
    allocator = BudgetAllocator(Time().clock)
    budgets = RunBudgets(1, allocator)
    share = leased(budgets, 1)
    moments, spent = calls(share, 4)
    budgets.release(share, spent)

    assert moments == [0, 0, 0, 0]
    assert calls(leased(RunBudgets(1, allocator), 1), 3)[0] == [0, 0, 10]


def test_more_tasks_get_lanes_of_their_own_once_those_that_run_have_ended() -> None:
    budgets = RunBudgets(2, BudgetAllocator(Time().clock))
    first, second = leased(budgets, 2), leased(budgets, 1)
    budgets.grow(3)
    budgets.release(first, calls(first, 3)[1])

    assert budgets.exhausted
    budgets.release(second, {})
    assert not budgets.exhausted
    shares = [leased(budgets, idle) for idle in (3, 2, 1)]
    assert [calls(share, 2)[0] for share in shares] == [[0, 10], [0, 10], [0, 10]]
    assert budgets.exhausted


def test_streams_that_do_not_call_leave_all_to_those_that_do() -> None:
    budgets = RunBudgets(2, BudgetAllocator(Time().clock))
    first, second = leased(budgets, 2, 0), leased(budgets, 1, 1)
    budgets.release(first, calls(first, 3)[1], 0, [0])
    budgets.release(second, {}, 0, [1])

    quiet, calling = leased(budgets, 2, 1), leased(budgets, 1, 0)
    assert calls(calling, 4)[0] == [0, 0, 0, 10]
    with pytest.raises(TermEnded):
        calls(quiet, 1)


def test_a_task_waits_until_another_gives_back_what_it_needs() -> None:
    budgets = RunBudgets(2, BudgetAllocator(Time().clock))
    first = leased(budgets, 1, 0)
    budgets.release(first, calls(first, 6)[1], 0, [0])
    first = leased(budgets, 1, 0)

    assert budgets.lease(1, [0]) is None
    budgets.release(first, {}, 0, [0])
    assert budgets.lease(1, [0]) is not None


def test_what_a_task_may_have_called_that_died_counts_as_called() -> None:
    budgets = RunBudgets(2, BudgetAllocator(Time().clock))
    budgets.release(leased(budgets, 2, 0), None, None, [0])

    # Its worker may live on for two seconds.
    assert [calls(leased(budgets, tasks, 0), 4)[0] for tasks in (2, 1)] == [[12, 12, 12, 22], [0, 0, 0, 10]]
