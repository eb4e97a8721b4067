import math
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import BadState
from cdk.base.values import Json
from cdk.state.log.canonical_json import digest, dumps_canonical, leaves, loads_canonical

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**90), 2**90)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=6)
    ),
    max_leaves=10,
)


def test_equal_values_have_one_text() -> None:
    assert dumps_canonical({"b": 1, "a": [1.5, "ü"]}, "slot") == dumps_canonical({"a": [1.5, "ü"], "b": 1}, "slot")
    assert dumps_canonical({"b": 1, "a": None}, "slot") == b'{"a":null,"b":1}'


@pytest.mark.parametrize(("one", "other"), [(1, "1"), (1, 1.0), (1, True), (None, {}), ({}, []), (0.0, -0.0)])
def test_values_of_other_types_have_other_texts(one: Json, other: Json) -> None:
    assert dumps_canonical(one, "slot") != dumps_canonical(other, "slot")


@given(JSON)
def test_what_is_json_comes_back_as_it_was(value: Json) -> None:
    text = dumps_canonical(value, "slot")

    assert dumps_canonical(loads_canonical(text, "slot"), "slot") == text
    assert loads_canonical(text, "slot") == value


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, math.nan]}, "stream:users.a[1]"),
        ({"a": {"b": -math.inf}}, "stream:users.a.b"),
        ({"a": (1, 2)}, "stream:users.a"),
        ({"a": {1, 2}}, "stream:users.a"),
        ([b"bytes"], "stream:users[0]"),
        ({"a": datetime(2024, 1, 1, tzinfo=UTC)}, "stream:users.a"),
        ({"a": Decimal("1.5")}, "stream:users.a"),
        ({"a": UUID(int=1)}, "stream:users.a"),
        ({"a": {2: 1}}, "stream:users.a"),
        ({"a": 2**64, "b": (1,)}, "stream:users.b"),
        ({"a": "\ud800"}, "stream:users.a"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(value: Json, where: str) -> None:
    with pytest.raises(BadState) as refused:
        dumps_canonical(value, "stream:users")

    assert refused.value.path == where


def test_a_value_inside_itself_is_refused() -> None:
    value: dict[str, Json] = {}
    value["a"] = value

    with pytest.raises(BadState, match="a value inside itself"):
        dumps_canonical(value, "stream:users")


def test_what_is_no_json_text_is_refused_with_its_place() -> None:
    with pytest.raises(BadState, match=r"record 1: found .*, expected JSON"):
        loads_canonical(b'{"a": ', "record 1")


def test_a_digest_is_that_of_all_its_parts_together() -> None:
    assert digest(b"ab", b"c") == digest(b"abc")
    assert digest(b"abc").startswith("sha256:ba7816bf")


def test_leaves_are_scalars_and_keys_with_their_places() -> None:
    assert list(leaves(orjson.loads('{"a": [1, {"b": "x"}]}'), "slot")) == [
        ("slot.a", "a"),
        ("slot.a[0]", 1),
        ("slot.a[1].b", "b"),
        ("slot.a[1].b", "x"),
    ]
