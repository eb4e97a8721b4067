"""JSON items: the elements of a list inside a JSON document, read one by one while the document arrives."""

import codecs
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import ClassVar

from cdk.base.errors import DecodeError
from cdk.base.values import JsonValue, from_json
from cdk.rest.errors.failed_body import refuse_outage
from cdk.rest.http.messages import Response
from cdk.rest.records.decoders.text_formats import BodyFile, not_encoded

_DEPTH = 500
_SHORT = 2**16
_WINDOW = 2**12
"""Bytes after which the depth is looked at; it cannot grow much in so few."""


@dataclass(frozen=True, slots=True)
class JsonItems:
    """Bodies that are one JSON document too large for memory: gives the elements of the list at `items_path`.

    items_path: names with dots between them (`data.users`); `item` stands for the elements of a list on the way. A path
    that leads to no list gives nothing.
    """

    items_path: str
    encoding: str = "utf-8"

    streams: ClassVar[bool] = True

    def decode(self, response: Response) -> JsonValue:
        return list(self.items(response))

    def items(self, response: Response) -> Iterator[JsonValue]:
        import ijson  # type: ignore[import-untyped]  # noqa: PLC0415 - a library for those who use it

        where = f"{self.items_path}.item" if self.items_path else "item"
        with closing(response.chunks()) as chunks:
            pieces = (
                _unmarked(chunks)
                if self.encoding.lower() in {"utf-8", "utf8"}
                else _utf8(response, chunks, self.encoding)
            )
            any_items, begin = False, list[bytes]()
            try:
                for item in ijson.items(BodyFile(_shallow(response, _noting(pieces, begin))), where, use_float=True):
                    any_items = True
                    yield item
            except (ijson.JSONError, UnicodeDecodeError) as error:
                why = str(error).splitlines()[0]
                raise DecodeError(f"{response.request}: the body is no JSON, or ends too early: {why}") from None
            if not any_items:
                with suppress(ValueError):  # a body that is longer than what was noted
                    refuse_outage(response, from_json(b"".join(begin)), self.items_path.split("."))


def _unmarked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces of a body in UTF-8, without the byte order mark before them."""
    begin = b""
    for piece in pieces:
        begin += piece
        if len(begin) >= len(codecs.BOM_UTF8):
            break
    yield begin.removeprefix(codecs.BOM_UTF8)
    yield from pieces


def _noting(pieces: Iterator[bytes], begin: list[bytes]) -> Iterator[bytes]:
    """The pieces as they are, of which the first go into `begin`: an error in the place of records is short."""
    size = 0
    for piece in pieces:
        if size < _SHORT:
            begin.append(piece)
        size += len(piece)
        yield piece


def _shallow(response: Response, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces as they are. Raises DecodeError: the JSON in them is nested too deep.

    The parser keeps the path to every open list and object: in 100 KB of `[`, that is five gigabytes.
    """
    depth, inside, held = 0, 0, b""
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
        yield piece


def _utf8(response: Response, pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for piece in pieces:
            yield decoder.decode(piece).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise not_encoded(response, encoding, error) from None
