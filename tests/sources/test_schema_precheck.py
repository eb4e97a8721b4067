"""The quick look at a config says yes only where the whole of JSON Schema would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from cdk.base.values import Json, JsonSchema
from cdk.sources.schema_precheck import plainly_fits

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "2024-01-01"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=2),
        "const": VALUES,
        "pattern": st.sampled_from(["^a", "[0-9]{4}"]),
        "minLength": st.integers(0, 2),
        "minimum": st.integers(-1, 1),
        "maximum": st.integers(-1, 1),
        "title": st.just("x"),
        "multipleOf": st.just(2),
    },
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
        },
    ),
    max_leaves=4,
)


@given(VALUES, SCHEMAS)
def test_what_plainly_fits_is_valid(config: Json, schema: JsonSchema) -> None:
    assert not plainly_fits(config, schema) or Draft7Validator(schema).is_valid(config)


@pytest.mark.parametrize(
    ("config", "fits"),
    [({"key": "k", "start": "2024-01-01"}, True), ({"key": "k", "extra": 1}, True), ({"key": 1}, False), ({}, False)],
)
def test_the_usual_schema_needs_no_more_than_a_look(config: Json, fits: bool) -> None:  # noqa: FBT001
    schema: Json = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": ["key"],
        "additionalProperties": True,
        "properties": {
            "key": {"type": "string", "airbyte_secret": True},
            "start": {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        },
    }

    assert plainly_fits(config, schema) is fits
