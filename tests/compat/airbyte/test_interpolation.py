from cdk.compat.airbyte.interpolation import (
    InterpolatedBoolean,
    InterpolatedMapping,
    InterpolatedRequestInputProvider,
    InterpolatedString,
)
from cdk.compat.airbyte.plain_types import StreamSlice

CONFIG = {"n": 3}


def test_a_text_becomes_the_literal_it_is() -> None:
    text = InterpolatedString.create("{{ config.n + parameters.k }}", parameters={"k": 1})

    assert text.eval(CONFIG) == 4
    assert InterpolatedString.create(text, parameters={}) is text
    assert InterpolatedString.create(20, parameters={}).eval(CONFIG) == 20


def test_a_condition_sees_what_it_is_given() -> None:
    assert InterpolatedBoolean("{{ record.id > config.n }}", parameters={}).eval(CONFIG, record={"id": 4})


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
