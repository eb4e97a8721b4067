"""Bodies of requests."""

import json
from typing import Any

import pytest

from cdk.rest import Request
from cdk.testing import MockApi
from tests.declarative.manifests import run

FORM, JSON = "application/x-www-form-urlencoded", "application/json"


def sent(body: Any, **more: Any) -> Request:
    api = MockApi()
    api.post("/items").returns(json={"data": []})
    assert run(api, requester={"http_method": "POST", "request_body": body}, **more).error is None
    (request,) = api.requests
    return request


@pytest.mark.parametrize(
    ("body", "expected", "kind"),
    [
        ({"type": "RequestBodyPlainText", "value": "in {{ config.region }}"}, b"in eu", None),
        ({"type": "RequestBodyUrlEncodedForm", "value": {"a": "{{ config.region }}", "b": 1}}, b"a=eu&b=1", FORM),
        ({"type": "RequestBodyUrlEncodedForm", "value": "{{ {'a': config.region} }}"}, b"a=eu", FORM),
    ],
)
def test_a_text_and_a_form_are_sent_as_they_are(body: Any, expected: bytes, kind: str | None) -> None:
    made = sent(body)

    assert (made.body, made.headers.get("Content-Type")) == (expected, kind)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"type": "RequestBodyJsonObject", "value": {"deep": {"in": "{{ config.region }}", "n": ["{{ 1 + 1 }}"]}}},
            {"deep": {"in": "eu", "n": [2]}},
        ),
        ({"type": "RequestBodyJsonObject", "value": "{{ {'in': config.region} }}"}, {"in": "eu"}),
        (
            {
                "type": "RequestBodyGraphQL",
                "value": {"query": "query { users(in: {{ config.region }}) { id } }", "variables": {"limit": 10}},
            },
            {"query": "query { users(in: eu) { id } }", "variables": {"limit": 10}},
        ),
    ],
)
def test_json_has_its_expressions_filled_in(body: Any, expected: Any) -> None:
    made = sent(body)

    assert made.body is not None
    assert json.loads(made.body) == expected
    assert made.headers["Content-Type"] == JSON


def test_what_an_option_puts_into_the_body_stands_beside_it() -> None:
    router = {
        "type": "ListPartitionRouter",
        "cursor_field": "at",
        "values": ["x"],
        "request_option": {"type": "RequestOption", "inject_into": "body_json", "field_path": ["variables", "at"]},
    }
    body = {"type": "RequestBodyGraphQL", "value": {"query": "q", "variables": {"limit": 10}}}

    made = sent(body, partition_router=router)

    assert made.body is not None
    assert json.loads(made.body) == {"query": "q", "variables": {"limit": 10, "at": "x"}}
