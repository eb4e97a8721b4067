"""Which hosts get the credentials of a manifest."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.base.secret_masking import Secrets
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.named_hosts import credential_scope
from cdk.declarative.source import ManifestSource
from cdk.rest.http.origin import origin
from cdk.testing import MockApi, read
from tests.two_servers import SPELLED, Answer, Told, api_and_stranger

SECRET, SESSION = "s3cr3t-0f-the-api", "t0ken-of-a-session"
TOKEN = {"header": "X-Own", "type": "ApiKeyAuthenticator", "api_token": "{{ config['key'] }}"}
AUTH: dict[str, dict[str, Any]] = {
    "bearer": {"authenticator": {"type": "BearerAuthenticator", "api_token": "{{ config['key'] }}"}},
    "basic": {"authenticator": {"type": "BasicHttpAuthenticator", "username": "me", "password": "{{ config['key'] }}"}},
    "key in a header": {"authenticator": TOKEN},
    "key in a parameter": {
        "authenticator": {
            "type": "ApiKeyAuthenticator",
            "api_token": "{{ config['key'] }}",
            "inject_into": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "k"},
        }
    },
    "session token": {
        "authenticator": {
            "type": "SessionTokenAuthenticator",
            "login_requester": {
                "type": "HttpRequester",
                "url_base": "{{ config['base'] }}",
                "path": "/login",
                "http_method": "POST",
                "request_body_json": {"key": "{{ config['key'] }}"},
            },
            "session_token_path": ["token"],
            "request_authentication": {"type": "Bearer"},
        }
    },
    "cookie": {"request_headers": {"Cookie": "sid={{ config['key'] }}"}},
    "header of its own": {"request_headers": {"X-Shop": "{{ config['key'] }}"}},
    "parameter of its own": {"request_parameters": {"shop": "{{ config['key'] }}"}},
    "body": {"http_method": "POST", "request_body_json": {"shop": "{{ config['key'] }}"}},
    "form": {"http_method": "POST", "request_body_data": {"shop": "{{ config['key'] }}"}},
}
PLACES = ("next", "link", "parent", "redirect", "redirect back", "redirect twice")
SPELLINGS = tuple(SPELLED)
SECRETS = (SECRET, SESSION, b64encode(f"me:{SECRET}".encode()).decode())


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Told, Told]]:
    with api_and_stranger() as both:
        yield both


def manifest(auth: dict[str, Any], place: str) -> ManifestSource:
    follows = "{{ headers['link']['next']['url'] }}" if place == "link" else "{{ response.next }}"
    requester = {"type": "HttpRequester", "url_base": "{{ config['base'] }}", **auth}
    selector = {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": ["data"]}}

    def stream(name: str, path: str, **more: Any) -> dict[str, Any]:
        return {
            "type": "DeclarativeStream",
            "name": name,
            "primary_key": "id",
            "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
            "retriever": {
                "type": "SimpleRetriever",
                "requester": {**requester, "path": path},
                "record_selector": selector,
                **more,
            },
        }

    pages = {
        "type": "DefaultPaginator",
        "pagination_strategy": {"type": "CursorPagination", "cursor_value": follows},
        "page_token_option": {"type": "RequestPath"},
    }
    parent = {"type": "ParentStreamConfig", "parent_key": "id", "partition_field": "url", "stream": stream("p", "/p")}
    router = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [parent]}
    items = (
        stream("items", "{{ stream_partition.url }}", partition_router=router)
        if place == "parent"
        else stream("items", "/items", paginator=pages)
    )
    spec = {
        "type": "Spec",
        "connection_specification": {"properties": {"key": {"type": "string", "airbyte_secret": True}}},
    }
    check = {"type": "CheckStream", "stream_names": ["items"]}
    whole = {"version": "6.0.0", "type": "DeclarativeSource", "check": check, "streams": [items], "spec": spec}
    return ManifestSource(Manifest(whole), Runtime(sleep=lambda _: None))


def answers(place: str, url: str) -> tuple[dict[str, Answer], dict[str, Answer]]:
    """What the API and the stranger answer."""
    login: dict[str, Answer] = {"/login": (200, {}, json.dumps({"token": SESSION}).encode())}
    one = json.dumps({"data": [{"id": 1}]}).encode()
    moved = {"Location": url}
    match place:
        case "next":
            return {**login, "/items": (200, {}, json.dumps({"data": [{"id": 1}], "next": url}).encode())}, {}
        case "link":
            return {**login, "/items": (200, {"Link": f'<{url}>; rel="next"'}, one)}, {}
        case "parent":
            return {**login, "/p": (200, {}, json.dumps({"data": [{"id": url}]}).encode())}, {}
        case "redirect twice":
            return {**login, "/items": (302, {"Location": "/there"}, b""), "/there": (307, moved, b"")}, {}
        case "redirect back":
            return {**login, "/items": (302, moved, b"")}, {"/page": (302, {"Location": "/again"}, b"")}
        case _:
            return {**login, "/items": (308, moved, b"")}, {}


@settings(max_examples=80, deadline=None)
@given(auth=st.sampled_from(sorted(AUTH)), place=st.sampled_from(PLACES), spelling=st.sampled_from(SPELLINGS))
def test_a_stranger_never_learns_a_secret(servers: tuple[Told, Told], auth: str, place: str, spelling: str) -> None:
    api, stranger = servers
    url = SPELLED[spelling].format(api=api.host, port=api.server_port, foreign=stranger.host, secret=SECRET)
    here, there = answers(place, url)
    api.begin(here)
    stranger.begin(there)
    config = {"key": SECRET, "base": api.url}

    first = read(manifest(AUTH[auth], place), "items", config=config)

    assert api.knows(*SECRETS), first.error
    assert stranger.knows(*SECRETS) == []


def named(url: str, **config: Any) -> set[str]:
    requester = {"type": "HttpRequester", "url": url}
    stream = {
        "type": "DeclarativeStream",
        "name": "items",
        "retriever": {
            "type": "SimpleRetriever",
            "requester": requester,
            "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}},
        },
        "schema_loader": {"type": "InlineSchemaLoader", "schema": {"$schema": "http://json-schema.org/schema#"}},
    }
    check = {"type": "CheckStream", "stream_names": ["items"]}
    spec = {"type": "Spec", "documentation_url": "https://docs.test/", "connection_specification": {"type": "object"}}
    whole = Manifest({"version": "6.0.0", "check": check, "streams": [stream], "spec": spec})
    return {str(each) for each in credential_scope(whole.root(), config, Secrets()).origins}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.test/items/{{ stream_partition.id }}", {"https://api.test"}),
        ("https://{{ config['shop'] }}.api.test/items", {"https://mine.api.test"}),
        ("https://{{ stream_partition.region }}.api.test:8443/items", {"https://*.api.test:8443"}),
        ("https://{{ stream_partition['region'] | lower }}-x.api.test/items", {"https://*-x.api.test"}),
        ("https://{{ stream_partition.host }}/items", set()),
        ("https://{{ stream_partition.name }}.com/items", set()),
        ("https://api.test{{ stream_partition.path }}", set()),
        ("{{ stream_partition.url }}", set()),
        ("{{ stream_slice.extra_fields['url'] }}", set()),
        ("https:{{ '//api.test' }}/items", {"https://api.test"}),
        ("https{{ record.colon }}{{ ['//api', 'test'] | join('.') }}/items", set()),
        ("{{ 'https' ~ '://' ~ ['api', 'test'] | join('.') }}/{{ stream_partition.id }}", {"https://api.test"}),
        (
            "{{ 'https://eu.test/' if stream_partition.eu else 'https://us.test/' }}",
            {"https://eu.test", "https://us.test"},
        ),
    ],
)
def test_what_a_url_names(url: str, expected: set[str]) -> None:
    assert named(url, shop="mine") == expected


def test_a_secret_without_a_name_that_says_so_stays_with_the_api() -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}], "next": f"https://evil.test/x/{SECRET}"})
    source = manifest({}, "next")
    source._runtime.transport = api

    made = read(source, "items", config={"key": SECRET, "base": "https://api.test"})

    assert [origin(request.url).host for request in api.requests] == ["api.test"]
    assert made.error is not None
    assert SECRET not in str(made.error)
