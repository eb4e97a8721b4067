"""The reader of windows: how it plans them, closes them and resumes what was cut."""

from datetime import timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from cdk import (
    Checkpoint,
    CountCursor,
    DatetimeCursor,
    Done,
    Position,
    Slice,
    SliceCheckpointReader,
    Start,
    StreamState,
    Window,
)
from cdk.state.position import Edge
from cdk.state.slice import WHOLE
from cdk.state.wire import decode, encode
from tests.streams.checkpoint.readers import DAYS, NOW, day, slices, starts


def windows(position: Position = Start(), cursor: DatetimeCursor | CountCursor = DAYS) -> SliceCheckpointReader:  # noqa: B008 - frozen
    return SliceCheckpointReader(cursor, WHOLE, position, NOW)


def stored(position: Position, *, exact: bool = True) -> Position:
    """A position after a restart."""
    blob = encode(StreamState({WHOLE: position}), incremental=True, exact=exact)
    return decode(blob).of(WHOLE)


@given(st.permutations(range(9)), st.integers(0, 9))
def test_windows_close_in_any_order_and_a_restart_reads_just_the_others(order: list[int], count: int) -> None:
    reader = windows()
    opened = list(slices(reader))
    for i in order[:count]:
        reader.observe(opened[i], Done(), Edge(day(i + 1)))

    left = starts(windows(stored(reader.position))) if count < 9 else []

    assert set(left) - {10} == {i + 1 for i in order[count:]}
    assert len(left) == len(set(left))
    assert left == sorted(left)


@given(st.permutations(range(9)), st.integers(0, 8))
def test_the_cursor_value_never_passes_an_open_window(order: list[int], count: int) -> None:
    reader = windows()
    opened = list(slices(reader))
    for i in order[:count]:
        reader.observe(opened[i], Done(), Edge(day(i + 1)))

    front = min(order[count:])
    match reader.position:
        case Checkpoint(cursor={"day": value}):
            assert value == (day(front) if front else day(1))
        case position:
            assert position == Start()


def test_a_window_cut_in_the_middle_goes_on_at_its_page() -> None:
    reader = windows()
    first, second, *_ = slices(reader)
    reader.observe(second, Checkpoint({"page": 3}), Edge(day(2)))
    reader.observe(first, Checkpoint({"page": 1}), Edge(day(1)))

    again = list(slices(windows(stored(reader.position, exact=False))))

    assert [s.start for s in again[:3]] == [Checkpoint({"page": 1}), Checkpoint({"page": 3}), Start()]
    assert [s.window.start for s in again if s.window] == [day(n) for n in range(1, 10)]


def test_a_window_in_order_goes_on_at_the_value_reached_and_remembers_what_lies_around_it() -> None:
    cursor = DatetimeCursor("day", start=day(1), lookback=timedelta(days=3), formats=["%Y-%m-%d"], ordered=True)
    reader = windows(Checkpoint({"day": day(6)}, Edge(day(6), {"old": day(6), "older": day(4)})), cursor)
    (slice,) = slices(reader)
    reader.observe(slice, Checkpoint({}), Edge(day(4), {"new": day(4)}))

    (rest,) = slices(windows(stored(reader.position), cursor))

    assert rest.window is not None
    assert (rest.window.start, rest.start) == (day(4), Start())
    assert rest.edge is not None
    assert rest.edge.keys == {"old": day(6), "older": day(4), "new": day(4)}


@given(
    st.timedeltas(timedelta(), timedelta(days=8)),
    st.sampled_from(["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%_msZ", "%s", "%ms", "%s_as_float"]),
    st.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours))),
)
def test_a_window_in_order_goes_on_where_windows_are_written_and_no_later_than_the_value_reached(
    after: timedelta, pattern: str, zone: timezone
) -> None:
    cursor = DatetimeCursor("at", start=NOW - timedelta(days=9), formats=[pattern], ordered=True)
    at = NOW - timedelta(days=9) + after
    value = at.astimezone(zone).isoformat()
    reader = windows(cursor=cursor)
    (slice,) = slices(reader)
    reader.observe(slice, Checkpoint({"at": value}), Edge(value, {"known": value}))

    (rest,) = slices(windows(stored(reader.position), cursor))

    assert rest.window is not None
    assert rest.edge is not None
    assert rest.window.start == cursor.write(at)
    assert cursor.owns(rest.window, value)
    assert rest.edge.keys == {"known": value}


def test_a_finished_cursor_keeps_the_greatest_value_and_other_keys_alone() -> None:
    reader = windows(Checkpoint({"day": day(8), "other": 1}))
    for slice in slices(reader):
        assert slice.window is not None
        reader.observe(slice, Done(), Edge(slice.window.start))

    assert reader.finished
    assert reader.position == Checkpoint({"day": day(9), "other": 1}, Edge(day(9)))


def test_records_at_the_edge_are_remembered_together_whichever_window_gave_them() -> None:
    reader = windows(Checkpoint({"day": day(8)}))
    one, two = slices(reader)
    reader.observe(two, Done(), Edge(day(9), {"b": day(9)}))
    reader.observe(one, Done(), Edge(day(9), {"a": day(9), "c": day(8)}))

    assert reader.position == Checkpoint({"day": day(9)}, Edge(day(9), {"a": day(9), "b": day(9)}))


def test_the_peers_date_ranges_are_resumed_in_their_gaps_and_behind_them() -> None:
    ranges = [
        {"start": day(1), "end": day(3), "most_recent_cursor_value": day(3)},
        {"start": day(5), "end": day(6), "most_recent_cursor_value": day(6)},
        {"start": day(7), "end": day(9)},
    ]
    state = decode({"slices": ranges, "state_type": "date-range"}, cursor_field="day")

    assert starts(windows(state.of(WHOLE))) == [3, 4, 6, 9]


def test_a_cursor_that_looks_back_does_so_from_the_value_reached_and_not_from_a_gap_in_what_was_read() -> None:
    back = DatetimeCursor(
        "day", start="2024-01-01", step=timedelta(days=1), lookback=timedelta(days=2), formats=["%Y-%m-%d"]
    )
    ranges = [{"start": day(s), "end": day(e)} for s, e in [(1, 4), (6, 7)]]
    state = decode({"slices": ranges, "state_type": "date-range"}, cursor_field="day")

    reader = windows(state.of(WHOLE), back)

    assert starts(reader) == [4, 5]
    assert reader.ends_early


def test_a_plan_that_looks_back_is_resumed_up_to_its_own_end_and_the_next_one_looks_back_from_there() -> None:
    back = DatetimeCursor("day", start=day(1), step=timedelta(days=1), lookback=timedelta(days=2), formats=["%Y-%m-%d"])
    first = SliceCheckpointReader(back, WHOLE, Start(), NOW - timedelta(days=5))
    one, two = next(slices(first)), next(slices(first))
    first.observe(one, Done(), Edge(day(1)))
    first.observe(two, Checkpoint({"page": 2}), Edge(day(2)))

    resumed = windows(stored(first.position, exact=False), back)
    rest = list(slices(resumed))
    resumed.observe(rest[0], Done(), Edge(day(2)))
    resumed.observe(rest[1], Checkpoint({"page": 2}), Edge(day(3)))
    again = windows(stored(resumed.position), back)
    for slice in slices(again):
        again.observe(slice, Done(), Edge(slice.window and slice.window.start))

    assert [s.window.start for s in rest if s.window] == [day(2), day(3), day(4)]
    assert resumed.ends_early
    assert again.finished
    assert starts(windows(again.position, back)) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_date_ranges_that_overlap_or_come_in_disorder_lose_nothing() -> None:
    ranges = [{"start": day(s), "end": day(e)} for s, e in [(1, 3), (7, 9), (2, 4), (5, 6)]]
    reader = windows(decode({"slices": ranges, "state_type": "date-range"}, cursor_field="day").of(WHOLE))
    left = list(slices(reader))

    covered = {n for s in left if s.window for n in range(int(s.window.start[8:]), int(s.window.until[8:]))}
    for slice in left:
        reader.observe(slice, Done())

    assert covered >= {3, 4, 6, 9}
    assert reader.finished


def test_a_number_without_an_end_resumes() -> None:
    cursor = CountCursor("id")
    reader = windows(Checkpoint({"id": 5}), cursor)
    (slice,) = slices(reader)
    reader.observe(slice, Checkpoint({"page": 2}), Edge(9))

    assert list(slices(windows(stored(reader.position), cursor))) == [
        Slice(window=Window(5), start=Checkpoint({"page": 2}), edge=Edge(5), met=Edge(9))
    ]
