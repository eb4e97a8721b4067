"""The expected results are those of dpath, which Airbyte edits records with."""

from copy import deepcopy

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdk.base.values import Json
from cdk.declarative.syntax.json_edit import matches_at, remove_leaves, remover, replace_at, set_at, setter


@pytest.mark.parametrize(
    ("target", "path", "expected"),
    [
        ({}, ["a"], {"a": "x"}),
        ({"a": 1}, ["a"], {"a": "x"}),
        ({}, ["a", "b"], {"a": {"b": "x"}}),
        ({"a": {"b": {"c": 1}}}, ["a", "b"], {"a": {"b": "x"}}),
        ({}, ["a", "1"], {"a": [None, "x"]}),
        ({"a": []}, ["a", "1"], {"a": [None, "x"]}),
        ({"a": {}}, ["a", "1"], {"a": {"1": "x"}}),
        ({"a": [5, 6]}, ["a", "0"], {"a": ["x", 6]}),
        ({"a": [{}]}, ["a", "2", "c"], {"a": [{}, None, {"c": "x"}]}),
        ({}, ["a", "0", "0"], {"a": [["x"]]}),
        ({}, ["1"], {"1": "x"}),
        ({"a": {"p": 1}}, ["a", "*"], {"a": {"p": 1, "*": "x"}}),
        ({}, ["a/b"], {"a/b": "x"}),
    ],
)
def test_a_value_is_put_at_a_path_and_what_leads_there_is_made(target: Json, path: list[str], expected: Json) -> None:
    set_at(target, path, "x")
    assert expected == target


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ({"a": None}, ["a", "b"]),
        ({"a": "text"}, ["a", "b"]),
        ({"a": []}, ["a", "b"]),
        ({"a": [1]}, ["a", "-1"]),
        ({"a": [None]}, ["a", "0", "c"]),
    ],
)
def test_a_place_that_cannot_be_made_is_named(target: Json, path: list[str]) -> None:
    with pytest.raises(ValueError, match=r"where '.*' belongs, expected an object"):
        setter(path)(target, "x")


@pytest.mark.parametrize(
    ("target", "pointer", "expected"),
    [
        ({"a": 1, "b": 2}, ["a"], {"b": 2}),
        ({"a": {"b": 1, "c": 3}}, ["a", "b"], {"a": {"c": 3}}),
        ({"a": 5}, ["a", "b"], {"a": 5}),
        ({"a": None}, ["a", "b"], {"a": None}),
        ({"a": [1, 2]}, ["a", "0"], {"a": [None, 2]}),
        ({"a": [1, 2]}, ["a", "1"], {"a": [1]}),
        ({"a": [1, 2]}, ["a", "5"], {"a": [1, 2]}),
        ({"a": [1, 2, 3]}, ["a", "-2"], {"a": [1, None, 3]}),
        ({"a": [{"b": 1}, {"b": 2, "c": 3}]}, ["a", "1", "b"], {"a": [{"b": 1}, {"c": 3}]}),
        ({"a": [{"b": 1}, {"b": 2, "c": 3}]}, ["a", "*", "b"], {"a": [{}, {"c": 3}]}),
        ({"a": [1, 2, 3]}, ["a", "*"], {"a": [None, None]}),
        ({"a": {"b": 1}, "b": {"x": 1}}, ["*", "b"], {"a": {}, "b": {"x": 1}}),
        ({"a": {"b": 1, "d": {"b": 3}}, "b": {"x": 1}}, ["**", "b"], {"a": {"d": {}}}),
        ({"l": {"x": 1, "m": {"x": 2}}, "x": 1}, ["l", "**", "x"], {"l": {"m": {}}, "x": 1}),
        ({"l": [1], "x": 1}, ["l", "**"], {"x": 1}),
        ({"a": 1, "ab": 1, "b": 2}, ["a?"], {"a": 1, "b": 2}),
        ({"a": 1, "ab": 1, "b": 2}, ["[ab]"], {"ab": 1}),
        ({"a/b": 1, "a": {"b": 1}}, ["a/b"], {"a": {"b": 1}}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_what_a_pointer_leads_to_is_removed(target: Json, pointer: list[str], expected: Json) -> None:
    remover(pointer)(target)
    assert expected == target


def test_a_pointer_with_two_double_stars_is_refused() -> None:
    with pytest.raises(ValueError, match="at most one"):
        remover(["**", "a", "**"])


def test_leaves_are_removed_wherever_they_are() -> None:
    target: Json = {"a": [], "c": None, "e": {"g": [[], {}]}, "h": [{"i": None}, None, [None]]}
    remove_leaves(target, lambda value: value is None)
    assert target == {"a": [], "e": {"g": [[], {}]}, "h": [{}, None, []]}


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        (["a"], [{"b": 1}]),
        (["a", "b"], [1]),
        (["a", "x"], []),
        (["l", "*"], [1, 2]),
        (["l", "-1"], [2]),
        (["*", "b"], [1]),
        (["**", "b"], [1]),
        ([], []),
    ],
)
def test_values_are_found_with_a_pointer(pointer: list[str], expected: Json) -> None:
    assert expected == matches_at({"a": {"b": 1}, "l": [1, 2]}, pointer)


_NAMES = st.sampled_from(["a", "b", "c"])
_VALUES = st.recursive(
    st.integers(), lambda inner: st.dictionaries(_NAMES, inner) | st.lists(inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(_NAMES, _VALUES), st.lists(_NAMES, min_size=1, max_size=3))
def test_what_was_put_is_found_and_can_be_removed(target: dict[str, Json], path: list[str]) -> None:
    before = deepcopy(target)
    try:
        set_at(target, path, "x")
    except ValueError:
        assert matches_at(before, path) == []
        return
    assert matches_at(target, path) == ["x"]
    remover(path)(target)
    assert matches_at(target, path) == []


_STEPS = st.sampled_from(["a", "b", "0", "1", "-1", "*", "**"])
_NODES = st.recursive(
    st.integers(), lambda n: st.lists(n, max_size=3) | st.dictionaries(st.sampled_from("ab01"), n), max_leaves=9
)


@example([[0]], ["0", "**"])
@given(_NODES, st.lists(_STEPS, min_size=1, max_size=4).filter(lambda path: path.count("**") < 2))
def test_replacing_makes_no_places(node: Json, path: list[str]) -> None:
    def places(value: Json) -> set[str]:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return {f"/{key}{below}" for key, part in items for below in (places(part) or {""})} if value != "v" else set()

    before = places(node)

    replaced = replace_at(node, path, "v")

    assert all(any(old.startswith(new) for old in before) for new in places(node))
    assert replaced == ("'v'" in repr(node))
