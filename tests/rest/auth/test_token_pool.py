import pickle
from datetime import timedelta
from typing import Any

import pytest

from cdk import ConfigError, RateLimited
from cdk.rest import Backoff, HttpClient, HttpErrorHandler, Request, RetryPolicy, TokenRotation
from cdk.rest.auth.token_pool import Quota, QuotaStatus, TokenPool
from cdk.rest.limits.task_budgets import sharing
from cdk.rest.limits.task_share import TaskShare
from cdk.testing.mock_api import MockApi
from tests.rest.api import NOON, Time

USERS = Request("GET", "https://api.test/users")
STATUS = QuotaStatus("https://api.test/quota", unavailable=(404,))
CORE = Quota("core", ("left",), ("reset",), ("limit",), "X-Left", "X-Reset")


class Pool:
    """An API with quotas, and who asks it."""

    def __init__(self, *left: tuple[int, int], tokens: tuple[str, ...] = ("t1", "t2"), **given: Any) -> None:
        self.api, self.time = MockApi(), Time()
        self.status = self.api.get("/quota")
        for remaining, seconds in left:
            reset = int(NOON.timestamp()) + seconds
            self.status.returns(json={"left": remaining, "reset": reset, "limit": 5000})
        self.users = self.api.get("/users")
        settings = {"quotas": [CORE], "clock": self.time.clock, "sleep": self.time.sleep, **given}
        self.pool = TokenPool(tokens, STATUS, **settings)
        handler = HttpErrorHandler(
            retry_policy=RetryPolicy(retries=1, clock=self.time.clock, backoff=Backoff(timedelta()))
        )
        self.client = HttpClient(self.api, authenticator=self.pool, error_handler=handler, sleep=self.time.sleep)

    def ask(self, times: int) -> list[str]:
        for _ in range(times):
            self.client.send(USERS)
        return [request.headers["Authorization"].removeprefix("Bearer ") for request in self.users.requests]


def test_a_token_is_used_as_long_as_it_has_calls_left() -> None:
    pool = Pool((2, 3600), (4000, 3600))
    pool.users.returns(json=[])

    assert pool.ask(4) == ["t1", "t1", "t2", "t2"]

    assert [request.headers["Authorization"] for request in pool.status.requests] == ["Bearer t1", "Bearer t2"]
    assert pool.time.slept == []


def test_tasks_divide_what_is_left_where_answers_do_not_tell() -> None:
    told = [Quota("core", ("left",), ("reset",), ("limit",)), CORE]
    asked = []
    for quota in told:
        pool = Pool((4, 3600), (4000, 3600), quotas=[quota])
        pool.users.returns(json=[])
        with sharing(TaskShare((0,), 2)):
            asked.append(pool.ask(5))

    assert asked == [["t1", "t1", "t2", "t2", "t2"], ["t1", "t1", "t1", "t1", "t2"]]


def test_tasks_together_spread_the_last_calls() -> None:
    waits = []
    for tasks in (1, 3):
        pool = Pool((40, 80), tokens=("t1",))
        pool.users.returns(json=[])
        with sharing(TaskShare((0,), tasks)):
            pool.ask(1)
        waits += pool.time.slept

    assert waits == [2, 6]


def test_answers_say_how_many_calls_are_left() -> None:
    pool = Pool((4000, 3600))
    pool.users.returns(json=[], headers={"X-Left": "0"}).returns(json=[])

    assert pool.ask(3) == ["t1", "t2", "t2"]


def test_a_token_of_which_too_much_was_asked_gives_way() -> None:
    pool = Pool((4000, 3600))
    pool.users.returns(status=429).returns(json=[])

    assert pool.ask(2) == ["t1", "t2", "t2"]


def test_few_calls_are_spread_over_the_time_until_there_are_new_ones() -> None:
    pool = Pool((2000, 3600), tokens=("t1",), reserve=0.5)
    pool.users.returns(json=[])

    pool.ask(1)

    assert pool.time.slept == [1.8]


def test_calls_are_at_most_ten_seconds_apart() -> None:
    pool = Pool((20, 3600), tokens=("t1",))
    pool.users.returns(json=[])

    pool.ask(2)

    assert pool.time.slept == [10, 10]


def test_without_calls_it_waits_for_new_ones_and_asks_again() -> None:
    pool = Pool((0, 60), (0, 30), (4000, 3600))
    pool.users.returns(json=[])

    assert pool.ask(1) == ["t1"]

    assert pool.time.slept == [30]
    assert len(pool.status.requests) == 4


def test_a_wait_that_is_too_long_ends_the_read() -> None:
    pool = Pool((0, 7201), max_wait=timedelta(hours=2))

    with pytest.raises(RateLimited, match="none of the 2 tokens has calls left"):
        pool.ask(1)


def test_without_a_quota_status_the_tokens_take_turns() -> None:
    pool = Pool()
    pool.status.returns(status=404)
    pool.users.returns(json=[])

    assert pool.ask(3) == ["t1", "t2", "t1"]


def test_a_request_that_no_quota_counts_uses_up_none() -> None:
    other = Quota("other", ("left",), ("reset",), counts=lambda _: False)
    pool = Pool((1, 3600), quotas=[other])
    pool.users.returns(json=[])

    assert pool.ask(2) == ["t1", "t1"]


def test_a_quota_status_that_says_nothing_is_an_error() -> None:
    pool = Pool()
    pool.status.returns(json={"left": 1})

    with pytest.raises(ConfigError, match="no usable value at reset"):
        pool.ask(1)


def test_tokens_are_needed_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="no tokens"):
        TokenPool([], STATUS, [CORE])
    pool = TokenPool(["s3cret"], STATUS, [CORE])
    assert "s3cret" not in repr(pickle.loads(pickle.dumps(pool)))  # noqa: S301 - made here


def test_tokens_are_sent_in_turn() -> None:
    authenticator = pickle.loads(pickle.dumps(TokenRotation(["a", "b"], scheme="token", header="X-T")))  # noqa: S301 - made here

    assert [next(authenticator.flow(USERS)).headers["X-T"] for _ in range(3)] == ["token a", "token b", "token a"]
    with pytest.raises(ConfigError, match="no tokens"):
        TokenRotation([])
