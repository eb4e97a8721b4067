"""Checkpoint readers: which slices they plan, and what they say was read."""

import logging
import random
import weakref
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import (
    Checkpoint,
    CheckpointReader,
    CountCursor,
    DatetimeCursor,
    Done,
    Json,
    PageCheckpointReader,
    ParentState,
    Partition,
    PartitionCheckpointReader,
    PartitionReader,
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

NOW = datetime(2024, 1, 10, tzinfo=UTC)
DAYS = DatetimeCursor("day", start="2024-01-01", step=timedelta(days=1), formats=["%Y-%m-%d"])
A, B, C = (Partition.of(shop=shop) for shop in "abc")


def day(n: int) -> str:
    return f"2024-01-{n:02}"


def windows(position: Position = Start(), cursor: DatetimeCursor | CountCursor = DAYS) -> SliceCheckpointReader:  # noqa: B008 - frozen
    return SliceCheckpointReader(cursor, WHOLE, position, NOW)


def slices(reader: CheckpointReader) -> Iterator[Slice]:
    return iter(reader.next, None)


def starts(reader: CheckpointReader) -> list[int]:
    """The days that the slices left to read begin at."""
    return [int(s.window.start[8:]) for s in slices(reader) if s.window is not None]


def stored(position: Position, *, exact: bool = True) -> Position:
    """A position after a restart."""
    blob = encode(StreamState({WHOLE: position}), incremental=True, exact=exact)
    return decode(blob).of(WHOLE)


def test_a_page_reader_hands_out_one_slice_from_where_it_stopped() -> None:
    reader = PageCheckpointReader(A, Checkpoint({"page": 2}))

    assert list(slices(reader)) == [Slice(A, start=Checkpoint({"page": 2}))]


def test_a_page_reader_has_nothing_to_do_where_it_is_done() -> None:
    reader = PageCheckpointReader(A, Done())

    assert (reader.next(), reader.finished, reader.get_checkpoint()) == (None, True, None)


def test_a_cursor_advanced_by_hand_is_kept_at_the_end() -> None:
    reader = PageCheckpointReader(WHOLE, Start(), keeps_cursor=True)
    (slice,) = slices(reader)
    reader.observe(slice, Checkpoint({"version": 3}))
    reader.observe(slice, Done())

    assert reader.finished
    assert reader.position == Checkpoint({"version": 3})
    assert list(slices(PageCheckpointReader(WHOLE, Done(), keeps_cursor=True))) == [Slice()]


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

    assert starts(windows(state.of(WHOLE), back)) == [4, 5, 7, 8, 9]


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


@pytest.mark.parametrize(
    ("position", "found"),
    [
        (Done(), "its end"),
        (Checkpoint({"page": 3}), "'page'"),
        (Checkpoint({"date": day(4), "n": 1}), "'date', 'n'"),
    ],
)
def test_the_state_of_another_kind_of_stream_is_read_from_the_start_and_named(position: Position, found: str) -> None:
    reader = PartitionCheckpointReader([WHOLE], windows_of, StreamState({WHOLE: position}))

    assert starts(reader) == list(range(1, 10))
    assert reader.mismatch == f"the state knows {found}, and no value of the cursor 'day'"


def windows_of(partition: Partition, position: Position) -> SliceCheckpointReader:
    return SliceCheckpointReader(DAYS, partition, position, NOW)


def members(*parts: Partition | ParentState, state: StreamState | None = None) -> PartitionCheckpointReader:
    return PartitionCheckpointReader(iter(parts), PageCheckpointReader, state or StreamState())


def finish(reader: CheckpointReader) -> None:
    for slice in slices(reader):
        reader.observe(slice, Done())


def test_a_partition_that_comes_twice_is_read_once() -> None:
    assert [s.partition for s in slices(members(A, B, A, A, B))] == [A, B]


def test_each_partition_starts_where_it_stood_and_a_new_one_at_its_start() -> None:
    state = StreamState({A: Checkpoint({"page": 4}), C: Done()})

    assert list(slices(members(A, B, C, state=state))) == [Slice(A, start=Checkpoint({"page": 4})), Slice(B)]


ONE, TEXT = Partition.of(id=1, shop="a"), Partition.of(id="1", shop="a")


def test_a_partition_whose_id_has_another_type_is_read_from_its_start_and_named() -> None:
    reader = members(A, TEXT, state=StreamState({ONE: Done()}))

    assert [slice.partition for slice in slices(reader)] == [A, TEXT]
    assert reader.mismatch == (
        'the state knows the partition {"id":1,"shop":"a"}, and today\'s is {"id":"1","shop":"a"}, of another type'
    )


@pytest.mark.parametrize("parts", [(ONE, TEXT), (A, ONE, B, TEXT)])
def test_partitions_that_differ_in_the_type_of_their_ids_alone_may_both_be_there(parts: Sequence[Partition]) -> None:
    reader = members(*parts, state=StreamState({ONE: Done()}))

    assert [slice.partition for slice in slices(reader)] == [part for part in parts if part != ONE]
    assert reader.mismatch == ""


def test_a_shared_cursor_serves_every_partition_until_all_have_their_own(caplog: pytest.LogCaptureFixture) -> None:
    shared = Checkpoint({"page": 9})
    reader = members(A, B, state=StreamState({WHOLE: shared}))
    with caplog.at_level(logging.WARNING, logger="cdk"):
        one, two = slices(reader)
    assert caplog.text.count('one cursor for all partitions ({"page":9}): each') == 1
    assert one.start == two.start == shared

    reader.observe(two, Done())
    assert reader.get_checkpoint() == StreamState({WHOLE: shared, A: shared, B: Done()})
    reader.observe(one, Done())
    assert reader.get_checkpoint() == StreamState({A: Done(), B: Done()})


def test_a_parents_progress_waits_for_every_child_before_it() -> None:
    first, second = (ParentState("p", StreamState({WHOLE: Checkpoint({"u": n})})) for n in (1, 2))
    reader = members(A, B, first, C, second)
    a, b, c = slices(reader)
    seen: list[Json] = []
    for slice in (c, a, b):
        reader.observe(slice, Done())
        state = reader.get_checkpoint()
        assert state is not None
        seen.append(state.parents.get("p"))

    assert seen == [None, None, second.state]


@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_a_parents_progress_never_passes_an_open_child(count: int, order: random.Random) -> None:
    parts: list[Partition | ParentState] = []
    for n in range(count):
        parts += [Partition({"n": n}), ParentState("p", StreamState({WHOLE: Checkpoint({"u": n})}))]
    reader = members(*parts)
    left = list(slices(reader))
    order.shuffle(left)
    while left:
        reader.observe(left.pop(), Done())
        state = reader.get_checkpoint()
        assert state is not None
        reached = state.parents["p"].of(WHOLE) if "p" in state.parents else Start()
        closed = min((s.partition["n"] for s in left), default=count) - 1

        assert reached == (Checkpoint({"u": closed}) if closed >= 0 else Start())


def test_parents_and_partitions_that_are_no_longer_listed_keep_their_state() -> None:
    state = StreamState({C: Done()}, {"p": StreamState({WHOLE: Done()})}, {"other": 1})
    reader = members(A, state=state)
    for slice in slices(reader):
        reader.observe(slice, Done())

    assert reader.get_checkpoint() == StreamState({C: Done(), A: Done()}, state.parents, state.extra)


AT = datetime(2024, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
VALUE = Checkpoint({"page": 1})


def test_a_partition_is_forgotten_once_complete_lists_have_lacked_it_for_long_enough() -> None:
    state = StreamState({A: VALUE, C: VALUE})
    for day, after, missing in [(0, 2, {C: AT}), (1, 2, {C: AT}), (2, 2, {}), (3, 2, {})]:
        reader = members(A, state=state)
        finish(reader)
        forgotten = reader.forget_missing(AT + day * DAY, after * DAY)
        state = reader.get_checkpoint() or state

        assert (forgotten, state.missing) == (int(day == 2), missing)
        assert set(state.positions) == ({A, C} if day < 2 else {A})


def test_a_partition_that_comes_back_is_missing_no_more_though_the_read_is_cut() -> None:
    reader = members(A, C, state=StreamState({A: VALUE, C: VALUE}, missing={C: AT}))
    next(slices(reader))
    reader.next()

    assert reader.forget_missing(AT + 9 * DAY, DAY) == 0
    checkpoint = reader.get_checkpoint()
    assert checkpoint is not None
    assert (set(checkpoint.positions), checkpoint.missing) == ({A, C}, {})


@pytest.mark.parametrize(
    ("listed", "state"),
    [
        ([], StreamState({A: VALUE})),
        ([A], StreamState({A: VALUE, C: VALUE}, {"p": StreamState({WHOLE: Done()})})),
        ([A, ParentState("p", StreamState({WHOLE: Done()}))], StreamState({A: VALUE, C: VALUE})),
        ([WHOLE], StreamState({WHOLE: VALUE, C: VALUE})),
    ],
    ids=["an empty list", "parents that have a state", "parents that get one", "one cursor for all"],
)
def test_no_partition_is_missing_where_the_list_may_lack_it(
    listed: list[Partition | ParentState], state: StreamState
) -> None:
    reader = members(*listed, state=state)
    finish(reader)

    assert reader.forget_missing(AT, timedelta()) == 0
    assert set((reader.get_checkpoint() or state).positions) == set(state.positions)


def test_the_reader_of_a_partition_is_forgotten_once_it_is_settled() -> None:
    alive: weakref.WeakSet[PartitionReader] = weakref.WeakSet()

    def inner(partition: Partition, position: Position) -> PartitionReader:
        reader = PageCheckpointReader(partition, position)
        alive.add(reader)
        return reader

    reader = PartitionCheckpointReader((Partition({"n": n}) for n in range(50)), inner, StreamState())
    for slice in slices(reader):
        reader.observe(slice, Done())

        assert len(alive) <= 2
