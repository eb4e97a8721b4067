import re
from datetime import UTC, datetime, timedelta

import pytest

from cdk.base.values import Json
from cdk.compat.airbyte.custom_object import running
from cdk.compat.airbyte.datetimes import (
    AirbyteDateTime,
    DatetimeParser,
    ab_datetime_format,
    ab_datetime_parse,
    ab_datetime_try_parse,
)
from cdk.declarative.model.context import Runtime


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        ("1700000000", "2023-11-14T22:13:20+00:00"),
        ("2024-01-01", "2024-01-01T00:00:00+00:00"),
        ("2024-01-01T00:00:00+0200", "2024-01-01T00:00:00+02:00"),
        ("2024-01-01 10:00:00.123", "2024-01-01T10:00:00.123000+00:00"),
        ("01/02/2024", "2024-01-02T00:00:00+00:00"),
        ("13/02/2024", "2024-02-13T00:00:00+00:00"),
        ("1/2/2024 3:04:05", "2024-01-02T03:04:05+00:00"),
        ("2024/01/02", "2024-01-02T00:00:00+00:00"),
        ("2024-1-2", "2024-01-02T00:00:00+00:00"),
        ("2024-01-02T03:04:05 UTC", "2024-01-02T03:04:05+00:00"),
        ("2024-01-02 03:04:05 GMT", "2024-01-02T03:04:05+00:00"),
        ("2024-01-02T03:04:05z", "2024-01-02T03:04:05+00:00"),
    ],
)
def test_moments_are_read_as_existing_connectors_expect(value: Json, text: str) -> None:
    moment = ab_datetime_parse(value)

    assert (str(moment), ab_datetime_format(moment)) == (text, text)


@pytest.mark.parametrize(("today", "day"), [("2026-05-07", 7), ("2026-05-31", 29)])
def test_a_month_is_filled_up_with_the_day_of_today(today: str, day: int) -> None:
    with running(Runtime(clock=lambda: datetime.fromisoformat(f"{today}T10:00:00+00:00"))):
        assert ab_datetime_parse("2024-02") == datetime(2024, 2, day, tzinfo=UTC)


@pytest.mark.parametrize(
    "value", [1.5, -5, "-5", 12345678901, "1700000000000", "2024-13-01", "2024-02-30", "13/13/2024", "2024-13", None]
)
def test_what_existing_connectors_expect_to_be_refused_is_refused(value: Json) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(value))):
        ab_datetime_parse(value)


def test_what_is_no_moment_is_said() -> None:
    assert ab_datetime_try_parse("soon") is None
    with pytest.raises(ValueError, match="'soon'"):
        ab_datetime_parse("soon")


def test_moments_are_counted_with() -> None:
    moment = AirbyteDateTime(2024, 1, 1)

    assert moment.to_datetime() == datetime(2024, 1, 1, tzinfo=UTC)
    assert str(moment + timedelta(days=1)) == "2024-01-02T00:00:00+00:00"
    assert AirbyteDateTime.from_epoch_millis(moment.to_epoch_millis()) == moment


def test_formats_of_manifests_are_known() -> None:
    moment = AirbyteDateTime(2024, 1, 1)

    assert DatetimeParser().format(moment, "%ms") == "1704067200000"
    assert DatetimeParser().parse("2024/01/01", "%Y/%m/%d") == moment


def test_a_moment_is_written_in_its_own_zone() -> None:
    moment = ab_datetime_parse("2024-01-02T01:00:00.123456+02:00")

    written = [DatetimeParser().format(moment, pattern) for pattern in ("%Y-%m-%d", "%H:%M:%S.%_ms%z", "%s")]

    assert written == ["2024-01-02", "01:00:00.123+0200", "1704150000"]
