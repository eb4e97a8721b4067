from datetime import timedelta

import pytest

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import ConfigError
from cdk.rest import Request
from cdk.rest.limits.rate_policies import FixedWindow, MovingWindow, Unlimited, weight_of
from cdk.rest.limits.request_matcher import RequestMatcher

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
USERS = Request("GET", "https://api.test/users")


def test_unlimited_requests_never_wait() -> None:
    assert [Unlimited().reserve(100, 1) for _ in range(3)] == [100, 100, 100]


def test_a_fixed_window_opens_again_as_a_whole() -> None:
    policy = FixedWindow(2, MINUTE)

    assert [policy.reserve(100, 1) for _ in range(5)] == [100, 100, 160, 160, 220]
    assert policy.reserve(1000, 2) == 1000


def test_a_fixed_window_ends_when_the_api_says() -> None:
    policy = FixedWindow(10, MINUTE)
    policy.reserve(100, 1)

    policy.learn(100, 1, 105)

    assert [policy.reserve(100, 1) for _ in range(3)] == [100, 105, 105]


def test_calls_left_are_never_more_than_known() -> None:
    policy = FixedWindow(2, MINUTE)
    policy.reserve(100, 2)

    policy.learn(100, 5, None)

    assert policy.reserve(100, 1) == 160


def test_a_window_that_others_wait_for_moves_with_the_api() -> None:
    policy = FixedWindow(1, MINUTE)
    assert [policy.reserve(100, 1) for _ in range(2)] == [100, 160]

    policy.learn(100, 0, 130)

    assert policy.reserve(100, 1) == 190


def test_a_reset_that_has_passed_opens_the_next_window() -> None:
    policy = FixedWindow(1, MINUTE)
    policy.reserve(100, 1)

    policy.learn(101, 0, 99)

    assert policy.reserve(102, 1) == 102


def test_a_moving_window_keeps_every_rate() -> None:
    policy = MovingWindow([(3, MINUTE), (2, SECOND)])

    assert [policy.reserve(100, 1) for _ in range(6)] == [100, 100, 101, 160, 160, 161]


def test_a_heavy_request_takes_several_places() -> None:
    policy = MovingWindow([(3, MINUTE)])

    assert [policy.reserve(100, weight) for weight in (2, 2, 1, 3)] == [100, 160, 160, 220]


def test_a_limit_that_was_hit_closes_a_moving_window() -> None:
    policy = MovingWindow([(5, SECOND), (10, MINUTE)])

    policy.learn(100, 0, None)
    assert policy.reserve(100, 1) == 101
    policy.learn(101, 3, 900)
    assert policy.reserve(101, 1) == 101
    policy.learn(101, 0, 130)
    assert policy.reserve(101, 1) == 130


def test_the_first_matcher_that_is_about_a_request_weighs_it() -> None:
    matchers = [RequestMatcher(path=Pattern("users"), weight=3), RequestMatcher(method="GET")]

    assert weight_of(FixedWindow(5, MINUTE, matchers), USERS) == 3
    assert weight_of(FixedWindow(5, MINUTE, matchers[1:]), USERS) == 1
    assert weight_of(FixedWindow(5, MINUTE, [RequestMatcher(method="PUT")]), USERS) is None
    assert weight_of(Unlimited(), USERS) == 1


def test_what_allows_nothing_is_refused() -> None:
    heavy = [RequestMatcher(weight=3)]
    with pytest.raises(ConfigError, match="weight 3 never fits a limit of 2"):
        FixedWindow(2, MINUTE, heavy)
    with pytest.raises(ConfigError, match="weight 3 never fits a limit of 2"):
        MovingWindow([(9, MINUTE), (2, SECOND)], heavy)
    with pytest.raises(ConfigError, match="at least 1"):
        FixedWindow(0, MINUTE)
    with pytest.raises(ConfigError, match="more than 0"):
        MovingWindow([(1, timedelta())])
    with pytest.raises(ConfigError, match="at least one rate"):
        MovingWindow([])
