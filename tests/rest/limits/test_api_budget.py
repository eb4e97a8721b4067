import logging
from datetime import timedelta

import pytest

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import RateLimited
from cdk.rest import HttpClient, Request
from cdk.rest.limits.api_budget import ApiBudget
from cdk.rest.limits.rate_policies import CallRatePolicy, FixedWindow, MovingWindow, Unlimited
from cdk.rest.limits.request_matcher import RequestMatcher
from cdk.testing.mock_api import MockApi
from tests.rest.api import NOON, Time, response

TEN = timedelta(seconds=10)
USERS, ORDERS = Request("GET", "https://api.test/users"), Request("GET", "https://api.test/orders")


def budget(time: Time, *policies: CallRatePolicy) -> ApiBudget:
    return ApiBudget(policies, clock=time.clock, sleep=time.sleep)


def test_the_first_policy_about_a_request_counts() -> None:
    time = Time()
    about_users = [RequestMatcher(path=Pattern("users"))]
    shared = budget(time, Unlimited(about_users), MovingWindow([(1, TEN)]))

    for _ in range(5):
        shared.acquire(USERS)
    assert time.slept == []
    shared.acquire(ORDERS)
    shared.acquire(ORDERS)
    assert time.slept == [10]


def test_a_request_that_no_policy_is_about_is_not_held_back() -> None:
    time = Time()
    shared = budget(time, MovingWindow([(1, TEN)], [RequestMatcher(method="POST")]))

    for _ in range(3):
        shared.acquire(USERS)

    assert time.slept == []


def test_waits_do_not_grow_when_the_clock_stands_still() -> None:
    slept: list[float] = []
    shared = ApiBudget([MovingWindow([(1, TEN)])], clock=lambda: NOON, sleep=slept.append)

    for _ in range(4):
        shared.acquire(USERS)

    assert slept == [10, 10, 10]


@pytest.mark.parametrize("reset", [NOON.timestamp() + 30, (NOON.timestamp() + 30) * 1000, 30])
def test_what_the_api_says_is_followed(reset: float) -> None:
    time = Time()
    shared = budget(time, FixedWindow(100, TEN))

    shared.acquire(USERS)
    shared.observe(response(headers={"RateLimit-Remaining": "1", "RateLimit-Reset": f"{reset:.0f}"}))
    shared.acquire(USERS)
    shared.acquire(USERS)

    assert time.slept == [30]


def test_an_answer_that_says_the_limit_is_hit_closes_the_window() -> None:
    time = Time()
    shared = budget(time, MovingWindow([(5, TEN)]))

    shared.acquire(USERS)
    shared.observe(response(status=429, headers={"ratelimit-remaining": "none"}))
    shared.acquire(USERS)

    assert time.slept == [10]


def test_a_wait_that_is_not_worth_it_ends_the_read() -> None:
    time = Time()
    shared = budget(time, FixedWindow(1, timedelta(days=9)))
    shared.acquire(USERS)

    with pytest.raises(RateLimited, match="api_budget"):
        shared.acquire(USERS)

    assert time.slept == []


def test_only_long_waits_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    caplog.set_level(logging.INFO, "cdk")
    for seconds in (1, 90):
        shared = budget(time, MovingWindow([(1, timedelta(seconds=seconds))]))
        shared.acquire(USERS)
        shared.acquire(USERS)

    assert caplog.messages == ["waiting 90.0 s until the budget allows the next call"]


def test_a_client_keeps_to_the_budget() -> None:
    time, api = Time(), MockApi()
    api.get("/users").returns(json=[], headers={"ratelimit-remaining": "0", "ratelimit-reset": "20"}).returns(json=[])
    client = HttpClient(api, budget=budget(time, FixedWindow(100, TEN)))

    client.send(USERS)
    client.send(USERS)

    assert time.slept == [20]
