from typing import Any

import pytest

from cdk.base.errors import ManifestError, RateLimited, Timeout
from cdk.declarative.components import register
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.request_plug_points import AnyBackoffStrategy
from cdk.declarative.syntax.validation import validated
from cdk.rest.errors.wait_strategies import WaitStrategy
from tests.rest.api import NOON, response

register()
NOW = NOON.timestamp()
CONFIG: dict[str, Any] = {"wait": 30, "header": "X-Wait"}
BODY = {"error": {"wait": 8, "text": "8 s"}}


def built(manifest: dict[str, Any]) -> WaitStrategy:
    component = validated(AnyBackoffStrategy, manifest)
    assert isinstance(component, AnyBackoffStrategy)
    return component.build(BuildContext(CONFIG, Runtime(clock=lambda: NOON), "users"))


ANSWER = response(BODY, status=429, headers={"X-Wait": "12 s", "X-Reset": f"{NOW + 50:.0f}"})


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"type": "ConstantBackoffStrategy", "backoff_time_in_seconds": 2.5}, 2.5),
        ({"type": "ConstantBackoffStrategy", "backoff_time_in_seconds": "{{ config['wait'] }}"}, 30),
        ({"type": "ExponentialBackoffStrategy"}, 20),
        ({"type": "ExponentialBackoffStrategy", "factor": "{{ 1 + 1 }}"}, 8),
        ({"type": "WaitTimeFromHeader", "header": "{{ config['header'] }}", "regex": "[0-9]+"}, 12),
        ({"type": "WaitTimeFromHeader", "header": "X-Wait"}, None),
        ({"type": "WaitUntilTimeFromHeader", "header": "X-Reset"}, 50),
        ({"type": "WaitUntilTimeFromHeader", "header": "X-Reset", "min_wait": "{{ config['wait'] * 2 }}"}, 60),
        ({"type": "WaitUntilTimeFromHeader", "header": "X-None", "min_wait": 5}, 5),
        ({"type": "WaitTimeFromResponse", "wait_time_in_seconds": "{{ response.error.wait }}"}, 8),
        ({"type": "WaitTimeFromResponse", "wait_time_in_seconds": "{{ headers['x-wait'][:2] }}"}, 12),
        ({"type": "WaitTimeFromResponse", "wait_time_in_seconds": "{{ response.error.text }}"}, None),
        ({"type": "WaitTimeFromResponse", "wait_time_in_seconds": "{{ response.a.b.c }}"}, None),
        ({"type": "WaitTimeFromResponse", "wait_time_in_seconds": "{{ -5 }}"}, None),
    ],
)
def test_how_long_a_strategy_waits_after_the_second_attempt(manifest: dict[str, Any], expected: float | None) -> None:
    assert built(manifest)(ANSWER, 2) == expected


def test_chance_makes_waits_longer_by_up_to_twice_the_range() -> None:
    wait = built({"type": "ConstantBackoffStrategy", "backoff_time_in_seconds": 10, "jitter_range_in_seconds": 3})

    assert all(10 <= (wait(ANSWER, 1) or 0) <= 16 for _ in range(20))


@pytest.mark.parametrize(
    "manifest",
    [
        {"type": "WaitTimeFromHeader", "header": "X-Wait", "regex": "[0-9]+", "max_waiting_time_in_seconds": 12},
        {"type": "WaitUntilTimeFromHeader", "header": "X-Reset", "max_waiting_time_in_seconds": "{{ config.wait }}"},
        {
            "type": "WaitTimeFromResponse",
            "wait_time_in_seconds": "{{ response.error.wait }}",
            "max_waiting_time_in_seconds": 8,
        },
    ],
)
def test_a_wait_that_is_too_long_ends_the_read(manifest: dict[str, Any]) -> None:
    with pytest.raises(RateLimited, match="max_waiting_time_in_seconds"):
        built(manifest)(ANSWER, 1)


@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "WaitTimeFromHeader", "header": "X-Wait", "regex": "[0-9]+"},
        {"type": "WaitUntilTimeFromHeader", "header": "X-None", "min_wait": 5},
        {"type": "WaitTimeFromResponse", "wait_time_in_seconds": "8"},
        {"type": "WaitTimeFromResponse", "wait_time_in_seconds": "{{ response.nothing }}"},
    ],
)
@pytest.mark.parametrize("limit", ["", "soon", "{{ config['no'] }}", "{{ none }}", "nan", "inf", float("nan"), "[1]"])
def test_a_limit_that_is_no_number_is_an_error(strategy: dict[str, Any], limit: Any) -> None:
    with pytest.raises(ManifestError, match="max_waiting_time_in_seconds"):
        built({**strategy, "max_waiting_time_in_seconds": limit})(ANSWER, 1)


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"type": "WaitTimeFromHeader", "header": "X-Zero"}, 0),
        ({"type": "WaitTimeFromHeader", "header": "X-None"}, None),
        ({"type": "WaitUntilTimeFromHeader", "header": "X-None"}, None),
        ({"type": "WaitTimeFromResponse", "wait_time_in_seconds": "0"}, None),
    ],
)
def test_no_limit_refuses_not_to_wait(manifest: dict[str, Any], expected: float | None) -> None:
    answer = response(BODY, status=429, headers={"X-Zero": "0"})

    assert built({**manifest, "max_waiting_time_in_seconds": 0})(answer, 1) == expected


@pytest.mark.parametrize(("header", "least", "limit"), [("X-Reset", 60, 60), ("X-None", 20, 20), ("X-Reset", 1, 50)])
def test_the_shortest_wait_is_limited_too(header: str, least: float, limit: float) -> None:
    manifest = {"type": "WaitUntilTimeFromHeader", "header": header, "min_wait": least}

    assert built({**manifest, "max_waiting_time_in_seconds": limit + 1})(ANSWER, 1) == max(
        least, 50 if header == "X-Reset" else 0
    )
    with pytest.raises(RateLimited):
        built({**manifest, "max_waiting_time_in_seconds": limit})(ANSWER, 1)


def test_without_an_answer_there_is_nothing_to_look_into() -> None:
    gone = Timeout("gone")

    assert built({"type": "WaitTimeFromHeader", "header": "X-Wait"})(gone, 1) is None
    assert built({"type": "WaitTimeFromResponse", "wait_time_in_seconds": "{{ response.wait }}"})(gone, 1) is None
    assert built({"type": "WaitTimeFromResponse", "wait_time_in_seconds": "{{ response.wait or 5 }}"})(gone, 1) == 5


def test_a_config_without_the_wait_fails_only_when_it_is_needed() -> None:
    wait = built({"type": "ConstantBackoffStrategy", "backoff_time_in_seconds": "{{ config['soon'] }}"})

    with pytest.raises(ManifestError, match="backoff_time_in_seconds"):
        wait(ANSWER, 1)


@pytest.mark.parametrize("kind", ["WaitTimeFromHeader", "WaitUntilTimeFromHeader"])
def test_a_pattern_must_be_a_regular_expression(kind: str) -> None:
    with pytest.raises(ManifestError, match="not a valid regular expression"):
        built({"type": kind, "header": "X-Wait", "regex": "["})
