from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.base.values import Json
from cdk.sources.schema_check import mismatches
from cdk.testing.simulator.examples import example_of, inside

LEAVES = st.one_of(
    st.builds(lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more}, *[st.integers(0, 50)] * 2),
    st.builds(lambda low: {"type": ["null", "number"], "exclusiveMinimum": low}, st.integers(-5, 50)),
    st.builds(lambda step: {"type": "integer", "multipleOf": step}, st.integers(1, 7)),
    st.builds(
        lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more}, *[st.integers(0, 9)] * 2
    ),
    st.sampled_from(["date", "date-time", "email", "uuid", "uri", "ipv4"]).map(
        lambda form: {"type": "string", "format": form}
    ),
    st.sampled_from([r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", r"^\d{4}-\d\d-\d\dT[0-9:]+Z$", "^[a-z]+$"]).map(
        lambda pattern: {"type": "string", "pattern": pattern}
    ),
    st.lists(st.text(max_size=3), min_size=1, unique=True).map(lambda choices: {"enum": choices}),
    st.sampled_from([{"type": "boolean"}, {"const": 3}, {"type": "null"}, {"type": ["string", "null"]}]),
)


def nested(parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.dictionaries(st.sampled_from("abcd"), parts, max_size=3)
    objects = names.map(lambda each: {"type": "object", "properties": each, "required": [*each]})
    lists = st.builds(
        lambda items, least: {"type": "array", "items": items, "minItems": least}, parts, st.integers(0, 4)
    )
    choices = st.lists(parts, min_size=1, max_size=2).map(lambda each: {"anyOf": each})
    both = st.tuples(objects, parts).map(lambda two: {"allOf": [two[0], {"properties": {"e": two[1]}}]})
    return st.one_of(objects, lists, choices, both)


@settings(max_examples=80)
@given(st.recursive(LEAVES, nested, max_leaves=8), st.none() | st.integers(0, 9))
def test_an_example_fits_its_schema(schema: Json, seed: int | None) -> None:
    value = example_of(schema, chance=None if seed is None else Random(seed))
    assert mismatches(value, schema) == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ((), [{"a": 1}, {"a": 2}]),
        (("data", "rows"), {"data": {"rows": [{"a": 1}, {"a": 2}]}}),
        (("data", "*"), {"data": [{"a": 1}, {"a": 2}]}),
        (("data", "*", "row"), {"data": [{"row": [{"a": 1}]}, {"row": [{"a": 2}]}]}),
    ],
)
def test_records_lie_at_their_path(path: tuple[str, ...], body: Json) -> None:
    assert inside(path, [{"a": 1}, {"a": 2}]) == body
