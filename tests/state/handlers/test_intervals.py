from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import ConfigError
from cdk.state.handlers.intervals import (
    Interval,
    Intervals,
    ceiling,
    floor,
    inward,
    minus,
    normal,
    outward,
    require_zone,
)

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)  # a Monday
HOUR = timedelta(hours=1)
BUCKETS = st.sampled_from([HOUR, timedelta(hours=3), timedelta(days=1)])


def at(hour: int) -> datetime:
    return EPOCH + hour * HOUR


def spans(pairs: list[tuple[int, int]]) -> Intervals:
    return normal(Interval(at(start), at(end)) for start, end in pairs)


def hours(found: Intervals) -> set[int]:
    """The hours of a set, one by one: what the algebra is compared with."""
    return {hour for span in found for hour in range((span.start - EPOCH) // HOUR, (span.end - EPOCH) // HOUR)}


PAIRS = st.lists(st.tuples(st.integers(-30, 30), st.integers(-30, 30)), max_size=6)


def is_normal(found: Intervals) -> bool:
    return all(span.start < span.end for span in found) and all(one.end < other.start for one, other in pairwise(found))


@given(PAIRS)
def test_a_normal_set_has_the_same_hours(pairs: list[tuple[int, int]]) -> None:
    found = spans(pairs)

    assert is_normal(found)
    assert hours(found) == {hour for start, end in pairs for hour in range(start, end)}
    assert normal(reversed(found)) == found


@given(PAIRS, PAIRS)
def test_minus_leaves_the_hours_that_are_only_in_the_first(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    found = minus(spans(one), spans(other))

    assert is_normal(found)
    assert hours(found) == hours(spans(one)) - hours(spans(other))


@given(st.integers(-99, 99), st.integers(1, 60), BUCKETS)
def test_whole_buckets_outward_are_the_least_that_hold_a_span(start: int, length: int, bucket: timedelta) -> None:
    span = Interval(at(start), at(start + length))
    wide = outward(span, bucket)

    assert floor(wide.start, bucket) == wide.start <= span.start < wide.start + bucket
    assert ceiling(wide.end, bucket) == wide.end >= span.end > wide.end - bucket


@given(PAIRS, BUCKETS)
def test_whole_buckets_inward_are_those_of_which_every_hour_is_there(
    pairs: list[tuple[int, int]], bucket: timedelta
) -> None:
    found, size = inward(spans(pairs), bucket), bucket // HOUR
    there = hours(spans(pairs))

    assert is_normal(found)
    assert hours(found) == {
        hour for hour in there if set(range(hour // size * size, hour // size * size + size)) <= there
    }


def test_weeks_begin_on_mondays() -> None:
    assert floor(datetime(2024, 1, 7, 23, tzinfo=UTC), timedelta(weeks=1)) == EPOCH
    assert floor(datetime(1969, 12, 31, tzinfo=UTC), timedelta(weeks=1)) == datetime(1969, 12, 29, tzinfo=UTC)


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ConfigError, match="start_time: found 2024-01-01T00:00:00 without a time zone"):
        require_zone(datetime(2024, 1, 1), "start_time")  # noqa: DTZ001 - that is what is refused
