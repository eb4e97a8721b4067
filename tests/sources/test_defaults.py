"""Defaults of a schema come into a config where it has nothing, and spoil nothing that is there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from cdk.base.values import Json, JsonSchema
from cdk.sources.config import with_defaults

NAMES = st.sampled_from("abc")
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "2024-01-01"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "boolean", "null", "array", "object"]),
        "default": VALUES,
        "enum": st.lists(SCALARS, min_size=1, max_size=2),
        "minimum": st.integers(-1, 1),
        "minLength": st.integers(0, 2),
    },
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, min_size=1, max_size=3)},
            optional={
                "required": st.lists(NAMES, max_size=2, unique=True),
                "additionalProperties": st.just(False),
                "default": VALUES,
            },
        )
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"default": VALUES})
    ),
    max_leaves=8,
)


def holds(whole: Json, part: Json) -> bool:
    """Whether all of `part` is in `whole`, at its place."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(name in whole and holds(whole[name], value) for name, value in part.items())
    if isinstance(whole, list) and isinstance(part, list):
        return len(whole) == len(part) and all(map(holds, whole, part))
    return type(whole) is type(part) and bool(whole == part)


@given(VALUES, SCHEMAS)
def test_what_a_config_has_stays(config: Json, schema: JsonSchema) -> None:
    assert holds(with_defaults(config, schema), config)


@given(VALUES, SCHEMAS)
def test_a_config_that_fits_its_schema_still_does(config: Json, schema: JsonSchema) -> None:
    validator = Draft7Validator(schema)

    assert not validator.is_valid(config) or validator.is_valid(with_defaults(config, schema))


@given(VALUES, SCHEMAS)
def test_a_config_with_all_defaults_gets_no_more(config: Json, schema: JsonSchema) -> None:
    filled = with_defaults(config, schema)

    assert with_defaults(filled, schema) == filled


def filled(properties: Json, config: Json, **rules: Json) -> Json:
    return with_defaults(config, {"type": "object", "properties": properties, **rules})


@pytest.mark.parametrize("default", ["sentry.io", 100, 0, False, [], ["a"], {"a": 1}])
def test_a_missing_value_becomes_the_default(default: Json) -> None:
    assert filled({"x": {"default": default}}, {}) == {"x": default}
    assert filled({"x": {"default": default}}, {}, required=["x"]) == {"x": default}


@pytest.mark.parametrize("value", [None, "", 0, False, [], "own"])
def test_a_value_of_the_config_is_never_replaced(value: Json) -> None:
    assert filled({"x": {"default": "other"}}, {"x": value}) == {"x": value}


@pytest.mark.parametrize(
    "part",
    [
        {"default": None},
        {"type": "string", "default": ""},
        {"type": "integer", "default": "100"},
        {"type": "string", "pattern": "^[0-9]{4}$", "default": "soon"},
        {"type": "string", "minLength": 5, "default": "soon"},
        {"$ref": "#/definitions/elsewhere", "default": 1},
        {"type": "string"},
        True,
    ],
)
def test_what_is_no_value_of_the_property_is_no_default(part: Json) -> None:
    assert filled({"x": part}, {"y": 1}) == {"y": 1}


def test_objects_and_elements_of_lists_that_are_there_get_theirs() -> None:
    inner = {"type": "object", "properties": {"size": {"default": 5}}}

    assert filled(
        {"one": inner, "many": {"type": "array", "items": inner}}, {"one": {}, "many": [{}, {"size": 1}]}
    ) == {"one": {"size": 5}, "many": [{"size": 5}, {"size": 1}]}


def test_a_missing_object_is_made_only_of_defaults_that_suffice() -> None:
    size, free = {"size": {"type": "integer", "default": 5}}, {"token": {"type": "string"}}
    whole, part = {"type": "object", "properties": size}, {"type": "object", "properties": {**size, **free}}

    assert filled({"page": whole}, {}) == {"page": {"size": 5}}
    # Its presence alone may choose another way in: a manifest asks whether `credentials` are in the config.
    assert filled({"login": part}, {}) == {}
    assert filled({"login": part}, {}, required=["login"]) == {"login": {"size": 5}}
    assert filled({"login": {**part, "required": ["token"]}}, {}, required=["login"]) == {}
    assert filled({"login": {**part, "default": {"token": "t"}}}, {}) == {"login": {"token": "t", "size": 5}}


def branch(kind: str, **properties: Json) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": {"const": kind}, **properties}}


def test_of_branches_only_the_one_that_the_config_chose_fills_in() -> None:
    login = {"oneOf": [branch("oauth", scope={"default": "all"}), branch("key", header={"default": "X-Key"})]}

    assert filled({"login": login}, {"login": {"kind": "key"}}) == {"login": {"kind": "key", "header": "X-Key"}}
    assert filled({"login": login}, {"login": {"kind": "other"}}) == {"login": {"kind": "other"}}
    assert filled({"login": login}, {"login": {}}) == {"login": {}}
    assert filled({"login": login}, {}) == {}
    both = {"anyOf": [branch("key", header={"default": "X-Key"}), branch("key", header={"default": "X-Token"})]}
    assert filled({"login": both}, {"login": {"kind": "key"}}) == {"login": {"kind": "key"}}
    assert filled({"kind": {"default": "key"}}, {}, **login) == {"kind": "key", "header": "X-Key"}


def test_branches_that_all_hold_all_fill_in() -> None:
    parts = [{"properties": {"a": {"default": 1}}}, {"properties": {"b": {"default": 2}}}]

    assert filled({}, {}, allOf=parts) == {"a": 1, "b": 2}


def test_neither_the_config_nor_the_schema_is_changed() -> None:
    schema: Any = {"properties": {"tags": {"default": []}, "page": {"properties": {"size": {"default": 5}}}}}
    config: Any = {"page": {}}

    made = with_defaults(config, schema)
    made["tags"].append("x")

    assert made == {"page": {"size": 5}, "tags": ["x"]}
    assert config == {"page": {}}
    assert schema["properties"]["tags"]["default"] == []


@pytest.mark.parametrize(
    "schema", [None, [], {"properties": 1}, {"properties": {"x": 1}}, {"oneOf": 1}, {"allOf": [1]}]
)
def test_a_schema_that_is_none_fills_in_nothing(schema: Any) -> None:
    assert with_defaults({"a": 1}, schema) == {"a": 1}
