"""An order ranks values as what they mean, however they are written, and every cursor has one."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import CountCursor, DatetimeCursor, Json
from cdk.streams.order import CountOrder, NaturalOrder, Order, TimestampOrder, json_value

START = datetime(2020, 1, 1, tzinfo=UTC)
ISO = TimestampOrder(("%Y-%m-%dT%H:%M:%SZ",))
ALIKE: list[tuple[Order, list[Json]]] = [
    (CountOrder(), [12, "12", 12.0, "12.0", Decimal(12), " 12 ", "1.2e1"]),
    (CountOrder(), [2**70, str(2**70), Decimal(2**70)]),
    (ISO, ["2024-01-02T12:00:00Z", "2024-01-02T12:00:00.000Z", "2024-01-02T13:00:00+01:00", "2024-01-02T12:00:00"]),
    (ISO, ["2024-01-02", datetime(2024, 1, 2, tzinfo=UTC), "2024-01-01T23:00:00-01:00", date(2024, 1, 2)]),
    (TimestampOrder(("%s",)), [1704153600, "1704153600", 1704153600.0, "2024-01-02", Decimal(1704153600)]),
    (TimestampOrder(("%m/%d/%Y",)), ["01/02/2024", "2024-01-02"]),
    (NaturalOrder(), [12, "12", 12.0, "12.0", Decimal(12)]),
    (NaturalOrder(), [0.1, "0.1", Decimal("0.1")]),
    (NaturalOrder(), ["2024-01-02T12:00:00Z", "2024-01-02T13:00:00+01:00"]),
]
ASCENDING: list[tuple[Order, list[Json]]] = [
    (CountOrder(), [-(2**70), "-5", 0, 8, "9", 10, "12", 2**64, str(2**70)]),
    (
        ISO,
        ["0001-01-01", "2024-01-02T12:00:00Z", "2024-01-02T12:00:00.500Z", "2024-03-31T02:30:00+01:00", "9999-12-31"],
    ),
    (TimestampOrder(("%m/%d/%Y",)), ["12/31/2023", "01/02/2024", "02/01/2024"]),
    (TimestampOrder(("%ms",)), ["99", "100", 1000]),
    (
        NaturalOrder(),
        ["", "a", "b", "ba", -1e300, "-2", -1.51, "-1.5", "-0.1", 0, "1e-300", 9, "10", 2**70, "2024-01-02"],
    ),
]
UNREADABLE: list[tuple[Order, list[Json]]] = [
    (CountOrder(), [None, "x", 1.5, "1.5", True, [1], {"a": 1}, "", float("nan"), "1e999999", b"1", START]),
    (ISO, [None, "x", 5, True, [], {}, "2024-13-01", float("inf"), b"1"]),
    (NaturalOrder(), [None, True, [1], {"a": 1}, float("nan"), b"1"]),
]  # fmt: skip


@pytest.mark.parametrize(("order", "values"), ALIKE)
def test_values_that_mean_the_same_are_equals(order: Order, values: list[Json]) -> None:
    ranks = set(map(order.rank, values))

    assert len(ranks) == 1
    assert None not in ranks


@pytest.mark.parametrize(("order", "values"), ASCENDING)
def test_a_greater_value_has_a_greater_rank(order: Order, values: list[Json]) -> None:
    ranks = list(map(order.rank, values))

    assert ranks == sorted(set(ranks), key=lambda rank: (rank is not None, rank))


@pytest.mark.parametrize(("order", "values"), UNREADABLE)
def test_what_cannot_be_read_has_no_rank(order: Order, values: list[Json]) -> None:
    assert list(map(order.rank, values)) == [None] * len(values)


NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.decimals(-(10**30), 10**30)


@given(NUMBERS, NUMBERS)
def test_numbers_without_a_cursor_of_their_own_are_ordered_as_numbers(one: Json, other: Json) -> None:
    def exact(number: Json) -> Fraction:
        return Fraction(str(number) if isinstance(number, float) else number)

    first, second = (NaturalOrder().rank(value) for value in (one, other))

    assert isinstance(first, bytes)
    assert isinstance(second, bytes)
    assert (first < second, first == second) == (exact(one) < exact(other), exact(one) == exact(other))


@given(st.lists(st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)), min_size=1))  # noqa: DTZ001 - UTC below
def test_the_greatest_value_of_a_cursor_is_the_one_of_the_greatest_rank(found: list[datetime]) -> None:
    cursor = DatetimeCursor("at", start=START)
    moments = [moment.replace(tzinfo=UTC) for moment in found]
    texts = [(moment + timedelta(0)).isoformat() for moment in moments]

    assert cursor.greatest(texts) == max(moments).isoformat()
    assert cursor.greatest(moments) == max(moments).isoformat()


def test_values_of_python_are_kept_as_states_can_hold_them() -> None:
    assert [json_value(one) for one in (Decimal(5), Decimal("1.5"), START, "x", b"x")] == [
        5,
        "1.5",
        "2020-01-01T00:00:00+00:00",
        "x",
        b"x",
    ]
    assert CountCursor("n").greatest([Decimal(3), 2]) == 3
