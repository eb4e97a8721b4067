from typing import Any

import pytest

from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.syntax.parameters import implied_type, propagate

register()

REQUESTER = {"type": "HttpRequester", "url_base": "https://api.example.com"}
SELECTOR = {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}}


def expanded(component: dict[str, Json], **options: Any) -> Json:
    return propagate(component, **options)


def stream(**fields: Json) -> dict[str, Json]:
    retriever = {"type": "SimpleRetriever", "requester": REQUESTER, "record_selector": SELECTOR}
    return {"type": "DeclarativeStream", "retriever": retriever, **fields}


def test_a_parameter_is_a_field_of_every_component_below() -> None:
    made = expanded(stream(**{"$parameters": {"name": "users", "path": "/users"}}))

    assert (made["name"], made["path"]) == ("users", "/users")
    assert made["retriever"]["requester"]["path"] == "/users"
    assert made["retriever"]["record_selector"]["extractor"]["$parameters"] == {"name": "users", "path": "/users"}


def test_a_field_that_is_there_stays_and_an_empty_one_is_filled() -> None:
    made = expanded(stream(name="mine", primary_key="", **{"$parameters": {"name": "users", "primary_key": "id"}}))

    assert (made["name"], made["primary_key"]) == ("mine", "id")


def test_the_parameters_of_the_inner_component_win() -> None:
    inner = {**REQUESTER, "$parameters": {"path": "/inner"}}
    outer = stream(**{"$parameters": {"path": "/outer", "x": 1}})
    outer["retriever"] = {**outer["retriever"], "requester": inner}

    assert expanded(outer)["retriever"]["requester"]["$parameters"] == {"path": "/inner", "x": 1}
    assert expanded(outer, parent_wins=True)["retriever"]["requester"]["path"] == "/outer"


def test_a_parameter_is_not_put_into_the_field_that_it_names() -> None:
    made = expanded(stream(**{"$parameters": {"retriever": {"x": 1}, "path": "/a"}}))

    assert "retriever" not in made["retriever"]
    assert made["retriever"]["path"] == "/a"


def test_types_are_implied_by_the_field() -> None:
    made = expanded(
        {
            "type": "DeclarativeSource",
            "check": {"stream_names": ["a"]},
            "streams": [
                {"retriever": {"requester": {"url": "u"}, "record_selector": {"extractor": {"field_path": []}}}}
            ],
        }
    )

    assert made["check"]["type"] == "CheckStream"
    assert made["streams"][0]["type"] == "DeclarativeStream"
    retriever = made["streams"][0]["retriever"]
    assert [retriever["type"], retriever["requester"]["type"]] == ["SimpleRetriever", "HttpRequester"]
    assert retriever["record_selector"]["extractor"]["type"] == "DpathExtractor"


@pytest.mark.parametrize(
    ("component", "field", "value", "implied"),
    [
        ("SimpleRetriever", "requester", {}, "HttpRequester"),
        ("SimpleRetriever", "requester", {"class_name": "a.B"}, "CustomRequester"),
        ("SimpleRetriever", "partition_router", {}, None),
        ("SimpleRetriever", "partition_router", {"class_name": "a.B"}, "CustomPartitionRouter"),
        ("DatetimeBasedCursor", "start_datetime", {}, "MinMaxDatetime"),
        ("DatetimeBasedCursor", "start_time_option", {}, "RequestOption"),
        ("DefaultPaginator", "page_token_option", {}, None),
        ("DeclarativeStream", "schema_loader", {}, "JsonFileSchemaLoader"),
        ("DeclarativeSource", "stream_groups", {}, None),
        ("HttpRequester", "request_parameters", {}, None),
        ("HttpRequester", "nothing", {}, None),
        ("Nothing", "streams", {}, None),
    ],
)
def test_what_a_field_implies(component: str, field: str, value: dict[str, Json], implied: str | None) -> None:
    assert implied == implied_type(component, field, value)


def test_objects_without_a_type_are_looked_through_for_components_directly_inside() -> None:
    groups = {"a": {"type": "StreamGroup", "streams": []}, "b": 1}
    made = expanded({"type": "DeclarativeSource", "$parameters": {"x": 1}, "stream_groups": groups})

    assert made["stream_groups"]["a"]["$parameters"] == {"x": 1}
    assert "x" not in made["stream_groups"]


def test_schemas_are_left_alone() -> None:
    schema = {"type": "object", "properties": {"a": {"type": ["null", "string"]}, "b": {"type": "Spec"}}}
    loader = {"type": "InlineSchemaLoader", "schema": schema}
    made = expanded(stream(schema_loader=loader, **{"$parameters": {"name": "users"}}))

    assert schema == made["schema_loader"]["schema"]


@pytest.mark.parametrize("kind", ["object", ["null", "object"]])
def test_parameters_beside_a_schema_are_no_part_of_it(kind: Json) -> None:
    schema = {"type": kind, "properties": {"a": {"type": "string"}}}
    loader = {"type": "InlineSchemaLoader", "schema": {**schema, "$parameters": {"x": 1}}}

    assert expanded(stream(schema_loader=loader))["schema_loader"]["schema"] == schema


def test_what_was_given_is_not_changed() -> None:
    given = stream(**{"$parameters": {"name": "users"}})
    before = repr(given)
    expanded(given)

    assert before == repr(given)


def test_parameters_that_are_no_object_are_left_for_validation() -> None:
    assert expanded(stream(**{"$parameters": "x"}))["$parameters"] == "x"
