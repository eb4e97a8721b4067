"""Where a stream's JSON Schema comes from."""

import json
from pathlib import Path
from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.declarative.model.context import Runtime
from cdk.testing import MockApi
from tests.declarative.manifests import source

URL = "https://api.example.com/fields"
DRAFT = "https://json-schema.org/draft-07/schema#"
TEXT, WHOLE, NUMBER = ({"type": ["null", kind]} for kind in ("string", "integer", "number"))
FIELDS = [{"name": "id", "type": "integer"}, {"name": "Name", "type": "text"}, {"name": "on", "type": "date"}]
TYPES = [{"type": "TypesMap", "current_type": "text", "target_type": "string"}]


def schema(loader: Any, api: MockApi | None = None, folder: Path | None = None) -> Any:
    runtime = Runtime(folder=folder or Path())
    (stream,) = source(api or MockApi(), stream={"schema_loader": loader}, runtime=runtime).streams({"dir": "own"})
    return stream.json_schema()


def dynamic(**more: Any) -> dict[str, Any]:
    identifier = {
        "type": "SchemaTypeIdentifier",
        "schema_pointer": ["fields"],
        "key_pointer": ["name"],
        "type_pointer": ["type"],
        "types_mapping": TYPES,
    }
    return {
        "type": "DynamicSchemaLoader",
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"type": "HttpRequester", "url": URL},
            "record_selector": {
                "type": "RecordSelector",
                "extractor": {"type": "DpathExtractor", "field_path": more.pop("extract", [])},
            },
        },
        "schema_type_identifier": {**identifier, **more.pop("identifier", {})},
        **more,
    }


def properties(body: Any, **more: Any) -> Any:
    api = MockApi()
    api.get("/fields").returns(json=body)
    found = schema(dynamic(**more), api)
    assert {key: value for key, value in found.items() if key != "properties"} == {
        "$schema": DRAFT,
        "type": "object",
        "additionalProperties": True,
    }
    return found["properties"]


def test_an_inline_schema_is_the_schema() -> None:
    assert schema({"type": "InlineSchemaLoader", "schema": {"type": "object", "x": 1}}) == {"type": "object", "x": 1}
    assert schema({"type": "InlineSchemaLoader"}) == {}


def test_a_file_is_looked_for_beside_the_manifest_and_above(tmp_path: Path) -> None:
    inner = tmp_path / "source_it"
    (inner / "schemas").mkdir(parents=True)
    (inner / "schemas" / "items.json").write_text('{"type": "object"}')
    (tmp_path / "own.json").write_text('{"own": true}')

    for path in ("./schemas/items.json", "./source_it/schemas/items.json", "source_it/schemas/items.json"):
        assert schema({"type": "JsonFileSchemaLoader", "file_path": path}, folder=inner) == {"type": "object"}
    for folder in (inner, tmp_path):
        assert schema({"type": "JsonFileSchemaLoader"}, folder=folder) == {"type": "object"}
    assert schema({"file_path": "{{ config.dir }}.json"}, folder=inner) == {"own": True}
    assert schema(None, folder=inner) == {"type": "object"}


def test_a_file_that_is_missing_matters_only_when_it_was_told(tmp_path: Path) -> None:
    assert schema(None, folder=tmp_path) == {}
    with pytest.raises(ManifestError, match=r"items: JsonFileSchemaLoader.file_path: there is no file './nope.json'"):
        schema({"type": "JsonFileSchemaLoader", "file_path": "./nope.json"}, folder=tmp_path)


@pytest.mark.parametrize("name", ["{}", "../../secret/key.json", "./schemas/../../../secret/key.json"])
def test_a_manifest_reads_no_file_outside_of_its_folders(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "connectors" / "it"
    (inner / "schemas").mkdir(parents=True)
    secret = tmp_path / "secret" / "key.json"
    secret.parent.mkdir()
    secret.write_text('{"private": "x"}')

    with pytest.raises(ManifestError, match="there is no file"):
        schema({"type": "JsonFileSchemaLoader", "file_path": name.format(secret)}, folder=inner)


@pytest.mark.parametrize(("text", "said"), [("[]", "found a list, expected a JSON Schema"), ("{", "is not JSON")])
def test_a_file_that_is_no_schema_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "s.json").write_text(text)

    with pytest.raises(ManifestError, match=said) as raised:
        schema({"type": "JsonFileSchemaLoader", "file_path": "s.json"}, folder=tmp_path)

    assert raised.value.path.startswith(str(tmp_path / "s.json"))


def test_of_several_schemas_the_properties_count_and_the_earlier_wins() -> None:
    one = {"type": "object", "required": ["a"], "properties": {"a": TEXT, "b": TEXT}}
    two = {"$schema": "other", "additionalProperties": False, "properties": {"b": WHOLE, "c": WHOLE}}
    loaders = [{"type": "InlineSchemaLoader", "schema": part} for part in (one, two, {})]

    assert schema(loaders) == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": ["null", "object"],
        "properties": {"a": TEXT, "b": TEXT, "c": WHOLE},
    }


def test_an_api_says_the_types_of_its_fields() -> None:
    found = properties({"fields": FIELDS})

    assert found == {"id": WHOLE, "Name": TEXT, "on": {"type": ["null", "string"], "format": "date"}}
    assert list(found) == ["id", "Name", "on"]


@pytest.mark.parametrize(
    ("identifier", "body", "expected"),
    [
        ({"schema_pointer": [], "extract": ["data"]}, {"data": FIELDS[:2]}, {"id": WHOLE, "Name": TEXT}),
        ({}, {"fields": {"name": "one", "type": "number"}}, {"one": NUMBER}),
        ({}, {}, {}),
        ({}, [], {}),
        ({}, [{"fields": FIELDS[:1]}, {"fields": FIELDS}], {"id": WHOLE}),
        ({}, {"fields": [{"name": 5}]}, {"5": TEXT}),
        ({"type_pointer": None}, {"fields": FIELDS[:1]}, {"id": TEXT}),
        ({"key_pointer": ["at", "{{ config.dir }}"]}, {"fields": [{"at": {"own": "x"}}]}, {"x": TEXT}),
    ],
)
def test_fields_lie_where_the_pointers_lead(identifier: Any, body: Any, expected: Any) -> None:
    extract = identifier.pop("extract", [])

    assert properties(body, identifier=identifier, extract=extract) == expected


@pytest.mark.parametrize(
    ("body", "extract", "identifier", "words"),
    [
        ({"fields": FIELDS}, [], {"schema_pointer": ["feilds"]}, "no 'feilds' in the description, whose fields are"),
        ({"a": {"fields": FIELDS}}, ["a"], {"schema_pointer": ["fields", "x"]}, "no 'x' in 'fields', which is a list"),
        ({"data": FIELDS}, ["date"], {"schema_pointer": []}, "no record in the response"),
        ({"data": {"fields": FIELDS}}, ["date"], {}, "no record in the response"),
    ],
)
def test_a_schema_without_fields_is_warned_of(
    caplog: pytest.LogCaptureFixture, body: Any, extract: list[str], identifier: Any, words: str
) -> None:
    assert properties(body, identifier=identifier, extract=extract) == {}

    (message,) = caplog.messages
    assert message.startswith("items: SchemaTypeIdentifier.schema_pointer: there is ")
    assert words in message


@pytest.mark.parametrize("kind", ["txt", 5, {"a": 1}])
def test_a_type_that_is_not_mapped_is_an_error_that_says_where(kind: Any) -> None:
    with pytest.raises(ManifestError) as raised:
        properties({"fields": [{"name": "id", "type": kind}]})

    assert f"items: SchemaTypeIdentifier.types_mapping: found the type {kind!r}, expected" in raised.value.message


@pytest.mark.parametrize("pointer", ["schema_pointer", "key_pointer", "type_pointer"])
def test_a_pointer_that_cannot_be_evaluated_is_named(pointer: str) -> None:
    with pytest.raises(ManifestError, match=rf"SchemaTypeIdentifier\.{pointer}: "):
        properties({"fields": FIELDS}, identifier={pointer: ["{{ 1 / 0 }}"]})


@pytest.mark.parametrize(
    ("told", "mapping", "expected"),
    [
        ("text", {"current_type": "text", "target_type": "number"}, NUMBER),
        ("text", {"current_type": "text", "target_type": ["integer", "string"]}, {"oneOf": [WHOLE, TEXT]}),
        (["integer", "string"], None, {"oneOf": [WHOLE, TEXT]}),
        (["text", "x"], {"current_type": ["text", "x"], "target_type": "string"}, TEXT),
        ("number", {"current_type": ["number", "x"], "target_type": "string"}, NUMBER),
        (
            "list",
            {"current_type": "list", "target_type": {"field_type": "array", "items": "integer"}},
            {"type": ["null", "array"], "items": WHOLE},
        ),
        (
            "list",
            {
                "current_type": "list",
                "target_type": {"field_type": "array", "items": {"field_type": "array", "items": "string"}},
            },
            {"type": ["null", "array"], "items": {"type": ["null", "array"], "items": TEXT}},
        ),
        (
            "integer",
            {"current_type": "integer", "target_type": "string", "condition": "{{ raw_schema.format == 'id' }}"},
            TEXT,
        ),
        (
            "integer",
            {"current_type": "integer", "target_type": "string", "condition": "{{ raw_schema.format == 'no' }}"},
            WHOLE,
        ),
    ],
)
def test_a_type_of_the_api_becomes_one_of_json_schema(told: Any, mapping: Any, expected: Any) -> None:
    identifier = {"types_mapping": [{"type": "TypesMap", **mapping}] if mapping else None}
    body = {"fields": [{"name": "a", "type": told, "format": "id"}]}

    assert properties(body, identifier=identifier) == {"a": expected}


@pytest.mark.parametrize("told", ["zebra", ["string", "null"], ["string"], 5])
def test_a_type_nobody_knows_is_refused_with_what_to_do(told: Any) -> None:
    with pytest.raises(ManifestError, match=r"expected (one|two) of array, boolean"):
        properties({"fields": [{"name": "a", "type": told}]})


def test_a_field_without_a_name_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"SchemaTypeIdentifier.key_pointer: found nothing there in an object"):
        properties({"fields": [{"type": "string"}]})


def test_fields_are_filtered_by_name_after_they_were_changed() -> None:
    found = properties(
        {"fields": FIELDS},
        schema_transformations=[{"type": "KeysToLower"}],
        schema_filter={"type": "RecordFilter", "condition": "{{ 'name' in record or 'id' in record }}"},
    )

    assert found == {"id": WHOLE, "name": TEXT}


def test_a_schema_is_fetched_when_it_is_asked_for_and_only_once() -> None:
    api = MockApi()
    api.get("/fields").returns(json={"fields": FIELDS})
    (stream,) = source(api, stream={"schema_loader": dynamic()}).streams({})

    before = len(api.requests)
    json.dumps([stream.json_schema(), stream.json_schema()])

    assert (before, len(api.requests)) == (0, 1)
