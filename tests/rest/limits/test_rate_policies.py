from typing import Any

import pytest

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import ConfigError
from cdk.rest import Request
from cdk.rest.limits.rate_policies import CallRatePolicy, FixedWindow, RequestMatcher

RATES = ((5, 60.0),)
USERS = Request("GET", "https://api.test/users")


def test_a_fixed_window_opens_again_as_a_whole() -> None:
    window = FixedWindow(2, 60)

    assert [window.reserve(100, 1) for _ in range(5)] == [100, 100, 160, 160, 220]
    assert window.reserve(1000, 2) == 1000


def test_a_fixed_window_ends_when_the_api_says() -> None:
    window = FixedWindow(10, 60)
    window.reserve(100, 1)

    window.learn(100, 1, 105)

    assert [window.reserve(100, 1) for _ in range(3)] == [100, 105, 105]


def test_calls_left_are_never_more_than_known() -> None:
    window = FixedWindow(2, 60)
    window.reserve(100, 2)

    window.learn(100, 5, None)

    assert window.reserve(100, 1) == 160


def test_a_window_that_others_wait_for_moves_with_the_api() -> None:
    window = FixedWindow(1, 60)
    assert [window.reserve(100, 1) for _ in range(2)] == [100, 160]

    window.learn(100, 0, 130)

    assert window.reserve(100, 1) == 190


def test_a_reset_that_has_passed_opens_the_next_window() -> None:
    window = FixedWindow(1, 60)
    window.reserve(100, 1)

    window.learn(101, 0, 99)

    assert window.reserve(102, 1) == 102


def test_the_first_matcher_that_is_about_a_request_weighs_it() -> None:
    matchers = (RequestMatcher(path=Pattern("users"), weight=3), RequestMatcher(method="GET"))

    assert CallRatePolicy(RATES, matchers).weight(USERS) == 3
    assert CallRatePolicy(RATES, matchers[1:]).weight(USERS) == 1
    assert CallRatePolicy(RATES, (RequestMatcher(method="PUT"),)).weight(USERS) is None
    assert CallRatePolicy().weight(USERS) == 1


def test_what_allows_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="weight 3 never fits a limit of 2"):
        CallRatePolicy(((9, 60.0), (2, 1.0)), (RequestMatcher(weight=3),))
    with pytest.raises(ConfigError, match="at least 1"):
        CallRatePolicy(((0, 60.0),))
    with pytest.raises(ConfigError, match="more than 0"):
        CallRatePolicy(((1, 0.0),))


FILTERED = Request("GET", "https://api.test/v1/users?x=1", {"y": 2}, {"Accept": "a/b"})


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, True),
        ({"method": "get"}, True),
        ({"method": "POST"}, False),
        ({"url_base": "https://api.test"}, True),
        ({"url_base": "https://api.test/"}, True),
        ({"url_base": "https://api.test/v1"}, False),
        ({"url_base": "http://api.test"}, False),
        ({"path": Pattern("^/v1")}, True),
        ({"path": Pattern("users$")}, True),
        ({"path": Pattern("x=1")}, False),
        ({"params": {"x": "1"}}, True),
        ({"params": {"x": "1", "y": "2"}}, True),
        ({"params": {"z": "1"}}, False),
        ({"headers": {"ACCEPT": "a/b"}}, True),
        ({"headers": {"accept": "A/B"}}, False),
        ({"method": "GET", "path": Pattern("orders")}, False),
    ],
)
def test_all_given_parts_must_match(parts: dict[str, Any], *, expected: bool) -> None:
    assert RequestMatcher(**parts).matches(FILTERED) is expected
