"""The schema of a stream as its first records show it, for authors who have not declared one."""

from collections.abc import Iterator, Sequence
from contextlib import closing

from cdk.base.records.inferred import inferred_schema
from cdk.base.values import JsonSchema, JsonValue, Record
from cdk.engine.read import read
from cdk.state.stream_state import StreamState
from cdk.streams.stream import Stream

PAGES, RECORDS = 3, 1000
"""How many pages that have records, or how many records, are read at most."""


def first_records(stream: Stream) -> Sequence[Record]:
    """The records of the stream's first pages. Raises what reading the stream does."""
    return [record for page in _first_pages(stream) for record in page][:RECORDS]


def shown_schema(stream: Stream, records: Sequence[Record] | None = None) -> JsonSchema:
    """The stream's schema, and in it the fields of its first records that it does not declare.

    A sync makes columns of the same types of them. Raises what reading the stream does, where `records` does not say
    what it gave.
    """
    records = first_records(stream) if records is None else records
    declared = stream.json_schema()
    known = declared.get("properties")
    properties: dict[str, JsonValue] = dict(known) if isinstance(known, dict) else {}
    inferred = inferred_schema(records)
    missing = {name: kind for name, kind in inferred.items() if name not in properties}
    return {**declared, "properties": {**properties, **missing}} if missing else declared


def _first_pages(stream: Stream) -> Iterator[Sequence[Record]]:
    pages = count = 0
    with closing(read(stream, StreamState())) as items:
        for item in items:
            match item:
                case StreamState():
                    continue
                case records:
                    yield records
                    pages, count = pages + 1, count + len(records)
            if pages >= PAGES or count >= RECORDS:
                return
