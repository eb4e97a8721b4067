"""The reader of partitions: each from where it stood, and what becomes of parents and of those that are missing."""

import logging
import random
import weakref
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import (
    Checkpoint,
    CheckpointReader,
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
)
from cdk.base.process.interruption import Interrupted
from cdk.state.position import OpenSlice, Resume
from cdk.state.slice import WHOLE
from cdk.state.stored_positions import StoredPositions
from cdk.state.window import Window
from cdk.state.wire import encode
from tests.streams.checkpoint.readers import DAYS, NOW, A, B, C, day, slices, starts


@pytest.mark.parametrize(
    ("position", "found"),
    [
        (Done(), "a completed read"),
        (Checkpoint({"page": 3}), "'page'"),
        (Checkpoint({"date": day(4), "n": 1}), "'date', 'n'"),
    ],
)
def test_the_state_of_another_kind_of_stream_is_read_from_the_start_and_named(position: Position, found: str) -> None:
    reader = PartitionCheckpointReader([WHOLE], windows_of, StreamState({WHOLE: position}))

    assert starts(reader) == list(range(1, 10))
    assert reader.mismatch == f"the state has {found}, but no value of the cursor 'day'"


def windows_of(partition: Partition, position: Position) -> SliceCheckpointReader:
    return SliceCheckpointReader(DAYS, partition, position, NOW)


def members(*parts: Partition | ParentState, state: StreamState | None = None) -> PartitionCheckpointReader:
    return PartitionCheckpointReader(iter(parts), PageCheckpointReader, state or StreamState())


def finish(reader: CheckpointReader) -> None:
    for slice in slices(reader):
        reader.observe(slice, Done())


def test_a_partition_that_comes_twice_is_read_once() -> None:
    assert [s.partition for s in slices(members(A, B, A, A, B))] == [A, B]


D = Partition.of(shop="d")
PARENT = ParentState("p", StreamState({WHOLE: Done()}))


def order(*parts: Partition | ParentState, after: Partition) -> list[Partition]:
    """The partitions in the order in which an interrupted read resumes."""
    reader = PartitionCheckpointReader(iter(parts), windows_of, StreamState(after=after))
    return list(dict.fromkeys(slice.partition for slice in slices(reader)))


@pytest.mark.parametrize(
    ("listed", "after", "resumed"),
    [
        ([A, B, C, D], B, [C, D, A, B]),
        ([A, B, C, D], D, [A, B, C, D]),
        ([A, B, C], D, [A, B, C]),
        ([A, B, A, C, B, D], B, [C, D, A, B]),
        ([A, B, PARENT, C, D], A, [B, C, D, A]),
        ([A, B, PARENT, C, D], B, [C, D, A, B]),
        ([A, B, PARENT, C, D], C, [D, A, B, C]),
        ([PARENT, A, B], A, [B, A]),
    ],
    ids=[
        "behind it",
        "it is the last",
        "it is missing",
        "some come twice",
        "before a parent's progress",
        "right before a parent's progress",
        "behind a parent's progress",
        "a parent's progress first",
    ],
)
def test_an_interrupted_read_resumes_behind_the_partitions_that_it_had_finished(
    listed: list[Partition | ParentState], after: Partition, resumed: list[Partition]
) -> None:
    assert order(*listed, after=after) == resumed


@pytest.mark.parametrize(
    ("known", "after", "unread"),
    [
        ([A, B], B, [C, D]),
        ([A, B, D], B, [C]),
        ([A, B, C, D], D, []),
        ([A, C], Partition.of(shop="e"), [B, D]),
        # Nothing tells a state of another read from that of this one.
        ([B, D], None, [A, B, C, D]),
    ],
)
def test_a_full_refresh_that_resumes_leaves_out_what_it_had_read_to_its_end(
    known: list[Partition], after: Partition | None, unread: list[Partition]
) -> None:
    """What it leaves out is listed all the same, so nothing of it is forgotten."""
    positions = dict.fromkeys(known, Checkpoint({"day": day(3)}))
    reader = PartitionCheckpointReader([A, B, C, D], windows_of, StreamState(positions, after=after))
    reader.skip_finished()

    opened = [*slices(reader)]
    for slice in opened:
        reader.observe(slice, Done())

    assert list(dict.fromkeys(slice.partition for slice in opened)) == unread
    assert (reader.finished, reader.forget_missing(AT, timedelta())) == (True, 0)


def test_a_refresh_reads_what_followed_parents_list_before_the_partition_to_resume_behind() -> None:
    """They go on at the page where they were interrupted, and then begin anew."""
    finished, begun = Checkpoint({"day": day(3)}), Checkpoint({"day": day(1)}, resume=Resume(day(1)))
    state = StreamState({A: finished, B: finished, C: begun}, after=B)
    reader = PartitionCheckpointReader([C, PARENT, A, B, C, D], windows_of, state)
    reader.skip_finished()

    assert {slice.partition for slice in slices(reader)} == {C, D}


def test_a_plan_that_is_ended_has_no_windows_for_what_came_since() -> None:
    begun = [*slices(windows_of(A, Start()))]
    assert begun[1].window is not None
    unfinished = Checkpoint({"day": day(1)}, resume=Resume(day(2), (OpenSlice(begun[1].window, Start()),), upto=day(3)))
    reader = PartitionCheckpointReader(
        [A, B, C], windows_of, StreamState({A: unfinished, C: Checkpoint({"day": day(3)})})
    )
    reader.end_with_plan()

    opened = [*slices(reader)]
    for slice in opened:
        reader.observe(slice, Done())

    assert (reader.next(), reader.finished) == (None, True)
    assert {slice.partition for slice in opened} == {A, B}


def test_a_partition_that_comes_last_is_not_taken_for_one_of_another_type() -> None:
    text, number = Partition.of(shop="1"), Partition.of(shop=1)
    reader = members(number, text, state=StreamState({number: Checkpoint({"page": 1})}, after=number))

    assert [slice.partition for slice in slices(reader)] == [text, number]
    assert reader.mismatch == ""


@pytest.mark.parametrize("leaves", [False, True])
def test_what_parents_had_read_waits_for_partitions_that_come_last(leaves: bool) -> None:  # noqa: FBT001 - both
    state = StreamState({A: Checkpoint({"day": day(3)})}, after=A)
    reader = PartitionCheckpointReader([A, PARENT, B], windows_of, state)
    if leaves:
        reader.skip_finished()
    opened = [*slices(reader)]

    parents: dict[Partition, list[str]] = {}
    for slice in opened:
        reader.observe(slice, Done())
        parents[slice.partition] = sorted(reader.parents)

    # What is left out may have more for an incremental read that follows.
    assert parents == ({B: []} if leaves else {B: [], A: ["p"]})


def test_a_partition_is_passed_once_it_and_all_before_it_were_read_to_their_end() -> None:
    reader = PartitionCheckpointReader([A, B, C], windows_of, StreamState())
    opened = [*slices(reader)]
    passed: list[Partition | None] = []
    for partition in (B, A, C):
        for slice in opened:
            if slice.partition == partition:
                reader.observe(slice, Done())
        state = reader.get_checkpoint()
        assert state is not None
        passed.append(state.after)

    assert passed == [None, B, None]


def test_the_rest_of_an_interrupted_plan_is_the_turn_of_its_partition() -> None:
    reader = PartitionCheckpointReader([A, B, C], windows_of, StreamState())
    *before, last = (slice for slice in slices(reader) if slice.partition == A)
    for slice in before:
        reader.observe(slice, Done())
    reader.observe(last, Checkpoint({"page": 2}))
    state = reader.get_checkpoint()
    assert state is not None
    assert state.after is None
    assert state.of(A).resume is not None

    reader = PartitionCheckpointReader([A, B, C], windows_of, state)
    rest = reader.next()
    assert rest is not None
    assert rest.partition == A
    reader.observe(rest, Done())
    state = reader.get_checkpoint()
    assert state is not None
    assert state.after == A


def test_a_read_of_partitions_without_a_cursor_or_of_a_whole_stream_is_after_none() -> None:
    for reader in (members(A, B), PartitionCheckpointReader([WHOLE], windows_of, StreamState())):
        for slice in slices(reader):
            reader.observe(slice, Done())
            state = reader.get_checkpoint()

            assert state is None or state.after is None


def test_a_finished_read_is_after_none_though_nothing_has_moved_since() -> None:
    reader = PartitionCheckpointReader([A], windows_of, StreamState())
    said: list[StreamState | None] = []
    for slice in slices(reader):
        reader.observe(slice, Done())
        said.append(reader.get_checkpoint())
    said.append(reader.get_checkpoint())
    *_, before, last = said
    assert before is not None
    assert last is not None

    assert (before.after, last.after) == (A, None)
    assert before.positions == last.positions


@pytest.mark.parametrize(("listed", "after"), [([], B), ([A], None)], ids=["nothing", "some"])
def test_a_list_that_is_longer_than_a_run_is_resumed_from_its_first_partition(
    listed: list[Partition], after: Partition | None
) -> None:
    """Else such a run would never read anything."""

    def interrupted() -> Iterator[Partition]:
        yield from listed
        raise Interrupted("max_requests")

    state = StreamState({A: VALUE}, after=B)
    reader = PartitionCheckpointReader(interrupted(), windows_of, state)
    with pytest.raises(Interrupted):
        reader.next()

    assert (reader.get_checkpoint() or state).after == after


def test_each_partition_starts_where_it_stood_and_a_new_one_at_its_start() -> None:
    state = StreamState({A: Checkpoint({"page": 4}), C: Done()})

    assert list(slices(members(A, B, C, state=state))) == [Slice(A, start=Checkpoint({"page": 4})), Slice(B)]


ONE, TEXT = Partition.of(id=1, shop="a"), Partition.of(id="1", shop="a")


def test_a_partition_whose_id_has_another_type_is_read_from_its_start_and_named() -> None:
    reader = members(A, TEXT, state=StreamState({ONE: Done()}))

    assert [slice.partition for slice in slices(reader)] == [A, TEXT]
    assert reader.mismatch == (
        'the state has the partition {"id":1,"shop":"a"}, but the source\'s is now {"id":"1","shop":"a"}, '
        "of another type"
    )


@pytest.mark.parametrize("parts", [(ONE, TEXT), (A, ONE, B, TEXT)])
def test_partitions_that_differ_in_the_type_of_their_ids_alone_may_both_be_there(parts: Sequence[Partition]) -> None:
    reader = members(*parts, state=StreamState({ONE: Done()}))

    assert [slice.partition for slice in slices(reader)] == [part for part in parts if part != ONE]
    assert reader.mismatch == ""


NESTED = Partition.of(id=1, parent={"org": 1})
COUNTRY = Partition.of(country="de")


@pytest.mark.parametrize(
    ("known", "today", "said"),
    [
        (
            [A, B],
            [Partition.of(store="a"), Partition.of(store="b")],
            "'shop', but the source's partitions now have 'store'",
        ),
        ([A], [Partition.of(shop="a", country="de")], "'shop', but the source's partitions now have 'country', 'shop'"),
        ([A], [WHOLE], "'shop', but the source's partitions now have no fields"),
        (
            [NESTED],
            [Partition.of(id=1, parent={"team": 1})],
            "'id', 'parent.org', but the source's partitions now have 'id', 'parent.team'",
        ),
    ],
)
def test_a_state_of_other_fields_is_known_before_the_first_slice(
    known: Sequence[Partition], today: Sequence[Partition], said: str
) -> None:
    parent = ParentState("p", StreamState())
    reader = members(*today, parent, state=StreamState(dict.fromkeys(known, Done())))
    reader.compare_fields()
    reader.compare_fields()

    assert reader.mismatch == f"the state has partitions by {said}"
    assert [slice.partition for slice in slices(reader)] == list(today)


@pytest.mark.parametrize(
    ("known", "today"),
    [
        ([A], [COUNTRY, COUNTRY, B]),
        ([COUNTRY, A], [NESTED, B]),
        ([NESTED], [Partition.of(id=2, parent={"org": 9})]),
        ([A], []),
        ([], [B]),
    ],
)
def test_new_partitions_of_other_fields_may_come_before_those_that_the_state_knows(
    known: Sequence[Partition], today: Sequence[Partition]
) -> None:
    reader = members(*today, state=StreamState(dict.fromkeys(known, VALUE)))
    for _ in today:
        reader.compare_fields()
        reader.next()

    assert reader.mismatch == ""


def test_no_partition_is_listed_ahead_once_the_state_knows_the_fields_of_one() -> None:
    listed = iter([COUNTRY, B, C, A])
    reader = PartitionCheckpointReader(listed, PageCheckpointReader, StreamState({A: VALUE}))
    reader.compare_fields()

    assert list(listed) == [C, A]


def test_a_shared_cursor_serves_every_partition_until_all_have_their_own(caplog: pytest.LogCaptureFixture) -> None:
    shared = Checkpoint({"at": 9})
    states = partial(PageCheckpointReader, keeps_cursor=True)
    reader = PartitionCheckpointReader([A, B], states, StreamState({WHOLE: shared}))
    with caplog.at_level(logging.WARNING, logger="cdk"):
        one, two = slices(reader)
    assert caplog.text.count('one cursor for all partitions ({"at":9}): partitions') == 1
    assert one.start == two.start == shared

    later = Checkpoint({"at": 12})
    for position in (later, Done()):
        reader.observe(two, position)
    assert reader.get_checkpoint() == StreamState({WHOLE: shared, A: shared, B: later})
    reader.observe(one, Done())
    assert reader.get_checkpoint() == StreamState({A: shared, B: later})


PAGES_OF_ALL = "the state has pages of a read without partitions, but the source's partitions now have 'shop'"


def test_a_page_of_a_read_without_partitions_is_none_of_any_partition() -> None:
    reader = members(A, B, state=StreamState({WHOLE: Checkpoint({"page": 9})}))

    assert [(slice.partition, slice.start) for slice in slices(reader)] == [(A, Start()), (B, Start())]
    assert reader.mismatch == PAGES_OF_ALL


@pytest.mark.parametrize("token", [Checkpoint({"page": 3}), Start()])
def test_windows_that_a_read_without_partitions_had_begun_begin_anew_in_each_partition(token: Position) -> None:
    begun = OpenSlice(Window(day(4), day(5), day(5), last=False), token)
    closed = OpenSlice(Window(day(5), day(6), day(6), last=False), Done())
    shared = Checkpoint({"day": day(2)}, resume=Resume(day(4), (begun, closed)))
    reader = PartitionCheckpointReader([A, B], windows_of, StreamState({WHOLE: shared}))
    windows = [(slice.partition, slice.window.start, slice.start) for slice in slices(reader) if slice.window]

    assert [(part, at) for part, at, _ in windows] == [(part, day(n)) for part in (A, B) for n in (4, 6, 7, 8, 9)]
    assert {start for _, _, start in windows} == {Start()}
    assert reader.mismatch == (PAGES_OF_ALL if token != Start() else "")


def test_windows_of_a_cursor_are_no_pages_of_a_stream_without_one() -> None:
    begun = OpenSlice(Window(day(4), day(5), day(5), last=False), Checkpoint({"page": 3}))
    state = StreamState({A: Checkpoint({"day": day(2)}, resume=Resume(day(4), (begun,))), B: Checkpoint({"page": 2})})
    reader = members(A, B, state=state)

    assert [slice.start for slice in slices(reader)] == [Start(), Checkpoint({"page": 2})]
    assert reader.mismatch == f"the state of {A.key} has windows of a cursor, but the stream has no cursor"


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


@given(
    st.integers(1, 12), st.sets(st.integers(0, 11)), st.none() | st.integers(0, 12), st.randoms(use_true_random=False)
)
def test_a_parents_progress_never_passes_an_open_child(
    count: int, pages: set[int], after: int | None, order: random.Random
) -> None:
    parts: list[Partition | ParentState] = []
    for n in range(count):
        parts.append(Partition({"n": n}))
        if n in pages:
            parts.append(ParentState("p", StreamState({WHOLE: Checkpoint({"u": n})})))
    reader = members(*parts, state=StreamState(after=None if after is None else Partition({"n": after})))
    left = list(slices(reader))
    order.shuffle(left)
    while left:
        reader.observe(left.pop(), Done())
        state = reader.get_checkpoint()
        assert state is not None
        reached = state.parents["p"].of(WHOLE) if "p" in state.parents else Start()
        closed = min((s.partition["n"] for s in left), default=count) - 1
        covered = [n for n in pages if n <= closed]

        assert reached == (Checkpoint({"u": max(covered)}) if covered else Start())


def test_parents_and_partitions_that_are_no_longer_listed_keep_their_state() -> None:
    state = StreamState({C: Done()}, {"p": StreamState({WHOLE: Done()})}, {"other": 1})
    reader = members(A, state=state)
    for slice in slices(reader):
        reader.observe(slice, Done())

    assert reader.get_checkpoint() == StreamState({C: Done(), A: Done()}, state.parents, state.extra)


AT = datetime(2024, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
VALUE = Checkpoint({"page": 1})


def missing_of(state: StreamState) -> Json:
    entries: Json = encode(state, incremental=True, exact=True)["states"]
    return {Partition(e["partition"]): datetime.fromisoformat(e["missing"]) for e in entries if "missing" in e}


def test_a_partition_is_forgotten_once_complete_lists_have_lacked_it_for_long_enough() -> None:
    state = StreamState({A: VALUE, C: VALUE})
    for days, after, missing in [(0, 2, {C: AT}), (1, 2, {C: AT}), (2, 2, {}), (3, 2, {})]:
        reader = members(A, state=state)
        finish(reader)
        forgotten = reader.forget_missing(AT + days * DAY, after * DAY)
        state = reader.get_checkpoint() or state

        assert (forgotten, missing_of(state)) == (int(days == 2), missing)
        assert set(state.positions) == ({A, C} if days < 2 else {A})


def test_a_partition_that_comes_back_is_missing_no_more_though_the_read_is_cut() -> None:
    reader = members(A, C, state=StreamState(StoredPositions.of({A: VALUE, C: VALUE}, {C: AT})))
    next(slices(reader))
    reader.next()

    assert reader.forget_missing(AT + 9 * DAY, DAY) == 0
    checkpoint = reader.get_checkpoint()
    assert checkpoint is not None
    assert (set(checkpoint.positions), missing_of(checkpoint)) == ({A, C}, {})


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


def test_the_reader_of_a_partition_is_forgotten_once_it_is_finished() -> None:
    alive: weakref.WeakSet[PartitionReader] = weakref.WeakSet()

    def inner(partition: Partition, position: Position) -> PartitionReader:
        reader = PageCheckpointReader(partition, position)
        alive.add(reader)
        return reader

    reader = PartitionCheckpointReader((Partition({"n": n}) for n in range(50)), inner, StreamState())
    for slice in slices(reader):
        reader.observe(slice, Done())

        assert len(alive) <= 2
