"""The expected results are those of Airbyte's default schema normalization, recorded from a run of it."""

from typing import Any

import pytest

from cdk.base.values import Json
from cdk.declarative.reading.type_normalizer import normalizer


def normalized(schema: Json, value: Json) -> Json:
    record = {"f": value}
    normalizer({"type": "object", "properties": {"f": schema}})([record])
    return record["f"]


def values() -> list[Json]:
    return [None, True, 5, 0, 1.0, 1.7, "", "5", "x", "Off", [1], {"a": 1}]


_TEXTS = ["True", "5", "0", "1.0", "1.7", "", "5", "x", "Off", "[1]", "{'a': 1}"]
_NUMBERS = [1.0, 5.0, 0.0, 1.0, 1.7, "", 5.0, "x", "Off", [1], {"a": 1}]
_INTEGERS = [1, 5, 0, 1, 1, "", 5, "x", "Off", [1], {"a": 1}]
_BOOLEANS = [True, True, False, True, True, "", "5", "x", False, True, True]
_LISTS: list[Any] = [[True], [5], [0], [1.0], [1.7], [""], ["5"], ["x"], ["Off"], [1], {"a": 1}]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ("string", ["None", *_TEXTS]),
        (["string"], ["None", *_TEXTS]),
        (["null", "string"], [None, *_TEXTS]),
        (["string", "null"], [None, *_TEXTS]),
        ("number", [None, *_NUMBERS]),
        (["null", "number"], [None, *_NUMBERS]),
        ("integer", [None, *_INTEGERS]),
        (["null", "integer"], [None, *_INTEGERS]),
        ("boolean", [False, *_BOOLEANS]),
        (["null", "boolean"], [None, *_BOOLEANS]),
        ("array", [[None], *_LISTS]),
        (["null", "array"], [None, *_LISTS]),
        ("object", values()),
        ("null", values()),
        ([], values()),
        (["string", "integer"], values()),
        (["null", "string", "integer"], values()),
        (["number", "integer"], values()),
        (["array", "object"], values()),
    ],
)
def test_a_value_is_cast_where_its_schema_names_one_type(types: Json, expected: list[Json]) -> None:
    found = [normalized({"type": types}, value) for value in values()]
    assert repr(expected) == repr(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y", True),
        ("Yes", True),
        (" true", True),
        ("T", True),
        ("on", True),
        ("1", True),
        ("n", False),
        ("NO", False),
        ("f", False),
        ("false", False),
        ("off", False),
        ("0", False),
        ("truee", "truee"),
    ],
)
def test_words_stand_for_booleans(text: str, expected: Json) -> None:
    assert expected is normalized({"type": "boolean"}, text)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("integer", " 5 ", 5),
        ("integer", "1_000", 1000),
        ("integer", "1.5", "1.5"),
        ("integer", "1e3", "1e3"),
        ("integer", -2.5, -2),
        ("integer", float("inf"), float("inf")),
        ("number", "1e3", 1000.0),
        ("number", "0x10", "0x10"),
        ("number", 10**400, 10**400),
    ],
)
def test_numbers_are_read_as_python_reads_them(kind: str, value: Json, expected: Json) -> None:
    assert repr(expected) == repr(normalized({"type": kind}, value))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (None, [5]),
        ({}, [5]),
        ({"type": ["null", "string"]}, ["5"]),
        ({"type": ["string", "integer"]}, [5]),
        ({"properties": {}}, [5]),
        ({"type": "string"}, 5),
        ({"type": ["null", "object"]}, 5),
        ({"type": ["array", "string"]}, 5),
    ],
)
def test_a_single_value_becomes_a_list_unless_its_elements_are_of_one_told_type(items: Json, expected: Json) -> None:
    assert expected == normalized({"type": "array"} | ({} if items is None else {"items": items}), 5)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": ["null", "object"], "properties": {"a": {"type": "string"}}}, {"a": 5, "b": 6}, {"a": "5", "b": 6}),
        ({"properties": {"a": {"type": "string"}}}, {"a": 5}, {"a": "5"}),
        ({"type": "integer", "properties": {"a": {"type": "array"}}}, {"a": 1}, {"a": [1]}),
        ({"type": "array", "items": {"type": "string"}}, [1, None, "x"], ["1", "None", "x"]),
        ({"type": ["null", "array"], "items": {"type": ["null", "integer"]}}, ["1", None, "x"], [1, None, "x"]),
        ({"type": ["null", "array"], "items": {"type": ["null", "integer"]}}, "1", [1]),
        ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, [1, [2]], [1, ["2"]]),
        ({"items": {"type": "string"}}, [1], ["1"]),
        ({"type": "array", "items": [{"type": "string"}]}, [1], [1]),
        ({"anyOf": [{"type": "string"}]}, 1, 1),
        ({"allOf": [{"type": "string"}]}, 1, 1),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"q": 1}, {"q": 1}),
        (True, 5, 5),
    ],
)
def test_objects_and_lists_are_looked_into(schema: Json, value: Json, expected: Json) -> None:
    assert expected == normalized(schema, value)


@pytest.mark.parametrize(
    ("definition", "field", "value", "expected"),
    [
        ({"type": "string"}, {}, 5, 5),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {}, {"a": 5}, {"a": "5"}),
        ({"type": "string"}, {"type": "integer"}, "5", 5),
        (
            {"properties": {"c": {"$ref": "#/definitions/x"}, "v": {"type": "string"}}},
            {},
            {"c": {"v": 2}},
            {"c": {"v": "2"}},
        ),
    ],
)
def test_a_reference_is_followed_into_objects_and_casts_no_value_itself(
    definition: Json, field: Json, value: Json, expected: Json
) -> None:
    record = {"f": value}
    normalizer({"definitions": {"x": definition}, "properties": {"f": {"$ref": "#/definitions/x", **field}}})([record])
    assert {"f": expected} == record


@pytest.mark.parametrize(
    ("reference", "more"),
    [
        ("#/definitions/a%20b", {"definitions": {"a b": {"properties": {"a": {"type": "string"}}}}}),
        ("#/definitions/a~1b~0", {"definitions": {"a/b~": {"properties": {"a": {"type": "string"}}}}}),
        ("#/oneOf/1", {"oneOf": [{}, {"properties": {"a": {"type": "string"}}}]}),
    ],
)
def test_a_reference_is_a_json_pointer(reference: str, more: dict[str, Json]) -> None:
    record: dict[str, Json] = {"f": {"a": 5}}
    normalizer({"properties": {"f": {"$ref": reference}}, **more})([record])
    assert record == {"f": {"a": "5"}}


def test_a_schema_that_is_a_reference_is_followed() -> None:
    schema: Json = {
        "$ref": "#/d",
        "properties": {"f": {"type": "string"}},
        "d": {"properties": {"g": {"type": "string"}}},
    }
    record: dict[str, Json] = {"f": 3, "g": 3}
    normalizer(schema)([record])
    assert record == {"f": "3", "g": "3"}


def test_fields_of_a_schema_that_a_record_lacks_stay_away() -> None:
    records: list[dict[str, Json]] = [{}, {"f": 1, "other": 2}]
    normalizer({"properties": {"f": {"type": "string"}}})(records)
    assert records == [{}, {"f": "1", "other": 2}]


def test_a_field_that_does_not_fit_is_warned_of_once_and_its_value_is_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    schema: Json = {"properties": {"a": {"items": {"type": ["null", "integer"]}}, "b": {"type": "number"}}}
    normalizer(schema, "users")([{"a": ["s3cret", "s3cret"], "b": 1}, {"a": ["s3cret"], "b": {"s3cret": 1}}])
    assert caplog.messages == [
        "users: the field 'a.*': found string, expected null or integer; such values are left as they are",
        "users: the field 'b': found object, expected number; such values are left as they are",
    ]


@pytest.mark.parametrize("kind", [True, 1, {"a": 1}])
def test_a_type_that_is_none_changes_nothing(kind: Json) -> None:
    assert normalized({"type": kind}, "5") == "5"


@pytest.mark.parametrize("kind", ["string", "number", "integer", "boolean", "array"])
@pytest.mark.parametrize(
    "column", [["5", "7"], [5, 7.5], [5, True], ["5", "x"], ["5", None], [[1], 2], [{"a": 1}, "5"], ["1e400", 10**400]]
)
@pytest.mark.parametrize("nullable", [True, False])
def test_a_column_is_cast_as_its_values_are(kind: str, column: list[Json], nullable: bool) -> None:  # noqa: FBT001
    schema = {"type": [kind, "null"] if nullable else kind}
    records = [{"f": value} for value in column]
    normalizer({"properties": {"f": schema}})(records)

    assert [normalized(schema, value) for value in column] == [record["f"] for record in records]
    assert [type(normalized(schema, value)) for value in column] == [type(record["f"]) for record in records]
