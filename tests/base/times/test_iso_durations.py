from datetime import UTC, date, datetime, timedelta

import pytest

from cdk.base.times.iso_durations import CalendarDuration, earlier, later, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1D", timedelta(days=1)),
        ("PT1H30M", timedelta(minutes=90)),
        ("PT0.5S", timedelta(milliseconds=500)),
        ("P2W", timedelta(weeks=2)),
        ("-P1D", timedelta(days=-1)),
        ("P1M", CalendarDuration(1)),
        ("P1Y2M3DT4H", CalendarDuration(14, timedelta(days=3, hours=4))),
    ],
)
def test_iso_durations_are_read(text: str, expected: timedelta | CalendarDuration) -> None:
    assert expected == parse_duration(text)


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1", "1D", "P1DT", "one day", "P1H", "P9999999999D", f"P{'9' * 400}Y", "P0.5M"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ISO 8601 duration"):
        parse_duration(text)


def test_months_end_with_the_month() -> None:
    month = parse_duration("P1M")

    assert datetime(2024, 2, 29, tzinfo=UTC) == datetime(2024, 1, 31, tzinfo=UTC) + month
    assert date(2023, 12, 31) == date(2024, 1, 31) - month
    assert date(2023, 12, 31) == date(2024, 1, 31) + parse_duration("-P1M")


def test_a_duration_is_written_in_words() -> None:
    assert str(parse_duration("P1Y2M3D")) == "1 year, 2 months, 3 days, 0:00:00"


def test_durations_are_added_within_the_calendar() -> None:
    now = datetime(2024, 1, 10, tzinfo=UTC)

    assert later(now, timedelta(days=4_000_000)) == datetime.max.replace(tzinfo=UTC)
    assert earlier(now, timedelta(days=4_000_000)) == datetime.min.replace(tzinfo=UTC)
    assert later(now, parse_duration("P1M")) == datetime(2024, 2, 10, tzinfo=UTC)
