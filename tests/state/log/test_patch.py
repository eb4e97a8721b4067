import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.values import Json, JsonObject, canonical
from cdk.state.log.blobs import apply, diff
from cdk.state.log.canonical_json import loads_canonical
from tests.state.log.test_canonical_json import JSON

OBJECTS = st.dictionaries(st.sampled_from("abcde"), JSON, max_size=5)
NESTED = st.dictionaries(st.sampled_from("abc"), OBJECTS | JSON, max_size=3)


def copy(value: dict[str, Json]) -> dict[str, Json]:
    return dict(loads_canonical(canonical(value).encode(), "copy"))


@given(NESTED, NESTED)
def test_a_patch_makes_the_one_out_of_the_other(old: dict[str, Json], new: dict[str, Json]) -> None:
    patch = diff(old, new)

    assert canonical(apply(copy(old), copy(patch))) == canonical(new)
    assert (patch == {}) == (canonical(old) == canonical(new))


@given(NESTED, NESTED)
def test_making_a_patch_changes_neither(old: dict[str, Json], new: dict[str, Json]) -> None:
    before = canonical(old), canonical(new)
    diff(old, new)

    assert before == (canonical(old), canonical(new))


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ([1], [True]), ({"a": [0]}, {"a": [0.0]})]
)
def test_a_change_of_type_is_a_change(one: Json, other: Json) -> None:
    assert diff({"k": one}, {"k": other}) != {}


def test_a_patch_is_as_large_as_the_change() -> None:
    old: JsonObject = {f"id-{i}": {"cursor": i, "page": None} for i in range(1000)}
    new: JsonObject = {**old, "id-7": {"cursor": 8, "page": None}}
    del new["id-9"]

    assert diff({"users": old}, {"users": new}) == {
        "in": {"users": {"in": {"id-7": {"set": {"cursor": 8}}}, "drop": ["id-9"]}}
    }
