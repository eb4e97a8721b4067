"""JsonLines: the records of a page as the text that the source sent, decoded when they are accessed.

Decoding a record, and freeing it again, is two thirds of the work of moving it. Where no record is accessed, its
text goes on as it came, with every digit of its numbers.
"""

import re
from codecs import utf_8_decode
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, TypeAlias, overload

import msgspec

from cdk.base.records.exact_json import exact_json
from cdk.base.values import Record

Objects: TypeAlias = Sequence[msgspec.Struct]
"""Records as objects of one type."""

_PIECE = 2**14
_BRACE = {ord("{")}
_FIRST, _VALUE = itemgetter(0), attrgetter("value")
# Names that msgspec does not look for: JSON spells them with escapes, or not at all.
_ESCAPED = re.compile(r'[\\"\x00-\x1f\ud800-\udfff]')


class JsonLines(Sequence[Record]):
    """Records, each one line of JSON text.

    Looking at a record decodes all of them; from then on the objects are what counts, for who got them may change
    them. A number that no double holds is then a WrittenNumber.
    """

    __slots__ = ("_lines", "_records", "_size")

    typed: ClassVar[bool] = False
    """Whether objects were made of the text; see `cdk.base.records.typed_json_lines`."""

    def __init__(self, lines: bytes, size: int) -> None:
        """Take objects in valid JSON: `size` lines, one or more, without a line feed at the end."""
        self._lines: bytes | None = lines
        self._size = size
        self._records: list[Record] | None = None

    @property
    def lines(self) -> bytes | None:
        """The text; None once the records were accessed."""
        return self._lines

    @property
    def text_size(self) -> int | None:
        """Bytes of the text, more or less; None once the records were accessed."""
        return None if self._lines is None else len(self._lines)

    def values(self, field: str) -> list[object]:
        """The value of a field of each record, None where it is absent. The text stays."""
        if (lines := self.lines) is None or not is_plain(field):
            return [record.get(field) for record in self]
        return list(map(_VALUE, _one_field(field).decode_lines(lines)))

    def last(self) -> Record:
        """A copy of the last record. The text stays."""
        if (lines := self.lines) is None:
            return self[-1]
        record: Record = exact_json(lines[lines.rfind(b"\n") + 1 :])
        return record

    def pop_objects(self, record_type: object) -> Objects | None:  # noqa: ARG002 - for overriding
        """The records as objects, once; None where they are none of this type, or were accessed."""
        return None

    def parts(self, record_type: object) -> tuple[Sequence[bytes], Objects] | None:  # noqa: ARG002
        """The lists and their objects; None where `pop_objects` would give none."""
        return None

    def and_others(self, others: Sequence["JsonLines"]) -> "JsonLines | None":  # noqa: ARG002
        """These records and those of other pages as objects; None where they are not all of one type."""
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
    """The value of a field of each record, None where it is absent."""
    lines = json_lines(records)
    return [record.get(field) for record in records] if lines is None else lines.values(field)


def json_lines(records: Sequence[Record]) -> JsonLines | None:
    """The records of a page if they are text; None where they are objects."""
    # To ask an abstract class of each list is a call in Python.
    return records if type(records) is not list and isinstance(records, JsonLines) else None


def elements(text: bytes) -> "Sequence[msgspec.Raw]":
    """The elements of a list in valid JSON, each as text."""
    parts: Sequence[msgspec.Raw] = _elements_at(()).decode(text)
    return parts


@lru_cache(maxsize=256)
def is_plain(name: str) -> bool:
    """Whether a field's name stands in JSON as it is, so that it is found without decoding."""
    return _ESCAPED.search(name) is None


def cut_out(body: bytes, where: tuple[str, ...]) -> tuple[JsonLines, bytes] | None:
    """The list of objects at a path of a JSON body, and the body with an empty list in its place.

    None where that would not be the same as decoding: a body that is no JSON, another thing at the path, an empty
    list, a text that UTF-8 cannot hold. None, too, where blanks stand between the parts: they would go on with them.
    """
    if b"\n" in body or not all(map(is_plain, where)) or not is_text(body):
        return None
    try:
        items = _elements_at(where).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    for _ in where:
        items = items.inner
    # Without a look at each, a null or a number among the objects would go on as a record. A third of the time that
    # counting `\n{` in the lines takes.
    if set(map(_FIRST, map(memoryview, items))) != _BRACE:  # type: ignore[arg-type] # typeshed makes memoryview generic
        return None
    lines = b"\n".join(items)
    last = items[-1]
    end = body.rindex(last) + len(memoryview(last))
    begin = end - len(lines)
    # Of a name that comes twice the last counts, as in all decoders. The same text may stand elsewhere, too: what is
    # taken out must be a list.
    if b'": ' in bytes(items[0]) or body[begin - 1 : begin] + body[end : end + 1] != b"[]":
        return None
    if not body.startswith(lines.replace(b"\n", b","), begin):
        return None
    return JsonLines(lines, len(items)), body[:begin] + body[end:]


def is_text(body: bytes) -> bool:
    """Whether a decoder of JSON would take every text in here; msgspec looks no further than it must."""
    if not body.isascii():
        try:
            # Piece by piece: the text of a whole page would be the largest thing in memory.
            begin, size = 0, len(body)
            while begin < size:
                begin += utf_8_decode(body[begin : begin + _PIECE], "strict", begin + _PIECE >= size)[1]
        except UnicodeDecodeError:
            return False
    # Perhaps half a surrogate pair. To look for one character is many times faster than for three.
    return b"\\" not in body or (b"\\ud" not in body and b"\\uD" not in body)


@lru_cache(maxsize=256)
def _elements_at(where: tuple[str, ...]) -> "msgspec.json.Decoder[Any]":
    """The decoder that cuts out the elements of the list at a path, and looks at nothing else."""
    kind: Any = list[msgspec.Raw]
    for name in reversed(where):
        kind = msgspec.defstruct("Outer", [("inner", kind)], rename={"inner": name}, gc=False)
    return msgspec.json.Decoder(kind)


@lru_cache(maxsize=256)
def _one_field(name: str) -> "msgspec.json.Decoder[Any]":
    """The decoder of records that looks at one field alone."""
    kind = msgspec.defstruct("OneField", [("value", Any, None)], rename={"value": name}, gc=False)
    return msgspec.json.Decoder(kind)
