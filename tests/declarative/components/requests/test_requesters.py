from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdk.base.errors import ConfigError, ManifestError
from cdk.declarative.components import register
from cdk.declarative.components.requests.requesters import HttpRequester, join
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.syntax.validation import validated
from cdk.rest import Request
from cdk.rest.http.egress import Egress
from cdk.rest.http.transport import HttpTransport
from cdk.testing import MockApi, Route
from tests.declarative.manifests import CURSOR, ids, option, paginator, run

register()


def asked(**parts: Any) -> Request:
    """The one request of a stream."""
    api = MockApi()
    for method in ("GET", "POST"):
        api.add(Route(method, "/*")).returns(json={"data": []})
        api.add(Route(method, "/*/*")).returns(json={"data": []})
    assert run(api, **parts).error is None
    (request,) = api.requests
    return request


def regions(*places: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "ListPartitionRouter", "cursor_field": f"region{n}", "values": ["eu"], "request_option": place}
        for n, place in enumerate(places)
    ]


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://a.com/v1", "users", "https://a.com/v1/users"),
        ("https://a.com/v1/", "/users", "https://a.com/v1/users"),
        ("https://a.com/v1", "", "https://a.com/v1"),
        ("https://a.com/v1", "https://b.com/users", "https://b.com/users"),
        (" https://a.com/v1 ", " users/ ", "https://a.com/v1/users/"),
        ("https://a.com/v1//", "users", "https://a.com/v1/users"),
        ("https://a.com/v1//", "//users/", "https://a.com/v1/users/"),
        ("https://a.com//v1/", "users", "https://a.com/v1/users"),
        ("https://a.com//", "users/a.json", "https://a.com/users/a.json"),
        ("https://a.com/v1", "/", "https://a.com/v1"),
        ("", "https://b.com/users?page=2", "https://b.com/users?page=2"),
    ],
)
def test_a_path_follows_its_base(base: str, path: str, url: str) -> None:
    assert join(base, path) == url


METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@given(method=st.sampled_from([*METHODS, *map(str.lower, METHODS)]) | st.text(max_size=8))
@example(method="FETCH")
def test_a_method_that_nothing_answers_to_is_refused_before_a_request(method: str) -> None:
    if method.upper() in METHODS:
        assert validated(HttpRequester, {"http_method": method}).http_method == method.upper()
    else:
        with pytest.raises(ManifestError, match=r"http_method: found .*, expected one of 'GET', 'POST'"):
            validated(HttpRequester, {"http_method": method})


def test_a_url_may_be_told_in_two_parts() -> None:
    parts = {"url": None, "url_base": "https://{{ config.region }}.example.com/v1", "path": "users"}

    assert asked(requester=parts).full_url == "https://eu.example.com/v1/users"


@pytest.mark.parametrize(
    ("parts", "url"),
    [
        ({"url": "https://a.com/v1", "path": "/users"}, "https://a.com/v1/users"),
        ({"url": "https://a.com/whole", "url_base": "https://b.com/v1", "path": "users"}, "https://b.com/v1/users"),
        ({"url": "https://a.com/whole", "url_base": "https://b.com/v1"}, "https://b.com/v1"),
        ({"url": "https://a.com/v1", "url_base": "{{ config.get('host', '') }}", "path": "u"}, "https://a.com/v1/u"),
        ({"url": None, "url_base": "", "path": "{{ 'https://a.com' }}/whole"}, "https://a.com/whole"),
    ],
)
def test_a_url_base_goes_before_a_url_and_a_path_follows_either(parts: dict[str, Any], url: str) -> None:
    assert asked(requester=parts).full_url == url


def test_a_parent_is_asked_for_at_its_own_address_where_the_stream_has_a_url_in_its_parameters() -> None:
    talks = {
        "type": "DeclarativeStream",
        "name": "talks",
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester"},
            "record_selector": {
                "type": "RecordSelector",
                "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
            },
        },
        "$parameters": {"url_base": "https://api.example.com/v1", "path": "talks"},
    }
    parent = {"type": "ParentStreamConfig", "parent_key": "id", "partition_field": "id", "stream": talks}
    api = MockApi()
    api.get("/v1/talks").returns(json={"data": [{"id": 7}]})
    api.get("/v1/talks/7/messages").returns(json={"data": [{"id": 1}]})

    made = run(
        api,
        requester={"url": None},
        partition_router={"type": "SubstreamPartitionRouter", "parent_stream_configs": [parent]},
        stream={"$parameters": {"url": "https://api.example.com/v1/talks/{{ stream_partition['id'] }}/messages"}},
    )

    assert ids(made) == [1]


def test_the_partition_may_be_in_the_url() -> None:
    made = asked(
        requester={"url": "https://a.com/{{ stream_partition.region0 }}"}, partition_router=regions(option("r"))
    )

    assert made.full_url == "https://a.com/eu?r=eu"


def test_parameters_and_headers_are_expressions() -> None:
    requester = {
        "request_parameters": {"region": "{{ config['region'] }}", "none": None, "ids": "{{ [1, 2] }}"},
        "request_headers": {"X-Size": 5, "{{ config['region'] }}": "yes"},
    }
    made = asked(requester=requester)

    assert made.full_url == "https://api.example.com/items?region=eu&ids=1&ids=2"
    assert dict(made.headers) == {"X-Size": "5", "eu": "yes"}


@pytest.mark.parametrize(
    ("field", "value", "body", "kind"),
    [
        ("request_body_json", {"a": {"b": "{{ config.region }}"}}, b'{"a":{"b":"eu"}}', "application/json"),
        ("request_body_data", {"a": "{{ config.region }}"}, b"a=eu", "application/x-www-form-urlencoded"),
        ("request_body_data", "a: {{ config.region }}", b"a: eu", None),
        ("request_body_data", "{{ {'a': config.region} }}", b"a=eu", "application/x-www-form-urlencoded"),
        ("request_body_json", "{{ {'a': config.region} }}", b'{"a":"eu"}', "application/json"),
        ("request_body_json", "{{ [config.region] }}", b'["eu"]', "application/json"),
        ("request_body_json", "query {{ config.region }}", b"query eu", "application/json"),
    ],
)
def test_a_body_is_json_a_form_or_a_text(field: str, value: Any, body: bytes, kind: str | None) -> None:
    made = asked(requester={"http_method": "POST", field: value})

    assert made.body == body
    assert made.headers.get("Content-Type") == kind


def test_a_body_whose_expression_yields_nothing_leaves_it_to_the_other() -> None:
    body = {"request_body_data": {"a": "{{ config.none }}"}, "request_body_json": {"b": "{{ config.region }}"}}

    assert asked(requester={"http_method": "POST", **body}).body == b'{"b":"eu"}'


@pytest.mark.parametrize("timeout", ["connect_timeout_in_seconds", "read_timeout_in_seconds"])
def test_a_requester_with_a_timeout_of_its_own_goes_where_the_transport_may(timeout: str) -> None:
    runtime = Runtime(transport=HttpTransport(egress=Egress.parse("api.example.com")))
    requester = validated(HttpRequester, {"url": "http://127.0.0.1:1/", timeout: 5})
    request = Request("GET", "http://127.0.0.1:1/")

    with pytest.raises(ConfigError, match="no request may go to"):
        requester.build(BuildContext({}, runtime)).client.send(request)


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("request_parameter", lambda request: request.params),
        ("header", lambda request: request.headers),
        ("body_data", lambda request: dict(pair.split("=") for pair in request.body.decode().split("&"))),
    ],
)
def test_the_partition_and_the_window_go_where_they_are_told(place: str, found: Any) -> None:
    cursor = {**CURSOR, "start_time_option": option("since", place), "end_time_option": option("until", place)}

    made = asked(
        requester={"http_method": "POST"},
        partition_router=regions(option("region", place)),
        stream={"incremental_sync": cursor},
    )

    assert found(made) == {"region": "eu", "since": "2024-01-01", "until": "2024-01-31"}


def test_values_share_the_objects_of_a_json_body() -> None:
    nested = [{"type": "RequestOption", "inject_into": "body_json", "field_path": ["filter", name]} for name in "ab"]

    made = asked(
        requester={"http_method": "POST", "request_body_json": {"filter": {"c": 1}}}, partition_router=regions(*nested)
    )

    assert made.body == b'{"filter":{"c":1,"a":"eu","b":"eu"}}'


@pytest.mark.parametrize(
    ("requester", "place"),
    [
        ({"request_parameters": {"r": "us"}}, "request_parameter"),
        ({"request_headers": {"r": "us"}}, "header"),
        ({"request_body_json": {"r": "us"}}, "body_json"),
        ({"request_body_data": {"r": "us"}}, "body_data"),
    ],
)
def test_what_is_told_twice_is_refused(requester: dict[str, Any], place: str) -> None:
    made = run(MockApi(), requester=requester, partition_router=regions(option("r", place)))

    assert isinstance(made.error, ManifestError)
    assert "is set twice" in made.error.message


def test_the_same_value_twice_in_a_json_body_is_no_contradiction() -> None:
    made = asked(
        requester={"http_method": "POST", "request_body_json": {"r": "eu"}},
        partition_router=regions(option("r", "body_json")),
    )

    assert made.body == b'{"r":"eu"}'


def test_nothing_can_be_added_to_a_text() -> None:
    made = run(
        MockApi(), requester={"request_body_data": "a text"}, partition_router=regions(option("region", "body_data"))
    )

    assert isinstance(made.error, ManifestError)
    assert "the body is a string" in made.error.message


def test_a_body_is_not_json_and_a_form_at_once() -> None:
    pages = paginator(
        {"type": "PageIncrement", "inject_on_first_request": True, "start_from_page": 1},
        token=option("page", "body_data"),
    )
    made = run(MockApi(), requester={"request_body_json": {"a": 1}}, paginator=pages)

    assert isinstance(made.error, ManifestError)
    assert "JSON and a form" in made.error.message


def test_a_requester_needs_an_address() -> None:
    made = run(MockApi(), requester={"url": None})

    assert isinstance(made.error, ManifestError)
    assert "`url`" in made.error.message


@pytest.mark.parametrize("part", ["request_parameters", "request_headers"])
def test_parameters_that_render_to_no_map_are_refused(part: str) -> None:
    ran = run(MockApi(), requester={part: "{{ ['a'] }}"})

    assert isinstance(ran.error, ManifestError)
    assert "renders to a list, expected a map" in str(ran.error)
