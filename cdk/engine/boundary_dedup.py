"""Drops records that an earlier run or window has already read, for tables that are appended to.

Most sources include records at the cursor value at which they are asked to start, so each run receives the last records
of the previous run again; a record without a cursor value is returned with every window. The state therefore stores a
digest of each such record, up to a limit, and how often it was read. That many equal records are dropped; any further
one is new, as is a record that has changed or is new at the same cursor value.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

from msgspec.structs import replace

from cdk.base.records.raw_json_lines import field_values
from cdk.base.values import NotJson, Record, canonical
from cdk.state.position import Edge
from cdk.state.slice import Slice
from cdk.streams.cursor import Cursor
from cdk.streams.order import json_value
from cdk.streams.page import ReadPage
from cdk.streams.read_slice import read_slice
from cdk.streams.stream import Stream


def read_without_boundary_duplicates(stream: Stream, slice: Slice) -> Iterator[ReadPage]:
    """Yield the pages of `read_slice` without the records in `slice.edge`; each page's edge is what to store next."""
    pages = read_slice(stream, slice)
    if stream.cursor is None:
        yield from pages
        return
    seen_records = _SeenRecords(stream.cursor, slice)
    for page in pages:
        if page.restarted:
            seen_records = _SeenRecords(stream.cursor, replace(slice, met=None))
        yield seen_records.drop_known(page)


class _SeenRecords:
    """The records remembered while a slice is read: those of earlier slices, which are dropped, and its own."""

    def __init__(self, cursor: Cursor, slice: Slice) -> None:
        met = slice.met or Edge(None)
        self._cursor, self._slice = cursor, slice
        self._known = slice.edge or Edge(None)
        self._values = {value for value in self._known.keys.values() if value is not None}
        self._greatest, self._keys, self._held = met.value, dict(met.keys), dict(met.held)
        self._counts = {digest: met.count(digest) for digest in met.keys}
        self._beyond: object = met.beyond

    def drop_known(self, page: ReadPage) -> ReadPage:
        """Return the page without known records, with the edge that covers the slice up to here."""
        self._advance(page.edge)
        records = page.records
        new = self._new_records(records) if records else ()
        if len(new) < len(records):
            records = [records[i] for i in new]
        skipped = page.skipped + len(page.records) - len(records)
        if page.edge is None and not self._keys and not self._held:
            return replace(page, records=records, skipped=skipped)
        # Equal records are rare, so most digests need no count.
        counts = {digest: count for digest, count in self._counts.items() if count > 1}
        self._beyond = self._beyond if page.edge is None else page.edge.beyond
        edge = Edge(self._greatest, dict(self._keys), counts, dict(self._held), self._beyond)
        if len(edge.keys) < len(self._keys):
            self._forget(lambda digest, _: digest in edge.keys)
        return replace(page, records=records, edge=edge, skipped=skipped)

    def _advance(self, edge: Edge | None) -> None:
        """Advance the greatest cursor value, and forget records that the source will not repeat from there."""
        values = [value for value in (self._greatest, None if edge is None else edge.value) if value is not None]
        greatest = self._cursor.greatest(values) if values else None
        if greatest is not None and self._slice.window is not None:
            greatest = self._cursor.reached(self._slice.window, greatest, None)
        if greatest == self._greatest:
            return
        self._greatest = greatest
        self._forget(lambda _, value: value is None or self._cursor.repeats(value, greatest))

    def _forget(self, unless: Callable[[str, object], bool]) -> None:
        # Keep the digests of an earlier run to the end: equal records may still be repeated and are compared with them.
        known = self._known.keys
        self._keys = {digest: value for digest, value in self._keys.items() if digest in known or unless(digest, value)}
        self._counts = {digest: self._counts[digest] for digest in self._keys}

    def _new_records(self, records: Sequence[Record]) -> Sequence[int]:
        """Return the indices of the new records. Computes digests only of records that the source may repeat."""
        values = field_values(records, self._cursor.field)
        without_cursor = frozenset(self._cursor.unreadable(values))
        # If all records so far were beyond the window, the cursor stays where it was.
        reached = self._known.value if self._greatest is None else self._greatest
        may_repeat: dict[object, bool] = {}
        indices, only_owed = [], self._slice.owed is not None
        for i, value in enumerate(values):
            if i in without_cursor:
                new = self._is_new(_digest(records[i]), None)
            elif only_owed:
                new = False
            else:
                if (repeated := may_repeat.get(value)) is None:
                    repeated = value in self._values or reached is None or self._cursor.repeats(value, reached)
                    may_repeat[value] = repeated
                new = self._is_new(_digest(records[i]), value) if repeated else True
            if new:
                indices.append(i)
        return indices

    def _is_new(self, digest: str, value: object) -> bool:
        """Count a record, and return whether it exceeds the known number of equal records."""
        count = self._counts.get(digest, 0) + 1
        known = self._known.count(digest)
        owed = self._slice.owed
        if count > known and value is None:
            if owed is not None and count > known + owed.get(digest, 0):
                return False
            # If one of several equal records is held back, so are the others: they are indistinguishable.
            if digest in self._held or (self._slice.holds and len(self._held) < Edge.MAX_HELD):
                self._held[digest] = self._held.get(digest, known) + 1
                return False
        self._keys[digest], self._counts[digest] = json_value(value), count
        return count > known


def _digest(record: Record) -> str:
    try:
        text = canonical(record)
    except TypeError:  # a lone surrogate, a Decimal
        try:
            text = json.dumps(record, sort_keys=True, default=str)
        except RecursionError:
            raise NotJson("found a record with too many levels, more than Python can write as JSON") from None
    return blake2b(text.encode(), digest_size=10).hexdigest()
