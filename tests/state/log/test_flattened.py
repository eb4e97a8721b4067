import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.values import Json, JsonObject, canonical
from cdk.state.log.blobs import assembled, changes, flattened
from tests.state.log.test_canonical_json import JSON

OBJECTS = st.dictionaries(st.sampled_from("abcde"), JSON, max_size=5)
NESTED = st.dictionaries(st.sampled_from("abc"), OBJECTS | JSON, max_size=3)


@given(NESTED | JSON)
def test_a_value_comes_back_from_the_texts_of_its_leaves(value: Json) -> None:
    assert canonical(assembled(flattened(value))) == canonical(value)


@given(NESTED, NESTED)
def test_changes_make_the_one_out_of_the_other(old: dict[str, Json], new: dict[str, Json]) -> None:
    before, after = flattened(old), flattened(new)
    news = changes(before, after)

    assert {path: text for path, text in {**before, **news}.items() if text is not None} == after
    assert (news == {}) == (canonical(old) == canonical(new))


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ([1], [True]), ({"a": [0]}, {"a": [0.0]}), ({}, None)]
)
def test_a_change_of_type_is_a_change(one: Json, other: Json) -> None:
    assert changes(flattened({"k": one}), flattened({"k": other})) != {}


def test_changes_are_as_large_as_what_changed() -> None:
    old: JsonObject = {f"id-{i}": {"cursor": i, "page": None} for i in range(1000)}
    new: JsonObject = {**old, "id-7": {"cursor": 8, "page": None}}
    del new["id-9"]

    assert changes(flattened({"users": old}), flattened({"users": new})) == {
        '"users","id-7","cursor"': "8",
        '"users","id-9","cursor"': None,
        '"users","id-9","page"': None,
    }
