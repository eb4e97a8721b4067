"""Streams of a template, and what says which there are."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import Json
from cdk.base.errors import ManifestError
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.reading.manifest_stream import ManifestStream
from cdk.declarative.source import ManifestSource
from cdk.testing import MockApi, read
from tests.declarative.manifests import CURSOR

SELECTOR = {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": ["data"]}}
TEMPLATE = {
    "type": "DeclarativeStream",
    "name": "",
    "primary_key": [],
    "schema_loader": {"type": "InlineSchemaLoader", "schema": {"type": "object", "properties": {}}},
    "retriever": {
        "type": "SimpleRetriever",
        "requester": {"type": "HttpRequester", "url": "https://api.test/", "http_method": "GET"},
        "record_selector": SELECTOR,
    },
}
URL = ["retriever", "requester", "url"]


def value(path: list[str], text: str, **more: Any) -> dict[str, Any]:
    return {"type": "ComponentMappingDefinition", "field_path": path, "value": text, **more}


NAME = value(["name"], "{{ components_values['name'] }}")


def from_http(*mapping: Any, **retriever: Any) -> dict[str, Any]:
    requester = {"type": "HttpRequester", "url": "https://api.test/tables"}
    reader = {"type": "SimpleRetriever", "requester": requester, "record_selector": SELECTOR, **retriever}
    return {"type": "HttpComponentsResolver", "retriever": reader, "components_mapping": [NAME, *mapping]}


def from_config(*mapping: Any, name: Any = NAME, **lists: Any) -> dict[str, Any]:
    configs = [{"type": "StreamConfig", "configs_pointer": [key], **more} for key, more in lists.items()]
    return {
        "type": "ConfigComponentsResolver",
        "stream_config": configs if len(configs) > 1 else configs[0],
        "components_mapping": [name, *mapping],
    }


def from_manifest(*mapping: Any, parameters: Any) -> dict[str, Any]:
    told = {"type": "StreamParametersDefinition", "list_of_parameters_for_stream": parameters}
    mapped = [NAME, *mapping]
    return {"type": "ParametrizedComponentsResolver", "stream_parameters": told, "components_mapping": mapped}


def source(resolver: Any, *, api: MockApi | None = None, template: Any = None, more: Any = None) -> ManifestSource:
    made = {
        "type": "DynamicDeclarativeStream",
        "name": "tables",
        "stream_template": {**TEMPLATE, **(template or {})},
        "components_resolver": resolver,
        **(more or {}),
    }
    check = {"type": "CheckDynamicStream", "stream_count": 1}
    return ManifestSource(
        Manifest({"version": "6.0.0", "check": check, "dynamic_streams": [made]}), Runtime(transport=api or MockApi())
    )


def names(resolver: Any, config: Any = None, **more: Any) -> list[str]:
    return [stream.name for stream in source(resolver, **more).streams(config or {})]


def test_records_of_an_api_say_which_streams_there_are() -> None:
    api = MockApi()
    api.get("/*").returns(json={"data": [{"id": 1}]})
    api.get("/tables").returns(json={"data": [{"name": "a", "at": "x"}, {"name": "b", "at": "y"}]})
    made = source(from_http(value(URL, "https://api.test/{{ components_values.at }}")), api=api)

    run = read(made, "b")

    assert run.records == [{"id": 1}]
    assert [request.url for request in api.requests] == ["https://api.test/tables", "https://api.test/y"]


@pytest.mark.parametrize(
    ("found", "following", "warned"),
    [
        ("data", "next", []),
        (
            "dat",
            "next",
            ["there is no 'dat' in the body, whose fields are 'data', 'next' (is it 'data'?)", "no streams"],
        ),
        ("data", "nxt", ["there is no 'nxt' in the body, whose fields are 'data', 'next' (is it 'next'?)"]),
    ],
)
def test_what_a_list_of_streams_may_lack_is_warned_of(
    caplog: pytest.LogCaptureFixture, found: str, following: str, warned: list[str]
) -> None:
    api = MockApi()
    api.get("/tables").returns(json={"data": [{"name": "a"}], "next": "b"})
    api.get("/tables", params={"after": "b"}).returns(json={"data": [{"name": "b"}], "next": ""})
    resolver = from_http(
        record_selector={"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": [found]}},
        paginator={
            "type": "DefaultPaginator",
            "page_token_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "after"},
            "pagination_strategy": {"type": "CursorPagination", "cursor_value": f"{{{{ response['{following}'] }}}}"},
        },
    )

    assert names(resolver, api=api) == (["a", "b"] if not warned else ["a"] if found == "data" else [])

    assert len(caplog.messages) == len(warned)
    for message, words in zip(caplog.messages, warned, strict=True):
        assert message.startswith("HttpComponentsResolver.retriever: ")
        assert words in message


def test_state_migrations_of_a_template_have_their_usual_type() -> None:
    retriever: Any = TEMPLATE["retriever"]
    routers = {"type": "ListPartitionRouter", "cursor_field": "region", "values": ["eu"]}
    template = {
        "state_migrations": [{"Type": "LegacyToPerPartitionStateMigration"}],
        "incremental_sync": CURSOR,
        "retriever": {**retriever, "partition_router": routers},
    }
    (stream,) = source(from_manifest(parameters=[{"name": "a"}]), template=template).streams({})

    found = stream.migrate_state({"eu": {"on": "2024-01-03"}})

    assert found == {"states": [{"partition": {"region": "eu"}, "cursor": {"on": "2024-01-03"}}]}


def test_a_stream_knows_its_template() -> None:
    (stream,) = source(from_manifest(parameters=[{"name": "a"}])).streams({})

    assert isinstance(stream, ManifestStream)
    assert stream.template == "tables"


def test_each_slice_of_the_resolver_counts() -> None:
    api = MockApi()
    router = {
        "type": "ListPartitionRouter",
        "cursor_field": "region",
        "values": ["eu", "us"],
        "request_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "region"},
    }
    for region in ("eu", "us"):
        api.get("/tables", {"region": region}).returns(json={"data": [{"name": "a"}]})
    named = value(["name"], "{{ stream_slice.region }} {{ components_values.name }}")

    assert names(from_http(named, partition_router=router), api=api) == ["eu a", "us a"]


def test_texts_of_an_api_are_not_read_as_yaml() -> None:
    api = MockApi()
    api.get("/tables").returns(json={"data": [{"name": "yes"}]})

    assert names(from_http(), api=api) == ["yes"]


@pytest.mark.parametrize("id", [7, "12e4", "1_0", "0x1f"])
def test_a_number_in_the_place_of_a_text_is_one_as_it_is_spelled(id: Json) -> None:
    api = MockApi()
    api.get("/tables").returns(json={"data": [{"name": "a", "id": id}]})
    api.get("/*").returns(json={"data": [{"id": 1}]})
    template: Any = deepcopy(TEMPLATE)
    template["retriever"]["requester"] = {"type": "HttpRequester", "url_base": "https://api.test", "path": "somewhere"}
    place = ["retriever", "requester", "path"]
    made = source(from_http(value(place, "{{ components_values.id }}")), api=api, template=template)

    assert read(made, "a").records == [{"id": 1}]
    assert api.requests[-1].url.endswith(f"/{id}")


SPELLED = st.integers().map(str) | st.floats(allow_nan=False).map(str) | st.dates().map(str) | st.just("1e5")


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | SPELLED)
def test_what_an_item_has_as_a_name_is_a_string_as_it_is_spelled(name: Json) -> None:
    api = MockApi()
    api.get("/tables").returns(json={"data": [{"name": name}]})

    assert names(from_http(), api=api) == [f"{name}"]
    assert names(from_config(tables={}), {"tables": [{"name": name}]}) == [f"{name}"]
    assert names(from_manifest(parameters=[{"name": name}])) == [f"{name}"]


@pytest.mark.parametrize("item", [{}, {"name": None}, {"name": ""}, {"name": []}, {"name": ["a"]}, {"name": {"b": 1}}])
def test_an_item_without_a_name_is_refused(item: Json) -> None:
    api = MockApi()
    api.get("/tables").returns(json={"data": [{"name": "first"}, item]})
    items = [{"name": "first"}, item]

    for resolver in (from_http(), from_config(tables={}), from_manifest(parameters=items)):
        with pytest.raises(ManifestError, match=r"'tables': (found no name for stream 2|name: found .*), expected a"):
            names(resolver, {"tables": items}, api=api)


def test_a_list_in_the_config_says_which_streams_there_are() -> None:
    resolver = from_config(tables={"default_values": [{"name": "main"}]})

    assert names(resolver, {"tables": [{"name": "a"}, {"name": "b"}]}) == ["a", "b", "main"]
    assert names(resolver, {"tables": {"name": "one"}}) == ["one", "main"]
    assert names(resolver, {}) == ["main"]


def test_of_several_lists_each_combination_is_a_stream() -> None:
    name = value(["name"], "{{ components_values.name }}-{{ components_values.source_config_1[1] }}")
    resolver = from_config(name=name, tables={}, regions={})

    assert names(resolver, {"tables": [{"name": "a"}, {"name": "b"}], "regions": ["eu", "us"]}) == [
        "a-eu",
        "a-us",
        "b-eu",
        "b-us",
    ]


def test_a_value_without_keys_comes_with_its_index_in_its_list() -> None:
    name = value(["name"], "{{ components_values.source_config_0[1] }}{{ components_values.source_config_0[0] }}")

    assert names(from_config(name=name, tables={}), {"tables": ["a", "b"]}) == ["a0", "b1"]
    second = value(["name"], "{{ components_values.source_config_1[1] }}{{ components_values.source_config_1[0] }}")
    config = {"tables": [{"name": "x"}], "regions": ["eu", "us"]}
    assert names(from_config(name=second, tables={}, regions={}), config) == ["eu0", "us1"]


def test_values_are_set_on_a_condition_and_typed() -> None:
    schema = ["schema_loader", "schema"]
    resolver = from_manifest(
        value([*schema, "count"], "{{ components_values.n }}", create_or_update=True),
        value([*schema, "text"], "{{ components_values.n }}", create_or_update=True, value_type="string"),
        value([*schema, "nope"], "{{ components_values.n }}"),
        value([*schema, "big"], "true", create_or_update=True, condition="{{ components_values.n > 1 }}"),
        value(["primary_key"], "[{{ components_values.key }}]"),
        parameters=[{"name": "a", "n": 1, "key": "id"}, {"name": "b", "n": 2, "key": "x, y"}],
    )

    one, two = source(resolver).streams({})

    assert one.json_schema() == {"type": "object", "properties": {}, "count": 1, "text": "1"}
    assert two.json_schema() == {"type": "object", "properties": {}, "count": 2, "text": "2", "big": True}
    assert (one.primary_key, two.primary_key) == (["id"], ["x", "y"])


def test_a_value_may_read_the_template() -> None:
    resolver = from_manifest(
        value(["name"], "{{ stream_template_config.retriever.requester.http_method }} {{ components_values.name }}"),
        parameters=[{"name": "a"}],
    )

    assert names(resolver) == ["GET a"]


@pytest.mark.parametrize(("wins", "expected"), [(True, "theirs"), (False, "own")])
def test_parameters_from_above_win_over_those_of_the_template_unless_told(wins: bool, expected: str) -> None:  # noqa: FBT001
    api = MockApi()
    api.get("/*").returns(json={"data": []})
    requester = {"type": "HttpRequester", "url": "https://api.test/{{ parameters.tag }}"}
    retriever = {"type": "SimpleRetriever", "requester": requester, "record_selector": SELECTOR}
    template = {"$parameters": {"tag": "own"}, "retriever": retriever}
    above = {"use_parent_parameters": wins, "$parameters": {"tag": "theirs"}}

    read(source(from_manifest(parameters=[{"name": "a"}]), api=api, template=template, more=above), "a")

    assert [request.url for request in api.requests] == [f"https://api.test/{expected}"]


def test_a_template_may_be_several_streams_on_a_condition() -> None:
    template = {"type": "ConditionalStreams", "condition": "{{ config.audit }}", "streams": [{**TEMPLATE, "name": "a"}]}
    mapping = {**from_manifest(parameters=[{}]), "components_mapping": [value(["streams", "0", "name"], "audit")]}

    assert names(mapping, {"audit": True}, template=template) == ["audit"]
    assert names(mapping, {"audit": False}, template=template) == []


def test_two_streams_with_one_name_are_refused() -> None:
    with pytest.raises(ManifestError, match="two streams have the name 'a'"):
        names(from_manifest(parameters=[{"name": "a"}, {"name": "a"}]))


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ({"type": "Nope"}, "the streams of 'tables': there is no component 'Nope'"),
        ({"type": "NoAuth"}, "the streams of 'tables': found a NoAuth, expected a stream"),
        ({"type": "DeclarativeStream", "retriever": None}, "the streams of 'tables': retriever: "),
        ({"schema_loader": {"type": "Nope"}}, "the streams of 'tables': schema_loader"),
        (
            {"primary_key": 5},
            "primary_key: found 5, expected a string, a list of strings or a list of lists of strings",
        ),
    ],
)
def test_a_copy_that_is_no_stream_is_refused_with_the_name_of_the_template(template: Any, said: str) -> None:
    with pytest.raises(ManifestError) as raised:
        names(from_manifest(parameters=[{"name": "a"}]), template=template)

    assert said in raised.value.message


def test_a_stream_of_a_template_is_named_in_errors_of_its_parts() -> None:
    cursor = {"type": "DatetimeBasedCursor", "cursor_field": "on", "datetime_format": "%Y", "start_datetime": "nope"}

    run = read(source(from_manifest(parameters=[{"name": "a"}]), template={"incremental_sync": cursor}))

    assert run.error is not None
    assert "a: " in run.error.message
