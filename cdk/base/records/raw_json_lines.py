"""JsonLines: the records of a page as the text that the source sent, decoded on access.

Decoding a record and freeing it again is two thirds of the work of moving it. If no record is accessed, its text is
passed on unchanged, with every digit of its numbers.
"""

from codecs import utf_8_decode
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, TypeAlias, overload

import msgspec

from cdk.base.first_use import lazy_pattern
from cdk.base.records.exact_json import exact_json
from cdk.base.values import Record

Objects: TypeAlias = Sequence[msgspec.Struct]
"""Records as objects of one type."""

_PIECE = 2**14
"""How many bytes of a body are checked at once."""

_BRACE = {ord("{")}
_FIRST, _VALUE = itemgetter(0), attrgetter("value")
# Names that msgspec cannot look up, because JSON writes them with escapes, or cannot represent them.
_ESCAPED = lazy_pattern(r'[\\"\x00-\x1f\ud800-\udfff]')


class JsonLines(Sequence[Record]):
    """Records, each a line of JSON text.

    Accessing a record decodes all of them. From then on the decoded objects count, because callers may change them;
    numbers that a double cannot represent become WrittenNumbers.
    """

    __slots__ = ("_lines", "_records", "_size")

    typed: ClassVar[bool] = False
    """Whether the records were also parsed into typed objects; see `cdk.base.records.typed_json_lines`."""

    def __init__(self, lines: bytes, size: int) -> None:
        """lines: valid JSON objects, one per line, without a line feed at the end. size: their number, at least 1."""
        self._lines: bytes | None = lines
        self._size = size
        self._records: list[Record] | None = None

    @property
    def lines(self) -> bytes | None:
        """The text; None after the records have been accessed."""
        return self._lines

    @property
    def text(self) -> bytes | None:
        """The text as it is at hand, for `record_texts`; None after the records have been accessed."""
        return self._lines

    @property
    def text_size(self) -> int | None:
        """The approximate size of the text in bytes; None after the records have been accessed."""
        return None if self._lines is None else len(self._lines)

    def values(self, field: str) -> list[object]:
        """The values of a field, None for records without it. Does not count as access."""
        if (lines := self.lines) is None or not is_plain(field):
            return [record.get(field) for record in self]
        return list(map(_VALUE, _one_field(field).decode_lines(lines)))

    def last(self) -> Record:
        """A copy of the last record. Does not count as access."""
        if (lines := self.lines) is None:
            return self[-1]
        record: Record = exact_json(lines[lines.rfind(b"\n") + 1 :])
        return record

    def pop_objects(self, record_type: object) -> Objects | None:  # noqa: ARG002 - for overriding
        """The records as objects, once; None if they do not have this type, or have been accessed."""
        return None

    def lists_and_objects(self, record_type: object) -> tuple[Sequence[bytes], Objects] | None:  # noqa: ARG002
        """The records as JSON lists, and as objects; None if `pop_objects` would return None."""
        return None

    def joined_with(self, others: Sequence["JsonLines"]) -> "JsonLines | None":  # noqa: ARG002
        """These records and those of other pages as objects; None if they do not all have one type."""
        return None

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self._decode()[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._decode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._decode() == list(other)

    __hash__ = None  # type: ignore[assignment] # like a list

    def __reduce__(self) -> tuple[type[list[Record]], tuple[list[Record]]]:
        return list, (self._decode(),)

    def _decode(self) -> list[Record]:
        if self._records is None:
            assert self._lines is not None
            self._records = exact_json(b"[" + self._lines.replace(b"\n", b",") + b"]")
            self._lines = None
        return self._records


def field_values(records: Sequence[Record], field: str) -> list[object]:
    """The values of a field, None for records without it."""
    lines = json_lines(records)
    return [record.get(field) for record in records] if lines is None else lines.values(field)


def json_lines(records: Sequence[Record]) -> JsonLines | None:
    """The records of a page if they are text; None if they are objects."""
    # The test for `list` comes first because the check of an abstract class is a call in Python.
    return records if type(records) is not list and isinstance(records, JsonLines) else None


def elements(text: bytes) -> "Sequence[msgspec.Raw]":
    """The elements of a valid JSON list, each as text."""
    parts: Sequence[msgspec.Raw] = _elements_at(()).decode(text)
    return parts


def record_texts(text: bytes) -> Sequence[bytes]:
    """The text of each record in the `text` of JsonLines."""
    return list(map(bytes, elements(text))) if text.startswith(b"[") else text.split(b"\n")


@lru_cache(maxsize=256)
def is_plain(name: str) -> bool:
    """Whether a field's name appears unescaped in JSON, so that it can be found without decoding."""
    return _ESCAPED.search(name) is None


def cut_out(body: bytes, where: tuple[str, ...]) -> tuple[JsonLines, bytes] | None:
    """Extract the list of objects at a path of a JSON body; returns it and the body with an empty list in its place.

    None if the result would differ from decoding: the body is not JSON, the path holds something else or an empty list,
    or a string cannot be encoded as UTF-8. Also None with whitespace between the parts, which would be passed on.
    """
    if b"\n" in body or not all(map(is_plain, where)) or not is_text(body):
        return None
    try:
        items = _elements_at(where).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    for _ in where:
        items = items.inner
    # Unless each is checked, a null or a number among the objects would pass as a record. This takes a third of the
    # time of counting `\n{` in the lines.
    if set(map(_FIRST, map(memoryview, items))) != _BRACE:  # type: ignore[arg-type] # typeshed makes memoryview generic
        return None
    lines = b"\n".join(items)
    last = items[-1]
    end = body.rindex(last) + len(memoryview(last))
    begin = end - len(lines)
    # If a name occurs twice, the last one counts, as in all decoders. The same text may also occur elsewhere, so the
    # characters around it must be those of a list.
    if b'": ' in bytes(items[0]) or body[begin - 1 : begin] + body[end : end + 1] != b"[]":
        return None
    if not body.startswith(lines.replace(b"\n", b","), begin):
        return None
    return JsonLines(lines, len(items)), body[:begin] + body[end:]


def is_text(body: bytes) -> bool:
    """Whether a JSON decoder would accept every string in the body; msgspec does not check those that it skips."""
    if not body.isascii():
        try:
            # In pieces: the decoded text of a whole page would be the largest object in memory.
            begin, size = 0, len(body)
            while begin < size:
                begin += utf_8_decode(body[begin : begin + _PIECE], "strict", begin + _PIECE >= size)[1]
        except UnicodeDecodeError:
            return False
    # These may be half a surrogate pair. Searching for one character is many times faster than for three.
    return b"\\" not in body or (b"\\ud" not in body and b"\\uD" not in body)


@lru_cache(maxsize=256)
def _elements_at(where: tuple[str, ...]) -> "msgspec.json.Decoder[Any]":
    """A decoder that extracts the elements of the list at a path, and skips everything else."""
    kind: Any = list[msgspec.Raw]
    for name in reversed(where):
        kind = msgspec.defstruct("Outer", [("inner", kind)], rename={"inner": name}, gc=False)
    return msgspec.json.Decoder(kind)


@lru_cache(maxsize=256)
def _one_field(name: str) -> "msgspec.json.Decoder[Any]":
    """A decoder of records that extracts one field."""
    kind = msgspec.defstruct("OneField", [("value", Any, None)], rename={"value": name}, gc=False)
    return msgspec.json.Decoder(kind)
