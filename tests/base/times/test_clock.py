"""Moments are read and written in any format, and what is no moment is None."""

import time
from contextlib import nullcontext
from contextvars import copy_context
from datetime import UTC, datetime, timedelta, timezone
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.base.process.interruption import Interrupted, Interruption
from cdk.base.run import RunScope
from cdk.base.times.clock import (
    Stopped,
    format_problem,
    interruptible,
    parse_timestamp,
    sleep,
    system_clock,
    write_timestamp,
)
from cdk.base.values import Json

FORMATS = ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%S.%_msZ", "%d.%m.%Y %H:%M:%S %z"]
EPOCHS = ["%s", "%ms", "%s_as_float", "%epoch_microseconds"]
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)).map(lambda m: m.replace(tzinfo=UTC))  # noqa: DTZ001


@given(MOMENTS, st.sampled_from([*FORMATS, *EPOCHS]))
def test_what_was_written_is_read_as_precisely_as_the_format_is(moment: datetime, pattern: str) -> None:
    again = parse_timestamp(write_timestamp(moment, pattern), [pattern])

    assert again is not None
    assert timedelta(microseconds=-2) < moment - again < timedelta(seconds=1)
    assert write_timestamp(again, pattern) == write_timestamp(moment, pattern)


@pytest.mark.parametrize(
    ("value", "formats"),
    [
        ("2024-02-03T04:05:06Z", []),
        ("2024-02-03T06:05:06+02:00", []),
        ("2024-02-03 04:05:06", []),
        ("2024-02-03T04:05:06", ["%s"]),
        (1706933106, ["%s"]),
        ("1706933106", ["%Y-%m-%d %H:%M", "%s"]),
        (1706933106000, ["%ms"]),
        ("03/02/2024 04:05:06", ["%s", "%d/%m/%Y %H:%M:%S"]),
    ],
)
def test_a_moment_is_read_in_any_of_its_formats_and_in_iso(value: Json, formats: list[str]) -> None:
    assert parse_timestamp(value, formats) == datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)


@given(
    st.none() | st.booleans() | st.text() | st.floats() | st.integers() | st.lists(st.integers()),
    st.sets(st.sampled_from([*FORMATS, *EPOCHS])),
)
def test_anything_else_is_none_and_never_an_error(value: Json, formats: set[str]) -> None:
    moment = parse_timestamp(value, sorted(formats))

    assert moment is None or moment.tzinfo is not None


PARTS = st.sampled_from(
    ["%Y", "%m", "%-d", "%H", "%_ms", "%f", "%z", "%s", "%%", "%e", "%05Y", "T", ":", "-", "Z", "ms"]
)


@given(st.lists(PARTS, min_size=1).map("".join), st.sampled_from(["%Q", "%i", "%N", "%", "%3N", "%E"]))
def test_a_format_with_a_part_that_would_be_written_unchanged_is_none(known: str, unknown: str) -> None:
    assert bool(format_problem(known)) == ("%" not in known)
    assert repr(unknown) in format_problem(f"{known} {unknown}")
    assert all(format_problem(epoch) == "" for epoch in EPOCHS)


def test_the_clock_knows_its_zone() -> None:
    assert system_clock().tzinfo is UTC


def test_a_moment_of_another_zone_is_written_as_the_moment_it_is_in_utc() -> None:
    moment = datetime(2024, 1, 2, 2, tzinfo=timezone(timedelta(hours=2)))

    assert write_timestamp(moment, "%Y-%m-%dT%H:%M:%SZ") == "2024-01-02T00:00:00Z"


def test_a_wait_ends_when_nobody_wants_it_any_more() -> None:
    stop = Event()
    stop.set()

    def waiting() -> None:
        interruptible(stop)
        with pytest.raises(Stopped):
            sleep(3600)

    copy_context().run(waiting)


def test_a_wait_that_can_be_ended_is_one_of_the_standard_library_too(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)

    def waiting() -> None:
        interruptible(Event())
        sleep(3600.1)

    copy_context().run(waiting)

    assert sum(waits) == pytest.approx(3600.1)


def test_a_wait_is_ended_in_its_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, waits = Event(), list[float]()

    def end(seconds: float) -> None:
        waits.append(seconds)
        stop.set()

    monkeypatch.setattr(time, "sleep", end)

    def waiting() -> None:
        interruptible(stop)
        with pytest.raises(Stopped):
            sleep(3600)

    copy_context().run(waiting)

    assert len(waits) == 1


@pytest.mark.parametrize(("seconds", "ends"), [(3600, True), (10.1, True), (10, False), (0.1, False)])
@pytest.mark.parametrize("on_a_thread", [True, False])
def test_a_wait_of_an_interrupted_run_ends_unless_it_is_short(
    seconds: float,
    ends: bool,  # noqa: FBT001
    on_a_thread: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    run = RunScope(shared={Interruption: Interruption(timedelta(0))})

    def waiting() -> None:
        if on_a_thread:
            interruptible(Event())
        with run.working(), pytest.raises(Interrupted, match="max_duration") if ends else nullcontext():
            sleep(seconds)

    copy_context().run(waiting)

    assert sum(waits) == pytest.approx(0 if ends else seconds)


def test_a_wait_that_nobody_ends_is_as_long_as_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)

    sleep(7)

    assert waits == [7]
