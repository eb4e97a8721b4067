"""Reading with a memory of the cursor's edge, for appending tables.

Most sources include the cursor value they are asked to start at, so each run meets the last records of the run before
again. The state therefore keeps, bounded, a digest of each record at the edge; a record that comes back unchanged is
dropped, a new one with the same cursor value, or a changed one, is not.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b

from cdk.base.values import Json, NotJson, Record, canonical
from cdk.state.position import Edge
from cdk.state.slice import Slice
from cdk.streams.cursor import Cursor
from cdk.streams.reading import ReadPage, read_slice
from cdk.streams.stream import Stream


def remembering(stream: Stream, slice: Slice) -> Iterator[ReadPage]:
    """`read_slice`, less the records that `slice.edge` remembers; each page's edge says what to remember next."""
    pages = read_slice(stream, slice)
    if stream.cursor is None:
        yield from pages
        return
    known = slice.edge or Edge(None)
    running: Edge | None = None
    for page in pages:
        if page.edge is not None:
            greatest = page.edge.value
            if slice.window is not None:
                greatest = stream.cursor.reached(slice.window, greatest, None)
            running = _advance(stream.cursor, running, greatest, page.records)
        records = _unknown(stream.cursor, known, page.records)
        yield replace(page, records=records, edge=running, skipped=len(page.records) - len(records))


def _unknown(cursor: Cursor, known: Edge, records: Sequence[Record]) -> Sequence[Record]:
    """The records that are not remembered. Only those that carry a remembered cursor value are looked at closely."""
    if not known.keys:
        return records
    values = set(known.keys.values())
    return [r for r in records if not _among(r.get(cursor.field), values) or _digest(r) not in known.keys]


def _among(value: Json, values: Collection[Json]) -> bool:
    """Whether a cursor value is remembered; one that is an object or a list never is."""
    return not isinstance(value, dict | list) and value in values


def _advance(cursor: Cursor, running: Edge | None, greatest: Json, records: Sequence[Record]) -> Edge:
    keys = {} if running is None else {k: v for k, v in running.keys.items() if cursor.repeats(v, greatest)}
    for record in records:
        value = record.get(cursor.field)
        if value is not None and cursor.repeats(value, greatest):
            keys[_digest(record)] = value
    return Edge(greatest, keys)


def _digest(record: Record) -> str:
    try:
        text = canonical(record)
    except TypeError:  # a lone surrogate, a Decimal
        try:
            text = json.dumps(record, sort_keys=True, default=str)
        except RecursionError:
            raise NotJson("found a record of too many levels, more than Python can write as JSON") from None
    return blake2b(text.encode(), digest_size=10).hexdigest()
