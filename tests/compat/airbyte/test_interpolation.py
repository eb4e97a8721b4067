import pytest

from cdk.compat.airbyte.interpolation import (
    InterpolatedBoolean,
    InterpolatedMapping,
    InterpolatedRequestInputProvider,
    InterpolatedString,
    JinjaInterpolation,
)
from cdk.compat.airbyte.plain_types import StreamSlice
from cdk.declarative.interpolation.errors import EvaluationError

CONFIG = {"n": 3}


def test_a_text_becomes_the_literal_it_is() -> None:
    text = InterpolatedString.create("{{ config.n + parameters.k }}", parameters={"k": 1})

    assert text.eval(CONFIG) == 4
    assert InterpolatedString.create(text, parameters={}) is text
    assert InterpolatedString.create(20, parameters={}).eval(CONFIG) == 20


def test_a_condition_sees_what_it_is_given() -> None:
    assert InterpolatedBoolean("{{ record.id > config.n }}", parameters={}).eval(CONFIG, record={"id": 4})


MISSING = ("{{ config.x }}", "{{ config.x.y }}", "{{ stream_slice.x }}", "{{ 'a' | regex_search('z(.)') }}", "")


@pytest.mark.parametrize("text", MISSING)
def test_nothing_is_the_default_where_there_is_one(text: str) -> None:
    seen = StreamSlice(partition={})
    jinja = JinjaInterpolation()

    assert InterpolatedString(text, parameters={}, default="{{ config.n }}").eval(CONFIG, stream_slice=seen) == 3
    assert jinja.eval(text, CONFIG, stream_slice=seen) is None
    assert jinja.eval(text, CONFIG, default="d", stream_slice=seen) == "d"
    assert InterpolatedMapping({"k": text}, parameters={}).eval(CONFIG, stream_slice=seen) == {"k": None}


def test_a_value_that_is_there_is_no_default() -> None:
    assert InterpolatedString("{{ config.n }}", parameters={}, default="d").eval(CONFIG) == 3
    assert InterpolatedString("{{ none }}", parameters={}, default="d").eval(CONFIG) is None
    assert InterpolatedString("{{ config.x }}", parameters={}).eval(CONFIG) == ""
    with pytest.raises(EvaluationError, match="missing"):
        InterpolatedString("{{ config.x.y }}", parameters={}).eval(CONFIG)
    with pytest.raises(EvaluationError, match="sha256"):
        JinjaInterpolation().eval("{{ 'a' | hmac('k', 'md5') }}", CONFIG, default="d")


def test_a_map_is_evaluated_value_by_value() -> None:
    assert InterpolatedMapping({"a": "{{ config.n }}"}, parameters={}).eval(CONFIG) == {"a": 3}


def test_parts_of_a_request_see_slice_and_page_in_both_orders_of_arguments() -> None:
    found = StreamSlice(partition={"id": "x"})
    inputs = InterpolatedRequestInputProvider(
        request_inputs={"id": "{{ stream_partition.id }}", "page": "{{ next_page_token.next_page_token }}"},
        config=CONFIG,
        parameters={},
    )

    token = {"next_page_token": 2}
    assert inputs.eval_request_inputs({}, found, token) == {"id": "x", "page": 2}
    assert inputs.eval_request_inputs(stream_slice=found, next_page_token=token) == {"id": "x", "page": 2}
