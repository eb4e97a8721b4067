"""Checks that records stay the same when a read is interrupted, repeated, windowed differently, or run in threads."""

from collections import Counter
from collections.abc import Sequence
from copy import copy

from cdk.base.values import FieldValue, canonical
from cdk.testing.conformance.faults import Overlapping
from cdk.testing.conformance.subject import Nonconforming, SuiteSubject, Unanswered

__tracebackhide__ = True  # see `cdk.testing.conformance.subject`

_MOST_STATES = 200
"""The number of states of a stream to resume from; if there are more, states at about equal distances are used."""


def check_resume(subject: SuiteSubject) -> None:
    """Check that a read from any state returns the remaining records: none is lost, and none is new."""
    for name in subject.stream_names:
        first = subject.first.records_of(name)
        states = subject.states_of(name)
        befores = _records_before_states(subject, name)
        for number in range(0, len(states), max(1, len(states) // _MOST_STATES)):
            why = f"a read that resumes from state {number + 1} of {len(states)}"
            rest = subject.read(name, state=[states[number]], why=why).records_of(name)
            state: FieldValue = states[number].stream
            compare(first, [*befores[number], *rest], name, f"{why}, {canonical(state.stream_state)[:300]}")


def check_second_read(subject: SuiteSubject) -> None:
    """Check that a read from the last states returns no new records and leaves the same states."""
    first = subject.first
    last = first.state_messages
    second = subject.read(state=last, why="a second read")
    with subject.streams() as streams:
        for name, stream in streams.items():
            fresh = _texts(second.records_of(name)) - _texts(first.records_of(name))
            if fresh:
                _raise_changed(name, list(fresh.elements()))
            states = [
                [s.stream for s in run if s.stream and s.stream.stream_descriptor.name == name]
                for run in (last, second.state_messages)
            ]
            before, after = (canonical([s.stream_state for s in each]) for each in states)
            if stream.incremental and before != after:
                raise Nonconforming(
                    f"a second read of the same records changes the state from {before} to {after}",
                    where=name,
                    expected="a state that depends only on the records",
                    advice="derive the state from records, not from the number or the time of reads",
                )


def check_windows(subject: SuiteSubject) -> None:
    """Check that windows of other lengths return the same records.

    A stream passes if its cassette, or a mock that knows only certain windows, has no response for these requests.
    """
    with subject.streams() as streams:
        cursors = {name: stream.cursor and stream.cursor.recut() for name, stream in streams.items()}
    for name, cursor in cursors.items():
        if cursor is None:
            continue
        # Opened again for each stream, because a login belongs to the API that answered it.
        with subject.streams() as streams:
            stream = copy(streams[name])
        stream.cursor = cursor
        try:
            records = subject.read(stream, why="a read with windows of other lengths").records
        except Unanswered:
            continue
        first, second = (set(map(canonical, each)) for each in (subject.first.records_of(name), records))
        for texts, what in (
            (second - first, "are read only with windows of other lengths"),
            (first - second, "are not read with those"),
        ):
            if texts:
                raise Nonconforming(
                    f"{len(texts)} records {what}, such as {', '.join(sorted(texts)[:3])}",
                    where=name,
                    expected="each record in one window, however long these are",
                    advice="request everything from `slice.window.start` up to and including `slice.window.end`; "
                    "give the cursor the `granularity` of the API's filter",
                )


def check_threads(subject: SuiteSubject) -> None:
    """Check that slices read concurrently return the same records as slices read one after the other."""
    first = subject.first
    threaded = subject.read(api=Overlapping(subject.api()), concurrency=4, why="a read of 4 slices concurrently")
    with subject.streams() as streams:
        for name in streams:
            serial, beside = _texts(first.records_of(name)), _texts(threaded.records_of(name))
            if serial != beside:
                raise Nonconforming(
                    f"4 concurrent slices return other records than one after the other: {difference(serial, beside)}",
                    where=name,
                    expected="the same records in any order",
                    advice="keep what belongs to a slice in variables of `read_records`, not in the stream, its class "
                    "or the module; or set `max_concurrency = 1`",
                )


def compare(first: Sequence[FieldValue], read: Sequence[FieldValue], name: str, why: str) -> None:
    """Raise Nonconforming: when records of the first read are lost or new ones appear. why: what was read, in words."""
    lost = _texts(first).keys() - _texts(read).keys()
    if lost:
        raise Nonconforming(
            f"{len(lost)} of {len(first)} records are lost by {why}: {', '.join(sorted(lost)[:3])}",
            where=name,
            expected="all records before the state or after it",
            advice="have the state cover only what was yielded before it, retain the first record beyond it, and "
            "request everything from there on",
        )
    if fresh := _texts(read).keys() - _texts(first).keys():
        _raise_changed(name, sorted(fresh))


def _raise_changed(name: str, fresh: list[str]) -> None:
    raise Nonconforming(
        f"{len(fresh)} records are returned that the first read did not have: {', '.join(fresh[:3])}",
        where=name,
        expected="the same records from the same API",
        advice="keep times and random values out of records; or give the suite an API that returns the same each time",
    )


def _records_before_states(subject: SuiteSubject, name: str) -> list[list[FieldValue]]:
    """Return, for each state of a stream, the records before it."""
    befores: list[list[FieldValue]] = []
    records: list[FieldValue] = []
    for message in subject.first.messages:
        if message["type"] == "RECORD" and message["record"]["stream"] == name:
            records.append(message["record"]["data"])
        if message["type"] == "STATE" and message["state"]["stream"]["stream_descriptor"]["name"] == name:
            befores.append(list(records))
    return befores


def _texts(records: Sequence[FieldValue]) -> Counter[str]:
    return Counter(map(canonical, records))


def difference(expected: Counter[str], actual: Counter[str]) -> str:
    """Return how many rows are missing and too many, and one of these; empty if the rows are as expected."""
    missing, more = expected - actual, actual - expected
    example = min(missing or more, default="")[:200]
    return example and f"{missing.total()} are missing, {more.total()} are too many, such as {example}"
