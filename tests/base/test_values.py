"""The canonical text of a value is its identity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.errors import FatalError
from cdk.base.values import canonical

OBJECTS = st.dictionaries(st.text(max_size=3), st.integers(-9, 9) | st.dictionaries(st.text(max_size=2), st.booleans()))


@given(OBJECTS)
def test_equal_values_have_equal_texts_whatever_their_order(value: dict[str, object]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


def test_the_text_is_compact_and_keeps_types_apart() -> None:
    assert canonical({"b": "1", "a": [1, 1.0, True, None, "é"]}) == '{"a":[1,1.0,true,null,"é"],"b":"1"}'


@pytest.mark.parametrize("value", [object(), {1: 2}, 2**64, b"x"])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical(value)


def test_what_json_cannot_hold_is_an_error_for_people_too() -> None:
    with pytest.raises(FatalError, match="JSON cannot hold"):
        canonical({"token": 2**64})
