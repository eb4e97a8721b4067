from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.spark.newest import CURSOR, FILE, ROW, Identity, keyed, newest, superseded
from cdk.spark.schema import EXTRACTED_AT, MOMENT, RAW_ID

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def part(rows: list[dict[str, Any]], schema: pa.Schema | None = None) -> pa.Table:
    """A file's rows; raw ids grow in order, within a page read at noon."""
    own = [{**row, EXTRACTED_AT: row.get("at", NOON), RAW_ID: f"{i:04}"} for i, row in enumerate(rows)]
    fields = schema or pa.schema([("id", pa.int64()), ("v", pa.int64())])
    return pa.Table.from_pylist(own, pa.schema([*fields, (EXTRACTED_AT, MOMENT), (RAW_ID, pa.string())]))


def places(winners: pa.Table) -> list[tuple[int, int]]:
    return list(zip(winners[FILE].to_pylist(), winners[ROW].to_pylist(), strict=True))


def test_of_the_rows_with_one_key_the_newest_by_cursor_wins() -> None:
    first = part([{"id": 1, "v": 3}, {"id": 2, "v": 1}, {"id": 1, "v": 2}])
    second = part([{"id": 2, "v": 5}, {"id": 3, "v": None}, {"id": 3, "v": 0}])

    winners = newest([first, second], Identity(("id",), "v"))

    assert places(winners) == [(0, 0), (1, 0), (1, 2)]
    assert winners["_number"].to_pylist() == [0, 1, 2]


def test_of_equals_the_one_that_was_extracted_last_wins() -> None:
    later = datetime(2026, 1, 1, 13, tzinfo=UTC)
    first = part([{"id": 1, "v": 1, "at": later}, {"id": 2, "v": 1}, {"id": 2, "v": 1}])
    second = part([{"id": 1, "v": 1}])

    assert places(newest([first, second], Identity(("id",), "v"))) == [(0, 0), (0, 2)]
    assert places(newest([first, second], Identity(("id",)))) == [(0, 0), (0, 2)]


def test_a_key_that_is_null_in_part_is_a_key() -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    rows = part([{"id": None, "v": None}, {"id": None, "v": "a"}, {"id": 0, "v": ""}, {"id": None, "v": None}], schema)
    identity = Identity(("id", "v"))

    winners = newest([rows], identity)
    replaced, lost = superseded(keyed(rows, identity), winners, 2)

    assert sorted(places(winners)) == [(0, 1), (0, 2), (0, 3)]
    assert replaced.to_pylist() == [0, 1, 2, 3]
    assert lost.to_pylist() == []


def test_a_file_keeps_rows_that_are_newer_than_what_was_read() -> None:
    identity = Identity(("id",), "v")
    winners = newest([part([{"id": 1, "v": 2}, {"id": 2, "v": 2}, {"id": 3, "v": None}, {"id": 4, "v": 1}])], identity)
    existing = keyed(
        part([{"id": 3, "v": 0}, {"id": 2, "v": 3}, {"id": 9, "v": 9}, {"id": 1, "v": 2}, {"id": 4}]), identity
    )

    replaced, lost = superseded(existing, winners, 1)

    assert replaced.to_pylist() == [3, 4]
    assert lost.to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["b", "a"]),
        (pa.bool_(), [True, False]),
        (pa.float64(), [1.5, 0.0]),
        (pa.date32(), [date(2026, 1, 1), date(1970, 1, 1)]),
        (MOMENT, [NOON, datetime(1970, 1, 1, tzinfo=UTC)]),
        (pa.timestamp("us"), [datetime(2026, 1, 1), datetime(1970, 1, 1)]),  # noqa: DTZ001 - the type has no zone
        (pa.decimal128(38, 0), [Decimal(10**30), Decimal(0)]),
    ],
)
def test_every_scalar_type_can_be_a_key(kind: pa.DataType, values: list[Any]) -> None:
    identity = Identity(("id",))
    rows = part([{"id": value} for value in (*values, None, *values)], pa.schema([("id", kind)]))

    winners = newest([rows], identity)
    replaced, _ = superseded(keyed(rows.slice(0, 3), identity), winners, 1)

    assert sorted(places(winners)) == [(0, 2), (0, 3), (0, 4)]
    assert replaced.to_pylist() == [0, 1, 2]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 4), st.none() | st.sampled_from("ab"), st.none() | st.integers(0, 3)),
        min_size=1,
        max_size=30,
    ),
    st.integers(0, 30),
)
def test_merging_batch_after_batch_is_reading_row_after_row(rows: list[tuple[Any, Any, Any]], cut: int) -> None:
    identity = Identity(("a", "b"), CURSOR)
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), (CURSOR, pa.int64())])
    dicts = [{"a": a, "b": b, CURSOR: cursor} for a, b, cursor in rows]
    expected: dict[tuple[Any, Any], Any] = {}
    for a, b, cursor in rows:
        before = expected.get((a, b), -2)
        if (-1 if cursor is None else cursor) >= (-1 if before is None else before):
            expected[a, b] = cursor

    table = part(dicts[:cut], schema)
    first = newest([table], identity)
    table = table.take(first[ROW])
    new = part(dicts[cut:], schema)
    winners = newest([new], identity)
    replaced, lost = superseded(keyed(table, identity), winners, 2)
    kept = [row for i, row in enumerate(table.to_pylist()) if i not in set(replaced.to_pylist())]
    added = [new.to_pylist()[row] for n, row in enumerate(winners[ROW].to_pylist()) if n not in set(lost.to_pylist())]

    assert {(row["a"], row["b"]): row[CURSOR] for row in [*kept, *added]} == expected
    assert len(kept) + len(added) == len(expected)
