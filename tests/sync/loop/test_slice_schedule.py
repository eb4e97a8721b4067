"""Slices are handed out, taken back and ended, with a stream and without a table."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from cdk import ConfigError, Item, Partition, Slice, Stream
from cdk.rest.auth.tokens import EndedToken
from cdk.state.position import Checkpoint, Done
from cdk.sync.loop.slice_schedule import SliceSchedule
from cdk.sync.tasks.messages import Failure, SliceResult
from tests.samples import Users


class Shops(Stream):
    """A slice for each of three shops; planning may fail behind the first."""

    name = "shops"
    broken = False

    def partitions(self) -> Iterator[Partition]:
        yield Partition.of(shop="a")
        if self.broken:
            raise OSError("no list of shops")
        yield from (Partition.of(shop=name) for name in "bc")

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield {"shop": slice.partition["shop"]}


def schedule(stream: Stream, *, single: bool = False) -> SliceSchedule:
    return SliceSchedule(stream, None, single=single, check=lambda _: None)


def handed(plan: SliceSchedule) -> list[Slice]:
    return list(iter(plan.next, None))


def test_what_was_not_begun_comes_again_and_all_is_read_once_all_has_ended() -> None:
    plan = schedule(Shops({}))
    slices = handed(plan)
    assert ([slice.partition["shop"] for slice in slices], plan.planned, plan.reading) == (["a", "b", "c"], 3, 3)

    for slice in slices[:2]:
        plan.add_result(slice, SliceResult(0, (Done(),), read=1))
    assert plan.plan_end() is False
    plan.put_back(slices[2])
    assert (plan.next(), plan.planned) == (slices[2], 3)
    plan.add_result(slices[2], SliceResult(0, (Done(),), read=1))

    assert (plan.plan_end(), plan.reading, plan.counts.read) == (True, 0, 3)


def test_a_slice_that_goes_on_is_out_until_its_task_ends_and_then_comes_again_from_where_it_was() -> None:
    plan = schedule(Users({}))
    (slice,) = handed(plan)
    plan.add_result(slice, SliceResult(0, (Checkpoint({"page": 2}),), read=4), unfinished=True)
    assert (handed(plan), plan.reading, plan.counts.read, plan.plan_end()) == ([], 1, 4, False)

    plan.put_back(slice)
    (again,) = handed(plan)
    assert again.start == Checkpoint({"page": 2})
    plan.add_result(again, SliceResult(1, (Checkpoint({"page": 3}),), read=4), unfinished=True)
    plan.add_result(again, SliceResult(1, (Done(),), read=2))

    assert (plan.plan_end(), plan.reading, plan.counts.read) == (True, 0, 10)


def test_a_slice_that_got_further_comes_again_from_there() -> None:
    plan = schedule(Users({}))
    (slice,) = handed(plan)
    plan.add_result(slice, SliceResult(0, (Checkpoint({"page": 2}),), read=4))
    (again,) = handed(plan)

    assert again.start == Checkpoint({"page": 2})
    assert "2" in str(plan.state())


def test_a_slice_that_failed_does_not_come_again() -> None:
    plan = schedule(Shops({}))
    first, second, third = handed(plan)
    gone = Failure("no such shop", "system_error", "", final=True)
    plan.add_result(first, SliceResult(0, failure=gone))
    plan.add_result(second, SliceResult(1, failure=Failure("a pause", "transient_error", "")))
    plan.add_result(third, SliceResult(2, (Done(),)))

    assert (handed(plan), plan.final_failure) == ([], gone)


def test_a_stream_fails_when_three_tokens_in_a_row_get_none_of_its_slices_further() -> None:
    plan = schedule(Shops({}))
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)

    def begins_again(slice: Slice, token: str) -> Failure | None:
        failure = plan.add_result(slice, SliceResult(0, wasted_token=EndedToken(token, 1.5, noon, early=True)))
        assert (plan.next() is None) == (failure is not None)
        return failure

    first, second, third = handed(plan)
    assert [begins_again(slice, token) for token in ("a", "b") for slice in (first, second)] == [None] * 4
    plan.add_result(third, SliceResult(0, (Done(),)))
    assert [begins_again(slice, token) for token in ("c", "d") for slice in (first, second)] == [None] * 4
    failure = begins_again(second, "e")

    assert failure is not None
    assert failure.message.startswith('{"shop":"b"}: found 3 access tokens in a row')
    assert "according to its server the last is valid until 2024-01-01 12:00:00 UTC" in failure.message


def test_nothing_more_is_planned_once_planning_has_failed() -> None:
    stream = Shops({})
    stream.broken = True
    plan = schedule(stream)
    with pytest.raises(OSError, match="no list"):
        handed(plan)

    assert (plan.next(), plan.all_planned) == (None, True)


def test_a_second_slice_is_refused_where_there_must_be_one() -> None:
    plan = schedule(Shops({}), single=True)
    with pytest.raises(ConfigError, match="found several slices, expected one"):
        plan.plan_ahead(2)
