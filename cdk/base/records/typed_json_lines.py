"""TypedJsonLines: the records of a page as text, and as the objects from which a table writer builds columns.

A table writer knows the fields of the records and their types. If it declares them before a page is read, a single pass
over the text both validates the JSON and creates those objects, instead of two passes.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any
from uuid import uuid4

import msgspec
import orjson

from cdk.base.records.exact_json import exact_json, has_written_numbers
from cdk.base.records.raw_json_lines import JsonLines, Objects, elements, is_plain, is_text
from cdk.base.values import JsonValue, Record, from_json

_LARGE = 2**21
"""The largest page, in bytes, to convert to objects, since all objects of a page are in memory together."""

_HEAD = 2**12
"""Bytes at the start of a page that are searched for whitespace between its parts."""

_MARK = [uuid4().hex]

_MOST_FAILURES = 3
"""After so many consecutive pages that had to be decoded anyway, no further page is tried."""


class RecordType:
    """The type that a table writer expects of all records, and whether the pages so far have had it.

    list, line: decode a JSON list of records, or one record. exact: whether numbers need all their digits.
    """

    def __init__(self, kind: type[msgspec.Struct], *, exact: bool = False) -> None:
        """kind: a type that rejects all values that the writer cannot use."""
        self.exact = exact
        self.list: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type] # made elsewhere
        self.line: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
        self._failed = self._missed = 0

    @property
    def worth_reading(self) -> bool:
        """Whether it is worthwhile to try another page of text."""
        return self._failed < _MOST_FAILURES

    @property
    def worth_cutting(self) -> bool:
        """Whether it is worthwhile to try to extract another page as objects."""
        return self._failed < _MOST_FAILURES and self._missed < _MOST_FAILURES

    def note_page(self, *, fits: bool) -> None:
        """Record whether a page had the type and was used, or had to be decoded anyway."""
        self._failed = 0 if fits else self._failed + 1

    def note_cut(self, *, fits: bool) -> None:
        """Record whether a page could be extracted as objects."""
        self._missed = 0 if fits else self._missed + 1


class TypedJsonLines(JsonLines):
    """JsonLines that also hold the records as objects of one type."""

    __slots__ = ("_lists", "_objects", "_record_type")

    def __init__(self, lists: Sequence[bytes], objects: Objects, record_type: RecordType) -> None:
        """lists: JSON lists of the records, validated. objects: the same records."""
        super().__init__(b"", len(objects))
        self._lists, self._record_type = lists, record_type
        self._objects: Objects | None = objects

    @property
    def lines(self) -> bytes | None:
        if self._records is None and not self._lines:
            self._lines = b"\n".join(chain.from_iterable(map(elements, self._lists)))
        return self._lines

    @property
    def text(self) -> bytes | None:
        # Separating the records of a list takes a twentieth of a task's CPU.
        return self._lists[0] if len(self._lists) == 1 else self.lines

    @property
    def text_size(self) -> int | None:
        return sum(map(len, self._lists)) if self._records is None else None

    typed = True

    def pop_objects(self, record_type: object) -> Objects | None:
        # Handed over, not shared: objects that are freed right after use are still in the processor's cache, which
        # saves a tenth of a task's CPU.
        if self._record_type is not record_type:
            return None
        objects, self._objects = self._objects, None
        return objects

    def joined_with(self, others: Sequence[JsonLines]) -> JsonLines | None:
        lists, objects = list[bytes](), list[msgspec.Struct]()
        for page in (self, *others):
            if (parts := page.lists_and_objects(self._record_type)) is None:
                return None
            lists += parts[0]
            objects += parts[1]
        return TypedJsonLines(lists, objects, self._record_type)

    def lists_and_objects(self, record_type: object) -> tuple[Sequence[bytes], Objects] | None:
        return None if self._record_type is not record_type or self._objects is None else (self._lists, self._objects)

    def _decode(self) -> list[Record]:
        if self._records is None:
            self._records = list(chain.from_iterable(map(exact_json, self._lists)))
            self._lines, self._lists, self._objects = None, (), None
        return self._records


def joined(pages: Sequence[JsonLines]) -> Sequence[Record]:
    """The records of several pages, in order: as typed objects or as text if all pages allow it, else decoded."""
    first, *others = pages
    if not others:
        return first
    if (all_pages := first.joined_with(others)) is not None:
        return all_pages
    texts = [lines for page in pages if (lines := page.lines) is not None]
    if len(texts) < len(pages):
        return [record for page in pages for record in page]
    return JsonLines(b"\n".join(texts), sum(map(len, pages)))


def cut_typed(
    body: bytes, where: tuple[str, ...], record_type: RecordType | None
) -> tuple[TypedJsonLines, bytes] | None:
    """Like `cut_out`, with objects of `record_type`. Also None without a type, or if a record has another one.

    The position of the list is guessed: from after the last name to the last object before a bracket. The guess is
    verified: the rest must be JSON with the list at that place, and the list must be JSON.
    """
    if record_type is None or not record_type.worth_cutting or len(body) > _LARGE or not all(map(is_plain, where)):
        return None
    key = b'"%s":[{' % where[-1].encode() if where else b"[{"
    begin, end = body.find(key) + len(key) - 2, body.rfind(b"}]") + 2
    if not len(key) - 2 <= begin < end or body.find(b'": ', 0, _HEAD) >= 0 or b"\n" in body or not is_text(body):
        return None
    before, text, after = body[:begin], body[begin:end], body[end:]
    if record_type.exact and has_written_numbers(text):
        return None
    try:
        lies_there = _at(where, from_json(before + orjson.dumps(_MARK) + after)) == _MARK
        objects = record_type.list.decode(text) if lies_there else None
    except (orjson.JSONDecodeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        objects = None
    record_type.note_cut(fits=objects is not None)
    return None if objects is None else (TypedJsonLines([text], objects, record_type), before + b"[]" + after)


def _at(where: tuple[str, ...], body: JsonValue) -> JsonValue:
    for name in where:
        if not isinstance(body, dict):
            return None
        body = body.get(name)
    return body
