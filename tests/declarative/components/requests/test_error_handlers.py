from typing import Any

import pytest

from cdk.base.errors import CdkError, FatalError, ManifestError, NotFound, Timeout, TransientError
from cdk.declarative.components import register
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.request_plug_points import AnyErrorHandler
from cdk.declarative.syntax.validation import validated
from cdk.rest import Action, ErrorHandler, HttpClient, Request, Response
from cdk.rest.errors.outcome import ConfigRejected, SplitWindow
from cdk.testing.mock_api import MockApi
from tests.rest.api import Time, response

register()


def built(manifest: dict[str, Any], config: dict[str, Any] | None = None) -> ErrorHandler:
    component = validated(AnyErrorHandler, manifest)
    assert isinstance(component, AnyErrorHandler)
    return component.build(BuildContext(config or {}, Runtime(), "users"))


def filtering(*filters: dict[str, Any], **options: Any) -> ErrorHandler:
    return built({"type": "DefaultErrorHandler", "response_filters": list(filters), **options})


def action(handler: ErrorHandler, outcome: Response | CdkError) -> Action:
    return handler.judge(outcome, 1).action


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((status, Action.SUCCESS) for status in (200, 202)),
        *((status, Action.FAIL) for status in (300, 301, 302, 304, 308, 399, 400, 401, 403, 404, 405)),
        *((status, Action.RETRY) for status in (408, 410, 418, 422, 500, 503, 599)),
        (429, Action.RATE_LIMITED),
    ],
)
def test_a_status_that_no_filter_is_about_means_the_usual(status: int, expected: Action) -> None:
    assert action(filtering(), response(status=status)) is expected


NOT_FOUND = response({"code": 7, "error": {"message": "Boom x"}}, status=404, headers={"X-Kind": "shop"})


@pytest.mark.parametrize(
    "condition",
    [
        {"http_codes": [403, 404]},
        {"error_message_contains": "Boom"},
        {"predicate": "{{ response.code == 7 }}"},
        {"predicate": "{{ response['code'] == 7 and headers['x-kind'] == 'shop' }}"},
        {"predicate": "{{ headers.get('X-Kind') == 'shop' }}"},
        {"predicate": "{{ 'users' in request_url }}"},
        {"http_codes": [500], "predicate": "{{ response.code == 7 }}"},
        {"http_codes": [500], "predicate": "{{ False }}", "error_message_contains": "x"},
    ],
)
def test_a_filter_is_about_answers_that_fulfil_one_of_its_conditions(condition: dict[str, Any]) -> None:
    assert action(filtering({"action": "IGNORE", **condition}), NOT_FOUND) is Action.IGNORE


@pytest.mark.parametrize(
    "filter_",
    [
        {},
        {"action": "IGNORE"},
        {"http_codes": [404]},
        {"http_codes": [404], "failure_type": "transient_error", "error_message": "no"},
        {"action": "IGNORE", "predicate": ""},
        {"action": "IGNORE", "error_message_contains": ""},
        {"action": "IGNORE", "http_codes": []},
        {"action": "IGNORE", "error_message_contains": "boom"},
        {"action": "IGNORE", "predicate": "{{ response.nothing.there == 1 }}"},
    ],
)
def test_other_filters_leave_an_answer_to_its_status(filter_: dict[str, Any]) -> None:
    verdict = filtering(filter_).judge(NOT_FOUND, 1)

    assert isinstance(verdict.error, NotFound)


@pytest.mark.parametrize("name", [action.name for action in Action])
def test_every_action_can_be_named(name: str) -> None:
    assert action(filtering({"action": name, "http_codes": [404]}), NOT_FOUND).name == name


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(ManifestError, match="RETRY"):
        filtering({"action": "RETRI", "http_codes": [404]})


def test_the_first_filter_that_is_about_an_answer_counts() -> None:
    handler = filtering({"action": "RETRY", "http_codes": [404]}, {"action": "IGNORE", "http_codes": [404]})

    assert action(handler, NOT_FOUND) is Action.RETRY


def test_a_success_can_be_tried_again() -> None:
    handler = filtering({"action": "RETRY", "predicate": "{{ response.status == 'busy' }}"})

    assert action(handler, response({"status": "busy"})) is Action.RETRY
    assert action(handler, response([1])) is Action.SUCCESS
    assert action(handler, response(body=b"")) is Action.SUCCESS


def test_an_answer_that_did_not_come_is_no_filters_business() -> None:
    handler = filtering({"action": "IGNORE", "predicate": "{{ True }}"})

    assert action(handler, Timeout("gone")) is Action.RETRY


@pytest.mark.parametrize(
    ("failure_type", "kind"),
    [
        (None, NotFound),
        ("config_error", ConfigRejected),
        ("system_error", NotFound),
        ("transient_error", TransientError),
    ],
)
def test_a_failure_is_of_the_kind_and_says_the_words_of_its_filter(failure_type: Any, kind: type[CdkError]) -> None:
    message = "Shop {{ response.code }} ({{ headers['X-Kind'] }}) is gone"
    handler = filtering({"action": "FAIL", "http_codes": [404], "failure_type": failure_type, "error_message": message})

    error = handler.judge(NOT_FOUND, 1).error

    assert type(error) is kind
    assert str(error) == "Shop 7 (shop) is gone"


@pytest.mark.parametrize("message", [None, "", "{{ response.nothing }}", "{{ response.nothing.there }}"])
def test_without_words_of_its_own_a_failure_has_the_usual_ones(message: str | None) -> None:
    error = filtering({"action": "FAIL", "http_codes": [404], "error_message": message}).judge(NOT_FOUND, 1).error

    assert "answered 404 Not Found: Boom x" in str(error)


def test_a_filter_can_ask_for_other_pages() -> None:
    filter_ = {"action": "SPLIT_REQUEST_WINDOW", "predicate": "{{ response.code == 7 }}", "error_message": "too long"}

    error = filtering(filter_).judge(NOT_FOUND, 1).error

    assert isinstance(error, SplitWindow)
    assert str(error) == "too long"


@pytest.mark.parametrize(
    ("retries", "calls"), [(0, 1), (2, 3), ("{{ config['tries'] }}", 5), ("{{ config.get('no', 1) }}", 2), (None, 6)]
)
def test_a_request_is_tried_again_as_often_as_said(retries: Any, calls: int) -> None:
    api, time = MockApi(), Time()
    api.get("/users").returns(status=500)
    handler = built({"type": "DefaultErrorHandler", "max_retries": retries}, {"tries": 4})

    with pytest.raises(TransientError):
        HttpClient(api, error_handler=handler, sleep=time.sleep).send(Request("GET", "https://api.test/users"))

    assert len(api.requests) == calls


def test_retries_must_be_a_number() -> None:
    with pytest.raises(ManifestError, match=r"users: DefaultErrorHandler.max_retries: found 'many'"):
        built({"type": "DefaultErrorHandler", "max_retries": "{{ config['tries'] }}"}, {"tries": "many"})


def test_the_first_strategy_that_can_tell_says_how_long() -> None:
    strategies = [
        {"type": "WaitTimeFromHeader", "header": "X-Wait"},
        {"type": "ConstantBackoffStrategy", "backoff_time_in_seconds": 4},
    ]
    handler = filtering(backoff_strategies=strategies)

    assert handler.judge(response(status=500, headers={"X-Wait": "9"}), 1).wait == 10
    assert handler.judge(response(status=500), 1).wait == 5
    assert handler.judge(Timeout("gone"), 1).wait == 5


def test_handlers_in_a_handler_are_asked_in_order() -> None:
    busy = {"response_filters": [{"predicate": "{{ response.code == 7 }}", "action": "RETRY"}], "max_retries": 1}
    inner = {"type": "CompositeErrorHandler", "error_handlers": [busy, {"type": "DefaultErrorHandler"}]}
    gone = {"response_filters": [{"http_codes": [404], "action": "IGNORE"}]}
    handler = built({"type": "CompositeErrorHandler", "error_handlers": [inner, gone]})

    assert action(handler, NOT_FOUND) is Action.RETRY
    assert isinstance(handler.judge(NOT_FOUND, 2).error, NotFound)
    assert action(handler, response(status=404)) is Action.IGNORE
    assert isinstance(handler.judge(response(status=405), 1).error, FatalError)
