"""Slips of a schema: what no column can follow is named, and nothing that one can."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import Json
from cdk.lake.arrow.columns import JSON_TEXT, columns
from cdk.lake.arrow.json_schema import schema_mistakes, warn_of_schema_mistakes


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"type": "int"}, "properties.x.type is 'int'; did you mean 'integer'?"),
        ({"type": ["null", "strng"]}, "properties.x.type is 'strng'; did you mean 'string'?"),
        ({"type": None}, "properties.x.type is null; there is 'array', 'boolean'"),
        ({"type": {"a": 1}}, "properties.x.type is {'a': 1}; there is 'array', 'boolean'"),
        ({"type": "array", "items": {"type": "bool"}}, "properties.x.items.type is 'bool'; did you mean 'boolean'?"),
        (
            {"anyOf": [{"type": "null"}, {"type": "numer"}]},
            "properties.x.anyOf[1].type is 'numer'; did you mean 'number'?",
        ),
        ({"properties": {"y": "string"}}, "properties.x.properties.y is 'string', expected a schema such as"),
        ({"properties": ["y"]}, "properties.x.properties is ['y'], expected schemas"),
        (None, "properties.x is null, expected a schema such as"),
        ({"$ref": "#/definitions/no"}, "properties.x.$ref is '#/definitions/no', which does not exist in the schema"),
    ],
)
def test_a_slip_is_named_with_its_path_and_the_nearest_spelling(declared: Json, said: str) -> None:
    (mistake,) = schema_mistakes({"properties": {"x": declared, "id": {"type": "integer"}}})

    assert mistake.startswith(said)


TYPES = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string", "int", "text"])
SCHEMAS = st.recursive(
    st.builds(lambda kind: {"type": kind}, TYPES | st.lists(TYPES, min_size=1, max_size=2)) | st.booleans(),
    lambda inner: st.one_of(
        st.builds(lambda name: {"$ref": f"#/definitions/{name}"}, st.sampled_from(["there", "gone"])),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda items: {"type": "object", "properties": items}, st.dictionaries(st.sampled_from("ab"), inner)),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=5,
)


@given(SCHEMAS)
def test_as_many_slips_are_named_as_there_are(declared: Json) -> None:
    schema = {"properties": {"x": declared}, "definitions": {"there": {"type": "string"}}}

    assert len(schema_mistakes(schema)) == wrong(declared)


def wrong(part: Json) -> int:
    """How many names in a schema are none, by the three that the strategy has."""
    if isinstance(part, dict):
        return sum(map(wrong, part.values()))
    return sum(map(wrong, part)) if isinstance(part, list) else part in ("int", "text", "#/definitions/gone")


def test_a_field_with_a_slip_takes_any_value() -> None:
    assert columns({"properties": {"x": {"type": "int"}}}) == {"x": JSON_TEXT}


def test_a_schema_with_many_slips_gives_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_schema_mistakes("users", {"properties": {f"p{n}": {"type": "int"} for n in range(9)}})
        warn_of_schema_mistakes("users", {"properties": {"x": {"type": "integer"}}})

    (message,) = caplog.messages
    assert message.startswith("users: its schema has mistakes: properties.p0.type is 'int'")
    assert "; and 4 more. Until they are corrected" in message
