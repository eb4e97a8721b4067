"""Infers the schema of a stream from its first records, for authors who have not declared one."""

from collections.abc import Iterator, Sequence
from contextlib import closing

from cdk.base.records.inferred import inferred_schema
from cdk.base.values import JsonSchema, JsonValue, Record
from cdk.engine.read import read
from cdk.state.stream_state import StreamState
from cdk.streams.stream import Stream

PAGES, RECORDS = 3, 1000
"""Reading stops after so many pages with records, or so many records."""


def first_records(stream: Stream) -> Sequence[Record]:
    """Return the records of the stream's first pages. Raises what reading the stream raises."""
    return [record for page in _first_pages(stream) for record in page][:RECORDS]


def schema_with_inferred_fields(stream: Stream, records: Sequence[Record] | None = None) -> JsonSchema:
    """Return the stream's schema, extended by the undeclared fields of its first records.

    The types are those of the columns that a sync creates for these fields.
    records: the stream's first records; None to read them, which raises what reading the stream raises.
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
