"""The promise of the read loop, over every kind of stream."""

import itertools
import json
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk import (
    Checkpoint,
    DatetimeCursor,
    Done,
    Item,
    Page,
    Partition,
    Record,
    ServerError,
    Slice,
    Stream,
    StreamState,
    Window,
)
from cdk.base.errors import FatalError, NotFound
from cdk.base.process.concurrency import Learned
from cdk.base.process.interruption import Interrupted
from cdk.base.values import Json, NotJson, canonical
from cdk.engine.boundary_dedup import read_without_boundary_duplicates
from cdk.engine.executors import Executor, Threads, serial
from cdk.engine.read import read
from cdk.state.position import Edge
from cdk.state.slice import WHOLE
from cdk.state.wire import decode, encode
from cdk.streams.page import ReadPage
from tests.generated_sources import SPAN, Made, cursors, made
from tests.samples import DAY0, STREAMS, Future, Orders, Plain, Replies, ShopOrders, Users, pages

W = TypeVar("W")

KINDS = st.sampled_from(STREAMS)
EXECUTORS: st.SearchStrategy[Executor] = st.one_of(st.just(serial), st.builds(Threads, st.just(3), st.just(Learned(3))))


def wire(stream: Stream, state: StreamState, *, exact: bool = False) -> Json:
    return encode(state, incremental=stream.incremental, resumable=stream.supports_checkpointing or exact, exact=exact)


def through_the_wire(stream: Stream, state: StreamState, *, exact: bool = False) -> StreamState:
    return decode(wire(stream, state, exact=exact), cursor_field=stream.cursor_field)


def records(items: Sequence[Sequence[Record] | StreamState]) -> list[str]:
    return [canonical(r) for item in items if not isinstance(item, StreamState) for r in item]


def states(items: Sequence[Sequence[Record] | StreamState]) -> list[StreamState]:
    return [item for item in items if isinstance(item, StreamState)]


def whole(stream: Stream) -> Counter[str]:
    return Counter(set(records(list(read(stream, StreamState())))))


@given(KINDS, st.integers(0, 60), EXECUTORS)
@settings(deadline=None, max_examples=80)
def test_a_cut_read_resumed_from_its_last_state_yields_every_record(
    stream: Stream, cut: int, execute: Executor
) -> None:
    reading = read(stream, StreamState(), execute)
    first = list(itertools.islice(reading, cut))
    reading.close()
    state = states(first)[-1] if states(first) else StreamState()

    again = list(read(stream, through_the_wire(stream, state), execute))

    assert set(records(first)) | set(records(again)) == set(whole(stream))


@given(KINDS, EXECUTORS)
@settings(deadline=None, max_examples=60)
def test_no_state_repeats_another_and_every_read_leaves_one(stream: Stream, execute: Executor) -> None:
    said = [wire(stream, s, exact=True) for s in states(list(read(stream, StreamState(), execute)))]

    assert said
    assert len({canonical(blob) for blob in said}) == len(said)


@given(KINDS)
@settings(deadline=None)
def test_the_state_of_a_finished_read_brings_only_the_edge_of_the_cursor_again(stream: Stream) -> None:
    items = list(read(stream, StreamState()))
    finished = states(items)[-1]

    again = records(list(read(stream, through_the_wire(stream, finished))))

    if isinstance(stream, Plain):
        assert set(again) == set(whole(stream))
    elif stream.cursor is None:
        assert again == []
    else:
        assert len(again) < len(whole(stream))


def test_a_finished_cursor_state_has_the_shape_of_the_protocol() -> None:
    orders, shops = Orders(), ShopOrders()

    assert wire(orders, states(list(read(orders, StreamState())))[-1]) == {"updated_at": "2024-01-05T04:00:00Z"}
    assert wire(shops, states(list(read(shops, StreamState())))[-1]) == {
        "use_global_cursor": False,
        "states": [
            {"partition": {"shop": shop}, "cursor": {"updated_at": "2024-01-05T04:00:00Z"}} for shop in shops.shops
        ],
    }


class Chance:
    """An executor that opens slices and advances them in random order, as many machines would."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(
        self,
        work: Iterator[W],
        read: Callable[[W], Iterator[ReadPage]],
        /,
        most: int | None = None,  # noqa: ARG002
    ) -> Iterator[tuple[W, ReadPage]]:
        reading: list[tuple[W, Iterator[ReadPage]]] = []
        more = True
        while more or reading:
            if more and (not reading or self._random.random() < 0.6):
                piece = next(work, None)
                more = piece is not None
                if piece is not None:
                    reading.append((piece, read(piece)))
                continue
            i = self._random.randrange(len(reading))
            page = next(reading[i][1], None)
            if page is None:
                del reading[i]
            else:
                yield reading[i][0], page


class Table:
    """What a sync does with pages: records count once the source has said where to go on after them."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.rows, self.state = stream, Counter[str](), StreamState()

    def sync(self, seed: int, pages: int | None = None, execute: Executor | None = None) -> int:
        """Read up to `pages` pages, each committed with its state; returns the rows appended."""
        before, read_pages = self.rows.total(), partial(read_without_boundary_duplicates, self.stream)
        execute = execute or Chance(seed)
        reader = self.stream.checkpoint_reader(through_the_wire(self.stream, self.state, exact=True))
        held: dict[tuple[Partition, Window | None], list[Record]] = {}
        # A reader that has nothing to plan for now may plan on once the slices that are out have ended.
        again = (execute(chain([slice], iter(reader.next, None)), read_pages) for slice in iter(reader.next, None))
        for slice, page in itertools.islice(chain.from_iterable(again), pages):
            part = slice.partition, slice.window
            held.setdefault(part, []).extend(page.records)
            if page.position is not None:
                reader.observe(slice, page.position, page.edge)
                self.rows.update(canonical(r) for r in held.pop(part))
                self.state = reader.get_checkpoint() or self.state
        if pages is None:
            self.state = reader.get_checkpoint() or self.state
        return self.rows.total() - before


@given(KINDS, st.lists(st.integers(0, 25), max_size=4), st.integers(0, 2**32))
@settings(deadline=None, max_examples=200)
def test_cut_anywhere_and_read_in_any_order_every_record_lands_once(stream: Stream, cuts: list[int], seed: int) -> None:
    table = Table(stream)
    for i, cut in enumerate(cuts):
        table.sync(seed + i, cut)
    table.sync(seed)

    assert table.rows == whole(stream)


@given(st.sampled_from([s for s in STREAMS if not isinstance(s, Plain)]), st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_a_further_run_appends_nothing(stream: Stream, seed: int) -> None:
    table = Table(stream)
    table.sync(seed)

    assert table.sync(seed + 1) == 0


@given(made(), st.lists(st.integers(0, 25), max_size=4), st.integers(0, 2**32))
@settings(deadline=None, max_examples=80)
def test_every_record_of_a_made_up_source_lands_once_wherever_it_is_cut(
    source: Made, cuts: list[int], seed: int
) -> None:
    table = Table(source.stream())
    for i, cut in enumerate(cuts):
        table.sync(seed + i, cut)
    table.sync(seed)

    assert table.rows == source.stream().all()
    assert table.sync(seed + 1) == 0


@given(made(), st.lists(st.integers(0, 12), max_size=3), st.integers(0, 2**32))
@settings(deadline=None, max_examples=80)
def test_records_that_come_between_two_syncs_land_once_though_equal_ones_are_there(
    source: Made, cuts: list[int], seed: int
) -> None:
    source.rows.append((SPAN, "red"))
    table = Table(source.stream())
    table.sync(seed)
    # Those that lie behind the cursor are found only where it looks back.
    behind = 1 if "look back" in source.kind else 0
    source.rows += [(SPAN - behind * hour, colour) for hour, colour in source.later]
    for i, cut in enumerate(cuts):
        table.sync(seed + i, cut)
    table.sync(seed)

    assert table.rows == source.stream().all()
    assert table.sync(seed + 1) == 0


@example(Made("windows", [([], "red")], 3, [], everywhere=True, later=[(2, "blue"), (10, "blue")]), 6, 0, 2)
@given(made(), st.integers(0, 12), st.integers(0, 12), st.integers(0, 2**32))
@settings(deadline=None, max_examples=80)
def test_records_that_come_while_a_sync_is_cut_land_once(source: Made, cut: int, again: int, seed: int) -> None:
    table = Table(source.stream())
    table.sync(seed, cut)
    # In the last window, for those before it may have been read.
    source.rows += [(SPAN + 24 + hour // 2, colour) for hour, colour in source.later]
    source.late = len(source.later)
    table.sync(seed, again)
    table.sync(seed)
    # What is newer than a cut plan may be left to the sync after it.
    table.sync(seed + 1)

    assert table.rows == source.stream().all()
    assert table.sync(seed + 2) == 0


@given(
    st.sampled_from(["windows that look back", "ordered windows that look back"]),
    st.integers(1, 4),
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 16), st.integers(0, 12), st.sampled_from(["red", "blue"])), max_size=6),
            st.none() | st.integers(0, 12),
        ),
        max_size=6,
    ),
    st.integers(0, 2**32),
)
@settings(deadline=None, max_examples=80)
def test_records_that_become_visible_late_land_once_wherever_syncs_are_cut(
    kind: str, page_size: int, syncs: list[tuple[list[tuple[int, int, str]], int | None]], seed: int
) -> None:
    source = Made(kind, [], page_size, [], everywhere=True, now=0)
    table = Table(source.stream())
    for i, (records, cut) in enumerate([*syncs, ([], None)]):
        for hours, late, colour in records:
            source.now += hours
            source.rows.append((max(0, source.now - late), colour))
        table.sync(seed + i, cut)
        assert cut is not None or table.rows == source.stream().all()

    assert table.sync(seed) == 0


@given(made(), st.integers(0, 60), EXECUTORS)
@settings(deadline=None, max_examples=60)
def test_a_cut_read_of_a_made_up_source_yields_every_record_when_it_is_resumed(
    source: Made, cut: int, execute: Executor
) -> None:
    stream = source.stream()
    reading = read(stream, StreamState(), execute)
    first = list(itertools.islice(reading, cut))
    reading.close()
    state = states(first)[-1] if states(first) else StreamState()

    again = list(read(stream, through_the_wire(stream, state), execute))

    assert Counter(records(first)) + Counter(records(again)) >= stream.all()


class Short:
    """Reads up to `most` pages, then the run is interrupted."""

    def __init__(self, most: int, execute: Executor = serial) -> None:
        self.most, self.pages, self.execute = most, 0, execute
        self.partitions = set[Partition]()

    def __call__(
        self, work: Iterator[W], read: Callable[[W], Iterator[ReadPage]], /, most: int | None = None
    ) -> Iterator[tuple[W, ReadPage]]:
        for piece, page in self.execute(work, read, most):
            if page.position is None or not page.position.done:
                if self.pages == self.most:
                    raise Interrupted("max_requests")
                self.pages += 1
            if isinstance(piece, Slice):
                self.partitions.add(piece.partition)
            yield piece, page


@given(made(odd=False), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_short_reads_that_resume_from_the_last_state_read_no_page_again(source: Made, most: int) -> None:
    # Where the last window is interrupted, another reader brings what is newer: here it is one page.
    rows = [row for row in source.rows if row[0] < SPAN]
    stream, state = replace(source, kind="windows", rows=rows, partitions=[]).stream(), StreamState()
    for _ in range(2):
        complete = Short(10_000)
        list(read(stream, state, complete))
        for unread in range(complete.pages, 0, -most):
            items, short = list[Sequence[Record] | StreamState](), Short(most)
            with suppress(Interrupted):
                iter_into(items, read(stream, state, short))
            assert short.pages == min(most, unread)
            state = through_the_wire(stream, (states(items) or [state])[-1])
        assert "_cdk" not in wire(stream, state)


class SideBySide:
    """Reads so many pieces at once: of each a page, in an order by chance, before the next page of any."""

    def __init__(self, at_once: int, seed: int) -> None:
        self._at_once, self._random = at_once, random.Random(seed)

    def __call__(
        self,
        work: Iterator[W],
        read: Callable[[W], Iterator[ReadPage]],
        /,
        most: int | None = None,  # noqa: ARG002
    ) -> Iterator[tuple[W, ReadPage]]:
        reading: list[tuple[W, Iterator[ReadPage]]] = []
        while True:
            reading += [(piece, read(piece)) for piece in itertools.islice(work, self._at_once - len(reading))]
            if not reading:
                return
            self._random.shuffle(reading)
            for each in tuple(reading):
                if (page := next(each[1], None)) is None:
                    reading.remove(each)
                else:
                    yield each[0], page


@given(
    st.sampled_from(list(cursors())),
    st.integers(1, 12),
    st.integers(1, 9),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["", "red", "blue"])), min_size=1, max_size=5),
    st.integers(0, 2**32),
    st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_short_runs_come_to_every_partition_though_there_is_more_to_read_of_each(  # noqa: PLR0917 - a world
    kind: str,
    count: int,
    most: int,
    at_once: int,
    between: list[tuple[int, str]],
    seed: int,
    exact: bool,  # noqa: FBT001
) -> None:
    source = Made(kind, [(0, "red")], 3, list(range(count)), everywhere=True, now=1)
    stream, table, yielded, state = source.stream(), Table(source.stream()), Counter[str](), StreamState()
    waited, longest = dict.fromkeys(stream.partitions(), 0), 0
    for run in range(2 * count + 4):
        hours, colour = between[run % len(between)]
        source.now += hours
        if colour:
            source.rows.append((source.now - 1, colour))
        short = Short(most, SideBySide(min(at_once, most), seed + run))
        if exact:
            with suppress(Interrupted):
                table.sync(seed, execute=short)
        else:
            items = list[Sequence[Record] | StreamState]()
            with suppress(Interrupted):
                iter_into(items, read(stream, state, short))
            yielded.update(records(items))
            state = through_the_wire(stream, (states(items) or [state])[-1])
        waited = {each: 0 if each in short.partitions else runs + 1 for each, runs in waited.items()}
        longest = max(longest, *waited.values())
    complete = Short(10_000)
    list(read(stream, StreamState(), complete))

    assert longest <= 2 * at_once * complete.pages // most + 2
    # What is newer than an interrupted plan may be left to the run after it.
    for _ in range(2):
        table.sync(seed)
        items = list(read(stream, state))
        yielded.update(records(items))
        state = through_the_wire(stream, (states(items) or [state])[-1])

    assert state.after is None
    assert table.rows == stream.all() <= yielded


class Undated(Orders):
    """Every record has its moment in another field than the cursor looks for."""

    def rows(self, partition: Partition) -> list[dict[str, Json]]:
        rows = super().rows(partition)
        return [{"id": row["id"], "updatedAt": row["updated_at"], "deleted_at": None} for row in rows]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield from pages([*self.rows(slice.partition)], slice)


def test_records_without_a_cursor_value_are_named_once_with_the_fields_that_are_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="cdk"):
        list(read(Undated(), StreamState()))

    (said,) = caplog.messages
    assert said.startswith("undated: 3 of 3 records of a page have no valid value of the cursor 'updated_at'")
    assert "'deleted_at', 'id', 'updatedAt'; did you mean 'updatedAt'?" in said


def test_records_without_a_cursor_value_land_once_however_many_windows_give_them() -> None:
    table = Table(Undated())
    table.sync(1)

    assert table.rows == Counter(canonical(row) for row in Undated().rows(WHOLE))
    assert table.sync(2) == 0


def test_a_new_record_at_the_edge_of_the_cursor_is_still_appended() -> None:
    class Growing(Orders):
        hours: tuple[int, ...] = (1, 2, 50)

    table = Table(Growing())
    table.sync(1)
    Growing.hours = (1, 2, 50, 50)

    assert table.sync(2) == 1


@given(st.integers(0, 2**32), st.integers(0, 40))
@settings(deadline=None, max_examples=50)
def test_a_new_parent_brings_its_whole_history(seed: int, cut: int) -> None:
    class Growing(ShopOrders):
        shops: tuple[str, ...] = ("a", "b")

    table = Table(Growing())
    table.sync(seed, cut)
    Growing.shops = ("a", "new", "b")
    table.sync(seed)

    assert table.rows == whole(Growing())


class Moving(Future):
    """Its time is `planned` hours after the first day."""

    planned = 108

    def now(self) -> datetime:
        return DAY0 + timedelta(hours=self.planned)


@given(st.integers(0, 2**32), st.integers(0, 14))
@settings(deadline=None, max_examples=60)
def test_what_is_newer_than_the_plan_of_a_cut_sync_lands_once(seed: int, cut: int) -> None:
    stream = Moving()
    table = Table(stream)
    table.sync(seed, cut)
    stream.planned = 110
    table.sync(seed + 1)
    table.sync(seed + 2)

    assert table.rows == whole(stream)


@pytest.mark.parametrize("execute", [serial, Threads(4, Learned(4))], ids=["serial", "threads"])
def test_the_rest_of_a_cut_read_brings_what_is_newer_however_it_is_read(execute: Executor) -> None:
    stream = Moving()
    items = list(read(stream, StreamState()))
    cut = next(s for s in reversed(states(items)) if (wire(stream, s).get("_cdk") or {}).get("slices"))
    stream.planned = 200
    stream.hours = (*Future.hours, 150, 190)

    assert set(records(list(read(stream, through_the_wire(stream, cut), execute)))) >= {
        canonical(row) for row in stream.rows(Partition())[-2:]
    }


@pytest.mark.parametrize("odd", [{"hash": 2**70}, {"text": "\ud800"}, {"n": 1, "updated_at": ["not", "a", "moment"]}])
def test_a_record_that_json_can_hardly_hold_does_not_end_a_stream_that_remembers(odd: dict[str, Json]) -> None:
    class Odd(Orders):
        def rows(self, partition: Partition) -> list[dict[str, Json]]:
            return [*super().rows(partition), {"id": 99, "updated_at": "2024-01-05T04:00:00Z", **odd}]

        def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
            yield from self.rows(Partition())

    edge = Edge("2024-01-05T04:00:00Z", {"x": "2024-01-05T04:00:00Z"})
    pages = list(read_without_boundary_duplicates(Odd(), Slice(edge=edge)))

    assert sum(len(page.records) for page in pages) == len(Orders.hours) + 1


@pytest.mark.parametrize(("levels", "ends"), [(600, False), (50_000, True)])
def test_a_record_of_many_levels_is_remembered_or_a_typed_error(levels: int, ends: bool) -> None:  # noqa: FBT001
    deep: Json = {}
    for _ in range(levels):
        deep = {"a": deep}

    class Deep(Orders):
        def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
            yield {"id": 99, "updated_at": "2024-01-05T04:00:00Z", "deep": deep}

    edge = Edge("2024-01-05T04:00:00Z", {"x": "2024-01-05T04:00:00Z"})

    with pytest.raises(NotJson, match="too many levels") if ends else nullcontext():
        assert [len(page.records) for page in read_without_boundary_duplicates(Deep(), Slice(edge=edge))] == [1]


def test_values_finer_than_the_cursors_format_are_not_appended_again() -> None:
    class Fine(Orders):
        cursor = DatetimeCursor("updated_at", start=DAY0, step=timedelta(days=1), formats=["%Y-%m-%d"])

        def read_records(self, slice: Slice) -> Iterator[Item]:
            assert slice.window is not None
            low, high = slice.window.start, slice.window.end
            yield from pages([r for r in self.rows(WHOLE) if low <= r["updated_at"][:10] <= high], slice)

    table = Table(Fine())
    table.sync(1)

    assert table.rows == whole(Fine())
    assert table.sync(2) == 0


def test_a_record_dated_in_the_future_does_not_stop_the_stream() -> None:
    class Booked(Future):
        hours: tuple[int, ...] = (1, 30, 9000, 9500)

    table = Table(Booked())
    table.sync(1)
    assert table.sync(2) == 0
    Booked.hours = (1, 30, 9000, 9500, 109)

    assert table.sync(3) == 1


@pytest.mark.parametrize("ordered", [False, True])
def test_a_record_dated_in_the_future_leaves_the_cursor_at_the_greatest_before_it(ordered: bool) -> None:  # noqa: FBT001
    class Booked(Moving):
        cursor = DatetimeCursor("updated_at", start=DAY0, ordered=ordered)
        hours: tuple[int, ...] = (9000, 9500)

        def rows(self, partition: Partition) -> list[dict[str, Json]]:
            return [{**row, "id": hour} for row, hour in zip(super().rows(partition), self.hours, strict=True)]

    def cursor() -> Json:
        return wire(Booked(), table.state)

    table = Table(Booked())
    assert (table.sync(1), cursor()) == (2, {"updated_at": "2024-01-01T00:00:00Z"})
    Booked.hours = (1, 30, 9000, 9500)
    assert (table.sync(2), cursor()) == (2, {"updated_at": "2024-01-02T06:00:00Z"})
    Booked.planned = 200
    Booked.hours = (1, 30, 31, 40, 150, 9000, 9500)  # 31, 40 and 150 became visible after a read that was planned later
    assert (table.sync(3), cursor()) == (3, {"updated_at": "2024-01-07T06:00:00Z"})
    assert table.sync(4) == 0
    Booked.planned = 9600
    Booked.hours = (*Booked.hours, 9550)

    assert (table.sync(5), table.sync(6), table.rows) == (1, 0, whole(Booked()))


def test_a_parents_progress_is_kept_once_its_children_are_read() -> None:
    final = states(list(read(Replies(), StreamState())))[-1]

    assert final.parents["sparse"] == states(list(read(Replies.parent, StreamState())))[-1]


@pytest.mark.parametrize("error", [ServerError("the third page is broken"), KeyError("a bug of the author's")])
def test_when_reading_fails_the_state_of_what_came_before_is_given_first(error: Exception) -> None:
    class Breaking(Users):
        def read_page(self, slice, token):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            if token == {"page": 2}:
                raise error
            return super().read_page(slice, token)

    reading = read(Breaking(), StreamState(), due=lambda: False)
    items = list(itertools.islice(reading, 3))
    with pytest.raises(type(error)):
        next(reading)

    assert wire(Users(), states(items)[-1]) == {"page": 2}


def test_states_wait_until_they_are_due() -> None:
    said = states(list(read(Users(), StreamState(), due=lambda: False)))

    assert [wire(Users(), s) for s in said] == [
        wire(Users(), StreamState().with_(next(iter(Users().partitions())), Done()))
    ]


def iter_into(items: list[Sequence[Record] | StreamState], reading: Iterator[Sequence[Record] | StreamState]) -> None:
    """Add what a read gives, until it ends or fails."""
    for item in reading:
        items.append(item)  # noqa: PERF402 - what came before an error counts


def gone(stream: Stream, refused: set[int], after: int, begun: list[int]) -> Stream:
    """The stream, where some slices, by their order, end in an error that stays, after so many items."""
    broken, numbers = copy(stream), itertools.count()

    def read_records(slice: Slice) -> Iterator[Item]:
        number = next(numbers)
        begun.append(number)
        for i, item in enumerate(stream.read_records(slice)):
            if number in refused and i == after:
                break
            yield item
        if number in refused:
            raise FatalError(f"slice {number} is gone")

    broken.read_records = read_records  # type: ignore[method-assign] # the API's fault, not the stream's
    return broken


@given(KINDS, st.sets(st.integers(0, 6)), st.integers(0, 3), EXECUTORS)
@settings(deadline=None, max_examples=60)
def test_a_slice_that_is_gone_stays_open_and_the_others_are_read(
    stream: Stream, refused: set[int], after: int, execute: Executor
) -> None:
    items: list[Sequence[Record] | StreamState] = []
    begun = list[int]()
    try:
        iter_into(items, read(gone(stream, refused, after, begun), StreamState(), execute))
    except FatalError:
        failed = True
    else:
        failed = False
    state = states(items)[-1] if states(items) else StreamState()

    again = list(read(stream, through_the_wire(stream, state), execute))

    assert failed == bool(refused.intersection(begun))
    assert set(records(items)) | set(records(again)) == set(whole(stream))


class Shelves(Stream):
    """Pages of six partitions; one of them can be refused at its second page."""

    supports_checkpointing = True

    def __init__(self, *refused: int) -> None:
        super().__init__()
        self.refused = refused

    def partitions(self) -> list[Partition]:
        return [Partition.of(shelf=n) for n in range(6)]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        shelf, first = slice.partition["shelf"], 0
        if isinstance(slice.start, Checkpoint):
            first = slice.start.cursor["page"]
        for page in range(first, 3):
            if page == 1 and shelf in self.refused:
                raise NotFound(f"shelf {shelf} is gone")
            yield Page([{"shelf": shelf, "page": page}], {"page": page + 1} if page < 2 else None)


@pytest.mark.parametrize("execute", [serial, Threads(3, Learned(3))], ids=["serial", "threads"])
def test_the_state_says_where_a_refused_slice_stopped_and_that_the_others_are_done(execute: Executor) -> None:
    items: list[Sequence[Record] | StreamState] = []
    with pytest.raises(NotFound, match=r"shelf [14] is gone"):
        iter_into(items, read(Shelves(1, 4), StreamState(), execute))

    final = states(items)[-1]
    stopped = {n: Checkpoint({"page": 1}) for n in (1, 4)}
    again = list(read(Shelves(), through_the_wire(Shelves(), final)))

    assert {p["shelf"]: final.positions[p] for p in final.positions} == {n: stopped.get(n, Done()) for n in range(6)}
    assert sorted(records(again)) == sorted(canonical({"shelf": n, "page": page}) for n in (1, 4) for page in (1, 2))


def test_an_error_that_may_pass_ends_the_stream() -> None:
    class Down(Shelves):
        def read_records(self, slice: Slice) -> Iterator[Item]:
            if slice.partition["shelf"] == 2:
                raise ServerError("it is down")
            return super().read_records(slice)

    items: list[Sequence[Record] | StreamState] = []
    with pytest.raises(ServerError):
        iter_into(items, read(Down(), StreamState()))

    assert {json.loads(text)["shelf"] for text in records(items)} == {0, 1}
