"""read_slice: a slice of a stream as pages of records, each with the position after them. Runs anywhere."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cdk.base.errors import StaleToken
from cdk.base.logs import logger
from cdk.base.values import Record
from cdk.state.position import Checkpoint, Done, Edge, Position, Start
from cdk.state.slice import Slice
from cdk.streams.cursor import Cursor
from cdk.streams.stream import Page, Stream

PAGE_RECORDS = 1000
"""Records handed on at once when an author yields them one by one."""


@dataclass(frozen=True, slots=True)
class ReadPage:
    """What moves between stages: records, and where a restart would go on once they are safe.

    position: None while the source has not said where it could go on; such records are covered by a later page.
    edge: the greatest cursor value of the slice so far, these records included, where the stream has a cursor.
    skipped: records left out because an earlier run had them (`cdk.engine.remember`).
    restarted: the source refused the saved token, so the slice is read from its start again, beginning here.
    """

    records: Sequence[Record]
    position: Position | None = None
    edge: Edge | None = None
    skipped: int = 0
    restarted: bool = False


def read_slice(stream: Stream, slice: Slice) -> Iterator[ReadPage]:
    """Read `slice` page by page; the position of the last page is `Done`.

    A stream that does not support checkpointing gets no position before that. A slice whose saved token the source
    refuses is read again from its start.
    """
    try:
        yield from _pages(stream, slice)
    except StaleToken as refused:
        if isinstance(slice.start, Start):
            raise
        logger.warning("%s %s: %s; reading this slice from its start", stream.name, slice, refused)
        yield ReadPage((), restarted=True)
        yield from _pages(stream, replace(slice, start=Start()))


def _pages(stream: Stream, slice: Slice) -> Iterator[ReadPage]:
    finish = _Finisher(stream, slice)
    records: list[Record] = []
    for item in stream.items(slice):
        # Most items are plain dicts: one type check each.
        if type(item) is dict:
            records.append(item)
            if len(records) < PAGE_RECORDS:
                continue
            yield finish(records, None)
        elif isinstance(item, Page):
            if records:
                yield finish(records, None)
            yield finish(item.records, None if item.next is None else Checkpoint(item.next))
        elif isinstance(item, Checkpoint):
            yield finish(records, item)
        else:
            records.append(item)
            continue
        records = []
    yield finish(records, Done())


class _Finisher:
    """Completes a page: keeps what the window owns, finds the greatest cursor value, settles the position."""

    def __init__(self, stream: Stream, slice: Slice) -> None:
        self._resumable = stream.supports_checkpointing
        self._cursor, self._window = stream.cursor, slice.window
        self._edge: Edge | None = None

    def __call__(self, records: Sequence[Record], position: Position | None) -> ReadPage:
        if isinstance(position, Checkpoint) and not self._resumable:
            position = None
        if self._cursor is None or not records:
            return ReadPage(records, position, self._edge)
        return self._with_edge(self._cursor, records, position)

    def _with_edge(self, cursor: Cursor, records: Sequence[Record], position: Position | None) -> ReadPage:
        field = cursor.field
        values = [value for record in records if (value := record.get(field)) is not None]
        if values and self._window is not None and not cursor.owns_all(self._window, values):
            window = self._window
            records = [r for r in records if r.get(field) is None or cursor.owns(window, r[field])]
            values = [value for record in records if (value := record.get(field)) is not None]
        if values:
            known = [] if self._edge is None else [self._edge.value]
            greatest = cursor.greatest([*known, cursor.greatest(values)])
            self._edge = None if greatest is None else Edge(greatest)
        if position is None and cursor.ordered and self._edge is not None:
            position = Checkpoint({field: self._edge.value})
        return ReadPage(records, position, self._edge)
