import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import BadState
from cdk.base.values import Json
from cdk.state.handlers.entity_set import LEAVING, PRESENT, UNSURE, compare, merged, read_sets, write_sets

IDS = st.sampled_from("abcdefgh")
KNOWN = st.dictionaries(IDS, st.sampled_from([PRESENT, LEAVING, UNSURE, -1, -2]))


def test_what_is_missing_goes_and_what_is_new_is_revived() -> None:
    known = {"a": PRESENT, "b": PRESENT, "c": LEAVING}

    found = compare(known, {"a", "d"}, comparable=known.keys())

    assert (found.previous, found.missing, found.retried, found.revived) == (2, ("b",), ("c",), ("d",))
    assert found.ids == {"a": PRESENT, "b": LEAVING, "c": LEAVING, "d": UNSURE}


@pytest.mark.parametrize("number", [LEAVING, UNSURE, -1, -2])
def test_whatever_the_sink_may_have_removed_is_revived_when_it_is_seen(number: int) -> None:
    found = compare({"a": number}, {"a"}, comparable={"a"})

    assert (found.revived, found.ids, found.missing) == (("a",), {"a": UNSURE}, ())


def test_in_a_first_run_nothing_can_have_been_removed() -> None:
    found = compare({}, {"a", "b"}, comparable=set(), first=True)

    assert (found.revived, found.ids) == ((), {"a": PRESENT, "b": PRESENT})


def test_an_entity_may_be_missing_from_as_many_runs_as_it_is_given() -> None:
    numbers = [PRESENT]
    while numbers[-1] != LEAVING:
        numbers.append(compare({"a": numbers[-1]}, set(), comparable={"a"}, grace=2).ids["a"])

    assert numbers == [PRESENT, -1, -2, LEAVING]


def test_what_is_spared_stays_as_it_is_and_counts_for_nothing() -> None:
    known = {"a": PRESENT, "b": PRESENT, "query:1": PRESENT, "query:2": -1}

    found = compare(known, {"a"}, comparable=known.keys(), spared=lambda entity: entity.startswith("query:"))

    assert (found.previous, found.missing, found.protected) == (2, ("b",), 2)
    assert (found.ids["query:1"], found.ids["query:2"]) == (PRESENT, -1)


def test_what_may_not_be_compared_stays() -> None:
    found = compare({"a": PRESENT, "b": PRESENT, "c": LEAVING}, set(), comparable={"b"})

    assert (found.previous, found.missing, found.retried) == (1, ("b",), ())
    assert found.ids == {"a": PRESENT, "b": LEAVING, "c": LEAVING}


@given(KNOWN, st.sets(IDS), st.sets(IDS), st.integers(0, 2))
def test_no_comparison_forgets_an_id_or_removes_one_that_was_seen(
    known: dict[str, int], seen: set[str], comparable: set[str], grace: int
) -> None:
    found = compare(known, seen, comparable=comparable, grace=grace)

    assert found.ids.keys() == known.keys() | seen
    assert not seen & {*found.missing, *found.retried}
    assert {*found.missing, *found.retried} <= known.keys() & comparable
    assert set(found.revived) <= seen
    assert merged(known, seen) == {id: found.ids[id] if id in seen else known[id] for id in known.keys() | seen}


@given(st.dictionaries(st.text(max_size=3), KNOWN))
def test_sets_are_read_as_they_were_written(sets: dict[str, dict[str, int]]) -> None:
    assert read_sets(write_sets(sets), "state") == sets
    assert read_sets(None, "state") == {}


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ([], "state"),
        ({"ids": {}}, "state"),
        ({"scopes": {"db": ["a"]}}, "state scopes['db']"),
        ({"scopes": {"db": {"ids": {"a": 1, "b": True}}}}, "state scopes['db'].ids['b']"),
        ({"scopes": {"db": {"ids": {"a": 3}}}}, "state scopes['db'].ids['a']"),
    ],
)
def test_a_value_that_means_nothing_is_named_with_its_place(value: Json, place: str) -> None:
    with pytest.raises(BadState) as refused:
        read_sets(value, "state")

    assert refused.value.path == place
