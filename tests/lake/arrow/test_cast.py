"""Rows of old files mean the same in the new schema."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.errors import BugError
from cdk.base.values import Json
from cdk.lake.arrow.cast import cast_batch, rounded_columns
from cdk.lake.arrow.columns import BIG_INTEGER, TIMESTAMP_NTZ, TIMESTAMP_UTC

INT, DOUBLE, TEXT, BOOL, DATE = pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32()
AT = datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
WALL = AT.replace(tzinfo=None)


def moved(values: list[Json], old: pa.DataType, new: pa.DataType) -> list[Json]:
    """The values of a column after it was widened; taken from the middle of a batch, as Parquet readers give them."""
    batch = pa.RecordBatch.from_arrays([pa.array([None, *values, None], old)], names=["a"])
    result = cast_batch(batch.slice(1, len(values)), pa.schema([("a", new)]))
    result.validate(full=True)
    assert result.schema.field("a").type == new
    found: list[Json] = result.column(0).to_pylist()
    return found


@pytest.mark.parametrize(
    ("old", "new", "values", "held"),
    [
        (pa.int32(), INT, [1, None], [1, None]),
        (INT, DOUBLE, [2**53, -(2**53), None], [2.0**53, -(2.0**53), None]),
        (INT, BIG_INTEGER, [-(2**63), 5], [Decimal(-(2**63)), Decimal(5)]),
        (INT, TEXT, [-(2**63), None], [str(-(2**63)), None]),
        (BOOL, TEXT, [True, False, None], ["true", "false", None]),
        (DOUBLE, TEXT, [1.0, 0.1, 1e22, -0.0, 5e-324], ["1", "0.1", f"{10**22}", "0", "5e-324"]),
        (DOUBLE, TEXT, [math.inf, -math.inf, math.nan, None], ["Infinity", "-Infinity", "NaN", None]),
        (BIG_INTEGER, TEXT, [Decimal(10**37), None], [str(10**37), None]),
        (pa.decimal128(10, 2), TEXT, [Decimal("1.50")], ["1.50"]),
        (DATE, TEXT, [date(2024, 1, 2), None], ["2024-01-02", None]),
        (DATE, TIMESTAMP_UTC, [date(2024, 1, 2)], [datetime(2024, 1, 2, tzinfo=UTC)]),
        (DATE, TIMESTAMP_NTZ, [date(2024, 1, 2)], [datetime(2024, 1, 2)]),  # noqa: DTZ001 - it has no zone
        (TIMESTAMP_UTC, TEXT, [AT, None], ["2024-01-02T03:04:05.000006Z", None]),
        (TIMESTAMP_NTZ, TEXT, [WALL, None], ["2024-01-02T03:04:05.000006", None]),
        (pa.list_(INT), pa.list_(TEXT), [[1, None], [], None, [2]], [["1", None], [], None, ["2"]]),
        (pa.list_(INT), TEXT, [[1, None], [], None], ["[1,null]", "[]", None]),
        (
            pa.struct([("a", INT)]),
            pa.struct([("a", DOUBLE), ("b", BOOL)]),
            [{"a": 1}, None, {"a": None}],
            [{"a": 1.0, "b": None}, None, {"a": None, "b": None}],
        ),
        (
            pa.list_(pa.struct([("a", INT)])),
            pa.list_(pa.struct([("b", BOOL), ("a", TEXT)])),
            [[{"a": 1}, None], None],
            [[{"b": None, "a": "1"}, None], None],
        ),
        (
            pa.struct([("at", pa.list_(TIMESTAMP_UTC)), ("d", DATE), ("n", BIG_INTEGER), ("f", DOUBLE), ("x", BOOL)]),
            TEXT,
            [{"at": [AT], "d": date(1, 1, 1), "n": Decimal(10**37), "f": math.nan, "x": None}, None],
            [f'{{"at":["2024-01-02T03:04:05.000006Z"],"d":"0001-01-01","n":{10**37},"f":"NaN","x":null}}', None],
        ),
    ],
)
def test_old_values_mean_the_same(old: pa.DataType, new: pa.DataType, values: list[Json], held: list[Json]) -> None:
    assert moved(values, old, new) == held


def test_moments_before_python_s_first_year_are_written_out() -> None:
    early = pa.array([-62_135_596_800_000_001], pa.int64()).cast(TIMESTAMP_UTC)
    batch = pa.RecordBatch.from_arrays([early, pa.StructArray.from_arrays([early], names=["at"])], names=["a", "b"])

    (row,) = cast_batch(batch, pa.schema([("a", TEXT), ("b", TEXT)])).to_pylist()

    assert row["a"] == "0000-12-31T23:59:59.999999Z"
    assert orjson.loads(row["b"]) == {"at": row["a"]}


@given(st.lists(st.none() | st.floats()))
def test_a_number_s_text_reads_back_the_same(values: list[float | None]) -> None:
    texts = moved(values, DOUBLE, TEXT)

    assert [None if text is None else repr(float(text)) for text in texts] == [
        # A string column has one spelling of 0.
        None if value is None else repr(value + 0.0)
        for value in values
    ]


def test_columns_come_in_the_order_of_the_schema_and_new_ones_are_null() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1], INT), "b": pa.array(["x"], TEXT)})

    result = cast_batch(batch, pa.schema([("b", TEXT), ("c", pa.list_(INT)), ("a", INT)]))

    assert result.to_pylist() == [{"b": "x", "c": None, "a": 1}]


def test_no_column_is_ever_dropped() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1], INT), "b": pa.array([1], INT)})

    with pytest.raises(BugError, match="columns b of a file are not in the schema"):
        cast_batch(batch, pa.schema([("a", INT)]))


@pytest.mark.parametrize(
    ("old", "new", "value", "fits"),
    [
        (INT, DOUBLE, 2**53, True),
        (INT, DOUBLE, -(2**53) - 1, False),
        (INT, DOUBLE, 2**53 + 2, False),
        (INT, DOUBLE, None, True),
        (INT, TEXT, 2**60, True),
        (INT, INT, 2**60, True),
        (pa.list_(INT), pa.list_(DOUBLE), [1, 2**60], False),
        (pa.struct([("x", INT)]), pa.struct([("y", DOUBLE), ("x", DOUBLE)]), {"x": 2**60}, False),
        (pa.struct([("x", INT)]), pa.struct([("y", DOUBLE), ("x", DOUBLE)]), {"x": 1}, True),
    ],
)
def test_numbers_that_a_double_would_round_are_found_before(
    old: pa.DataType,
    new: pa.DataType,
    value: Json,
    fits: bool,  # noqa: FBT001 - a table of cases
) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([0, 1], INT), pa.array([None, value], old)], names=["other", "a"])
    schema = pa.schema([("other", DOUBLE), ("a", new), ("new", INT)])

    assert rounded_columns(batch, schema) == (frozenset() if fits else {"a"})
    if fits:
        assert cast_batch(batch, schema).num_rows == 2
    else:
        with pytest.raises(BugError, match=r"column 'a' cannot be widened from .*int64"):
            cast_batch(batch, schema)
