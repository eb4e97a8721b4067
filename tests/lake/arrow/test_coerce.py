"""A value is in its column as it is, or noted as it was."""

import math
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from uuid import UUID

import pyarrow as pa
import pytest

from cdk.base.values import Json, NotJson
from cdk.lake.arrow.coerce import Change, coerce_value
from cdk.lake.arrow.columns import BIG_INTEGER, JSON_TEXT, TIMESTAMP_NTZ, ColumnType

DATE = pa.date32()


def fitted(value: Json, kind: ColumnType) -> tuple[Json, list[Change]]:
    noted: list[Change] = []
    held = coerce_value(value, kind, "a", noted)
    assert pa.array([held], pa.string() if kind is JSON_TEXT else kind).to_pylist() == [held]
    return held, noted


@pytest.mark.parametrize(
    ("value", "kind", "held"),
    [
        ("2024-02-29", DATE, date(2024, 2, 29)),
        ("0001-01-01", DATE, date(1, 1, 1)),
        ("2024-01-02T03:04:05", TIMESTAMP_NTZ, datetime(2024, 1, 2, 3, 4, 5)),  # noqa: DTZ001 - it has no zone
        ("2024-01-02 03:04:05.5", TIMESTAMP_NTZ, datetime(2024, 1, 2, 3, 4, 5, 500000)),  # noqa: DTZ001 - it has no zone
        ("2024-01-02", TIMESTAMP_NTZ, datetime(2024, 1, 2)),  # noqa: DTZ001 - it has no zone
        (5, BIG_INTEGER, Decimal(5)),
        (2**64, BIG_INTEGER, Decimal(2**64)),
        (1e22, BIG_INTEGER, Decimal(10**22)),
        (1e23, BIG_INTEGER, Decimal(10**23)),
        (1.2345678901234568e18, pa.int64(), 1234567890123456800),
        ("-" + "9" * 38, BIG_INTEGER, Decimal(1 - 10**38)),
        ("+007", BIG_INTEGER, Decimal(7)),
        ("0" * 5000 + "1", BIG_INTEGER, Decimal(1)),
        (None, BIG_INTEGER, None),
        (-128, pa.int8(), -128),
        (UUID(int=1), pa.string(), "00000000-0000-0000-0000-000000000001"),
        (UUID(int=1), JSON_TEXT, '"00000000-0000-0000-0000-000000000001"'),
        (date(2024, 1, 2), DATE, date(2024, 1, 2)),
        ((1, 2), pa.list_(pa.int64()), [1, 2]),
        (MappingProxyType({"b": (1,)}), pa.struct([("b", pa.list_(pa.int64()))]), {"b": [1]}),
    ],
)
def test_a_value_that_fits_has_no_note(value: Json, kind: ColumnType, held: Json) -> None:
    assert fitted(value, kind) == (held, [])


@pytest.mark.parametrize(
    ("value", "kind", "reason", "original"),
    [
        ("20240102", DATE, "not a date", "20240102"),
        ("2024-02-30", DATE, "not a date", "2024-02-30"),
        ("0000-01-01", DATE, "not a date", "0000-01-01"),
        ("2024-01-02T03:04:05Z", DATE, "not a date", "2024-01-02T03:04:05Z"),
        (19724, DATE, "not a date", "19724"),
        ("noon", TIMESTAMP_NTZ, "not a date-time", "noon"),
        (0, TIMESTAMP_NTZ, "not a date-time", "0"),
        (10**38, BIG_INTEGER, "more than 38 digits", str(10**38)),
        ("1" + "0" * 5000, BIG_INTEGER, "more than 38 digits", "1" + "0" * 5000),
        (1e300, BIG_INTEGER, "more than 38 digits", "1e+300"),
        (1.5, BIG_INTEGER, "not an integer", "1.5"),
        ("1.0", BIG_INTEGER, "not a number", "1.0"),
        ("٣", BIG_INTEGER, "not a number", "٣"),
        (True, BIG_INTEGER, "not a number", "true"),
        (math.nan, BIG_INTEGER, "not an integer", "NaN"),
        ([1], BIG_INTEGER, "not a number", "[1]"),
        (128, pa.int8(), "more than 8 bits", "128"),
        (-9.223372036854776e18, pa.int64(), "more than 64 bits", "-9223372036854776000"),
    ],
)
def test_a_value_that_does_not_fit_is_null_and_noted(value: Json, kind: ColumnType, reason: str, original: str) -> None:
    assert fitted(value, kind) == (None, [{"field": "a", "change": "NULLED", "reason": reason, "original": original}])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2024-01-02T03:04:05Z", "a zone, which the column does not store"),
        ("2024-01-02T03:04:05.000000001+02:00", "a zone, which the column does not store"),
        ("2024-01-02T03:04:05.000000001", "finer than microseconds"),
    ],
)
def test_a_local_time_is_what_the_clock_shows_and_the_rest_is_noted(text: str, reason: str) -> None:
    shows = datetime(2024, 1, 2, 3, 4, 5)  # noqa: DTZ001 - it has no zone
    note = {"field": "a", "change": "TRUNCATED", "reason": reason, "original": text}

    assert fitted(text, TIMESTAMP_NTZ) == (shows, [note])


@pytest.mark.parametrize("value", [b"\xff", {"a": [1j]}, {1, 2}])
def test_what_is_not_made_of_json_is_refused(value: object) -> None:
    with pytest.raises(NotJson, match="JSON cannot hold"):
        coerce_value(value, JSON_TEXT, "a", [])
