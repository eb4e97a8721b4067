"""What identifies a partition, and that slices travel."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import Checkpoint, Json, Partition, Slice, Window
from cdk.base.values import FieldValue
from cdk.state.position import Edge
from cdk.state.slice import WHOLE

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.sampled_from(["1", "true", "é"]),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=2) | st.lists(inner, max_size=2),
    max_leaves=4,
)
FIELDS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def backwards(value: Json) -> Json:
    """The same value, its objects written in the other order."""
    return {k: backwards(value[k]) for k in reversed(value)} if isinstance(value, dict) else value


@given(FIELDS)
def test_the_order_of_fields_does_not_count_at_any_depth(fields: dict[str, Json]) -> None:
    one, two = Partition(fields), Partition(backwards(fields))

    assert (one, hash(one), one.key) == (two, hash(two), two.key)


@pytest.mark.parametrize("other", ["1", True, 1.0, None, [1], {"id": 1}])
def test_the_type_of_a_value_counts(other: Json) -> None:
    assert Partition({"id": 1}) != Partition({"id": other})


def test_what_travels_along_is_not_identity() -> None:
    assert Partition({"id": 1}, extra={"name": "x"}) == Partition({"id": 1})
    assert {Partition({"id": 1}, extra={"name": "x"})} == {Partition.of(id=1)}
    assert Partition({"id": 1}) != {"id": 1}


def test_a_partition_is_a_map_and_does_not_follow_the_one_it_was_made_from() -> None:
    fields = {"id": 1}
    partition = Partition(fields)
    fields["id"] = 2

    assert dict(partition) == {"id": 1}
    assert not WHOLE
    assert repr(partition) == "Partition({'id': 1})"


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        Partition({"id": object()})


@given(FIELDS)
def test_a_slice_survives_pickling(fields: dict[str, Json]) -> None:
    slice = Slice(Partition(fields, extra={"n": 1}), Window("a", "b"), Checkpoint({"page": 2}), Edge(1, {"d": 1}))

    travelled = pickle.loads(pickle.dumps(slice))  # noqa: S301 - our own

    assert travelled == slice
    assert travelled.extra == slice.extra


def test_a_slice_names_itself() -> None:
    assert str(Slice()) == "whole stream"
    assert str(Slice(Partition.of(a=1), Window("x"))) == '{"a":1} [x, …]'


@pytest.mark.parametrize("value", [1, "2024-01-01T00:00:00Z", "ü" * 1_000])
def test_the_edge_of_a_cursor_keeps_a_bounded_number_of_bytes(value: FieldValue) -> None:
    most = Edge.MAX_BYTES // (Edge.KEY_BYTES + len(str(value).encode()))
    every = {str(i): value for i in range(most + 5)}
    edge = Edge(value, {"without": None, **every}, {"0": 2, str(most): 2})

    assert list(edge.keys) == [str(i) for i in range(most)]
    assert edge.counts == {"0": 2}
