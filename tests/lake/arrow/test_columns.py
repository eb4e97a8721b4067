from itertools import pairwise

import pyarrow as pa
import pytest
from deltalake import Schema
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.base.records.inferred import inferred_schema
from cdk.base.values import Json
from cdk.lake.arrow.columns import (
    BIG_INTEGER,
    JSON_TEXT,
    OWN_COLUMNS,
    TIMESTAMP_NTZ,
    TIMESTAMP_UTC,
    ColumnType,
    arrow_type,
    column_name,
    columns,
    inferred,
    table_schema,
    without_column,
)

TEXT = JSON_TEXT
INT, DOUBLE, STRING, BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()
B_INT = pa.struct([("b", INT)])


DATE = pa.date32()


def column(declared: Json, **document: Json) -> ColumnType:
    return columns({"type": "object", "properties": {"a": declared}, **document})["a"]


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
        ({"type": "string", "format": "date-time"}, TIMESTAMP_UTC),
        ({"type": ["null", "string"], "format": "date-time"}, TIMESTAMP_UTC),
        ({"type": "string", "format": "date"}, DATE),
        ({"type": ["string", "null"], "format": "date"}, DATE),
        ({"type": "string", "format": "date-time", "airbyte_type": "timestamp_with_timezone"}, TIMESTAMP_UTC),
        ({"type": "string", "format": "date-time", "airbyte_type": "timestamp_without_timezone"}, TIMESTAMP_NTZ),
        ({"type": "string", "format": "time"}, STRING),
        ({"type": "string", "format": "time", "airbyte_type": "time_without_timezone"}, STRING),
        ({"type": "string", "contentEncoding": "base64"}, STRING),
        ({"type": "string", "format": "email"}, STRING),
        ({"type": "integer", "format": "date-time"}, INT),
        ({"type": "string", "enum": ["a", "b"]}, STRING),
        ({"enum": ["a", None, "b"]}, STRING),
        ({"enum": [1, 2]}, INT),
        ({"enum": [1, 1.5]}, DOUBLE),
        ({"enum": [1, "b"]}, STRING),
        ({"const": 1}, INT),
        ({"const": True}, BOOL),
    ],
)
def test_scalars(declared: Json, kind: pa.DataType) -> None:
    assert column(declared) == kind


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ({"type": "number", "airbyte_type": "integer"}, INT),
        ({"type": "integer", "airbyte_type": "big_integer"}, BIG_INTEGER),
        ({"type": ["null", "string"], "airbyte_type": "big_integer"}, BIG_INTEGER),
        ({"type": "number", "airbyte_type": "big_number"}, STRING),
        ({"type": "string", "airbyte_type": "big_number"}, STRING),
        ({"type": "boolean", "airbyte_type": "big_number"}, BOOL),
        ({"type": "integer", "airbyte_type": ["big_integer"]}, INT),
        ({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, INT),
        ({"type": "integer", "maximum": 2**64 - 1}, BIG_INTEGER),
        ({"type": "integer", "exclusiveMinimum": -1e30}, BIG_INTEGER),
        ({"type": "integer", "multipleOf": 2**70}, BIG_INTEGER),
        ({"type": "integer", "maximum": 10**40}, STRING),
        ({"type": "integer", "maximum": float("inf")}, STRING),
        ({"type": "integer", "maximum": "9" * 30, "exclusiveMaximum": True}, INT),
        ({"type": "number", "maximum": 1e300}, DOUBLE),
    ],
)
def test_numbers_get_as_many_digits_as_they_need(declared: Json, kind: pa.DataType) -> None:
    assert column(declared) == kind


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ({"type": ["null", "integer", "string"]}, STRING),
        ({"type": ["boolean", "number", "string"]}, STRING),
        ({"type": ["string", "integer"], "format": "date"}, STRING),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, INT),
        ({"oneOf": [{"type": "string", "format": "date"}, {"const": None}]}, DATE),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, DOUBLE),
        ({"type": "string", "oneOf": [{"minLength": 1}, {"pattern": "^x"}]}, STRING),
        ({"type": "object", "properties": {"b": {"type": "integer"}}, "anyOf": [{"required": ["b"]}]}, B_INT),
        ({"anyOf": [{"anyOf": [{"type": "boolean"}, {"type": "null"}]}, {"type": ["null", "boolean"]}]}, BOOL),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, TEXT),
        ({"oneOf": [{"type": "string", "format": "date"}, {"type": "string"}]}, TEXT),
        ({"oneOf": [{"type": "integer"}, {}]}, TEXT),
        ({"oneOf": [{"type": "null"}]}, TEXT),
        ({"oneOf": []}, TEXT),
        ({"oneOf": 5}, TEXT),
        ({"type": "string", "anyOf": [{"type": "integer"}]}, TEXT),
    ],
)
def test_a_choice_is_its_one_type_beside_null(declared: Json, kind: ColumnType) -> None:
    assert column(declared) == kind


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ({"allOf": [{"type": "string"}, {"maxLength": 5}]}, STRING),
        ({"allOf": [{"type": ["null", "number"]}, {"type": ["integer", "null"]}]}, INT),
        ({"type": "string", "allOf": [{"format": "date-time"}]}, TIMESTAMP_UTC),
        (
            {
                "allOf": [
                    {"type": "object", "properties": {"b": {"type": "number"}}},
                    {"properties": {"b": {"type": "integer"}, "c": {"type": "string"}}},
                ]
            },
            pa.struct([("b", INT), ("c", STRING)]),
        ),
        ({"type": "array", "items": {"type": "number"}, "allOf": [{"items": {"type": "integer"}}]}, pa.list_(INT)),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, TEXT),
        ({"type": "string", "format": "date", "allOf": [{"format": "date-time"}]}, TEXT),
        ({"type": "object", "properties": {"b": {"type": "integer"}}, "allOf": [{"properties": 5}]}, TEXT),
        ({"type": "string", "allOf": [False]}, TEXT),
        ({"type": "string", "allOf": {"type": "string"}}, TEXT),
    ],
)
def test_all_of_several_schemas_is_what_they_say_together(declared: Json, kind: ColumnType) -> None:
    assert column(declared) == kind


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ("#/definitions/id", INT),
        ("#/$defs/owner", pa.struct([("id", INT), ("since", DATE)])),
        ("#/definitions/two~1names~0", BOOL),
        ("#/definitions/a%20b", STRING),
        ("#/definitions/choice/oneOf/1", STRING),
        ("#/definitions/again", INT),
        ("#/definitions/circle", TEXT),
        ("#/definitions/tree", TEXT),
        ("#/definitions/choices", TEXT),
        ("#/definitions/none", TEXT),
        ("#/definitions/choice/oneOf/7", TEXT),
        ("other.json#/definitions/id", TEXT),
        ("#", TEXT),
        (5, TEXT),
    ],
)
def test_a_reference_is_what_it_leads_to(reference: Json, kind: ColumnType) -> None:
    definitions = {
        "id": {"type": "integer"},
        "two/names~": {"type": "boolean"},
        "a b": {"type": "string"},
        "choice": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        "again": {"$ref": "#/definitions/id"},
        "circle": {"$ref": "#/definitions/circle"},
        "tree": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/definitions/tree"}}},
        },
        "choices": {"anyOf": [{"$ref": "#/definitions/choices"}, {"type": "integer"}]},
    }
    owner = {"type": "object", "properties": {"id": {"$ref": "#/definitions/id"}, "since": {"$ref": "#/$defs/day"}}}
    defs = {"owner": owner, "day": {"type": "string", "format": "date"}}

    assert column({"$ref": reference}, **{"definitions": definitions, "$defs": defs}) == kind


def test_the_schema_of_a_stream_may_itself_be_a_reference() -> None:
    schema: Json = {"$ref": "#/definitions/user", "definitions": {"user": {"properties": {"id": {"type": "integer"}}}}}

    assert columns(schema) == {"id": INT}


def test_a_schema_whose_references_branch_without_end_is_json_text() -> None:
    definitions: dict[str, Json] = {"z": {"type": "integer"}}
    for name, after in pairwise("abcdefghijklmnopqrstuvwxyz"):
        link = {"$ref": f"#/definitions/{after}"}
        definitions[name] = {"type": "object", "properties": {"left": link, "right": link}}

    assert column({"$ref": "#/definitions/a"}, definitions=definitions) == TEXT
    assert column({"$ref": "#/definitions/w"}, definitions=definitions) != TEXT


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
        ({"type": "array", "items": {"type": "string", "format": "date-time"}}, pa.list_(TIMESTAMP_UTC)),
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
        {"type": ["integer", "boolean"]},
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
        {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "integer"}},
        {"type": "object", "properties": {"b c": {"type": "integer"}}},
        {"type": "object", "properties": {"": {"type": "integer"}}},
        {"$ref": "#/definitions/x"},
        {"enum": [1, True]},
        {"enum": [{"b": 1}]},
        {"enum": [None]},
        {"enum": 5},
        {"const": None},
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


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("First Name", "First_Name"),
        ("a,b;c{d}e(f)g=h", "a_b_c_d_e_f_g_h"),
        ("a\nb\tc\x00", "a_b_c_"),
        ("a.b", "a.b"),
        ("größe/m²", "größe/m²"),
        ("", None),
        ("a\ud800", None),
    ],
)
def test_a_column_s_name_has_no_character_that_delta_refuses(field: str, name: str | None) -> None:
    assert column_name(field) == name


def test_fields_without_a_column_name_of_their_own_have_no_column() -> None:
    declared = columns(
        {"properties": {name: {"type": "integer"} for name in ["a b", "a_b", "a,b", "A b", "", "\udfff"]}}
    )

    assert declared == {"a_b": INT}
    assert table_schema(declared).names == ["a_b", *OWN_COLUMNS]


@pytest.mark.parametrize(
    ("names", "owning", "without"),
    [
        (["a b", "a_b"], ["a_b"], {"a b": "a_b"}),
        (["a_b", "a b"], ["a_b"], {"a b": "a_b"}),
        (["a b", "a,b"], ["a b"], {"a,b": "a b"}),
        (["A b", "a_b", "x"], ["a_b", "x"], {"A b": "a_b"}),
        (["id", "ID", "Id"], ["id"], {"ID": "id", "Id": "id"}),
        (["a\nb", "a_b"], ["a_b"], {"a\nb": "a_b"}),
        (["", "_Airbyte_Meta"], [], {"": None, "_Airbyte_Meta": "_airbyte_meta"}),
    ],
)
def test_the_property_whose_name_is_the_column_s_has_it(
    names: list[str], owning: list[str], without: dict[str, str | None]
) -> None:
    schema = {"properties": {name: {"type": "integer"} for name in names}}

    declared = columns(schema)

    assert list(declared) == owning
    assert without_column(schema, declared) == without


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
            "airbyte_type": st.sampled_from(["big_integer", "big_number", "timestamp_without_timezone", 5]),
            "maximum": st.sampled_from([5, 2**70, 1e50, "x"]),
            "$ref": st.sampled_from(["#", "#/properties/a", "#/properties/b/items", "x", 5]),
            "allOf": st.lists(inner, max_size=2) | inner,
            "anyOf": st.lists(inner, max_size=2) | inner,
            "oneOf": st.lists(inner, max_size=2) | inner,
            "enum": st.lists(inner, max_size=2) | inner,
        },
    ),
    max_leaves=12,
)


@given(SCHEMAS)
@settings(max_examples=150, deadline=None)
def test_any_schema_gives_columns_that_a_table_takes(schema: Json) -> None:
    schema = table_schema(columns(schema))

    Schema.from_arrow(schema)
    assert len({name.lower() for name in schema.names}) == len(schema.names)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("ab"), st.sampled_from([None, True, 1, 2**60, 2**70, 0.5, "a", {"x": 1}, [1]]), max_size=2
        ),
        max_size=4,
    )
)
def test_the_schema_that_records_show_declares_the_columns_that_they_get_without_one(
    records: list[dict[str, Json]],
) -> None:
    declared = {name: arrow_type(kind) for name, kind in columns({"properties": inferred_schema(records)}).items()}

    found = {name: inferred([record.get(name) for record in records]) for name in "ab"}
    assert declared == {name: kind for name, kind in found.items() if kind is not None}
