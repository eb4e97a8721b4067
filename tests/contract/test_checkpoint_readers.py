"""What every checkpoint reader promises, whatever it plans: the three verbs (cdk.streams.checkpoint.reader)."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import (
    Checkpoint,
    CheckpointReader,
    CountCursor,
    DatetimeCursor,
    Done,
    PageCheckpointReader,
    Partition,
    PartitionCheckpointReader,
    PartitionReader,
    Position,
    Slice,
    SliceCheckpointReader,
    StateMixin,
    StreamState,
)
from cdk.base.values import canonical
from cdk.state.position import Edge
from cdk.state.slice import WHOLE
from cdk.state.wire import decode, encode
from tests.samples import Notes

NOW = datetime(2024, 1, 8, tzinfo=UTC)
DAYS = DatetimeCursor("day", start="2024-01-01", step=timedelta(days=1), formats=["%Y-%m-%d"])
SHOPS = [Partition.of(shop=shop) for shop in "abc"]


def pages(partition: Partition, position: Position) -> PartitionReader:
    return PageCheckpointReader(partition, position)


def days(partition: Partition, position: Position) -> PartitionReader:
    return SliceCheckpointReader(DAYS, partition, position, NOW)


def numbers(partition: Partition, position: Position) -> PartitionReader:
    return SliceCheckpointReader(CountCursor("n"), partition, position, NOW)


def shown(state: StreamState) -> CheckpointReader:
    stream: StateMixin = Notes()
    return stream.checkpoint_reader(state)


READERS: dict[str, Callable[[StreamState], CheckpointReader]] = {
    "pages": lambda state: pages(WHOLE, state.of(WHOLE)),
    "days": lambda state: days(WHOLE, state.of(WHOLE)),
    "numbers": lambda state: numbers(WHOLE, state.of(WHOLE)),
    "partitions of pages": lambda state: PartitionCheckpointReader(SHOPS, pages, state),
    "partitions of days": lambda state: PartitionCheckpointReader(SHOPS, days, state),
    "shown": shown,
}
ANY = st.sampled_from(list(READERS)).map(READERS.__getitem__)
any_reader = pytest.mark.parametrize("build", READERS.values(), ids=READERS)


def restarted(state: StreamState) -> StreamState:
    return decode(encode(state, incremental=True, exact=True))


def identity(slice: Slice) -> tuple[Partition, object]:
    """Which slice it is, wherever it begins: the stretch that it is responsible for."""
    return slice.partition, slice.window and slice.window.until


def end(reader: CheckpointReader, slice: Slice) -> None:
    reader.observe(slice, Done(), None if slice.window is None else Edge(slice.window.start))


@any_reader
def test_none_means_that_nothing_is_left_to_plan(build: Callable[[StreamState], CheckpointReader]) -> None:
    reader = build(StreamState())

    assert list(iter(reader.next, None))
    assert [reader.next(), reader.next()] == [None, None]


@any_reader
def test_nothing_is_said_before_anything_was_read(build: Callable[[StreamState], CheckpointReader]) -> None:
    reader = build(StreamState())
    assert reader.get_checkpoint() is None
    list(iter(reader.next, None))

    assert reader.get_checkpoint() is None


@given(ANY, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_a_checkpoint_is_given_once(build: Callable[[StreamState], CheckpointReader], order: random.Random) -> None:
    reader = build(StreamState())
    opened = list(iter(reader.next, None))
    order.shuffle(opened)
    said: list[str] = []
    for slice in opened:
        for position in (Checkpoint({"page": 2}), Checkpoint({"page": 2}), Done()):
            reader.observe(slice, position)
            states = [reader.get_checkpoint() for _ in range(2)]
            said.extend(canonical(encode(s, incremental=True, exact=True)) for s in states if s is not None)

    assert said
    assert len(said) == len(set(said))


@given(ANY, st.integers(0, 21), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_a_checkpoint_never_covers_an_open_slice(
    build: Callable[[StreamState], CheckpointReader], count: int, order: random.Random
) -> None:
    reader, last = build(StreamState()), StreamState()
    opened = list(iter(reader.next, None))
    order.shuffle(opened)
    for slice in opened[:count]:
        end(reader, slice)
        last = reader.get_checkpoint() or last

    again = {identity(slice) for slice in iter(build(restarted(last)).next, None)}

    assert {identity(slice) for slice in opened[count:]} <= again


@given(ANY, st.integers(1, 21), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_a_slice_that_was_closed_is_not_read_again_by_the_same_attempt(
    build: Callable[[StreamState], CheckpointReader], count: int, order: random.Random
) -> None:
    reader, last = build(StreamState()), StreamState()
    opened = list(iter(reader.next, None))
    order.shuffle(opened)
    if count >= len(opened):
        return
    for slice in opened[:count]:
        end(reader, slice)
        last = reader.get_checkpoint() or last

    # A partition whose windows are all closed is finished: the next read begins at its edge, as a new attempt.
    unfinished = {slice.partition for slice in opened[count:]}
    again = {identity(s) for s in iter(build(restarted(last)).next, None) if s.partition in unfinished}

    assert again == {identity(slice) for slice in opened[count:]}


@any_reader
def test_the_rest_of_a_cut_slice_is_the_same_slice_from_its_position(
    build: Callable[[StreamState], CheckpointReader],
) -> None:
    reader = build(StreamState())
    slice = reader.next()
    assert slice is not None
    rest = reader.resume(slice, Checkpoint({"page": 3}))

    assert identity(rest) == identity(slice)
    assert rest.start == Checkpoint({"page": 3})
    end(reader, rest)
    assert reader.get_checkpoint() is not None
