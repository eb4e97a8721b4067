"""The type of values that nobody has described: of all of them, in whatever order; a text is a text."""

from collections.abc import Sequence
from decimal import Decimal
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.records.inferred import JsonType, inferred_schema, inferred_type
from cdk.base.values import Json, as_object


class Size(Enum):
    S = 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([None, None], None),
        ([True, None], "boolean"),
        ([True, 1], "mixed"),
        ([1, -(2**63), 2**63 - 1], "integer"),
        ([2**63], "mixed"),
        ([1.0], "number"),
        ([1, 0.5, float("nan")], "number"),
        ([2**53, 0.5, -(2**53)], "number"),
        ([2**53 + 1, 0.5], "mixed"),
        ([0.5, -(2**53) - 1], "mixed"),
        (["1", "2024-01-01", "2024-01-01T00:00:00Z", "true", "", None], "string"),
        (["a", 1], "mixed"),
        ([{}, {"a": 1}], "object"),
        ([[], [1]], "array"),
        ([[], {}], "mixed"),
        ([(1, 2)], "array"),
        ([Size.S], "integer"),
        ([Decimal(5), Decimal("1.25")], "number"),
        ([Decimal(-5)], "integer"),
        ([Decimal("0.12345678901234567890"), 0.5], "mixed"),
        ([Decimal(10) ** 50], "mixed"),
        ([Decimal("NaN")], "number"),
    ],
)
def test_the_narrowest_type_that_holds_all_values(values: Sequence[Json], expected: JsonType | None) -> None:
    assert inferred_type(values) == expected


@given(st.lists(st.sampled_from([None, True, 1, 2**60, 2**70, 0.5, "a", {}, []]), max_size=5), st.randoms())
def test_the_order_of_the_values_changes_nothing(values: list[Json], random: object) -> None:
    shuffled = sorted(values, key=lambda _: random.random())  # type: ignore[attr-defined] # what Hypothesis gives

    assert inferred_type(shuffled) == inferred_type(values)


@pytest.mark.parametrize(
    ("values", "format"),
    [
        (["2024-01-31", None, "1999-12-01"], "date"),
        (["2024-01-31T10:00:00Z", "2024-01-31T10:00:00.123456+00:00", None], "date-time"),
        (["2024-02-31"], None),
        (["2024-01-31", "2024-01-31T10:00:00Z"], None),
        (["2024-01-31T10:00:00"], None),
        (["2024-01-31T10:00:00+02:00"], None),
        (["2024-01-31T10:00:00.1234567Z"], None),
        (["2024-01-31T10:00:00Z", "never"], None),
        (["2024-01-31", 3], None),
        ([20240131], None),
    ],
)
def test_texts_that_a_column_of_timestamps_holds_without_loss_have_a_format(
    values: list[object], format: str | None
) -> None:
    schema = inferred_schema([{"at": value} for value in values])

    assert as_object(schema["at"]).get("format") == format
