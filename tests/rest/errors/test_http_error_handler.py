import pickle

import pytest

from cdk.base.errors import (
    CdkError,
    DecodeError,
    FatalError,
    NotFound,
    RateLimited,
    ServerError,
    Timeout,
    TransientError,
)
from cdk.rest import IGNORE, SUCCESS, Action, HttpErrorHandler, Response, RetryPolicy, Verdict, fail, retry
from cdk.rest.errors.http_error_handler import HandlerChain, OutcomeHandler, Rule
from cdk.rest.errors.outcome import ConfigRejected, Outcome, PagingSignal, ReducePageSize, ResetPagination, SplitWindow
from cdk.rest.errors.status_errors import RetriesFailed, Unauthorized
from tests.rest.api import response


def on(status: int, meaning: Outcome) -> Rule:
    return lambda answer: meaning if answer.status == status else None


def handler(
    status: int, action: Action, *, text: str = "", retry_policy: RetryPolicy | None = None
) -> HttpErrorHandler:
    return HttpErrorHandler(rules=[on(status, Outcome(action, text))], retry_policy=retry_policy)


def test_a_broken_connection_is_tried_again_and_a_broken_rule_is_not() -> None:
    broken = Timeout("gone")

    assert HttpErrorHandler().judge(broken, 1).action is Action.RETRY
    assert HttpErrorHandler().judge(broken, 6).error is broken
    assert HttpErrorHandler().judge(DecodeError("no"), 1).action is Action.FAIL


def test_rules_are_asked_in_order_and_about_successes_too() -> None:
    rules = [on(200, Outcome(Action.RETRY)), on(200, Outcome(Action.FAIL)), on(404, Outcome(Action.IGNORE))]

    assert HttpErrorHandler(rules=rules).judge(response(), 1).action is Action.RETRY
    assert HttpErrorHandler(rules=rules).judge(response(status=404), 1) is IGNORE
    assert HttpErrorHandler(rules=rules).judge(response(status=201), 1) is SUCCESS


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_a_request_is_tried_as_often_as_said(retries: int) -> None:
    judge = HttpErrorHandler(retry_policy=RetryPolicy(retries)).judge

    assert all(judge(response(status=500), attempt).action is Action.RETRY for attempt in range(1, retries + 1))
    assert isinstance(judge(response(status=500), retries + 1).error, ServerError)


@pytest.mark.parametrize(
    ("status", "meaning", "kind", "words"),
    [
        (404, Outcome(Action.FAIL), NotFound, "answered 404"),
        (404, Outcome(Action.FAIL, "no such shop"), NotFound, "^no such shop$"),
        (404, Outcome(Action.FAIL, "pay", "config_error"), ConfigRejected, "^pay$"),
        (404, Outcome(Action.FAIL, "", "transient_error"), TransientError, "answered 404"),
        (401, Outcome(Action.FAIL, "renew", "config_error"), Unauthorized, "^renew$"),
        (500, Outcome(Action.FAIL, "down", "system_error"), FatalError, "^down$"),
        (429, Outcome(Action.FAIL), RateLimited, "answered 429"),
        (200, Outcome(Action.FAIL), FatalError, "which the error handler treats as a failure"),
        (418, Outcome(Action.FAIL), FatalError, "which the error handler treats as a failure"),
        (200, Outcome(Action.RETRY), RetriesFailed, "to every attempt"),
        (200, Outcome(Action.RETRY, "busy", "config_error"), RetriesFailed, "^busy$"),
        (503, Outcome(Action.RATE_LIMITED), RateLimited, "rate limit"),
        (404, Outcome(Action.RETRY, "not yet"), NotFound, "^not yet$"),
    ],
)
def test_what_a_request_ends_with(status: int, meaning: Outcome, kind: type[CdkError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        _raise(HttpErrorHandler(rules=[on(status, meaning)]).judge(response(status=status), 6))

    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (Action.RESET_PAGINATION, ResetPagination),
        (Action.REDUCE_PAGE_SIZE, ReducePageSize),
        (Action.SPLIT_REQUEST_WINDOW, SplitWindow),
    ],
)
def test_other_pages_are_a_signal(action: Action, kind: type[PagingSignal]) -> None:
    plain = handler(400, action).judge(response({"error": "too many"}, status=400), 1)
    told = handler(400, action, text="smaller, please").judge(response(status=400), 9)
    usual = HttpErrorHandler({400: action}).judge(response(status=400), 1)

    assert (plain.action, type(plain.error)) == (action, kind)
    assert "answered 400: too many; " in str(plain.error)
    assert str(told.error) == "smaller, please"
    assert type(usual.error) is kind


FAIL_A, FAIL_B = handler(404, Action.FAIL, text="a"), handler(404, Action.FAIL, text="b")


@pytest.mark.parametrize(
    ("handlers", "status", "action"),
    [
        ([HttpErrorHandler(), handler(404, Action.IGNORE)], 404, Action.IGNORE),
        ([HttpErrorHandler(), handler(500, Action.FAIL)], 500, Action.RETRY),
        ([HttpErrorHandler(), handler(200, Action.FAIL)], 200, Action.SUCCESS),
        ([HttpErrorHandler(), handler(429, Action.IGNORE)], 429, Action.IGNORE),
        ([HttpErrorHandler(), handler(429, Action.REFRESH_TOKEN_THEN_RETRY)], 429, Action.REFRESH_TOKEN_THEN_RETRY),
        ([handler(404, Action.REFRESH_TOKEN_THEN_RETRY), HttpErrorHandler()], 404, Action.FAIL),
        ([handler(404, Action.RESET_PAGINATION), HttpErrorHandler()], 404, Action.RESET_PAGINATION),
        ([handler(404, Action.REDUCE_PAGE_SIZE), HttpErrorHandler()], 404, Action.REDUCE_PAGE_SIZE),
        ([handler(404, Action.SPLIT_REQUEST_WINDOW), HttpErrorHandler()], 404, Action.SPLIT_REQUEST_WINDOW),
        ([HandlerChain([FAIL_A, handler(404, Action.IGNORE)]), FAIL_B], 404, Action.IGNORE),
        ([HttpErrorHandler({404: Action.IGNORE}), HttpErrorHandler()], 404, Action.IGNORE),
    ],
)
def test_the_first_handler_whose_outcome_is_conclusive_is_followed_else_the_last(
    handlers: list[OutcomeHandler], status: int, action: Action
) -> None:
    assert HandlerChain(handlers).judge(response(status=status), 1).action is action


def test_of_several_failures_the_last_is_told() -> None:
    assert str(HandlerChain([FAIL_A, FAIL_B]).judge(response(status=404), 1).error) == "b"


def test_the_first_handler_says_how_often_and_all_say_how_long() -> None:
    first, second = RetryPolicy(2), RetryPolicy(9, (lambda *_: 7,))
    judge = HandlerChain(
        [HandlerChain([HttpErrorHandler(retry_policy=first)]), HttpErrorHandler(retry_policy=second)]
    ).judge

    assert judge(response(status=500), 2) == retry(8)
    assert judge(response(status=500), 3).action is Action.FAIL


class Strict:
    """A handler of another kind."""

    retry_policy = RetryPolicy()

    def find(self, outcome: Response | CdkError) -> Outcome:
        verdict = self.judge(outcome, 1)
        return Outcome(verdict.action, error=verdict.error, wait=verdict.wait)

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:  # noqa: ARG002
        return retry(90) if isinstance(outcome, Response) and outcome.ok else fail(FatalError("mine"))


def test_a_handler_of_another_kind_keeps_its_wait_and_its_error() -> None:
    judge = HandlerChain([HttpErrorHandler(), Strict()]).judge

    assert str(judge(response(status=404), 1).error) == "mine"
    assert HandlerChain([Strict()]).judge(response(), 1) == retry(90)


def test_a_wait_that_is_too_long_ends_the_read_at_once() -> None:
    def too_long(*_: object) -> float:
        raise RateLimited("an hour", wait=3600)

    verdict = HttpErrorHandler(retry_policy=RetryPolicy(waits=(too_long,))).judge(response(status=500), 1)

    assert isinstance(verdict.error, RateLimited)


def test_a_handler_travels_to_another_process() -> None:
    again = pickle.loads(pickle.dumps(HttpErrorHandler(retry_policy=RetryPolicy(1))))  # noqa: S301 - made here

    assert again.judge(response(status=500), 1).action is Action.RETRY
    assert again.judge(response(status=500), 2).action is Action.FAIL


def _raise(verdict: Verdict) -> None:
    assert verdict.error is not None
    raise verdict.error
