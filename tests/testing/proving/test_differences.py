from collections import Counter
from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import Json
from cdk.testing.proving.differences import Difference, Key, difference


def found(before: Sequence[Json], after: Sequence[Json], key: Key = ()) -> Difference:
    left, right = (Counter(orjson.dumps(row).decode() for row in rows) for rows in (before, after))
    return difference(left, right, key)


@pytest.mark.parametrize(
    ("before", "after", "key", "figures"),
    [
        # With a key, rows of the same one are the same.
        ([{"id": 1, "at": 1}], [{"id": 1, "at": 2}], [["id"]], (0, 0, 1)),
        ([{"id": 1, "at": 1}, {"id": 2, "at": 2}], [{"id": 1, "at": 2}, {"id": 2, "at": 1}], [["id"]], (0, 0, 2)),
        ([{"id": 1}, {"id": 2}], [{"id": 2}, {"id": 2}], [["id"]], (1, 1, 0)),
        ([{"a": {"id": 1}, "at": 1}], [{"a": {"id": 1}, "at": 2}], [["a", "id"]], (0, 0, 1)),
        ([{"id": 1, "at": 1}] * 2, [{"id": 1, "at": 2}], [["id"]], (1, 0, 1)),
        # Without one, those that differ in values that are new.
        ([{"id": 1, "at": 1}, {"id": 2, "at": 1}], [{"id": 1, "at": 2}, {"id": 2, "at": 3}], [], (0, 0, 2)),
        ([{"id": 1, "at": 1}, {"id": 2, "at": 1}], [{"id": 1, "at": 2}, {"id": 1, "at": 3}], [], (1, 1, 1)),
        ([{"id": None, "at": 1}], [{"id": None, "at": 2}], [["id"]], (0, 0, 1)),
        # A row that is there twice is no change of another.
        ([{"id": 1, "at": 1}, {"id": 2, "at": 1}], [{"id": 1, "at": 1}] * 2, [], (1, 1, 0)),
        ([{"id": 1}], [], [["id"]], (1, 0, 0)),
        ([], [{"id": 1}], [], (0, 1, 0)),
    ],
)
def test_rows_are_lost_or_there_once_more_or_changed(
    before: Sequence[Json], after: Sequence[Json], key: Key, figures: tuple[int, int, int]
) -> None:
    differ = found(before, after, key)

    assert (differ.lost.total(), differ.duplicated.total(), len(differ.changed)) == figures


ROWS = st.lists(st.fixed_dictionaries({"id": st.integers(0, 3), "at": st.integers(0, 3)}), max_size=6)


@given(ROWS, ROWS, st.sampled_from([[], [["id"]], [["id"], ["at"]]]))
def test_what_was_expected_and_differs_is_what_is_there(before: list[Json], after: list[Json], key: Key) -> None:
    differ = found(before, after, key)

    left, there = (Counter(map(orjson.dumps, rows)) for rows in (before, after))
    texts = [
        Counter({text.encode(): count for text, count in each.items()}) for each in (differ.lost, differ.duplicated)
    ]
    old, new = (Counter(orjson.dumps(pair[side]) for pair in differ.changed) for side in (0, 1))
    assert left - texts[0] - old == there - texts[1] - new
    assert (not list(differ)) == (left == there)


def test_a_change_is_said_with_the_fields_and_what_to_do() -> None:
    before, now = ([{"id": n, "read_at": f"{time}:0{n}", "same": 1} for n in (1, 2)] for time in ("10", "11"))

    (sentence,) = found(before, now, [["id"]])

    assert sentence.startswith('2 of 2 rows changed, in read_at: read_at was "10:01", is "11:01"; ')
    assert "leave it out of the records (each row has `_airbyte_extracted_at`)" in sentence
