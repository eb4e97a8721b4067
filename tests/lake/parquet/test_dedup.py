from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.lake.arrow.columns import ADDITIONAL, EXTRACTED_AT, META, OWN_COLUMNS, RAW_ID, TIMESTAMP_UTC
from cdk.lake.parquet.dedup import CURSOR, FILE, ROW, CursorColumn, Identity, keyed, latest_rows, superseded
from cdk.streams.order import CountOrder, NaturalOrder, TimestampOrder

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BY_ID = Identity(("id",), CursorColumn("v", "v", CountOrder()))


def part(rows: list[dict[str, Any]], schema: pa.Schema | None = None) -> pa.Table:
    """A file's rows; raw ids grow in order, within a page read at noon."""
    own = [{EXTRACTED_AT: NOON, RAW_ID: f"{i:04}", **row} for i, row in enumerate(rows)]
    fields = schema or pa.schema([("id", pa.int64()), ("v", pa.int64())])
    return pa.Table.from_pylist(own, pa.schema([*fields, *OWN_COLUMNS.items()]))


def compared(table: pa.Table, identity: Identity) -> pa.Table:
    """A file's rows as they are compared."""

    def rest(names: Any, mask: pa.Array) -> pa.Table:
        return table.filter(mask).select(table.column_names if names is None else names)

    return keyed(table.select(identity.columns(table.schema)), identity, rest)


def winners_of(parts: list[pa.Table], identity: Identity) -> pa.Table:
    return latest_rows([compared(one, identity) for one in parts], len(identity.keys))


def places(winners: pa.Table) -> list[tuple[int, int]]:
    return list(zip(winners[FILE].to_pylist(), winners[ROW].to_pylist(), strict=True))


def test_of_the_rows_with_one_key_the_newest_by_cursor_wins() -> None:
    first = part([{"id": 1, "v": 3}, {"id": 2, "v": 1}, {"id": 1, "v": 2}])
    second = part([{"id": 2, "v": 5}, {"id": 3, "v": None}, {"id": 3, "v": 0}])

    winners = winners_of([first, second], BY_ID)

    assert places(winners) == [(0, 0), (1, 0), (1, 2)]
    assert winners["_number"].to_pylist() == [0, 1, 2]


def test_of_equals_the_one_that_was_read_last_wins_whatever_the_clock_said() -> None:
    earlier, later = datetime(2026, 1, 1, 11, tzinfo=UTC), datetime(2026, 1, 1, 13, tzinfo=UTC)
    first = part([{"id": 1, "v": 1, EXTRACTED_AT: later}, {"id": 2, "v": 1}, {"id": 2, "v": 1, EXTRACTED_AT: earlier}])
    second = part([{"id": 1, "v": 1, RAW_ID: "0001", EXTRACTED_AT: earlier}])

    assert places(winners_of([first, second], BY_ID)) == [(1, 0), (0, 2)]
    assert places(winners_of([first, second], Identity(("id",)))) == [(1, 0), (0, 2)]


def test_a_row_whose_key_is_null_in_part_is_told_apart_by_all_that_it_holds() -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("w", pa.int64())])
    nothing = {"id": None, "v": None, "w": 1}
    rows = part([nothing, {"id": None, "v": "a"}, {"id": 0, "v": ""}, nothing, {**nothing, "w": 2}], schema)
    identity = Identity(("id", "v"))

    winners = winners_of([rows], identity)
    replaced, lost = superseded(compared(rows, identity), winners, 2)

    assert sorted(places(winners)) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert replaced.to_pylist() == [0, 1, 2, 3, 4]
    assert lost.to_pylist() == []


def test_a_cursor_without_a_column_is_found_with_the_rest_and_in_notes() -> None:
    note = {"changes": [{"field": "v", "change": "NULLED", "reason": "not a number", "original": "7"}]}
    rows = part([{"id": 1, ADDITIONAL: '{"v":8}'}, {"id": 1, META: note}, {"id": 1, "v": 6}, {"id": 1}])
    bare = rows.drop_columns(["v"])

    assert places(winners_of([rows], BY_ID)) == [(0, 0)]
    assert compared(rows, BY_ID)[CURSOR].to_pylist() == [8, 7, 6, None]
    assert compared(bare, BY_ID)[CURSOR].to_pylist() == [8, 7, None, None]


def test_ranks_of_one_file_are_compared_with_those_of_another_whatever_their_size() -> None:
    texts = pa.schema([("id", pa.int64()), ("v", pa.string())])
    small, large = part([{"id": 1, "v": "12"}], texts), part([{"id": 1, "v": str(2**70)}], texts)
    natural = Identity(("id",), CursorColumn("v", "v", NaturalOrder()))

    for identity in (BY_ID, natural):
        assert places(winners_of([large, small], identity)) == [(0, 0)]
        assert [len(one) for one in superseded(compared(large, identity), winners_of([small], identity), 1)] == [0, 1]
        assert [len(one) for one in superseded(compared(small, identity), winners_of([large], identity), 1)] == [1, 0]


def test_a_file_keeps_rows_that_are_newer_than_what_was_read() -> None:
    read = part([{"id": 1, "v": 2}, {"id": 2, "v": 2}, {"id": 3, "v": None}, {"id": 4, "v": 1}])
    there = part([{"id": 3, "v": 0}, {"id": 2, "v": 3}, {"id": 9, "v": 9}, {"id": 1, "v": 2}, {"id": 4}])

    replaced, lost = superseded(compared(there, BY_ID), winners_of([read], BY_ID), 1)

    assert replaced.to_pylist() == [0, 3, 4]
    assert lost.to_pylist() == [1]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["b", "a"]),
        (pa.bool_(), [True, False]),
        (pa.float64(), [1.5, 0.0]),
        (pa.date32(), [date(2026, 1, 1), date(1970, 1, 1)]),
        (TIMESTAMP_UTC, [NOON, datetime(1970, 1, 1, tzinfo=UTC)]),
        (pa.timestamp("us"), [datetime(2026, 1, 1), datetime(1970, 1, 1)]),  # noqa: DTZ001 - the type has no zone
        (pa.decimal128(38, 0), [Decimal(10**30), Decimal(0)]),
    ],
)
def test_every_scalar_type_can_be_a_key(kind: pa.DataType, values: list[Any]) -> None:
    identity = Identity(("id",))
    rows = part([{"id": value} for value in (*values, None, *values)], pa.schema([("id", kind)]))

    winners = winners_of([rows], identity)
    replaced, _ = superseded(compared(rows.slice(0, 3), identity), winners, 1)

    assert sorted(places(winners)) == [(0, 2), (0, 3), (0, 4)]
    assert replaced.to_pylist() == [0, 1, 2]


TEXTS = st.one_of(
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))])).map(datetime.isoformat),
    st.datetimes().map(lambda moment: f"{moment.isoformat()}Z"),
    st.dates().map(date.isoformat),
    st.sampled_from(["", "x", "0000-01-01T00:00:00Z", "2024-01-02T03:04Z", "2024-01-02T03:04:05.1234567Z", "20240102"]),
    st.none(),
)
FORMATS = [("%Y-%m-%dT%H:%M:%SZ",), (), ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%z"), ("%Y-%m-%dT%H:%M:%S.%fZ",), ("%Y",)]


@given(st.lists(TEXTS, min_size=1, max_size=4), st.sampled_from(FORMATS))
def test_the_ranks_of_a_column_are_those_of_its_values(texts: list[str | None], formats: tuple[str, ...]) -> None:
    order = TimestampOrder(formats)
    rows = part([{"id": 1, "v": text} for text in texts], pa.schema([("id", pa.int64()), ("v", pa.string())]))

    ranks = compared(rows, Identity(("id",), CursorColumn("v", "v", order)))[CURSOR].to_pylist()

    assert ranks == [None if text is None else order.rank(text) for text in texts]
