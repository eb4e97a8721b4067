import logging
from collections.abc import Generator

import pytest

from cdk import CredentialsError, RateLimited, ServerError, Timeout
from cdk.base.errors import BugError, CdkError
from cdk.rest import Action, Backoff, HttpClient, HttpErrorHandler, Request, Response, RetryPolicy, Verdict
from cdk.rest.errors.outcome import ResetPagination
from cdk.testing.mock_api import MockApi
from tests.rest.api import Time

USERS = Request("GET", "https://api.test/users", {"api_key": "kkkk"})


def client(api: MockApi, time: Time) -> HttpClient:
    return HttpClient(
        api,
        error_handler=HttpErrorHandler(retry_policy=RetryPolicy(backoff=Backoff(jitter=0), clock=time.clock)),
        sleep=time.sleep,
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


def test_a_wait_for_a_limit_is_told_before_it_begins() -> None:
    api, time, told = MockApi(), Time(), list[float]()
    api.get("/users").returns(status=429, headers={"Retry-After": "3"}).returns(status=500).returns(json=[])
    handler = HttpErrorHandler(retry_policy=RetryPolicy(backoff=Backoff(jitter=0), clock=time.clock))

    HttpClient(api, error_handler=handler, sleep=time.sleep, on_rate_limited=told.append).send(USERS)

    assert told == [3]
    assert time.slept == [3, 2]


def test_a_sleep_that_is_stopped_ends_the_request() -> None:
    api = MockApi()
    api.get("/users").returns(status=500)

    def stopped(_: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        HttpClient(api, sleep=stopped).send(USERS)
    assert len(api.requests) == 1


def test_other_pages_are_asked_for_by_a_signal() -> None:
    api = MockApi()
    api.get("/users").returns(status=400)

    with pytest.raises(ResetPagination):
        HttpClient(api, error_handler=HttpErrorHandler({400: Action.RESET_PAGINATION})).send(USERS)
    assert len(api.requests) == 1


class Tokens:
    """An authenticator whose token can be forgotten."""

    def __init__(self) -> None:
        self.number = 1

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        yield request.with_headers({"Token": str(self.number)}, secret=True)

    def forget(self) -> None:
        self.number += 1


RENEW = HttpErrorHandler({401: Action.REFRESH_TOKEN_THEN_RETRY}, retry_policy=RetryPolicy(backoff=Backoff(jitter=0)))


def test_a_refused_token_is_renewed_once() -> None:
    api, time, tokens = MockApi(), Time(), Tokens()
    api.get("/users").returns(status=401).returns(json=[1])

    assert HttpClient(api, authenticator=tokens, error_handler=RENEW, sleep=time.sleep).send(USERS).json() == [1]
    assert [request.headers["Token"] for request in api.requests] == ["1", "2"]


def test_a_new_token_that_is_refused_too_is_an_error_of_the_credentials() -> None:
    api, time, tokens = MockApi(), Time(), Tokens()
    api.get("/users").returns(status=401, json={"error": "kkkk?"})

    with pytest.raises(CredentialsError, match="even with a new access token") as caught:
        HttpClient(api, authenticator=tokens, error_handler=RENEW, sleep=time.sleep).send(USERS)

    assert len(api.requests) == 2
    assert "kkkk" not in str(caught.value)


def test_without_a_token_to_renew_the_request_is_just_tried_again() -> None:
    api, time = MockApi(), Time()
    api.get("/users").returns(status=401)

    with pytest.raises(CredentialsError):
        HttpClient(api, error_handler=RENEW, sleep=time.sleep).send(USERS)

    assert len(api.requests) == 6
