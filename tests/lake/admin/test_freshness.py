from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.lake.admin.freshness import Freshness, FreshnessLimits, newest_cursor
from cdk.state.position import Checkpoint, Done, Edge, OpenSlice, Resume
from cdk.state.slice import WHOLE, Partition
from cdk.state.stream_state import StreamState
from cdk.state.window import Window
from cdk.state.wire import encode

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001 - it gets a zone
LENGTHS = st.timedeltas(timedelta(), timedelta(days=20_000))


@given(st.lists(MOMENTS, max_size=6), MOMENTS, st.sampled_from(["Z", "+00:00", "plain"]))
def test_the_newest_cursor_is_the_greatest_of_all_partitions(
    moments: list[datetime], parent: datetime, zone: str
) -> None:
    def checkpoint(at: datetime) -> Checkpoint:
        text = at.isoformat().replace("+00:00", "" if zone == "plain" else zone)
        opened = OpenSlice(Window("2041-01-01", "2042-01-01", "2042-01-01", last=True), Done())
        return Checkpoint({"updated_at": text}, Edge(text), Resume(text, (opened,)))

    positions = {Partition.of(shop=n): checkpoint(at) for n, at in enumerate(moments)}
    state = StreamState(positions, {"shops": StreamState({WHOLE: checkpoint(parent)})})

    assert newest_cursor(encode(state, incremental=True, exact=True)) == max(moments, default=None)


@pytest.mark.parametrize("cursor", [{"page": 3}, {"id": 1_700_000_000}, {"token": "next please"}])
def test_what_is_no_timestamp_is_no_cursor_to_compare_with_a_clock(cursor: dict[str, str | int]) -> None:
    state = encode(StreamState({WHOLE: Checkpoint(cursor)}), incremental=True, exact=True)

    assert newest_cursor(state) is None
    assert newest_cursor(None) is None


@given(st.none() | LENGTHS, st.none() | LENGTHS, st.none() | LENGTHS, st.none() | LENGTHS)
def test_a_table_is_stale_where_it_exceeds_a_limit(
    age: timedelta | None, lag: timedelta | None, max_age: timedelta | None, max_lag: timedelta | None
) -> None:
    completed, cursor = (None if each is None else NOON - each for each in (age, lag))

    freshness = Freshness.at(NOON, completed, cursor, FreshnessLimits(max_age, max_lag))

    assert (freshness.age, freshness.lag) == (age, lag)
    assert ("max_age" in freshness.stale) == (max_age is not None and (age is None or age > max_age))
    assert ("max_lag" in freshness.stale) == (max_lag is not None and lag is not None and lag > max_lag)


def test_a_cursor_ahead_of_the_clock_lags_behind_nothing() -> None:
    assert Freshness.at(NOON, NOON + HOUR, NOON + HOUR, FreshnessLimits(HOUR, HOUR)) == Freshness(
        timedelta(), timedelta(), ""
    )
