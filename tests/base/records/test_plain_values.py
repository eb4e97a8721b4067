"""What Python's values are in JSON: the slow way says what the fast one does."""

import json
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, StrEnum
from types import MappingProxyType
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.records.plain_values import json_of, plain
from cdk.base.values import Json, NotJson

Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - as old code has it


class Day(datetime):
    """A moment of a class of its own, as data frames have."""


class Suit(StrEnum):
    """A text with a name."""

    HEARTS = "h"


class Level(Enum):
    """A value with a name."""

    LOW = Decimal("1.5")


@dataclass
class Point:
    """An object."""

    x: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2024, 1, 2, tzinfo=UTC), "2024-01-02T00:00:00+00:00"),
        (datetime(2024, 1, 2), "2024-01-02T00:00:00"),  # noqa: DTZ001 - it has no zone
        (Day(2024, 1, 2, tzinfo=UTC), "2024-01-02T00:00:00+00:00"),
        (date(2024, 1, 2), "2024-01-02"),
        (time(1, 2, 3), "01:02:03"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Suit.HEARTS, "h"),
        (Level.LOW, Decimal("1.5")),
        (Pair(1, 2), [1, 2]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Point(1), {"x": 1}),
        (Decimal("1.10"), Decimal("1.10")),
        (2**80, 2**80),
        (None, None),
    ],
)
def test_a_value_of_python_is_one_of_json(value: Json, expected: Json) -> None:
    assert (plain(value), type(plain(value))) == (expected, type(expected))


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("-Infinity"), Decimal("sNaN")])
def test_a_decimal_that_is_no_number_is_a_float_that_is_none(value: Decimal) -> None:
    assert repr(plain(value)) in {"nan", "-inf"}


@pytest.mark.parametrize("value", [{1, 2}, 1j, b"x", object()])
def test_what_json_has_nothing_like_is_refused_with_its_place(value: Json) -> None:
    with pytest.raises(NotJson, match=type(value).__name__):
        plain(value)
    with pytest.raises(NotJson, match=r"field at\.a\[1\]\.b holds a"):
        json_of({"a": [0, {"b": value}]}, "at")
    with pytest.raises(NotJson, match=r"^found a"):
        json_of(value)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.uuids()
    | st.just(Suit.HEARTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_the_slow_way_says_what_the_fast_one_does(value: Json) -> None:
    assert json.loads(json_of([value, Decimal(0), (1,)])) == [*orjson.loads(orjson.dumps([value])), 0, [1]]


def test_a_number_keeps_its_digits_and_what_is_none_has_a_word() -> None:
    assert json_of([Decimal("1.10"), 2**80, "\ud800"]) == f'[1.10,{2**80},"\\ud800"]'
    assert json_of([Decimal(1), float("nan"), float("-inf")]) == "[1,NaN,-Infinity]"
    assert json_of([Decimal(1), float("nan")], special="null") == "[1,null]"
    assert json_of([float("nan")], special="null") == "[null]"
