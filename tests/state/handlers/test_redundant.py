import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import BadState, ConfigError
from cdk.base.errors import BugError
from cdk.base.values import Json
from cdk.state import (
    Interval,
    Mode,
    Planned,
    RedundantRunSkipHandler,
    StatefulOptions,
    StateKey,
    StateLog,
    open_session,
    stateful_run,
)
from cdk.state.handlers.redundant import INTERVALS
from cdk.state.stores.memory import MemoryStore

SLOT = "window:usage"
KEY = StateKey("usage")
MAY = datetime(2024, 5, 1, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


class World:
    """A log, a clock, and runs that read what they plan."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.now = MAY + 30 * DAY

    @contextmanager
    def handler(self, *, selection: Json = None, mode: Mode | None = None, **options: Json) -> Iterator[Json]:
        log = StateLog(self.store, KEY, clock=lambda: self.now)
        with stateful_run(log, StatefulOptions(**{"enabled": True, **options}), mode=mode) as run:
            yield RedundantRunSkipHandler(run, "usage", selection=selection)
            run.session.commit("final")

    def run(self, start: float, end: float, *, selection: Json = None, **options: Json) -> Planned:
        """Read what is left of the days from `start` to `end` of May, counted from 0."""
        with self.handler(selection=selection, **options) as handler:
            planned: Planned = handler.plan(MAY + start * DAY, MAY + end * DAY)
            handler.update_state(planned)
        return planned

    def planned(self, start: float, end: float, **options: Json) -> list[tuple[float, float]]:
        """What a run would read, in days of May; it is not read."""
        with self.handler(**options) as handler:
            return days(*handler.plan(MAY + start * DAY, MAY + end * DAY).unread)

    @property
    def covered(self) -> list[tuple[float, float]]:
        log = StateLog(self.store, KEY)
        head = log.head()
        pairs = log.value(head, SLOT).value["covered"] if head else []
        return days(*(Interval(*map(datetime.fromisoformat, pair)) for pair in pairs))


def days(*spans: Interval) -> list[tuple[float, float]]:
    return [((span.start - MAY) / DAY, (span.end - MAY) / DAY) for span in spans]


class Row(NamedTuple):
    """A relation of a request to what was read, [10, 20) of May, with the window that the reference system reads.

    differs: why this one reads something else; empty where both read the same.
    """

    request: tuple[float, float]
    theirs: list[tuple[float, float]]
    ours: list[tuple[float, float]]
    differs: str = ""
    options: dict[str, Json] = {}  # noqa: RUF012 - nobody changes it


TABLE = {
    "inside": Row((12, 15), [], []),
    "equal": Row((10, 20), [], []),
    "overlaps the tail": Row((15, 22), [(20, 22)], [(20, 22)]),
    "starts at the end": Row((20, 22), [(20, 22)], [(20, 22)]),
    "a gap behind": Row((23, 25), [(23, 25)], [(23, 25)]),
    "a gap behind, to be filled": Row((23, 25), [(20, 25)], [(20, 25)], options={"on_gap": "fill"}),
    "overlaps the head": Row((8, 12), [(8, 10)], [(8, 10)]),
    "before": Row((5, 8), [(5, 8)], [(5, 8)]),
    "a superset": Row((8, 22), [(8, 22)], [(8, 10), (20, 22)], "what was read is not read again"),
    "part of a bucket": Row(
        (22.25, 23.5), [(22, 23.5)], [(22, 24)], "both ends become whole buckets, so that only whole ones count"
    ),
}


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE.keys())
def test_what_is_read_of_a_request(row: Row) -> None:
    world = World()
    world.run(10, 20)

    assert world.planned(*row.request, **row.options) == row.ours
    assert (row.ours != row.theirs) == bool(row.differs)


def test_without_a_state_all_of_a_request_is_read_in_whole_buckets() -> None:
    assert World().planned(10.5, 12) == [(10, 12)]  # the reference reads (10.5, 12)


def test_what_was_read_apart_is_remembered() -> None:
    world = World()  # the reference keeps the last window alone, so filling in the past makes it forget
    world.run(10, 20)
    world.run(2, 4)

    assert world.covered == [(2, 4), (10, 20)]
    assert world.planned(0, 25) == [(0, 2), (4, 10), (20, 25)]


def test_another_selection_is_read_anew() -> None:
    world = World()  # the reference does not look at the rest of the config
    world.run(10, 20, selection={"tables": ["a"]})

    assert world.planned(10, 20, selection={"tables": ["a"]}) == []
    assert world.run(12, 14, selection={"tables": ["a", "b"]}).unread
    assert world.covered == [(12, 14)]


def test_a_skipped_run_says_so_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="cdk")
    world = World()
    world.run(10, 20)
    before = dict(world.store.objects)
    planned = world.run(12, 15)

    assert planned.skip
    assert world.store.objects == before
    days_said = "2024-05-13T00:00:00+00:00 to 2024-05-16T00:00:00+00:00"
    said = f"window:usage: skipped: {days_said} was read before; set force_rerun to read it again"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("INFO", said)]


def test_runs_do_not_alternate_between_reading_and_skipping() -> None:
    world = World()
    skips = []
    for day in range(4):
        world.now = MAY + (10 + day) * DAY + HOUR
        for _ in range(3):
            with world.handler() as handler:
                planned = handler.plan()
                skips.append((day, handler.should_skip_this_run()))
                handler.update_state(planned)

    assert skips == [(day, again) for day in range(4) for again in (False, True, True)]
    assert world.covered == [(9, 13)]


@pytest.mark.parametrize("option", ["force_rerun", "ignore_old_state"])
def test_a_forced_run_reads_all_and_forgets_nothing(option: str) -> None:
    world = World()
    world.run(10, 20)
    planned = world.run(15, 17, **{option: True})

    assert days(*planned.unread) == [(15, 17)]
    assert world.covered == [(10, 20)]


def test_a_run_that_ignores_its_new_state_stores_nothing() -> None:
    world = World()
    world.run(10, 20)
    before = dict(world.store.objects)

    assert days(*world.run(15, 25, ignore_new_state=True).unread) == [(20, 25)]
    assert world.store.objects == before


def test_a_run_again_from_an_earlier_record_sees_what_that_one_saw() -> None:
    world = World()
    world.run(10, 12)
    world.run(12, 20)
    with world.handler(mode=Mode("at:1")) as handler:
        planned = handler.plan(MAY + 10 * DAY, MAY + 14 * DAY)
        handler.update_state(planned)

    assert days(*planned.unread) == [(12, 14)]
    assert world.covered == [(10, 20)]


def test_without_stateful_ingestion_nothing_is_skipped() -> None:
    world = World()
    world.run(10, 20)

    with world.handler(enabled=False) as handler:
        planned = handler.plan(MAY + 10 * DAY, MAY + 20 * DAY)
    assert days(*planned.unread) == [(10, 20)]


@pytest.mark.parametrize(("settle", "covered"), [("0s", [(25, 30)]), ("6h", [(25, 29)]), ("2d", [(25, 28)])])
def test_a_bucket_counts_when_it_was_over_and_settled_before_it_was_read(
    settle: str, covered: list[tuple[float, float]]
) -> None:
    world = World()
    world.now = MAY + 30 * DAY + 5 * HOUR
    world.run(25, 30.2, settle=StatefulOptions.parse({"settle": settle}).settle)

    assert world.covered == covered
    assert world.planned(25, 30.2) == [(covered[-1][1], 31)]


def test_it_is_the_moment_before_reading_that_counts() -> None:
    world = World()
    world.now = MAY + 29.5 * DAY
    with world.handler() as handler:
        planned = handler.plan(MAY + 28 * DAY, MAY + 30 * DAY)
        world.now = MAY + 31 * DAY  # reading took a day and a half
        handler.update_state(planned)

    assert world.covered == [(28, 29)]


def test_a_step_that_failed_keeps_the_run_from_counting() -> None:
    world = World()
    with world.handler() as handler:
        planned = handler.plan(MAY, MAY + DAY)
        handler.report_current_run_status("lineage", ok=True)
        handler.report_current_run_status("usage", ok=False)
        handler.update_state(planned)
        with pytest.raises(BugError, match="usage failed"):
            handler.propose()

    assert world.covered == []


def test_spans_can_be_remembered_one_by_one() -> None:
    world = World()
    with world.handler() as handler:
        for start, end in ((0, 0.5), (0.5, 1), (1, 1.5)):
            handler.cover(Interval(MAY + start * DAY, MAY + end * DAY))
        handler.propose()

    assert world.covered == [(0, 1)]


def test_hours_that_were_read_count_for_days_only_where_all_of_them_were() -> None:
    world = World()
    world.run(10, 12.5, bucket_duration="HOUR")

    assert world.planned(10, 13, bucket_duration="HOUR") == [(12.5, 13)]
    assert world.planned(10, 13) == [(12, 13)]


def test_a_gap_is_filled_as_far_as_is_allowed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="cdk")
    world = World()
    world.run(0, 2)
    with world.handler(on_gap="fill", max_fill=timedelta(days=5)) as handler:
        planned = handler.plan(MAY + 20 * DAY, MAY + 21 * DAY)
    with world.handler() as handler:
        reported = handler.plan(MAY + 20 * DAY, MAY + 21 * DAY)

    assert (days(*planned.unread), days(planned.gap)) == ([(15, 21)], [(2, 15)])
    assert (days(*reported.unread), days(reported.gap)) == ([(20, 21)], [(2, 20)])
    assert "no run has read 2024-05-03T00:00:00+00:00 to 2024-05-21T00:00:00+00:00" in caplog.text


def test_only_the_newest_intervals_are_remembered() -> None:
    world = World()
    for day in range(0, 20, 4):
        world.run(day, day + 1, max_intervals=3)

    assert world.covered == [(8, 9), (12, 13), (16, 17)]


@pytest.mark.parametrize(
    ("start", "end"),
    [(MAY, MAY), (MAY + DAY, MAY), (MAY.replace(tzinfo=None), MAY + DAY), (MAY, (MAY + DAY).replace(tzinfo=None))],
)
def test_a_request_that_is_none_is_refused(start: datetime, end: datetime) -> None:
    with World().handler() as handler, pytest.raises(ConfigError, match="expected a"):
        handler.plan(start, end)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"covered": []},
        {"selection": "a", "covered": [["2024-01-01T00:00:00+00:00"]]},
        {"selection": "a", "covered": [["2024-01-01T00:00:00", "2024-01-02T00:00:00"]]},
        {"selection": "a", "covered": [["2024-01-02T00:00:00Z", "2024-01-01T00:00:00Z"]]},
        {"selection": "a", "covered": [["yesterday", "today"]]},
    ],
)
def test_a_state_that_cannot_be_read_is_said_when_the_run_begins(value: Json) -> None:
    world = World()
    with open_session(StateLog(world.store, KEY)) as session:
        session.propose(SLOT, INTERVALS.of(value))
        session.commit("final")
    with pytest.raises(BadState, match=f"state of default/usage {SLOT}"), world.handler():
        pass


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 60), st.booleans(), st.booleans()), max_size=6))
def test_over_any_runs_each_hour_is_read_until_it_counts_and_never_after(
    runs: list[tuple[int, int, bool, bool]],
) -> None:
    """A model of single hours. Each run: from, how long, whether it succeeds, whether it is forced."""
    world, counted = World(), set[int]()
    world.now = MAY + 250 * HOUR
    for first, length, succeeds, forced in runs:
        wanted = set(range(first, first + length))
        with world.handler(bucket_duration="HOUR", force_rerun=forced) as handler:
            planned = handler.plan(MAY + first * HOUR, MAY + (first + length) * HOUR)
            handler.report_current_run_status("read", ok=succeeds)
            handler.update_state(planned)
        read = {hour for start, end in days(*planned.unread) for hour in range(round(start * 24), round(end * 24))}

        assert read == (wanted if forced else wanted - counted)
        counted |= {hour for hour in read if succeeds and hour < 250}


def millis(day: float) -> int:
    return int((MAY + day * DAY).timestamp() * 1000)


def test_times_in_milliseconds_say_the_same() -> None:
    world = World()
    with world.handler() as handler:
        assert not handler.should_skip_this_run(cur_start_time_millis=millis(3))
        assert handler.update_state(start_time_millis=millis(3), end_time_millis=millis(30))
    assert world.covered == [(3, 30)]
    with world.handler() as handler:
        assert handler.should_skip_this_run(cur_start_time_millis=millis(3))
        assert not handler.should_skip_this_run(cur_start_time_millis=millis(2))
        assert not handler.should_skip_this_run(cur_start_time_millis=millis(30.5))


def test_half_a_day_in_milliseconds_covers_no_day() -> None:
    world = World()
    with world.handler() as handler:
        assert handler.update_state(start_time_millis=millis(3.5), end_time_millis=millis(5.5))
    assert world.covered == [(4, 5)]


@pytest.mark.parametrize("times", [{}, {"start_time_millis": 1}, {"start_time_millis": 2, "end_time_millis": 1}])
def test_neither_a_plan_nor_both_times_are_refused(times: dict[str, int]) -> None:
    with World().handler() as handler, pytest.raises(ConfigError, match="a start_time_millis before"):
        handler.update_state(**times)
