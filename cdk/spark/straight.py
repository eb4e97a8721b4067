"""JSON text -> Arrow columns without an object in between, where each value is what its column holds.

Arrow's reader of JSON refuses a value of another kind than its column (1.5 or true for an integer, a number for a
text), and a key that comes twice; what it would take and `cdk.spark.at_once` would not is looked for below. Whatever
is in doubt gives None, and the page is decoded: both ways make the same columns, but for the spelling of JSON text,
which stays the source's here.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from cdk.base.json_lines import JsonLines, is_plain
from cdk.base.values import Record
from cdk.spark.at_once import moments
from cdk.spark.schema import LOCAL_TIME, MOMENT, ColumnType, JsonText

_NESTED = frozenset({pa.int64(), pa.bool_(), pa.string()})
_MOMENTS = frozenset({pa.date32(), MOMENT, LOCAL_TIME})
_TOP = _NESTED | _MOMENTS | {pa.float64()}
_NULL = msgspec.Raw(b"null")
_EXACT = 2.0**53
"""Up to here, every whole number is a float; Arrow's reader rounds those beyond."""

_TIRED = 3
"""Pages in a row that had to be decoded after all, until no further one is tried."""


class Straight:
    """Reads lines of JSON into the columns of one table. Belongs to one thread.

    None of it works for decimals, nor for structs and lists that hold anything but texts, integers and booleans.
    """

    def __init__(self, columns: Mapping[str, ColumnType]) -> None:
        self._kinds = dict(columns)
        self._plain = {name: kind for name, kind in columns.items() if not isinstance(kind, JsonText)}
        self._texts = [name for name, kind in columns.items() if isinstance(kind, JsonText)]
        fits = all(_is_plain(kind, top=True) for kind in self._plain.values()) and all(map(is_plain, columns))
        self._failed = 0 if fits else _TIRED
        self._explicit = {name: pa.string() if kind in _MOMENTS else kind for name, kind in self._plain.items()}
        self._parse = pj.ParseOptions(explicit_schema=pa.schema(list(self._explicit.items())))
        self._raw = _raw_fields(self._texts) if self._texts and fits else None

    def of(self, records: Sequence[Record]) -> Mapping[str, pa.Array] | None:
        """The columns of records that are still text; None where they must be decoded."""
        if self._failed >= _TIRED or not isinstance(records, JsonLines) or (lines := records.lines) is None:
            return None
        try:
            found = self._columns(lines, len(records))
        except (pa.ArrowException, msgspec.DecodeError):
            found = None
        self._failed = self._failed + 1 if found is None else 0
        return found

    def _columns(self, lines: bytes, size: int) -> Mapping[str, pa.Array] | None:
        options = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        table = pj.read_json(pa.BufferReader(lines), read_options=options, parse_options=self._parse)
        if table.num_rows != size or not self._as_declared(table.schema):
            return None
        arrays: dict[str, pa.Array] = {}
        for name, kind in self._plain.items():
            array = _settled(table.column(name).combine_chunks(), kind)
            if array is None:
                return None
            arrays[name] = array
        if self._raw is not None:
            arrays |= self._json_texts(self._raw, lines)
        return arrays

    def _as_declared(self, schema: pa.Schema) -> bool:
        """Whether there is no field, of a record or of an object in it, that has no place in the columns."""
        return all(self._explicit.get(field.name, field.type) == field.type for field in schema) and not (
            set(schema.names) - set(self._kinds)
        )

    def _json_texts(self, raw: "msgspec.json.Decoder[Any]", lines: bytes) -> Mapping[str, pa.Array]:
        records = raw.decode_lines(lines)
        return {
            name: pa.array(map(_text, map(attrgetter(f"text{n}"), records)), pa.binary()).view(pa.string())
            for n, name in enumerate(self._texts)
        }


def _is_plain(kind: ColumnType, *, top: bool) -> bool:
    if isinstance(kind, pa.StructType | pa.ListType):
        return all(_is_plain(kind.field(n).type, top=False) for n in range(kind.num_fields))
    return kind in (_TOP if top else _NESTED)


def _settled(found: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """A column that was read as text or number as what the table holds; None where that is in doubt."""
    if kind in _MOMENTS:
        return moments(found, kind)
    if kind == pa.float64():
        largest = pc.max(pc.abs(found)).as_py()
        return found if largest is None or largest < _EXACT else None
    return found


def _raw_fields(names: Sequence[str]) -> "msgspec.json.Decoder[Any]":
    """The decoder of records that cuts out the text of some fields."""
    fields = [(f"text{n}", msgspec.Raw, _NULL) for n in range(len(names))]
    renamed = {f"text{n}": name for n, name in enumerate(names)}
    return msgspec.json.Decoder(msgspec.defstruct("Texts", fields, rename=renamed, gc=False))


def _text(found: msgspec.Raw) -> bytes | None:
    text = bytes(found)
    return None if text == b"null" else text
