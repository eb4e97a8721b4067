"""Which fields of the first records may be a key or a cursor."""

import pytest

from cdk.authoring.candidates import cursor_candidates, key_candidates
from cdk.base.values import Json

ROWS: list[Json] = [
    {"name": "a", "n": 1, "order_id": "x", "part": 1.5, "made": "2024-01-01", "updated_at": "2024-03-01T00:00:00Z"},
    {"name": "b", "n": 1, "order_id": "y", "part": 2.5, "made": "2024-01-02", "updated_at": "2024-03-02T00:00:00Z"},
]


def test_keys_are_unique_strings_and_integers_and_those_called_so_come_first() -> None:
    assert key_candidates(ROWS) == ["order_id", "name"]


def test_cursors_are_dates_and_those_of_changes_come_first() -> None:
    created = [{**row, "created": 1_700_000_000 + row["n"], "number": 1_700_000_000} for row in ROWS]

    assert cursor_candidates(created) == ["updated_at", "created", "made"]


@pytest.mark.parametrize(
    "rows", [[], ROWS[:1], [{"id": 1}, {}], [{"id": None}, {"id": [1]}], [{"id": True}, {"id": 2}]]
)
def test_what_is_not_in_all_of_several_records_is_no_candidate(rows: list[Json]) -> None:
    assert (key_candidates(rows), cursor_candidates(rows)) == ([], [])
