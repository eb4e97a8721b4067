"""A config against its schema; the quick look says yes only where the whole of JSON Schema would."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from cdk import ConfigError
from cdk.base.values import Json, JsonSchema, dotted
from cdk.sources.schema_check import certainly_matches, mismatches

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
@example({"a": [False]}, {"const": {"a": [0]}})
@example(float("inf"), {"enum": [None]})
def test_what_plainly_fits_is_valid(config: Json, schema: JsonSchema) -> None:
    assert not certainly_matches(config, schema) or Draft7Validator(schema).is_valid(config)


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

    assert certainly_matches(config, schema) is fits


SHOP: JsonSchema = {
    "type": "object",
    "required": ["host", "auth"],
    "additionalProperties": False,
    "properties": {
        "host": {"type": "string"},
        "region": {"enum": ["eu", "us"]},
        "ports": {"type": "array", "items": {"type": "integer", "maximum": 9}},
        "auth": {
            "oneOf": [
                {
                    "required": ["key"],
                    "properties": {"kind": {"const": "key"}, "key": {"type": "string", "airbyte_secret": True}},
                },
                {
                    "required": ["user", "password"],
                    "properties": {
                        "kind": {"const": "login"},
                        "user": {"type": "string"},
                        "password": {"type": "string", "minLength": 8, "airbyte_secret": True},
                    },
                },
            ]
        },
    },
}

KEY = {"kind": "key", "key": "hunter2"}


def _lines(config: object, schema: JsonSchema) -> list[str]:
    return [f"{dotted(keys)}: {text}" for keys, text in mismatches(config, schema)]


def test_every_misfit_is_told_with_its_place() -> None:
    told = _lines({"hots": "h", "region": "asia", "ports": [1, "x", 10], "auth": KEY}, SHOP)

    assert set(told) == {
        "host: found nothing ('hots' is unknown), expected a value",
        "hots: is unknown; did you mean 'host'?",
        "region: found 'asia', expected 'eu' or 'us'",
        "ports[1]: found 'x', expected an integer",
        "ports[2]: found 10, expected maximum 9",
    }
    assert len(told) == 5


def test_what_fits_has_no_misfits() -> None:
    assert mismatches({"host": "h", "ports": [1], "auth": KEY}, SHOP) == []


def test_of_several_shapes_the_one_that_was_meant_is_explained() -> None:
    told = _lines({"host": "h", "auth": {"kind": "login", "password": "longenough"}}, SHOP)

    assert told == ["auth.user: found nothing, expected a value"]


def test_what_is_in_an_object_is_not_shown_since_a_misspelt_secret_may_be_there() -> None:
    told = _lines({"host": {"pasword": "hunter2"}, "auth": KEY}, SHOP)

    assert told == ["host: found an object with pasword, expected a string"]


def test_a_schema_that_is_none_is_the_connectors_fault() -> None:
    with pytest.raises(ConfigError, match="config_schema is not a valid JSON Schema"):
        mismatches({}, {"properties": {"a": {"type": "strnig"}}})


def test_where_null_is_one_of_two_forms_the_other_was_meant() -> None:
    schema: JsonSchema = {"properties": {"at": {"anyOf": [{"type": "null"}, {"type": "object", "required": ["day"]}]}}}

    assert mismatches({"at": 5}, schema) == [(("at",), "found 5, expected an object")]
    assert mismatches({"at": {}}, schema) == [(("at", "day"), "found nothing, expected a value")]
