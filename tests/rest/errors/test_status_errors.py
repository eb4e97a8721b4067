from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest

from cdk import (
    DecodeError,
    FatalError,
    Forbidden,
    NotFound,
    Partition,
    RateLimited,
    Record,
    ServerError,
    Slice,
    Timeout,
)
from cdk.base.errors import CdkError
from cdk.engine.read import read
from cdk.rest import (
    Action,
    Backoff,
    BadRequest,
    HttpErrorHandler,
    HttpStream,
    Request,
    RetryPolicy,
    error_for,
    error_text,
    retry_after,
)
from cdk.rest.errors.outcome import Outcome
from cdk.rest.errors.status_errors import RetriesFailed, Unauthorized
from cdk.state.stream_state import StreamState
from cdk.testing.mock_api import MockApi
from tests.rest.api import Time, response

STEADY = Backoff(jitter=0)


@pytest.mark.parametrize(
    ("status", "action"),
    [
        *((status, Action.SUCCESS) for status in (200, 204)),
        *((status, Action.FAIL) for status in (304, 400, 401, 403, 404, 405, 410, 422)),
        *((status, Action.RETRY) for status in (408, 409, 418, 500, 502, 503, 504)),
        (429, Action.RATE_LIMITED),
    ],
)
def test_a_status_decides_what_to_do(status: int, action: Action) -> None:
    assert HttpErrorHandler().judge(response(status=status), 1).action is action


@pytest.mark.parametrize("header", ["If-None-Match", "if-modified-since"])
def test_a_304_is_a_success_where_a_condition_was_sent(header: str) -> None:
    answer = response(status=304, request=Request("GET", "https://api.test/users", headers={header: '"a"'}))

    assert HttpErrorHandler().judge(answer, 1).action is Action.SUCCESS
    assert HttpErrorHandler({304: Action.RETRY}).judge(answer, 1).action is Action.RETRY
    assert HttpErrorHandler({304: Action.IGNORE}).judge(response(status=304), 1).action is Action.IGNORE


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (304, FatalError),
        (400, BadRequest),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (405, FatalError),
        (408, Timeout),
        (410, NotFound),
        (418, RetriesFailed),
        (422, BadRequest),
        (429, RateLimited),
        (500, ServerError),
        (599, ServerError),
    ],
)
def test_a_status_means_an_error(status: int, kind: type[CdkError]) -> None:
    assert type(error_for(response(status=status))) is kind


def test_an_error_says_what_was_asked_what_came_and_what_to_do() -> None:
    asked = Request("GET", "https://me:pw@api.test/users", {"page": 2, "api_key": "kkkk"})

    error = error_for(response({"error": {"message": "no such page for kkkk"}}, status=404, request=asked))

    assert str(error) == (
        "GET https://api.test/users?page=2&api_key=**** answered 404 Not Found: no such page for ****; "
        "check the address and the ids in it"
    )


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_that_did_not_follow_a_redirect_were_not_refused(status: int) -> None:
    asked = Request("GET", "https://api.test/users", headers={"Authorization": "Bearer abcd"})

    error = error_for(replace(response(status=status, request=asked), url="http://login.test:8080/users?from=abcd"))

    answered = f"answered {status} {HTTPStatus(status).phrase}"
    assert str(error) == (
        f"GET https://api.test/users was redirected to http://login.test:8080, where its credentials are not sent, and "
        f"{answered}; if that host is right, make it the URL of this request"
    )


@pytest.mark.parametrize(
    ("asked", "came_from", "told"),
    [
        ("http://api.test/a", "https://api.test/b", ""),
        ("https://api.test/a", "https://api.test:443/b", ""),
        ("https://api.test/a", "https://cdn.test/b", " was redirected to https://cdn.test and"),
    ],
)
def test_an_error_names_where_it_came_from(asked: str, came_from: str, told: str) -> None:
    error = error_for(replace(response(status=404, request=Request("GET", asked)), url=came_from))

    assert str(error) == f"GET {asked}{told} answered 404 Not Found; check the address and the ids in it"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"message": "a"}, "a"),
        ({"errors": [{"detail": "a"}, {"detail": "b"}]}, "a, b"),
        ({"error": {"code": 1}, "msg": "c"}, "c"),
        (["a", "b"], "a, b"),
        ({"other": "a"}, ""),
        (7, ""),
        ("line\n  line", "line line"),
        ({"message": "x" * 999}, "x" * 299 + "…"),
    ],
)
def test_the_words_of_the_api_are_found(body: Any, text: str) -> None:
    assert error_text(response(body)) == text


@pytest.mark.parametrize("before", ["", "x" * 290])
def test_a_secret_is_hidden_before_the_words_are_cut_or_joined(before: str) -> None:
    asked = Request("GET", "https://api.test", {"api_key": "kkkk  llllllllll"})

    text = error_text(response({"message": f"{before} kkkk  llllllllll"}, request=asked))

    assert text == f"{before} ****".strip()


def test_plain_text_is_shown_and_html_is_not() -> None:
    assert error_text(response(body=b"slow down", headers={"Content-Type": "text/plain"})) == "slow down"
    assert error_text(response(body=b"<html>", headers={"Content-Type": "text/html"})) == ""


def test_waits_double_up_to_a_cap() -> None:
    backoff = Backoff(cap=timedelta(seconds=5), jitter=0)

    assert [backoff.seconds(attempt) for attempt in range(1, 6)] == [1, 2, 4, 5, 5]
    assert Backoff(jitter=0.5, random=lambda: 0.5).seconds(1) == 1.25


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("-3", 0),
        ("Mon, 01 Jan 2024 12:00:30 GMT", 30),
        ("Mon, 01 Jan 2024 11:00:00 GMT", 0),
        ("soon", None),
        ("inf", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert retry_after(response(headers={"Retry-After": header}), Time().clock) == seconds


def test_an_attempt_after_the_last_retry_fails_with_the_error() -> None:
    handler = HttpErrorHandler(retry_policy=RetryPolicy(retries=5, backoff=STEADY))

    verdicts = [handler.judge(response(status=500), attempt) for attempt in range(1, 7)]

    assert [v.wait for v in verdicts[:5]] == [1, 2, 4, 8, 16]
    assert isinstance(verdicts[5].error, ServerError)


def test_a_wait_longer_than_worth_it_ends_with_the_time_to_come_back() -> None:
    verdict = HttpErrorHandler().judge(response(status=429, headers={"Retry-After": "3600"}), 1)

    assert isinstance(verdict.error, RateLimited)
    assert verdict.error.wait == 3600


def test_errors_of_the_connection_are_tried_again_and_others_are_not() -> None:
    handler = HttpErrorHandler(retry_policy=RetryPolicy(retries=1, backoff=STEADY))

    assert handler.judge(Timeout("gone"), 1).action is Action.RETRY
    assert isinstance(handler.judge(Timeout("gone"), 2).error, Timeout)
    assert handler.judge(DecodeError("odd"), 1).action is Action.FAIL


def test_a_connector_says_what_a_status_means() -> None:
    handler = HttpErrorHandler({404: Action.IGNORE, 403: Action.RATE_LIMITED}, retry_policy=RetryPolicy(backoff=STEADY))

    assert handler.judge(response(status=404), 1).action is Action.IGNORE
    assert handler.judge(response(status=403), 2).wait == 2


def test_an_error_that_is_nested_without_end_has_no_words() -> None:
    assert error_text(response(body=b"[" * 900 + b'"deep"' + b"]" * 900, status=500)) == ""


class Floors(HttpStream):
    """Users of three floors, each a partition."""

    url_base = "https://api.test"

    def partitions(self) -> list[Partition]:
        return [Partition.of(floor=n) for n in range(3)]

    def path(self, slice: Slice) -> str:
        return f"/floors/{slice.partition['floor']}"


@pytest.mark.parametrize(
    ("status", "meaning", "floors"),
    [
        (401, None, [0, 2]),
        (404, None, [0, 2]),
        (409, None, [0, 2]),
        (402, Outcome(Action.FAIL, "pay", "config_error"), [0, 2]),
        (418, Outcome(Action.RETRY), [0, 2]),
        (429, None, [0]),
        (500, None, [0]),
        (418, Outcome(Action.RATE_LIMITED), [0]),
        (418, Outcome(Action.FAIL, "", "transient_error"), [0]),
    ],
)
def test_only_an_outage_or_a_rate_limit_of_one_slice_leaves_the_later_slices_unread(
    status: int, meaning: Outcome | None, floors: list[int]
) -> None:
    api, pages = MockApi(), list[Sequence[Record]]()
    for floor in range(3):
        api.get(f"/floors/{floor}").returns(json=[{"floor": floor}], status=status if floor == 1 else 200)
    stream = Floors()
    stream.transport, stream.sleep = api, Time().sleep
    rules = [] if meaning is None else [lambda response: meaning if response.status == status else None]
    stream.error_handler = HttpErrorHandler(rules=rules)

    with pytest.raises(CdkError):
        pages.extend(page for page in read(stream, StreamState()) if not isinstance(page, StreamState))

    assert [record["floor"] for page in pages for record in page] == floors
