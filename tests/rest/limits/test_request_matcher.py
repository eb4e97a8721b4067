from typing import Any

import pytest

from cdk.base.bounded_regex import Pattern
from cdk.rest import Request
from cdk.rest.limits.request_matcher import RequestMatcher

USERS = Request("GET", "https://api.test/v1/users?x=1", {"y": 2}, {"Accept": "a/b"})


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, True),
        ({"method": "get"}, True),
        ({"method": "POST"}, False),
        ({"url_base": "https://api.test"}, True),
        ({"url_base": "https://api.test/"}, True),
        ({"url_base": "https://api.test/v1"}, False),
        ({"url_base": "http://api.test"}, False),
        ({"path": Pattern("^/v1")}, True),
        ({"path": Pattern("users$")}, True),
        ({"path": Pattern("x=1")}, False),
        ({"params": {"x": "1"}}, True),
        ({"params": {"x": "1", "y": "2"}}, True),
        ({"params": {"z": "1"}}, False),
        ({"headers": {"ACCEPT": "a/b"}}, True),
        ({"headers": {"accept": "A/B"}}, False),
        ({"method": "GET", "path": Pattern("orders")}, False),
    ],
)
def test_all_given_parts_must_match(parts: dict[str, Any], *, expected: bool) -> None:
    assert RequestMatcher(**parts).matches(USERS) is expected
