"""Windows in time, and the order of moments however they are written."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from cdk import BadState, ConfigError, DatetimeCursor, Json, TimestampOrder, Window
from cdk.base.times.clock import parse_timestamp, write_timestamp
from cdk.streams.cursor import Side

DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
NOW = datetime(2024, 1, 10, tzinfo=UTC)


def days(**options: object) -> DatetimeCursor:
    return DatetimeCursor("day", start="2024-01-01", formats=["%Y-%m-%d"], **options)  # type: ignore[arg-type]


def asked(windows: object) -> list[str]:
    """What the source is asked for, as `day-day`."""
    return [f"{w.start[8:]}-{w.end[8:]}" for w in windows]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "after", "windows"),
    [
        ({}, None, ["01-10"]),
        ({"step": 3 * DAY, "granularity": DAY}, None, ["01-03", "04-06", "07-10"]),
        ({"step": 3 * DAY}, None, ["01-04", "04-07", "07-10"]),
        ({"step": 4 * DAY}, None, ["01-05", "05-09", "09-10"]),
        ({}, "2024-01-05", ["05-10"]),
        ({"lookback": 2 * DAY}, "2024-01-05", ["03-10"]),
        ({"lookback": 9 * DAY}, "2024-01-05", ["01-10"]),
        ({"lookback": 9 * DAY}, "0001-01-01", ["01-10"]),
        ({}, "2023-06-01", ["01-10"]),
        ({"granularity": DAY}, "2024-01-10", ["10-10"]),
        ({}, "2024-01-11", []),
        ({"end": "2024-01-04"}, None, ["01-04"]),
        ({"end": "2024-02-01"}, None, ["01-10"]),
    ],
)
def test_windows_are_those_of_the_peer(options: dict[str, object], after: Json, windows: list[str]) -> None:
    assert asked(days(**options).windows(after, NOW)) == windows


@given(st.sampled_from(["%Y-%m-%d", "%s", "%Y-%m-%dT%H:%M:%S.%fZ", "%d.%m.%Y %H:%M:%S %z"]), st.integers(0, 300))
def test_the_only_format_of_a_cursor_may_be_a_string(pattern: str, days_ago: int) -> None:
    one, listed = (DatetimeCursor("at", start=NOW - 300 * DAY, formats=formats) for formats in (pattern, [pattern]))
    value = write_timestamp(NOW - days_ago * DAY, pattern)

    assert list(one.windows(value, NOW)) == list(listed.windows(value, NOW))
    assert one.timestamp(value) == listed.timestamp(value)


def test_a_gap_ends_a_granule_before_the_window_behind_it() -> None:
    cursor = days(step=3 * DAY, granularity=DAY, lookback=DAY)

    gap = list(cursor.windows("2024-01-03", NOW, upto="2024-01-09", again=False))

    assert asked(gap) == ["03-05", "06-08"]
    assert [w.last for w in gap] == [False, False]


def test_a_gap_shorter_than_a_granule_does_not_end_before_it_starts() -> None:
    cursor = DatetimeCursor("at", start=NOW - 9 * DAY, granularity=DAY)

    (gap,) = cursor.windows("2024-01-05T00:00:00Z", NOW, upto="2024-01-05T00:00:09Z", again=False)

    assert gap.start == gap.end


@given(
    st.integers(0, 300).map(lambda hours: NOW - hours * HOUR),
    st.integers(1, 90),
    st.sampled_from([None, SECOND, HOUR]),
    st.sampled_from(["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d", "%s", "%ms", "%s_as_float", "%d/%m/%Y %H:%M:%S.%f %z"]),
)
def test_windows_touch_without_gap_from_the_value_reached_to_now(
    after: datetime, step: int, granularity: timedelta | None, pattern: str
) -> None:
    length = max(step * HOUR, DAY)
    cursor = DatetimeCursor(
        "at", start=NOW - 400 * HOUR, step=length, granularity=granularity, formats=[pattern], lookback=HOUR
    )
    reached = cursor.write(after)

    windows = list(cursor.windows(reached, NOW))

    assert [w.start for w in windows[1:]] == [w.until for w in windows[:-1]]
    assert cursor.owns(replace(windows[0], last=True), reached)
    assert windows[-1].until == cursor.write(NOW)
    assert [w.last for w in windows] == [False] * (len(windows) - 1) + [True]
    assert len({w.until for w in windows}) == len(windows)


def test_two_windows_are_never_written_alike() -> None:
    windows = list(days(step=DAY).windows("2024-01-08", NOW + 15 * HOUR))

    assert asked(windows) == ["08-09", "09-10"]


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("%s", 1704153600),
        ("%ms", 1704153600000),
        ("%s_as_float", 1704153600.0),
        ("%epoch_microseconds", 1704153600000000),
        ("%Y-%m-%dT%H:%M:%S.%_msZ", "2024-01-02T00:00:00.000Z"),
        ("%Y-%m-%dT%H:%M:%S.%fZ", "2024-01-02T00:00:00.000000Z"),
        ("%d/%m/%Y", "02/01/2024"),
        ("%Y-%m-%dT%H:%M:%S%z", "2024-01-02T00:00:00+0000"),
    ],
)
def test_windows_are_written_in_the_sources_format(pattern: str, value: Json) -> None:
    cursor = DatetimeCursor("at", start=datetime(2024, 1, 2, tzinfo=UTC), formats=[pattern])

    (window,) = cursor.windows(None, NOW)

    assert window.start == value
    assert list(cursor.windows(value, NOW)) == [window]


@pytest.mark.parametrize("value", ["2024-01-02T02:00:00+02:00", "2024-01-01T19:00:00-05:00"])
def test_a_value_of_another_zone_is_the_same_moment(value: str) -> None:
    cursor = DatetimeCursor("at", start="2024-01-01T00:00:00Z")

    assert next(cursor.windows(value, NOW)).start == "2024-01-02T00:00:00Z"


def test_a_start_of_another_zone_is_the_same_moment() -> None:
    start = datetime(2024, 1, 2, 2, tzinfo=timezone(2 * HOUR))

    assert next(DatetimeCursor("at", start=start).windows(None, NOW)).start == "2024-01-02T00:00:00Z"


@pytest.mark.parametrize("value", ["soon", True, [1], {"a": 1}, 5])
def test_a_state_that_is_no_moment_is_refused(value: Json) -> None:
    with pytest.raises(BadState, match=r"state\.at: found .*, expected a timestamp written as"):
        list(DatetimeCursor("at", start=NOW).windows(value, NOW))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"step": timedelta()}, "expected a positive duration"),
        ({"step": HOUR, "granularity": DAY}, "is longer than the step 1:00:00, expected at most that"),
        ({"start": "soon"}, "start is 'soon'"),
        ({"end": "late"}, "end is 'late'"),
        ({"formats": ["%Y-%m-%d"], "step": HOUR}, "shorter than what '%Y-%m-%d' can write, expected a longer"),
        ({"formats": ["%H:%M"]}, "cannot be read back, expected the first of `formats` to contain at least the year"),
    ],
)
def test_a_cursor_that_cannot_work_is_refused_when_it_is_made(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        DatetimeCursor("at", **{"start": NOW, **options})  # type: ignore[arg-type]


MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda m: m.replace(tzinfo=UTC))  # noqa: DTZ001
SPELLINGS = st.sampled_from(
    ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%SZ", "%Y-%m-%dT%H:%M:%S+00:00", "%Y%m%dT%H%M%S.000Z"]
)
VALUES: st.SearchStrategy[Json] = st.one_of(
    st.builds(
        lambda m, f: m.strftime(f).rjust(len(m.strftime(f)), "0"), MOMENTS.filter(lambda m: m.year > 999), SPELLINGS
    ),
    st.sampled_from(["0000-00-00T00:00:00Z", "zzzzzzzzzzzzzzzzzzzZ", "", None, 7]),
)
CURSOR = DatetimeCursor("at", start="2000-01-01T00:00:00Z", lookback=DAY)


def day(number: int, hour: str = "00:00:00") -> str:
    return f"2024-01-{number:02}T{hour}Z"


@pytest.mark.parametrize(
    ("granularity", "value", "last", "needed"),
    [
        ("PT1M", day(1, "23:58:59"), False, SECOND),
        ("PT1M", day(1, "23:58:59.250"), False, timedelta(milliseconds=1)),
        ("PT1M", day(1, "23:59:00"), False, None),
        ("PT1M", day(1, "23:59:30"), False, None),  # the source does not end the window where it is to
        ("PT1M", day(1, "23:58:59"), True, None),
        ("PT1M", "soon", False, None),
        ("P1D", day(1, "23:58:59"), False, None),
        (None, day(1, "23:58:59"), False, None),
    ],
)
def test_a_value_between_two_granules_needs_a_finer_granularity(
    granularity: str | None,
    value: str,
    last: bool,  # noqa: FBT001
    needed: timedelta | None,
) -> None:
    cursor = DatetimeCursor("at", start=day(1), granularity=granularity)

    assert cursor.needed_granularity(Window(day(1), day(1, "23:59:00"), day(2), last=last), value) == needed


@pytest.mark.parametrize(("smallest", "splits"), [(None, True), (DAY, True), (2 * DAY, False), (3 * DAY, False)])
def test_a_window_is_split_unless_it_is_as_short_as_the_smallest(smallest: timedelta | None, splits: bool) -> None:  # noqa: FBT001
    cursor = DatetimeCursor("at", start=day(1), granularity=SECOND)

    halves = cursor.halves(Window(day(1), day(3), day(3, "00:00:01"), last=True), smallest)

    assert (halves is not None) is splits
    if halves is not None:
        assert (halves[0].start, halves[0].until, halves[1].end) == (day(1), halves[1].start, day(3))


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_the_greatest_value_is_the_latest_moment_in_its_own_spelling(values: list[Json]) -> None:
    moments = [m for m in map(CURSOR.timestamp, values) if m is not None]

    greatest = CURSOR.greatest(values)

    assert CURSOR.timestamp(greatest) == (max(moments) if moments else None)
    assert greatest is None or greatest in values


@given(st.lists(VALUES, min_size=1, max_size=6), MOMENTS, MOMENTS, st.booleans())
def test_the_ends_of_values_stand_for_all(
    values: list[Json],
    one: datetime,
    two: datetime,
    last: bool,  # noqa: FBT001
) -> None:
    start, until = sorted([one, two])
    window = Window(start.isoformat(), until.isoformat(), until.isoformat(), last=last)

    ends = CURSOR.ends(values) or values
    assert all(CURSOR.owns(window, v) for v in ends) == all(CURSOR.owns(window, v) for v in values)
    assert CURSOR.greatest(ends) == CURSOR.greatest(values)


@given(MOMENTS)
@example(datetime(2024, 1, 1, tzinfo=UTC))
def test_a_moment_belongs_to_exactly_one_of_two_neighbours(moment: datetime) -> None:
    low, edge, high = "0001-01-01T00:00:00Z", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"
    value = moment.isoformat()

    assert CURSOR.owns(Window(low, edge, edge, last=False), value) != CURSOR.owns(Window(edge, high, high), value)


def test_what_lies_within_the_lookback_comes_again() -> None:
    reached = "2024-01-05T00:00:00Z"

    assert [CURSOR.repeats(f"2024-01-{day:02}T00:00:00Z", reached) for day in (3, 4, 5)] == [False, True, True]
    assert CURSOR.repeats(reached, "0001-01-01T00:00:00Z")
    assert not CURSOR.repeats("soon", reached)


@given(
    st.datetimes(datetime(1980, 1, 2), datetime(2099, 12, 30)).map(lambda m: m.replace(tzinfo=UTC)),  # noqa: DTZ001
    st.sampled_from(
        [("%s", "%Y%m%d"), ("%Y%m%d", "%s"), ("%ms", "%Y%m%d%H%M%S"), ("%Y%m%d%H%M%S", "%ms"), ("%d%m%Y", "%Y%m%d")]
    ),
)
def test_states_and_windows_are_read_by_their_format_and_records_by_theirs(
    moment: datetime, patterns: tuple[str, str]
) -> None:
    of_records, of_states = patterns
    cursor = DatetimeCursor("at", start="1970-01-01T00:00:00Z", formats=[of_records], state_format=of_states)
    record = str(write_timestamp(moment, of_records))
    known = parse_timestamp(record, [of_records])
    assert known is not None
    state = cursor.greatest_of_records([record])

    (window,) = cursor.windows(state, known + 9 * DAY)

    assert state == window.start == cursor.greatest([state]) == cursor.write(known)
    assert cursor.order.rank(record) == TimestampOrder().rank(known.isoformat())
    assert cursor.side(window, record) is cursor.side(Window(state), record) is Side.INSIDE
    assert not cursor.precedes(window, record)
    assert cursor.repeats(record, state)
    assert cursor.state_order.reaches(window.until, (known + 8 * DAY).isoformat())


def test_durations_may_be_written_as_iso_8601() -> None:
    cursor = days(step="P2D", granularity="P1D", lookback="PT48H")

    assert asked(cursor.windows("2024-01-05", NOW)) == asked(
        days(step=2 * DAY, granularity=DAY, lookback=2 * DAY).windows("2024-01-05", NOW)
    )


@pytest.mark.parametrize("name", ["step", "granularity", "lookback"])
@pytest.mark.parametrize("value", ["1 day", "P1M", "", 5])
def test_what_is_no_duration_of_one_length_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name} is {value!r}, expected a timedelta or a string such as P1D"):
        days(**{name: value})
