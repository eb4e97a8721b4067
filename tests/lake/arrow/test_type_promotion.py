import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.lake.arrow.columns import BIG_INTEGER, TIMESTAMP_NTZ, TIMESTAMP_UTC
from cdk.lake.arrow.type_promotion import common_type, only_gains, writable

INT, DOUBLE, TEXT, BOOL, DATE = pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32()
A, AB = pa.struct([("a", INT)]), pa.struct([("a", INT), ("b", TEXT)])


@pytest.mark.parametrize(
    ("old", "new", "hold"),
    [
        (INT, DOUBLE, DOUBLE),
        (DOUBLE, INT, DOUBLE),
        (pa.int32(), INT, INT),
        (INT, pa.int32(), INT),
        (pa.int32(), DOUBLE, DOUBLE),
        (pa.float32(), DOUBLE, DOUBLE),
        (INT, BIG_INTEGER, BIG_INTEGER),
        (BIG_INTEGER, INT, BIG_INTEGER),
        (BIG_INTEGER, DOUBLE, TEXT),
        (DOUBLE, BIG_INTEGER, TEXT),
        (INT, TEXT, TEXT),
        (INT, BOOL, TEXT),
        (TEXT, INT, TEXT),
        (TEXT, A, TEXT),
        (BOOL, INT, TEXT),
        (DATE, TIMESTAMP_UTC, TIMESTAMP_UTC),
        (TIMESTAMP_UTC, DATE, TIMESTAMP_UTC),
        (DATE, TIMESTAMP_NTZ, TIMESTAMP_NTZ),
        (TIMESTAMP_UTC, TIMESTAMP_NTZ, TEXT),
        (DATE, INT, TEXT),
        (pa.decimal128(10, 2), DOUBLE, TEXT),
        (A, AB, AB),
        (AB, A, AB),
        (A, pa.struct([("c", BOOL), ("a", DOUBLE)]), pa.struct([("a", DOUBLE), ("c", BOOL)])),
        (A, pa.struct([("A", INT)]), TEXT),
        (A, INT, TEXT),
        (pa.list_(A), pa.list_(AB), pa.list_(AB)),
        (pa.list_(INT), pa.list_(TEXT), pa.list_(TEXT)),
        (pa.list_(INT), INT, TEXT),
        (pa.struct([("a", A)]), pa.struct([("a", AB)]), pa.struct([("a", AB)])),
        (pa.binary(), TEXT, None),
        (pa.list_(pa.binary()), pa.list_(TEXT), None),
        (pa.struct([("a", pa.binary())]), A, None),
        (pa.struct([("a", pa.binary())]), TEXT, None),
    ],
)
def test_the_type_that_holds_both(old: pa.DataType, new: pa.DataType, hold: pa.DataType | None) -> None:
    assert common_type(old, new) == hold


@pytest.mark.parametrize(
    ("old", "new", "hold"),
    [
        (INT, DOUBLE, TEXT),
        (pa.int32(), DOUBLE, DOUBLE),
        (pa.struct([("a", INT)]), pa.struct([("a", DOUBLE)]), pa.struct([("a", TEXT)])),
        (pa.list_(INT), pa.list_(DOUBLE), pa.list_(TEXT)),
    ],
)
def test_whole_numbers_that_a_double_rounds_become_text(old: pa.DataType, new: pa.DataType, hold: pa.DataType) -> None:
    assert common_type(old, new, exact=True) == hold


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (A, True),
        (pa.list_(BIG_INTEGER), True),
        (pa.int8(), True),
        (pa.float32(), False),
        (pa.decimal128(10, 2), False),
        (pa.list_(pa.binary()), False),
        (pa.struct([("a", INT), ("b", pa.timestamp("ns"))]), False),
    ],
)
def test_types_that_the_kit_writes(kind: pa.DataType, known: bool) -> None:  # noqa: FBT001 - a table of cases
    assert writable(kind) == known


@pytest.mark.parametrize(
    ("old", "new", "gains"),
    [
        (A, AB, True),
        (pa.list_(A), pa.list_(AB), True),
        (pa.struct([("x", A)]), pa.struct([("x", AB), ("y", INT)]), True),
        (AB, A, False),
        (A, pa.struct([("a", DOUBLE), ("b", TEXT)]), False),
        (INT, DOUBLE, False),
    ],
)
def test_only_structs_gain(old: pa.DataType, new: pa.DataType, gains: bool) -> None:  # noqa: FBT001 - a table of cases
    assert only_gains(old, new) == gains


KINDS = st.recursive(
    st.sampled_from([INT, DOUBLE, TEXT, BOOL, DATE, TIMESTAMP_UTC, TIMESTAMP_NTZ, BIG_INTEGER, pa.int32()]),
    lambda inner: (
        inner.map(pa.list_)
        | st.dictionaries(st.sampled_from("abcA"), inner, min_size=1, max_size=3).map(lambda d: pa.struct(d.items()))
    ),
    max_leaves=5,
)


@given(KINDS, KINDS)
def test_a_wider_type_is_reached_in_one_step(old: pa.DataType, new: pa.DataType) -> None:
    hold = common_type(old, new)

    assert hold is not None
    assert (common_type(hold, new), common_type(hold, old), writable(hold)) == (hold, hold, True)
