from datetime import UTC, datetime, timedelta

import pytest

from cdk.base.values import Json
from cdk.compat.airbyte.datetimes import (
    AirbyteDateTime,
    DatetimeParser,
    ab_datetime_format,
    ab_datetime_parse,
    ab_datetime_try_parse,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        ("1700000000", "2023-11-14T22:13:20+00:00"),
        ("2024-01-01", "2024-01-01T00:00:00+00:00"),
        ("2024-01-01T00:00:00+0200", "2024-01-01T00:00:00+02:00"),
        ("2024-01-01 10:00:00.123", "2024-01-01T10:00:00.123000+00:00"),
    ],
)
def test_moments_are_read_as_existing_connectors_expect(value: Json, text: str) -> None:
    moment = ab_datetime_parse(value)

    assert (str(moment), ab_datetime_format(moment)) == (text, text)


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
