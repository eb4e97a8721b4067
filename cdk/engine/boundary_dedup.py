"""Reading with a memory of the records that come again, for appending tables.

Most sources include the cursor value they are asked to start at, so each run meets the last records of the run before
again; a record without a cursor value comes with every window. The state therefore keeps, bounded, a digest of each
such record, and how often it came. As many records as it knows are dropped; one more of them is a new record, and so is
one that was changed or that is new under the same cursor value.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b

from cdk.base.records.raw_json_lines import field_values
from cdk.base.values import NotJson, Record, canonical
from cdk.state.position import Edge
from cdk.state.slice import Slice
from cdk.streams.cursor import Cursor
from cdk.streams.order import json_value
from cdk.streams.read_slice import ReadPage, read_slice
from cdk.streams.stream import Stream


def read_without_boundary_duplicates(stream: Stream, slice: Slice) -> Iterator[ReadPage]:
    """`read_slice`, less the records that `slice.edge` remembers; each page's edge says what to remember next."""
    pages = read_slice(stream, slice)
    if stream.cursor is None:
        yield from pages
        return
    memory = _Memory(stream.cursor, slice)
    for page in pages:
        if page.restarted:
            memory = _Memory(stream.cursor, replace(slice, met=None))
        yield memory.look(page)


class _Memory:
    """What is remembered while a slice is read: of earlier slices, which is dropped, and of this one."""

    def __init__(self, cursor: Cursor, slice: Slice) -> None:
        met = slice.met or Edge(None)
        self._cursor, self._slice = cursor, slice
        self._known = slice.edge or Edge(None)
        self._values = {value for value in self._known.keys.values() if value is not None}
        self._greatest, self._keys, self._held = met.value, dict(met.keys), dict(met.held)
        self._counts = {digest: met.count(digest) for digest in met.keys}

    def look(self, page: ReadPage) -> ReadPage:
        """The page without what is known, and with an edge that remembers the rest."""
        self._advance(page.edge)
        records = page.records
        new = self._new_records(records) if records else ()
        if len(new) < len(records):
            records = [records[i] for i in new]
        skipped = page.skipped + len(page.records) - len(records)
        if page.edge is None and not self._keys and not self._held:
            return page._replace(records=records, skipped=skipped)
        # Equal records are the rule nowhere: most digests need no count.
        counts = {digest: count for digest, count in self._counts.items() if count > 1}
        edge = Edge(self._greatest, dict(self._keys), counts, dict(self._held))
        if len(edge.keys) < len(self._keys):
            self._forget(lambda digest, _: digest in edge.keys)
        return page._replace(records=records, edge=edge, skipped=skipped)

    def _advance(self, edge: Edge | None) -> None:
        """Follow the greatest value, and forget the records that it has left behind."""
        values = [value for value in (self._greatest, None if edge is None else edge.value) if value is not None]
        greatest = self._cursor.greatest(values) if values else None
        if greatest is not None and self._slice.window is not None:
            greatest = self._cursor.reached(self._slice.window, greatest, None)
        if greatest == self._greatest:
            return
        self._greatest = greatest
        self._forget(lambda _, value: value is None or self._cursor.repeats(value, greatest))

    def _forget(self, unless: Callable[[str, object], bool]) -> None:
        # What an earlier run remembers counts to the end: equal records that come again later are compared with it.
        known = self._known.keys
        self._keys = {digest: value for digest, value in self._keys.items() if digest in known or unless(digest, value)}
        self._counts = {digest: self._counts[digest] for digest in self._keys}

    def _new_records(self, records: Sequence[Record]) -> Sequence[int]:
        """Which of the records are not known. Only those that may come again are looked at closely."""
        values = field_values(records, self._cursor.field)
        undated = frozenset(self._cursor.unreadable(values))
        # Where no record was met but beyond the window, the cursor stays where it is.
        reached = self._known.value if self._greatest is None else self._greatest
        near: dict[object, bool] = {}
        indices, only_owed = [], self._slice.owed is not None
        for i, value in enumerate(values):
            if i in undated:
                new = self._is_new(_digest(records[i]), None)
            elif only_owed:
                new = False
            else:
                if (again := near.get(value)) is None:
                    again = value in self._values or reached is None or self._cursor.repeats(value, reached)
                    near[value] = again
                new = self._is_new(_digest(records[i]), value) if again else True
            if new:
                indices.append(i)
        return indices

    def _is_new(self, digest: str, value: object) -> bool:
        """Count a record, and say whether it is one more than those that are known."""
        count = self._counts.get(digest, 0) + 1
        known = self._known.count(digest)
        owed = self._slice.owed
        if count > known and value is None:
            if owed is not None and count > known + owed.get(digest, 0):
                return False
            # Once one of them is held back the others are, too, for they cannot be told apart.
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
            raise NotJson("found a record of too many levels, more than Python can write as JSON") from None
    return blake2b(text.encode(), digest_size=10).hexdigest()
