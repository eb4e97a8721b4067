"""Whether windows bring all records: the same must come with windows that are cut elsewhere."""

from copy import copy

from cdk.base.values import canonical
from cdk.testing.conformance.finding import Nonconforming
from cdk.testing.conformance.subject import SuiteSubject, Unanswered

__tracebackhide__ = True  # see `cdk.testing.conformance.subject`


def check_windows(subject: SuiteSubject) -> None:
    """Check that windows of other lengths bring the same records.

    A cassette, or a mock that knows certain windows only, has no response for these: such a stream passes.
    """
    with subject.streams() as streams:
        cursors = {name: stream.cursor and stream.cursor.recut() for name, stream in streams.items()}
    for name, cursor in cursors.items():
        if cursor is None:
            continue
        # Opened anew for each: a login is for the API that it was answered by.
        with subject.streams() as streams:
            stream = copy(streams[name])
        stream.cursor = cursor
        try:
            records = subject.read(stream, why="a read with windows cut elsewhere").records
        except Unanswered:
            continue
        first, second = (set(map(canonical, each)) for each in (subject.first.records_of(name), records))
        for texts, what in (
            (second - first, "come only with windows cut elsewhere"),
            (first - second, "do not come with those"),
        ):
            if texts:
                raise Nonconforming(
                    f"{len(texts)} records {what}, such as {', '.join(sorted(texts)[:3])}",
                    where=name,
                    expected="each record in one window, however long these are",
                    advice="ask the API for all from `slice.window.start` up to `slice.window.end`, this one included; "
                    "give the cursor the `granularity` of the API's filter",
                )
