"""Whether windows bring all records: the same must come with windows that are cut elsewhere."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace

from cdk.base.values import FieldValue, canonical
from cdk.streams.source import Source
from cdk.streams.stream import Stream
from cdk.testing.conformance.finding import Nonconforming
from cdk.testing.conformance.subject import SuiteSubject

__tracebackhide__ = True  # see `cdk.testing.conformance.subject`


class _Recut(Source):
    """A source whose streams have windows that are cut elsewhere."""

    def __init__(self, source: Source) -> None:
        self._source, self.name, self.config_schema = source, source.name, source.config_schema

    def prepare(self, config: Mapping[str, FieldValue]) -> Mapping[str, FieldValue]:
        return self._source.prepare(config)

    def transform(self, config: Mapping[str, FieldValue]) -> Mapping[str, FieldValue]:
        return self._source.transform(config)

    def streams(self, config: Mapping[str, FieldValue]) -> Sequence[Stream]:
        self._source.events = self.events
        return [_recut(stream) or stream for stream in self._source.streams(config)]


def check_windows(subject: SuiteSubject) -> None:
    """Check that windows of other lengths bring the same records.

    An API of a recording, or a mock that knows certain windows only, has no response for these: nothing is said then.
    """
    with subject.streams() as streams:
        names = [name for name, stream in streams.items() if _recut(stream) is not None]
    other = replace(subject, source=_Recut(subject.source))
    for name in names:
        try:
            records = other.read(name, why="a read with windows cut elsewhere").records_of(name)
        except Nonconforming:
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


def _recut(stream: Stream) -> Stream | None:
    """The stream with windows that are cut elsewhere; None where it has none that can be."""
    cursor = None if stream.cursor is None else stream.cursor.recut()
    if cursor is None:
        return None
    stream = copy(stream)
    stream.cursor = cursor
    return stream
