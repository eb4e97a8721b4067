import logging
from collections.abc import Generator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cdk import CredentialsError, RateLimited, ServerError, Timeout, TransientError
from cdk.base.errors import BugError, CdkError
from cdk.rest import Action, Backoff, Headers, HttpClient, HttpErrorHandler, Request, Response, RetryPolicy, Verdict
from cdk.rest.errors.outcome import ResetPagination
from cdk.rest.http.streamed_response import StreamedResponse
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


EXPORT = replace(USERS, stream=True)


def pieces(body: bytes, size: int, cut: int | None) -> Generator[bytes, None, None]:
    end = len(body) if cut is None else cut
    yield from (body[start : min(start + size, end)] for start in range(0, end, size))
    if cut is not None:
        raise Timeout("the connection failed")


def streams(bodies: Sequence[tuple[bytes, int, int | None]]) -> MockApi:
    """An API that answers with one body after the other: its bytes, how many come at once, and where it breaks off."""
    api, left = MockApi(), iter(bodies)
    api.get("/users").answers(
        lambda request: StreamedResponse(200, Headers({}), pieces(*next(left)), request.url, request)
    )
    return api


@given(
    body=st.binary(max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    sizes=st.lists(st.integers(1, 25), min_size=6, max_size=6),
)
def test_a_streamed_body_that_breaks_off_continues_behind_what_was_read(
    body: bytes, cuts: Sequence[int], sizes: Sequence[int]
) -> None:
    ends = [*(min(cut, len(body)) for cut in cuts), None]
    api, time = streams([(body, *each) for each in zip(sizes, ends, strict=False)]), Time()

    assert b"".join(client(api, time).send(EXPORT).chunks()) == body
    assert len(api.requests) == len(ends)
    assert time.slept == [2**n for n in range(len(cuts))]


@given(body=st.binary(min_size=1, max_size=60), data=st.data())
def test_a_streamed_body_that_begins_differently_then_does_not_continue(body: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(body)))
    other = data.draw(st.binary(max_size=60).filter(lambda other: not other.startswith(body[:cut])))
    api, read = streams([(body, 7, cut), (other, 5, None)]), list[bytes]()

    with pytest.raises(TransientError, match="requested again, the body begins differently"):
        read.extend(client(api, Time()).send(EXPORT).chunks())

    assert b"".join(read) == body[:cut]
    assert len(api.requests) == 2


def test_a_streamed_body_that_always_breaks_off_is_requested_six_times() -> None:
    api = streams([(b"id\n1\n", 3, 3)] * 7)

    with pytest.raises(Timeout, match="the connection failed"):
        list(client(api, Time()).send(EXPORT).chunks())

    assert len(api.requests) == 6


def test_a_streamed_body_does_not_continue_with_an_error_that_is_ignored() -> None:
    api, rest = MockApi(), iter([pieces(b"1", 1, 0)])
    api.get("/users").answers(lambda request: StreamedResponse(200, Headers({}), next(rest), request.url, request))
    response = client(api, Time())
    streamed = response.send(EXPORT)
    api.get("/users", {"api_key": "kkkk"}).returns(status=204, body=b"gone")

    with pytest.raises(Timeout, match="the connection failed"):
        list(streamed.chunks())


def test_a_streamed_body_that_is_not_read_is_closed() -> None:
    body = pieces(b"1", 1, None)
    api = MockApi()
    api.get("/users").answers(lambda request: StreamedResponse(200, Headers({}), body, request.url, request))

    client(api, Time()).send(EXPORT).close()

    assert list(body) == []
