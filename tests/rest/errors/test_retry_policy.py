import pytest

from cdk.base.errors import RateLimited, Timeout
from cdk.rest import Backoff, RetryPolicy
from cdk.rest.errors.wait_strategies import WaitStrategy, from_header
from tests.rest.api import NOON, response

STEADY = Backoff(jitter=0)


def policy(*waits: WaitStrategy) -> RetryPolicy:
    return RetryPolicy(waits=waits, backoff=STEADY, caps_retry_after=True, clock=lambda: NOON)


def test_the_first_strategy_that_can_tell_is_followed_with_a_second_more() -> None:
    assert policy(lambda *_: None, lambda *_: 0, lambda *_: 4, lambda *_: 9).seconds(response(status=500), 1) == 5


def test_a_negative_wait_says_nothing() -> None:
    assert policy(lambda *_: -3).seconds(response(status=500), 1) == 1


@pytest.mark.parametrize(("attempt", "expected"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16)])
def test_without_a_strategy_waits_double(attempt: int, expected: float) -> None:
    assert policy().seconds(response(status=500), attempt) == expected
    assert policy(lambda *_: None).seconds(Timeout("gone"), attempt) == expected


def test_without_a_strategy_the_api_is_asked_up_to_the_longest_wait() -> None:
    assert policy().seconds(response(status=429, headers={"Retry-After": "30"}), 1) == 30
    assert policy().seconds(response(status=429, headers={"Retry-After": "3600"}), 1) == 600


@pytest.mark.parametrize("header", ["0", "-1", "Wed, 21 Oct 2015 07:28:00 GMT"])
@pytest.mark.parametrize("waits", [(), (from_header("Retry-After"),)])
def test_a_wait_of_nothing_is_honoured_once_and_then_waits_double(header: str, waits: tuple[WaitStrategy, ...]) -> None:
    refused = response(status=429, headers={"Retry-After": header})

    assert [policy(*waits).seconds(refused, attempt) for attempt in (1, 2, 3, 4, 5)] == [0, 2, 4, 8, 16]


def test_a_wait_that_is_not_worth_it_ends_the_read() -> None:
    told = RateLimited("an hour", wait=3600)

    with pytest.raises(RateLimited, match="try again later") as caught:
        RetryPolicy().seconds(response(status=503, headers={"Retry-After": "3600"}), 1)
    assert caught.value.wait == 3600
    with pytest.raises(RateLimited) as caught:
        policy().seconds(told, 1)
    assert caught.value is told
    assert policy().seconds(RateLimited("soon", wait=30), 1) == 30


def test_what_was_told_goes_before_the_usual() -> None:
    assert policy().seconds(response(status=500), 3, default=9) == 9
    assert policy(lambda *_: 2).seconds(response(status=500), 3, default=9) == 3


@pytest.mark.parametrize("seconds", [86_400.0, 1e30])
def test_a_wait_of_a_day_is_none(seconds: float) -> None:
    with pytest.raises(RateLimited, match="try again later"):
        policy(lambda *_: seconds).seconds(response(status=500), 1)
