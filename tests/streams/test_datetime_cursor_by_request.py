"""Cursors whose source decides what a window holds, as manifests build them: windows, and values in one format."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from cdk import BadState, CountCursor, DatetimeCursor, Json, Window
from cdk.base.times.iso_durations import parse_duration
from cdk.streams.cursor import Side
from cdk.streams.datetime_cursor import Clamping

NOW = datetime(2024, 1, 10, tzinfo=UTC)


def cursor(
    pattern: str = "%Y-%m-%d",
    *,
    formats: Iterable[str] = (),
    start: datetime = datetime(2024, 1, 1, tzinfo=UTC),
    end: datetime | None = None,
    step: str = "",
    granularity: str = "",
    lookback: str = "",
    strictly: bool = False,
    clamping: Clamping | None = None,
) -> DatetimeCursor:
    return DatetimeCursor(
        "on",
        formats=list(formats) or [pattern],
        state_format=pattern,
        start=lambda: start,
        end=None if end is None else lambda _: end,
        step=parse_duration(step) if step else None,
        granularity=parse_duration(granularity) if granularity else None,
        lookback=parse_duration(lookback) if lookback else timedelta(),
        by_request=True,
        rereads_edge=bool(granularity) and not strictly,
        clamping=clamping,
    )


def asked(windows: Iterable[Window]) -> list[tuple[Json, Json]]:
    return [(window.start, window.end) for window in windows]


def days(windows: Iterable[Window]) -> list[str]:
    return [f"{start[5:]}..{end[5:]}" for start, end in asked(windows)]


BY_THREE: dict[str, Any] = {"step": "P3D", "granularity": "P1D"}


@pytest.mark.parametrize(
    ("options", "state", "windows"),
    [
        ({}, None, ["01-01..01-10"]),
        (BY_THREE, None, ["01-01..01-03", "01-04..01-06", "01-07..01-10"]),
        ({"step": "P3D"}, None, ["01-01..01-04", "01-04..01-07", "01-07..01-10"]),
        ({}, "2024-01-05", ["01-05..01-10"]),
        ({"lookback": "P2D"}, "2024-01-05", ["01-03..01-10"]),
        ({"lookback": "P1M"}, "2024-01-05", ["01-01..01-10"]),
        ({"lookback": "P2D"}, None, ["01-01..01-10"]),
        ({}, "2023-06-01", ["01-01..01-10"]),
        ({}, "2024-01-10", []),
        (BY_THREE, "2024-01-10", ["01-10..01-10"]),
        ({**BY_THREE, "strictly": True}, "2024-01-10", []),
        ({}, "2024-01-11", []),
        (BY_THREE, "2024-01-11", []),
        ({"lookback": "P3D"}, "2024-01-11", ["01-08..01-10"]),
        ({"end": datetime(2024, 1, 4, tzinfo=UTC)}, None, ["01-01..01-04"]),
        ({"end": datetime(2024, 2, 1, tzinfo=UTC)}, None, ["01-01..02-01"]),
        ({"step": "P30D", "granularity": "P1D"}, None, ["01-01..01-10"]),
    ],
)
def test_windows_are_those_of_existing_connectors(options: dict[str, Any], state: Json, windows: list[str]) -> None:
    assert windows == days(cursor(**options).windows(state, NOW))


def test_a_step_of_a_month_ends_where_the_month_does() -> None:
    end = datetime(2024, 4, 15, tzinfo=UTC)
    found = cursor(start=datetime(2024, 1, 31, tzinfo=UTC), end=end, step="P1M", granularity="P1D")

    assert days(found.windows(None, NOW)) == ["01-31..02-28", "02-29..03-28", "03-29..04-15"]


@pytest.mark.parametrize(
    ("clamping", "step", "windows"),
    [
        (Clamping("DAY"), "P3D", ["01-04..01-06", "01-07..01-09", "01-10..01-12", "01-13..01-15", "01-16..01-18"]),
        (Clamping("WEEK", 0), "P1W", ["01-08..01-14"]),
        (Clamping("WEEK", 6), "P1W", ["01-07..01-13"]),
        (Clamping("MONTH"), "P1M", []),
    ],
)
def test_windows_are_cut_where_periods_begin(clamping: Clamping, step: str, windows: list[str]) -> None:
    start, end = datetime(2024, 1, 3, 12, tzinfo=UTC), datetime(2024, 1, 19, 8, tzinfo=UTC)
    found = list(cursor(start=start, end=end, step=step, granularity="P1D", clamping=clamping).windows(None, NOW))

    assert windows == days(found)


def test_whole_months_are_asked_for() -> None:
    start, end = datetime(2023, 11, 5, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)
    found = cursor(start=start, end=end, step="P1M", granularity="P1D", clamping=Clamping("MONTH"))

    assert days(found.windows(None, NOW)) == ["12-01..12-31", "01-01..01-31", "02-01..02-29"]


@pytest.mark.parametrize(("target", "at"), [("DAY", "2024-01-03"), ("WEEK", "2024-01-01"), ("MONTH", "2024-01-01")])
def test_a_period_begins_where_it_begins(target: Literal["DAY", "WEEK", "MONTH"], at: str) -> None:
    begun = Clamping(target).floor(datetime(2024, 1, 3, 5, tzinfo=UTC))

    assert begun == datetime.fromisoformat(at).replace(tzinfo=UTC)
    assert Clamping(target).ceil(begun) == Clamping(target).floor(begun) == begun


@pytest.mark.parametrize(
    ("pattern", "start", "end"),
    [
        ("%s", "1704067200", "1704844800"),
        ("%ms", "1704067200000", "1704844800000"),
        ("%Y-%m-%dT%H:%M:%S.%_msZ", "2024-01-01T00:00:00.000Z", "2024-01-10T00:00:00.000Z"),
        ("%d/%m/%Y", "01/01/2024", "10/01/2024"),
    ],
)
def test_ends_of_windows_are_texts_in_the_format(pattern: str, start: str, end: str) -> None:
    assert asked(cursor(pattern).windows(None, NOW)) == [(start, end)]
    assert cursor(pattern).start == start


@pytest.mark.parametrize("state", [1704412800, "1704412800", "2024-01-05T00:00:00Z"])
def test_a_state_may_be_written_in_any_way_that_is_known(state: Json) -> None:
    assert asked(cursor("%s").windows(state, NOW)) == [("1704412800", "1704844800")]


def test_a_state_that_is_no_moment_is_told() -> None:
    with pytest.raises(BadState, match=r"state\.on"):
        list(cursor().windows("soon", NOW))


def test_a_gap_ends_a_granule_before_the_window_behind_it() -> None:
    found = list(cursor(**BY_THREE, lookback="P1D").windows("2024-01-03", NOW, upto="2024-01-09", again=False))

    assert days(found) == ["01-03..01-05", "01-06..01-08"]
    assert [window.last for window in found] == [False, False]


def test_windows_finer_than_the_format_are_told_apart() -> None:
    found = list(cursor(step="PT8H", end=datetime(2024, 1, 2, tzinfo=UTC)).windows(None, NOW))

    assert len({window.until for window in found}) == len(found) == 3


@pytest.mark.parametrize(
    ("options", "values", "greatest"),
    [
        ({}, ["2024-01-02", "2024-01-10", "2024-01-09"], "2024-01-10"),
        ({"pattern": "%d/%m/%Y"}, ["31/01/2024", "01/02/2024"], "01/02/2024"),
        ({"pattern": "%s"}, ["999999999", 1704067200], "1704067200"),
        ({"formats": ["%d.%m.%Y", "%Y"]}, ["03.01.2024", "2024"], "2024-01-03"),
        ({}, ["never", None, "2024-01-02"], "2024-01-02"),
        ({}, ["never"], None),
        ({}, [], None),
        (
            {"pattern": "%Y-%m-%dT%H:%M:%SZ"},
            ["2024-01-02T10:00:00Z", "2024-01-02T09:00:00-05:00"],
            "2024-01-02T14:00:00Z",
        ),
        ({"pattern": "%Y-%m-%dT%H:%M:%SZ"}, ["2024-01-02T10:00:00Z", "2024-01-03T09:00:00Z"], "2024-01-03T09:00:00Z"),
    ],
)
def test_the_greatest_value_is_the_latest_moment(options: dict[str, Any], values: list[Json], greatest: Json) -> None:
    assert greatest == cursor(**options).greatest_of_records(values)


FIRST, LAST = (
    Window("2024-01-01", "2024-01-03", "2024-01-04", last=False),
    Window("2024-01-07", "2024-01-10", "2024-01-10"),
)


@pytest.mark.parametrize(
    ("window", "greatest", "before", "reached"),
    [
        (FIRST, None, None, "2024-01-01"),
        (FIRST, None, "2024-01-02", "2024-01-02"),
        (FIRST, "2024-01-03", None, "2024-01-03"),
        (FIRST, "2023-01-03", None, "2024-01-01"),
        (FIRST, "2024-01-08", "2024-01-08", "2024-01-08"),
        (LAST, "2024-01-10", None, "2024-01-10"),
    ],
)
def test_the_cursor_follows_the_greatest_value_from_its_start_on(
    window: Window, greatest: Json, before: Json, reached: Json
) -> None:
    assert reached == cursor(**BY_THREE).reached(window, greatest, before)


@pytest.mark.parametrize(("pattern", "before"), [("%s", 1704153600), ("%s_as_float", 1704153600), ("%Y", "2024-01-02")])
def test_a_value_that_an_older_version_saved_is_written_in_the_format_of_states(pattern: str, before: Json) -> None:
    written = {"%s": "1704153600", "%s_as_float": "1704153600.0", "%Y": "2024"}

    assert cursor(pattern, formats=[pattern, "%Y-%m-%d"]).reached(FIRST, None, before) == written[pattern]


def test_a_value_lies_on_one_side_of_a_window() -> None:
    days = ["2024-01-03", "2024-01-04", "2024-01-09", "2025-01-01", "soon"]

    assert [cursor().side(FIRST, day).value for day in days] == ["inside", "edge", "after", "after", "inside"]
    assert [cursor().side(LAST, day).value for day in days] == ["before", "before", "inside", "after", "inside"]


@pytest.mark.parametrize(
    ("window", "value", "wanted"),
    [
        (FIRST, "2023-12-31", False),
        (FIRST, "2024-01-03", True),
        (FIRST, "2024-01-04", False),
        (LAST, "2024-01-10", True),
        (LAST, "2024-01-11", False),
        (LAST, "no date", True),
    ],
)
def test_records_outside_of_a_window_are_not_wanted(window: Window, value: Json, wanted: bool) -> None:  # noqa: FBT001
    assert wanted is (cursor().side(window, value) is Side.INSIDE)
    assert cursor().owns(window, value) is (wanted or (window.last and value == "2024-01-11"))


@pytest.mark.parametrize(
    ("end", "value", "wanted"),
    [
        (None, "2024-01-10T08:00:00Z", True),
        (None, "2024-01-11T00:00:00Z", False),
        (datetime(2024, 1, 10, tzinfo=UTC), "2024-01-10T08:00:00Z", False),
    ],
)
def test_the_last_day_is_a_whole_one_where_reads_end_now(end: datetime | None, value: Json, wanted: bool) -> None:  # noqa: FBT001
    found = cursor(formats=["%Y-%m-%dT%H:%M:%SZ"], end=end)

    assert wanted is (found.side(LAST, value) is Side.INSIDE)


def test_records_behind_the_lookback_come_again() -> None:
    found = cursor(lookback="P2D")

    assert [found.repeats(day, "2024-01-05") for day in ("2024-01-02", "2024-01-03", "2024-01-05", "?")] == [
        False,
        True,
        True,
        False,
    ]


def test_a_value_may_be_moved_back() -> None:
    assert cursor().back("2024-01-05", timedelta(seconds=1)) == "2024-01-04"
    assert cursor().back("?", timedelta(seconds=1)) == "?"


def test_counts_are_kept_as_numbers() -> None:
    found = CountCursor("id", start=3, by_request=True, as_numbers=True)

    assert asked(found.windows(None, NOW)) == [(3, None)]
    assert asked(found.windows("7", NOW)) == [(7, None)]
    assert found.greatest(["12", 9, "x"]) == 12
    assert found.side(Window(3), 2) is Side.BEFORE
    assert not found.owns(Window(3), 2)
