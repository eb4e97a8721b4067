import pyarrow as pa
import pytest
from deltalake import Schema
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.base.values import Json
from cdk.spark.schema import MOMENT, OWN_COLUMNS, ColumnType, JsonText, columns, table_schema

TEXT = JsonText()
INT, DOUBLE, STRING, BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()


def column(declared: Json) -> ColumnType:
    return columns({"type": "object", "properties": {"a": declared}})["a"]


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ({"type": "integer"}, INT),
        ({"type": "number"}, DOUBLE),
        ({"type": "string"}, STRING),
        ({"type": "boolean"}, BOOL),
        ({"type": ["integer"]}, INT),
        ({"type": ["null", "integer"]}, INT),
        ({"type": ["integer", "null"]}, INT),
        ({"type": ["integer", "number", "null"]}, DOUBLE),
        ({"type": "string", "format": "date-time"}, MOMENT),
        ({"type": ["null", "string"], "format": "date-time"}, MOMENT),
        ({"type": "string", "format": "date"}, STRING),
        ({"type": "string", "format": "time"}, STRING),
        ({"type": "string", "format": "email"}, STRING),
        ({"type": "integer", "format": "date-time"}, INT),
        ({"type": "string", "enum": ["a", "b"]}, STRING),
    ],
)
def test_scalars(declared: Json, kind: pa.DataType) -> None:
    assert column(declared) == kind


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ({"type": "object", "properties": {"b": {"type": "integer"}}}, pa.struct([("b", INT)])),
        (
            {
                "type": ["null", "object"],
                "properties": {"b": {"type": "object", "properties": {"c": {"type": "string"}}}},
            },
            pa.struct([("b", pa.struct([("c", STRING)]))]),
        ),
        ({"type": "array", "items": {"type": "string"}}, pa.list_(STRING)),
        ({"type": "array", "items": {"type": "array", "items": {"type": "number"}}}, pa.list_(pa.list_(DOUBLE))),
        ({"type": "array", "items": {"type": "string", "format": "date-time"}}, pa.list_(MOMENT)),
        (
            {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "boolean"}}}},
            pa.list_(pa.struct([("b", BOOL)])),
        ),
    ],
)
def test_objects_become_structs_and_arrays_lists(declared: Json, kind: pa.DataType) -> None:
    assert column(declared) == kind


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"type": "null"},
        {"type": ["null"]},
        {"type": []},
        {"type": ["string", "integer"]},
        {"type": ["string", "object"]},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"b": {}}},
        {"type": "object", "properties": {"b": {"type": "integer"}, "c": {"type": "object"}}},
        {"type": "object", "properties": {"b": {"type": "integer"}, "B": {"type": "integer"}}},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "array", "items": True},
        {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]},
        {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"$ref": "#/definitions/x"},
        {"enum": [1, 2]},
        {"const": 1},
        {"properties": {"b": {"type": "integer"}}},
        # No schemas at all.
        True,
        False,
        None,
        5,
        "integer",
        [],
        {"type": 5},
        {"type": "int"},
        {"type": {"type": "integer"}},
        {"type": [5]},
        {"type": [{"type": "integer"}, "integer"]},
        {"type": [["integer"]]},
        {"type": ["integer", None]},
        {"type": "object", "properties": ["b"]},
        {"type": "object", "properties": 5},
        {"type": "object", "properties": {"b": True}},
    ],
)
def test_what_is_not_declared_precisely_is_kept_as_json_text(declared: Json) -> None:
    assert column(declared) == TEXT


@pytest.mark.parametrize("schema", [{}, {"properties": None}, {"properties": []}, {"properties": 5}, True, False, None])
def test_a_schema_without_properties_has_no_columns_of_its_own(schema: Json) -> None:
    assert columns(schema) == {}


def test_columns_come_in_the_order_of_the_schema_and_the_kit_s_own_after_them() -> None:
    declared = columns({"properties": {"z": {"type": "integer"}, "a": {}, "m": {"type": "string"}}})

    assert table_schema(declared).names == ["z", "a", "m", *OWN_COLUMNS]
    assert table_schema(declared).field("a").type == STRING
    assert all(field.nullable for field in table_schema(declared))


def test_what_a_table_cannot_tell_apart_gets_one_column() -> None:
    names = ["Id", "id", "ID", "_airbyte_meta", "_AIRBYTE_RAW_ID", "_airbyte_additional", "_airbyte_data"]

    assert list(columns({"properties": {name: {"type": "integer"} for name in names}})) == ["Id", "_airbyte_data"]


@pytest.mark.parametrize("levels", [100, 5000])
def test_a_schema_too_deep_for_a_table_is_kept_as_json_text(levels: int) -> None:
    declared: Json = {"type": "integer"}
    for _ in range(levels):
        declared = {"type": "object", "properties": {"b": declared}}

    assert column(declared) == TEXT


KINDS = st.sampled_from(["integer", "number", "string", "boolean", "object", "array", "null", "int", 5, None, True])
SCHEMAS = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | KINDS,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, max_size=3) | inner,
            "properties": st.dictionaries(st.sampled_from(["a", "A", "b", "", "_airbyte_meta"]), inner) | inner,
            "items": inner | st.lists(inner, max_size=2),
            "format": st.sampled_from(["date-time", "date", 5]),
        },
    ),
    max_leaves=12,
)


@given(SCHEMAS)
@settings(max_examples=300, deadline=None)
def test_any_schema_gives_columns_that_a_table_takes(schema: Json) -> None:
    schema = table_schema(columns(schema))

    Schema.from_arrow(schema)
    assert len({name.lower() for name in schema.names}) == len(schema.names)
