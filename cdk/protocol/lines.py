"""Messages as lines of JSON: a page of records is encoded in one pass, every other message on its own."""

import json
from collections.abc import Sequence

import msgspec
import orjson

from cdk.base.errors import FatalError
from cdk.base.records.plain_values import json_of
from cdk.base.records.raw_json_lines import json_lines
from cdk.base.values import NotJson, Record, SerializedJson, fragment
from cdk.protocol.messages import AirbyteMessage

_SEPARATOR_TEXT = b"\n" * 16
_SEPARATOR = orjson.Fragment(_SEPARATOR_TEXT)


def message_line(message: AirbyteMessage) -> bytes:
    """Return the line of a message, including the line feed.

    Omits fields that are None; nulls inside a state, a config or a record stay.
    """
    try:
        return _ENCODER.encode(message) + b"\n"
    except UnicodeEncodeError:
        # UTF-8 cannot encode half a surrogate pair; the standard library writes it as an escape.
        return json.dumps(msgspec.to_builtins(message)).encode() + b"\n"


def _raw(value: object) -> msgspec.Raw:
    if isinstance(value, SerializedJson):
        return msgspec.Raw(value.json_text())
    raise TypeError(f"JSON cannot represent {type(value).__name__}")


_ENCODER = msgspec.json.Encoder(enc_hook=_raw)


def record_lines(stream: str, namespace: str | None, records: Sequence[Record], emitted_at_ms: int) -> bytes:
    """Return the lines of a page of records, each with its line feed; empty bytes if there are no records.

    emitted_at_ms: milliseconds since 1970, the same for the whole page.
    Omits top-level fields that are null, as Airbyte does; nested nulls stay. NaN and infinities become null, Python
    values are converted as in `cdk.base.records.plain_values`, and numbers keep every digit.

    Raises FatalError naming the stream and the field: when JSON cannot represent a value.
    """
    if not records:
        return b""
    namespace_field = b"" if namespace is None else b'"namespace":' + orjson.dumps(namespace) + b","
    head = b'{"type":"RECORD","record":{' + namespace_field + b'"stream":' + orjson.dumps(stream) + b',"data":'
    tail = b',"emitted_at":%d}}\n' % emitted_at_ms
    lines = json_lines(records)
    if lines is not None and (text := lines.lines) is not None and b"null" not in text:
        return b"".join((head, text.replace(b"\n", tail + head), tail))
    try:
        # Searching each record for nulls takes as long as encoding it. Most pages either have a null in their first
        # record, or have none at all.
        page = b"null" if None in records[0].values() else _dumps_page(records)
        texts = _split_page(_dumps_page(_without_nulls(records)) if b"null" in page else page)
    except TypeError:
        texts = [_dumps(stream, record) for record in _without_nulls(records)]
    texts[0] = head + texts[0]
    texts[-1] += tail
    return (tail + head).join(texts)


def _without_nulls(records: Sequence[Record]) -> list[Record]:
    return [
        {name: value for name, value in record.items() if value is not None} if None in record.values() else record
        for record in records
    ]


def _dumps_page(records: Sequence[Record]) -> bytes:
    """Encode all records in one call of the encoder, with a separator between every two records.

    Five times faster than one call per record, which spends most of its time allocating its result. The separator
    cannot occur inside a record, because JSON text contains no raw line feed; its length lets the search skip ahead.

    Raises TypeError: when the encoder does not support a value.
    """
    items: list[Record | orjson.Fragment] = [_SEPARATOR] * (2 * len(records) - 1)
    items[::2] = records
    return orjson.dumps(items, fragment)


def _split_page(page: bytes) -> list[bytes]:
    """Split the result of `_dumps_page` into the text of each record."""
    texts = page.split(b"," + _SEPARATOR_TEXT + b",")
    texts[0] = texts[0][1:]
    texts[-1] = texts[-1][:-1]
    return texts


def _dumps(stream: str, record: Record) -> bytes:
    """Encode one record of a page that the fast encoder could not encode."""
    try:
        return orjson.dumps(record, fragment)
    except TypeError:
        pass
    try:
        return json_of(record, special="null").encode()
    except NotJson as error:
        raise FatalError(f"{error}; yield a string, a number, a list or a dict", stream=stream) from None
