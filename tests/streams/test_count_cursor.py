"""A cursor over whole numbers, also where they come as text."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import BadState, CountCursor, Json, Window

NOW = datetime(2024, 1, 1, tzinfo=UTC)
CURSOR = CountCursor("id", start=5)
NUMBERS = st.integers(-(2**63), 2**63) | st.integers(-99, 99).map(str) | st.integers(-99, 99).map(float)
STRANGE: st.SearchStrategy[Json] = st.sampled_from([None, "x", True, 0.5, [1], {}])


@pytest.mark.parametrize(("after", "start"), [(None, 5), (7, 7), ("7", 7), (7.0, 7), (2, 5)])
def test_one_open_window_starts_at_the_number_reached(after: Json, start: int) -> None:
    assert list(CURSOR.windows(after, NOW)) == [Window(start, None, None, last=True)]


def test_a_gap_ends_where_the_next_window_starts() -> None:
    assert list(CURSOR.windows(7, NOW, upto=9, again=False)) == [Window(7, 9, 9, last=False)]


@given(STRANGE.filter(lambda value: value is not None))
def test_a_state_that_is_no_number_is_refused(value: Json) -> None:
    with pytest.raises(BadState, match=r"state\.id: found .*, expected an integer"):
        list(CURSOR.windows(value, NOW))


@given(st.lists(NUMBERS | STRANGE, min_size=1))
def test_the_greatest_is_compared_as_a_number_and_keeps_its_spelling(values: list[Json]) -> None:
    numbers = [
        int(v) for v in values if v is not None and not isinstance(v, bool | list | dict) and v not in ("x", 0.5)
    ]

    greatest: Json = CURSOR.greatest(values)

    assert (None if greatest is None else int(greatest)) == (max(numbers) if numbers else None)


@given(NUMBERS | STRANGE, st.integers(-100, 100))
def test_a_number_belongs_to_exactly_one_of_two_neighbours(value: Json, edge: int) -> None:
    low, high = Window(-(10**30), edge, edge, last=False), Window(edge)
    readable = CURSOR.greatest([value]) is not None

    assert [CURSOR.owns(low, value), CURSOR.owns(high, value)].count(True) == (1 if readable else 2)


def test_numbers_from_the_one_reached_on_come_again() -> None:
    assert [CURSOR.repeats(n, "10") for n in (9, 10, "11", None)] == [False, True, True, False]
