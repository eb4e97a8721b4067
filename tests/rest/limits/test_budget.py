import logging
import pickle
from datetime import timedelta

import pytest

from cdk import ConfigError, RateLimited
from cdk.rest import Budget, HttpClient, Request
from cdk.testing.mock_api import MockApi
from tests.rest.api import NOON, Time, response


def test_no_stretch_of_a_period_has_more_calls_than_allowed() -> None:
    time = Time()
    budget = Budget(3, timedelta(seconds=10), clock=time.clock, sleep=time.sleep)
    taken = []

    for _ in range(10):
        budget.acquire()
        taken.append(time.now)
        time.sleep(1)

    assert all(late - early >= timedelta(seconds=10) for early, late in zip(taken, taken[3:], strict=False))
    assert taken[3] - taken[0] == timedelta(seconds=10)


def test_a_window_moves_instead_of_starting_again() -> None:
    time = Time()
    budget = Budget(2, timedelta(seconds=10), clock=time.clock, sleep=time.sleep)

    budget.acquire()
    time.sleep(9)
    budget.acquire()
    time.sleep(1)
    budget.acquire()
    budget.acquire()

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
    budget.acquire()
    assert time.slept == []
    budget.observe(response(headers={"X-Left": "0", "X-Reset": value}))
    budget.acquire()
    budget.observe(response(headers={"X-Left": "none", "X-Reset": value}))
    budget.acquire()

    assert time.slept == [30]


@pytest.mark.parametrize("later", [601, 1000 * NOON.timestamp()])
def test_a_reset_too_far_away_ends_the_read_instead_of_sleeping(later: float) -> None:
    time = Time()
    budget = Budget(remaining_header="X-Left", reset_header="X-Reset", clock=time.clock, sleep=time.sleep)
    budget.observe(response(headers={"X-Left": "0", "X-Reset": str(NOON.timestamp() + later)}))

    with pytest.raises(RateLimited, match=r"X-Reset .*max_wait.*'epoch'") as caught:
        budget.acquire()

    assert caught.value.wait == later
    assert time.slept == []


def test_a_client_gives_up_on_a_reset_too_far_away() -> None:
    time, api = Time(), MockApi()
    api.get("/a").returns(json=[], headers={"X-Left": "0", "X-Reset": "3600"})
    budget = Budget(remaining_header="X-Left", reset_header="X-Reset", reset="seconds", clock=time.clock)
    client = HttpClient(api, budget=budget, sleep=_refuse)

    client.send(Request("GET", "https://api.test/a"))
    with pytest.raises(RateLimited):
        client.send(Request("GET", "https://api.test/a"))

    assert len(api.requests) == 1


def test_a_period_may_be_longer_than_the_longest_wait_for_a_reset() -> None:
    time = Time()
    budget = Budget(1, timedelta(hours=1), clock=time.clock, sleep=time.sleep)

    budget.acquire()
    budget.acquire()

    assert time.slept == [3600]


def test_a_reset_that_is_no_moment_is_ignored() -> None:
    budget = Budget(remaining_header="X-Left", reset_header="X-Reset", sleep=_refuse)

    budget.observe(response(headers={"X-Left": "0", "X-Reset": "inf"}))

    budget.acquire()


def test_only_long_waits_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    caplog.set_level(logging.INFO, "cdk")
    for seconds in (1, 90):
        budget = Budget(1, timedelta(seconds=seconds), clock=time.clock, sleep=time.sleep)
        budget.acquire()
        budget.acquire()

    assert caplog.messages == ["waiting 90.0 s until the budget allows the next call"]


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
    budget.acquire()

    again = pickle.loads(pickle.dumps(budget))  # noqa: S301 - made here

    again.acquire()


def test_a_budget_must_allow_something() -> None:
    with pytest.raises(ConfigError):
        Budget(0)
    with pytest.raises(ConfigError):
        Budget(remaining_header="X-Left")


def _refuse(seconds: float) -> None:
    raise AssertionError(f"slept {seconds} s")
