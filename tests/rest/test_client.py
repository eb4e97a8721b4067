import logging

import pytest

from cdk import RateLimited, ServerError, Timeout
from cdk.base.errors import BugError, CdkError
from cdk.rest import Action, Backoff, HttpClient, Request, Response, StatusErrorHandler, Verdict
from cdk.testing.mock_api import MockApi
from tests.rest.api import Time

USERS = Request("GET", "https://api.test/users", {"api_key": "kkkk"})


def client(api: MockApi, time: Time) -> HttpClient:
    return HttpClient(
        api, error_handler=StatusErrorHandler(backoff=Backoff(jitter=0), clock=time.clock), sleep=time.sleep
    )


def test_a_failing_server_is_asked_six_times() -> None:
    api, time = MockApi(), Time()
    api.get("/users").returns(status=500)

    with pytest.raises(ServerError):
        client(api, time).send(USERS)

    assert len(api.requests) == 6
    assert time.slept == [1, 2, 4, 8, 16]


def test_a_limit_waits_as_long_as_the_api_asks() -> None:
    api, time = MockApi(), Time()
    api.get("/users").returns(status=429, headers={"Retry-After": "3"}).returns(json=[1])

    assert client(api, time).send(USERS).json() == [1]
    assert time.slept == [3]


def test_a_limit_that_does_not_end_is_raised() -> None:
    api, time = MockApi(), Time()
    api.get("/users").returns(status=429, headers={"Retry-After": "3"})

    with pytest.raises(RateLimited) as caught:
        client(api, time).send(USERS)

    assert caught.value.wait == 3


def test_a_broken_connection_is_tried_again() -> None:
    api, time = MockApi(), Time()
    api.get("/users").raises(Timeout("gone")).returns(json=[1])

    assert client(api, time).send(USERS).json() == [1]


def test_logs_show_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    api, time = MockApi(), Time()
    api.get("/users").returns(status=503, json={"error": "kkkk"}).returns(json=[])

    with caplog.at_level(logging.DEBUG):
        client(api, time).send(USERS)

    assert "answered 503" in caplog.text
    assert "kkkk" not in caplog.text


class Wrong:
    """A handler that breaks its contract."""

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:  # noqa: ARG002
        return Verdict(Action.FAIL)


def test_a_failure_without_an_error_is_said_to_be_the_handlers() -> None:
    api = MockApi()
    api.get("/users").returns(json=[])

    with pytest.raises(BugError, match="FAIL without an error"):
        HttpClient(api, error_handler=Wrong()).send(USERS)
