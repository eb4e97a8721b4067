import logging
import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis.strategies import floats, lists, tuples

from cdk import ConfigError, RateLimited
from cdk.base.bounded_regex import Pattern
from cdk.rest import Budget, HttpClient, Request
from cdk.rest.limits.budget import ResetUnit
from cdk.rest.limits.rate_policies import CallRatePolicy, RequestMatcher
from cdk.testing.mock_api import MockApi
from tests.rest.api import NOON, Time, response

USERS, ORDERS = Request("GET", "https://api.test/users"), Request("GET", "https://api.test/orders")
ONE_IN_TEN = CallRatePolicy(((1, 10.0),))


def test_no_stretch_of_a_period_has_more_calls_than_allowed() -> None:
    time = Time()
    budget = Budget(3, timedelta(seconds=10), clock=time.clock, sleep=time.sleep)
    taken = []

    for _ in range(10):
        budget.acquire(USERS)
        taken.append(time.now)
        time.sleep(1)

    assert all(late - early >= timedelta(seconds=10) for early, late in zip(taken, taken[3:], strict=False))
    assert taken[3] - taken[0] == timedelta(seconds=10)


def test_a_window_moves_instead_of_starting_again() -> None:
    time = Time()
    budget = Budget(2, timedelta(seconds=10), clock=time.clock, sleep=time.sleep)

    budget.acquire(USERS)
    time.sleep(9)
    budget.acquire(USERS)
    time.sleep(1)
    budget.acquire(USERS)
    budget.acquire(USERS)

    assert time.slept == [9, 1, 9]


@pytest.mark.parametrize("reset", ["epoch", "seconds"])
def test_a_spent_limit_waits_for_its_reset(reset: ResetUnit) -> None:
    time = Time()
    budget = Budget(remaining_header="X-Left", reset_header="X-Reset", reset=reset, clock=time.clock, sleep=time.sleep)
    value = str(NOON.timestamp() + 30) if reset == "epoch" else "30"

    budget.observe(response(headers={"X-Left": "1", "X-Reset": value}))
    budget.acquire(USERS)
    assert time.slept == []
    budget.observe(response(headers={"X-Left": "0", "X-Reset": value}))
    budget.acquire(USERS)
    budget.observe(response(headers={"X-Left": "none", "X-Reset": value}))
    budget.acquire(USERS)

    assert time.slept == [30]


@pytest.mark.parametrize("later", [601, 1000 * NOON.timestamp()])
def test_a_reset_too_far_away_ends_the_read_instead_of_sleeping(later: float) -> None:
    time = Time()
    budget = Budget(remaining_header="X-Left", reset_header="X-Reset", clock=time.clock, sleep=time.sleep)
    budget.observe(response(headers={"X-Left": "0", "X-Reset": str(NOON.timestamp() + later)}))

    with pytest.raises(RateLimited, match=r"X-Reset, .*max_wait.*'epoch'") as caught:
        budget.acquire(USERS)

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

    budget.acquire(USERS)
    budget.acquire(USERS)

    assert time.slept == [3600]


def test_a_reset_that_is_no_moment_is_ignored() -> None:
    budget = Budget(remaining_header="X-Left", reset_header="X-Reset", sleep=_refuse)

    budget.observe(response(headers={"X-Left": "0", "X-Reset": "inf"}))

    budget.acquire(USERS)


def test_only_long_waits_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    caplog.set_level(logging.INFO, "cdk")
    for seconds in (1, 90):
        budget = Budget(1, timedelta(seconds=seconds), clock=time.clock, sleep=time.sleep)
        budget.acquire(USERS)
        budget.acquire(USERS)

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
    budget.acquire(USERS)

    again = pickle.loads(pickle.dumps(budget))  # noqa: S301 - made here

    again.acquire(USERS)


def test_a_budget_must_allow_something() -> None:
    with pytest.raises(ConfigError):
        Budget(0)
    with pytest.raises(ConfigError):
        Budget(remaining_header="X-Left")


def budget_of(time: Time, *policies: CallRatePolicy) -> Budget:
    return Budget(
        policies=policies,
        remaining_header="RateLimit-Remaining",
        reset_header="RateLimit-Reset",
        reset="either",
        limit_statuses={429},
        max_wait=timedelta(days=1),
        clock=time.clock,
        sleep=time.sleep,
    )


def fixed(limit: int, period: float) -> CallRatePolicy:
    return CallRatePolicy(((limit, period),), fixed_window=True)


def test_the_first_policy_about_a_request_counts() -> None:
    time = Time()
    about_users = (RequestMatcher(path=Pattern("users")),)
    budget = budget_of(time, CallRatePolicy(None, about_users), ONE_IN_TEN)

    for _ in range(5):
        budget.acquire(USERS)
    assert time.slept == []
    budget.acquire(ORDERS)
    budget.acquire(ORDERS)
    assert time.slept == [10]


def test_a_request_that_no_policy_is_about_is_not_held_back() -> None:
    time = Time()
    budget = budget_of(time, CallRatePolicy(((1, 10.0),), (RequestMatcher(method="POST"),)))

    for _ in range(3):
        budget.acquire(USERS)

    assert time.slept == []


def test_requests_without_a_limit_do_not_wait_for_a_limit_that_was_hit() -> None:
    time = Time()
    budget = budget_of(time, CallRatePolicy())

    budget.observe(response(status=429, headers={"RateLimit-Reset": "30"}))
    budget.acquire(USERS)

    assert time.slept == []


def test_waits_do_not_grow_when_the_clock_stands_still() -> None:
    slept: list[float] = []
    budget = Budget(1, timedelta(seconds=10), clock=lambda: NOON, sleep=slept.append)

    for _ in range(4):
        budget.acquire(USERS)

    assert slept == [10, 10, 10]


@pytest.mark.parametrize("reset", [NOON.timestamp() + 30, (NOON.timestamp() + 30) * 1000, 30])
def test_a_number_of_either_unit_is_followed(reset: float) -> None:
    time = Time()
    budget = budget_of(time, fixed(100, 10))

    budget.acquire(USERS)
    budget.observe(response(headers={"RateLimit-Remaining": "1", "RateLimit-Reset": f"{reset:.0f}"}))
    budget.acquire(USERS)
    budget.acquire(USERS)

    assert time.slept == [30]


def test_an_answer_that_says_the_limit_is_hit_closes_the_window() -> None:
    time = Time()
    budget = budget_of(time, CallRatePolicy(((5, 10.0),)))

    budget.acquire(USERS)
    budget.observe(response(status=429, headers={"ratelimit-remaining": "none"}))
    budget.acquire(USERS)

    assert time.slept == [10]


def test_a_wait_of_more_than_a_day_ends_the_read() -> None:
    time = Time()
    budget = budget_of(time, fixed(1, 9 * 86_400.0))
    budget.acquire(USERS)

    with pytest.raises(RateLimited, match="RateLimit-Reset"):
        budget.acquire(USERS)

    assert time.slept == []


def test_a_client_keeps_to_the_windows_of_the_api() -> None:
    time, api = Time(), MockApi()
    api.get("/users").returns(json=[], headers={"ratelimit-remaining": "0", "ratelimit-reset": "20"}).returns(json=[])
    client = HttpClient(api, budget=budget_of(time, fixed(100, 10)))

    client.send(USERS)
    client.send(USERS)

    assert time.slept == [20]


def _refuse(seconds: float) -> None:
    raise AssertionError(f"slept {seconds} s")


@given(lists(tuples(floats(0, 4), floats(0, 1e7)), max_size=20))
def test_a_clock_that_is_set_back_makes_no_wait_longer(steps: list[tuple[float, float]]) -> None:
    time, elapsed, taken = Time(), 0.0, [0.0]
    budget = Budget(3, timedelta(seconds=10), clock=time.clock, sleep=time.sleep)
    budget.acquire(USERS)

    for passed, set_back in steps:
        time.now += timedelta(seconds=passed - set_back)
        before = len(time.slept)
        budget.acquire(USERS)
        elapsed += passed + sum(time.slept[before:])
        taken.append(elapsed)

    assert max(time.slept, default=0.0) <= 10 + 1e-3
    assert all(late - early >= 10 - 1e-3 for early, late in zip(taken, taken[3:], strict=False))


@pytest.mark.parametrize(("reset", "value"), [("epoch", NOON.timestamp() + 30), ("seconds", 30)])
def test_a_reset_is_as_far_away_after_the_clock_was_set_back(reset: ResetUnit, value: float) -> None:
    time = Time()
    budget = Budget(remaining_header="X-Left", reset_header="X-Reset", reset=reset, clock=time.clock, sleep=time.sleep)
    budget.observe(response(headers={"X-Left": "0", "X-Reset": str(value)}))
    time.now -= timedelta(days=300)

    budget.acquire(USERS)

    assert time.slept == [30]
