from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.declarative.components import register
from cdk.declarative.components.requests.api_budget import HTTPAPIBudget
from cdk.declarative.components.requests.requesters import HttpRequester
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.syntax.validation import validated
from cdk.rest import Budget, Request
from cdk.testing import MockApi
from tests.rest.api import Time, response

register()


def built(policy: dict[str, Any], time: Time, **options: Any) -> Budget:
    component = validated(HTTPAPIBudget, {"policies": [policy], **options})
    return component.build(BuildContext({"limit": 2}, Runtime(clock=time.clock, sleep=time.sleep)))


def slept(policy: dict[str, Any], *requests: Request) -> list[float]:
    time = Time()
    budget = built(policy, time)
    for request in requests:
        budget.acquire(request)
    return time.slept


USERS = Request("GET", "https://api.test/users", {"kind": "a"}, {"Accept": "a/b"})
ORDERS = Request("POST", "https://api.test/orders")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"type": "UnlimitedCallRatePolicy", "matchers": []}, []),
        ({"type": "FixedWindowCallRatePolicy", "period": "PT1M", "call_limit": 2, "matchers": []}, [60]),
        (
            {"type": "MovingWindowCallRatePolicy", "rates": [{"limit": 1, "interval": "PT10S"}], "matchers": []},
            [10] * 3,
        ),
        (
            {
                "type": "MovingWindowCallRatePolicy",
                "rates": [{"limit": "{{ config['limit'] }}", "interval": "PT10S"}],
                "matchers": [],
            },
            [10],
        ),
    ],
)
def test_four_requests_wait_as_the_policy_says(policy: dict[str, Any], expected: list[float]) -> None:
    assert slept(policy, USERS, ORDERS, USERS, ORDERS) == expected


def test_a_cached_response_costs_no_call() -> None:
    api, time = MockApi(), Time()
    api.get("/*").returns(json={})
    policy = {"type": "FixedWindowCallRatePolicy", "period": "PT1M", "call_limit": 1, "matchers": []}
    runtime = Runtime(transport=api, budget=built(policy, time))
    requesters = [
        validated(HttpRequester, {"url": "https://api.test", "use_cache": True}).build(BuildContext({}, runtime))
        for _ in range(2)
    ]

    for path in ("users", "users", "orders"):
        for requester in requesters:
            requester.client.send(Request("GET", f"https://api.test/{path}"))

    assert [request.url for request in api.requests] == ["https://api.test/users", "https://api.test/orders"]
    assert time.slept == [60]


@pytest.mark.parametrize(
    ("matcher", "held"),
    [
        ({"method": "GET"}, 1),
        ({"url_base": "https://api.test/"}, 3),
        ({"url_path_pattern": "^/ord"}, 1),
        ({"params": {"kind": "a"}}, 1),
        ({"headers": {"accept": "a/b"}}, 1),
        ({"url_base": "https://other.test"}, 0),
    ],
)
def test_only_requests_that_match_are_held_back(matcher: dict[str, Any], held: int) -> None:
    policy = {"type": "FixedWindowCallRatePolicy", "period": "PT1M", "call_limit": 1, "matchers": [matcher]}

    assert len(slept(policy, USERS, ORDERS, USERS, ORDERS)) == held


def test_a_weight_counts_for_several_calls() -> None:
    matcher = {"method": "GET", "weight": "{{ config['limit'] }}"}
    policy = {"type": "FixedWindowCallRatePolicy", "period": "PT1M", "call_limit": 3, "matchers": [matcher]}

    assert slept(policy, USERS, USERS) == [60]


def test_the_headers_and_statuses_have_names_of_their_own() -> None:
    time = Time()
    policy = {"type": "FixedWindowCallRatePolicy", "period": "PT1M", "call_limit": 9, "matchers": []}
    budget = built(
        policy,
        time,
        ratelimit_reset_header="X-Reset",
        ratelimit_remaining_header="X-Left",
        status_codes_for_ratelimit_hit=[420],
    )

    budget.acquire(USERS)
    budget.observe(response(status=420, headers={"X-Reset": str(time.now.timestamp() + 20)}))
    budget.acquire(USERS)
    budget.observe(response(headers={"X-Left": "0"}))
    budget.acquire(USERS)

    assert time.slept == [20, 60]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"type": "FixedWindowCallRatePolicy", "period": "soon", "call_limit": 1}, r"FixedWindow.*period.*'soon'"),
        ({"type": "FixedWindowCallRatePolicy", "period": "PT0S", "call_limit": 1}, "above 0"),
        ({"type": "FixedWindowCallRatePolicy", "period": "PT1S", "call_limit": 0}, "integer of at least 1"),
        ({"type": "FixedWindowCallRatePolicy", "period": "PT1S", "call_limit": 1, "weight": 2}, "weight 2 never fits"),
        ({"type": "MovingWindowCallRatePolicy", "rates": [{"limit": "x", "interval": "PT1S"}]}, "Rate.limit"),
    ],
)
def test_what_allows_nothing_is_said_with_its_place(policy: dict[str, Any], words: str) -> None:
    matchers = [{"weight": policy.pop("weight", 1)}]

    with pytest.raises(ManifestError, match=words):
        built({**policy, "matchers": matchers}, Time())


def test_a_pattern_must_be_a_regular_expression_and_rates_some() -> None:
    with pytest.raises(ManifestError, match="not a valid regular expression"):
        built({"type": "UnlimitedCallRatePolicy", "matchers": [{"url_path_pattern": "("}]}, Time())
    with pytest.raises(ManifestError):
        built({"type": "MovingWindowCallRatePolicy", "rates": [], "matchers": []}, Time())
