import pickle
from datetime import timedelta

import pytest

from cdk import ConfigError
from cdk.rest import Budget, HttpClient, Request
from cdk.testing.mock_api import MockApi
from tests.rest.api import NOON, Time, response


def test_no_stretch_of_a_period_has_more_calls_than_allowed() -> None:
    time = Time()
    budget = Budget(3, timedelta(seconds=10), clock=time.clock, sleep=time.sleep)
    taken = []

    for _ in range(10):
        budget.take()
        taken.append(time.now)
        time.sleep(1)

    assert all(late - early >= timedelta(seconds=10) for early, late in zip(taken, taken[3:], strict=False))
    assert taken[3] - taken[0] == timedelta(seconds=10)


def test_a_window_moves_instead_of_starting_again() -> None:
    time = Time()
    budget = Budget(2, timedelta(seconds=10), clock=time.clock, sleep=time.sleep)

    budget.take()
    time.sleep(9)
    budget.take()
    time.sleep(1)
    budget.take()
    budget.take()

    assert time.slept == [9, 1, 9]


@pytest.mark.parametrize("reset", ["epoch", "seconds"])
def test_a_spent_limit_waits_for_its_reset(reset: str) -> None:
    time = Time()
    budget = Budget(
        remaining_header="X-Left",
        reset_header="X-Reset",
        reset="epoch" if reset == "epoch" else "seconds",
        clock=time.clock,
        sleep=time.sleep,
    )
    value = str(NOON.timestamp() + 30) if reset == "epoch" else "30"

    budget.observe(response(headers={"X-Left": "1", "X-Reset": value}))
    budget.take()
    assert time.slept == []
    budget.observe(response(headers={"X-Left": "0", "X-Reset": value}))
    budget.take()
    budget.observe(response(headers={"X-Left": "none", "X-Reset": value}))
    budget.take()

    assert time.slept == [30]


def test_a_client_asks_its_budget_before_each_attempt() -> None:
    time, api = Time(), MockApi()
    api.get("/a").returns(json=[])
    budget = Budget(1, timedelta(seconds=5), clock=time.clock, sleep=time.sleep)
    client = HttpClient(api, budget=budget)

    client.send(Request("GET", "https://api.test/a"))
    client.send(Request("GET", "https://api.test/a"))

    assert time.slept == [5]


def test_a_budget_starts_fresh_in_another_process() -> None:
    budget = Budget(1, timedelta(days=1), sleep=_refuse)
    budget.take()

    again = pickle.loads(pickle.dumps(budget))  # noqa: S301 - made here

    again.take()


def test_a_budget_must_allow_something() -> None:
    with pytest.raises(ConfigError):
        Budget(0)
    with pytest.raises(ConfigError):
        Budget(remaining_header="X-Left")


def _refuse(seconds: float) -> None:
    raise AssertionError(f"slept {seconds} s")
