"""Where a value is put into a request."""

from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.declarative.components import register
from cdk.declarative.components.requests.request_options import RequestOption, RequestPath
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.syntax.validation import validated

register()

CONTEXT = BuildContext({"name": "since"}, Runtime())


def put(option: Any, value: Any) -> RequestBuilder:
    draft = RequestBuilder("POST", "https://api.test/v1/users", "here")
    validated(RequestOption, option).build(CONTEXT)(draft, value)
    return draft


@pytest.mark.parametrize(
    ("option", "part", "expected"),
    [
        ({"inject_into": "request_parameter", "field_name": "a"}, "params", {"a": 5}),
        ({"inject_into": "request_parameter", "field_name": "{{ config.name }}"}, "params", {"since": 5}),
        ({"inject_into": "header", "field_name": "X-A"}, "headers", {"X-A": 5}),
        ({"inject_into": "body_data", "field_name": "a"}, "form", {"a": 5}),
        ({"inject_into": "body_json", "field_name": "a"}, "json", {"a": 5}),
        ({"inject_into": "body_json", "field_path": ["a", "{{ config.name }}"]}, "json", {"a": {"since": 5}}),
        ({"inject_into": "body_json", "field_name": "a.b"}, "json", {"a.b": 5}),
    ],
)
def test_a_value_goes_where_the_option_says(option: Any, part: str, expected: Any) -> None:
    assert getattr(put(option, 5), part) == expected


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"inject_into": "header"}, "either field_name or field_path"),
        ({"inject_into": "body_json", "field_name": "a", "field_path": ["a"]}, "either field_name or field_path"),
        ({"inject_into": "header", "field_path": ["a"]}, "field_path is for inject_into: body_json"),
        ({"inject_into": "nowhere", "field_name": "a"}, "inject_into"),
    ],
)
def test_an_option_has_one_name_that_fits_its_place(option: Any, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        validated(RequestOption, option)


@pytest.mark.parametrize(
    ("token", "url"),
    [
        ("https://other.test/next?page=2", "https://other.test/next?page=2"),
        ("next?page=2", "https://api.test/v1/users/next?page=2"),
    ],
)
def test_a_token_may_be_the_url(token: str, url: str) -> None:
    draft = RequestBuilder("GET", "https://api.test/v1/users", "here")

    RequestPath().build(CONTEXT)(draft, token)

    assert draft.request().full_url == url
