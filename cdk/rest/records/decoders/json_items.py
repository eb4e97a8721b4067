"""JsonItems: yields the elements of a list inside a JSON document one by one while the document arrives."""

import codecs
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from cdk.base.errors import DecodeError
from cdk.base.records.exact_json import written_number
from cdk.base.values import FieldValue, JsonValue, from_json
from cdk.rest.errors.failed_body import raise_on_outage
from cdk.rest.http.messages import Response
from cdk.rest.records.decoder import StreamedItems
from cdk.rest.records.decoders.text_formats import BodyFile, not_encoded, unknown_encoding

_DEPTH = 500
_SHORT = 2**16
_WINDOW = 2**12
"""Bytes between two checks of the depth, which cannot grow much in between; fewer than `_MOST_DIGITS`."""
_DIGITS, _MOST_DIGITS = b"0123456789", 4300
"""The most digits of an integer that Python parses by default: ijson 3.6 ends the process at one of more."""
_CONVERTED = (Decimal, dict, list)


@dataclass(frozen=True, slots=True)
class JsonItems(StreamedItems):
    """Decodes JSON documents that are larger than memory: yields the elements of the list at `items_path`.

    items_path: names joined by dots (`data.users`); `item` matches the elements of a list along the path. Yields
    nothing if the path does not lead to a list.
    """

    items_path: str
    encoding: str = "utf-8"

    def items(self, response: Response) -> Iterator[JsonValue]:
        import ijson  # type: ignore[import-untyped]  # noqa: PLC0415 - only needed here

        where = f"{self.items_path}.item" if self.items_path else "item"
        with closing(response.chunks()) as chunks:
            any_items, begin = False, list[bytes]()
            pieces = _recording_start(_utf8(response, chunks, self.encoding), begin)
            try:
                for item in ijson.items(BodyFile(response, _checked(response, pieces)), where):
                    any_items = True
                    yield _with_numbers(item)
            except (ijson.JSONError, InvalidOperation, UnicodeDecodeError) as error:
                why = str(error).splitlines()[0]
                raise DecodeError(f"{response.request}: the body is not JSON, or is truncated: {why}") from None
            if not any_items:
                with suppress(ValueError):  # the body is longer than its recorded start
                    raise_on_outage(response, from_json(b"".join(begin)), self.items_path.split("."))


def _with_numbers(value: FieldValue) -> FieldValue:
    """Return a value of ijson, changed in place, with its decimals as other decoders return numbers."""
    if type(value) is Decimal:
        return written_number(str(value))
    for key, part in value.items() if type(value) is dict else enumerate(value) if type(value) is list else ():
        if type(part) in _CONVERTED:
            value[key] = _with_numbers(part)
    return value


def _without_byte_order_mark(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a UTF-8 body without its byte order mark."""
    begin = b""
    for piece in pieces:
        begin += piece
        if len(begin) >= len(codecs.BOM_UTF8):
            break
    yield begin.removeprefix(codecs.BOM_UTF8)
    yield from pieces


def _recording_start(pieces: Iterator[bytes], begin: list[bytes]) -> Iterator[bytes]:
    """Yield the pieces unchanged and record the first ones in `begin`: an error instead of records is short."""
    size = 0
    for piece in pieces:
        if size < _SHORT:
            begin.append(piece)
        size += len(piece)
        yield piece


def _checked(response: Response, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces unchanged. Raises DecodeError: when the JSON in them is nested too deeply, or a number too long.

    The parser stores the path of every open list and object: for 100 KB of `[`, that takes five gigabytes.
    """
    depth, inside, digits, held = 0, 0, 0, b""
    for piece in pieces:
        for start in range(0, len(piece), _WINDOW):
            text = (held + piece[start : start + _WINDOW]).replace(rb"\\", b"")
            held = b"\\" if text.endswith(b"\\") else b""
            parts = text.replace(rb"\"", b"").split(b'"')
            open_ = b"".join(parts[inside::2])
            inside ^= (len(parts) - 1) & 1
            depth += open_.count(b"[") + open_.count(b"{") - open_.count(b"]") - open_.count(b"}")
            if depth > _DEPTH:
                raise DecodeError(f"{response.request}: the JSON of the body is nested deeper than {_DEPTH} levels")
            first, last = len(open_) - len(open_.lstrip(_DIGITS)), len(open_) - len(open_.rstrip(_DIGITS))
            if digits + first > _MOST_DIGITS:
                raise DecodeError(f"{response.request}: a number of the body has more than {_MOST_DIGITS} digits")
            digits = digits + first if first == len(open_) else last
        yield piece


def _utf8(response: Response, pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the pieces as UTF-8 without a byte order mark. Raises as `text_lines` does."""
    try:
        codec = codecs.lookup(encoding)
    except LookupError:
        raise unknown_encoding(response, encoding) from None
    if codec.name == "utf-8":
        yield from _without_byte_order_mark(pieces)
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for piece in pieces:
            yield decoder.decode(piece).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise not_encoded(response, encoding, error) from None
