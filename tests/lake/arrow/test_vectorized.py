import math
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.lake.arrow.coerce import Change, coerce_value
from cdk.lake.arrow.columns import BIG_INTEGER, JSON_TEXT, TIMESTAMP_NTZ, TIMESTAMP_UTC, ColumnType, arrow_type
from cdk.lake.arrow.vectorized import by_field, to_array

POINT = pa.struct([("x", pa.int64()), ("label", pa.string())])
KINDS: list[ColumnType] = [
    pa.int64(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.date32(),
    TIMESTAMP_UTC,
    TIMESTAMP_NTZ,
    BIG_INTEGER,
    JSON_TEXT,
    POINT,
    pa.list_(pa.string()),
    pa.list_(POINT),
    pa.struct([("points", pa.list_(POINT)), ("at", TIMESTAMP_UTC)]),
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-5, 5),
    st.floats(),
    st.text(st.characters(), max_size=5),
    st.sampled_from(["2024-01-02", "0000-01-01", "2024-01-02T03:04:05Z", "2024-01-02T03:04:05", "null", "\ud800"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["x", "label", "points", "at", "other"]), inner, max_size=3),
        st.fixed_dictionaries({"x": st.integers(-5, 5), "label": st.text(max_size=3)}),
    ),
    max_leaves=6,
)


def one_by_one(values: list[Any], kind: ColumnType) -> tuple[pa.Array, list[Change]]:
    noted: list[Change] = []
    return pa.array([coerce_value(value, kind, "f", noted) for value in values], arrow_type(kind)), noted


@given(st.sampled_from(KINDS), st.lists(VALUES, max_size=4))
def test_it_makes_what_value_by_value_makes_or_nothing(kind: ColumnType, values: list[Any]) -> None:
    array = to_array(values, kind)

    if array is not None:
        expected, noted = one_by_one(values, kind)
        array.validate(full=True)
        assert noted == []
        assert repr(array.to_pylist()) == repr(expected.to_pylist())
        assert array.type == expected.type


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (POINT, [{"x": 1, "label": "a"}, {"x": 2, "label": None}]),
        (POINT, [{"x": 1, "label": "a"}, None, {"label": "b"}, {}]),
        (POINT, [None, None]),
        (POINT, []),
        (pa.list_(pa.string()), [["a", "b"], [], None, ["c", None]]),
        (pa.list_(POINT), [[{"x": 1, "label": "a"}], None, [None, {"x": 2, "label": "b"}]]),
        (JSON_TEXT, [{"a": None}, [1, 2], "text", 1, None, True, "null"]),
        (pa.string(), ["a", {"b": None}, 1.5, None, False, [], "null"]),
        (pa.date32(), ["2024-01-02", None]),
        (BIG_INTEGER, [10**30, None]),
    ],
)
def test_values_that_fit_are_taken_at_once(kind: ColumnType, values: list[Any]) -> None:
    array = to_array(values, kind)

    assert array is not None
    assert array.to_pylist() == one_by_one(values, kind)[0].to_pylist()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), 2**63),
        (pa.float64(), True),
        (pa.string(), "\ud800"),
        (pa.string(), math.nan),
        (pa.string(), {"deep": [math.nan]}),
        (pa.string(), date(2024, 1, 2)),
        (JSON_TEXT, {"deep": [math.inf]}),
        (JSON_TEXT, {1, 2}),
        (pa.date32(), "0000-01-01"),
        (pa.date32(), "2024-13-01"),
        (POINT, {"x": 1, "label": "a", "other": 2}),
        (POINT, {"x": "1", "label": "a"}),
        (POINT, [1, "a"]),
        (pa.list_(pa.string()), "abc"),
        (pa.list_(POINT), [{"x": 1.5, "label": "a"}]),
    ],
)
def test_what_is_in_doubt_is_left_to_the_other_way(kind: ColumnType, value: Any) -> None:
    assert to_array([value], kind) is None


def test_an_undeclared_field_of_a_struct_is_seen_wherever_it_is() -> None:
    first = {"x": 1, "label": "a"}

    assert to_array([first, {"x": 1, "other": 2}], POINT) is None
    assert to_array([first, None, {"x": 1, "other": 2}], POINT) is None


def test_fields_come_apart_when_all_objects_have_the_same() -> None:
    assert by_field([{"a": 1, "b": 2}, {"b": 4, "a": 3}]) == {"a": (1, 3), "b": (2, 4)}


@pytest.mark.parametrize(
    "objects",
    [
        [],
        [{}],
        [{"a": 1}],
        [{"a": 1, "b": 2}, {"a": 1}],
        [{"a": 1, "b": 2}, {"a": 1, "c": 2}],
        [{"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}],
    ],
)
def test_other_objects_are_left_alone(objects: list[dict[str, int]]) -> None:
    assert by_field(objects) is None
