"""JSON text -> Arrow columns without decoding records, where each value is what its column holds.

msgspec reads the fields that there are columns for, each as the one type its column takes: any other value (1.0 or true
for an integer, a number for a text) and any other field is an error, and then the page is decoded. Both ways make the
same columns, but for the spelling of JSON text, which stays the source's here.

Arrow's own reader of JSON took one and a half times as long, as it finds out what it is not told.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple

from cdk.base.records.exact_json import has_written_numbers
from cdk.base.records.raw_json_lines import JsonLines, is_plain, json_lines
from cdk.base.records.typed_json_lines import RecordType
from cdk.base.values import FieldValue, Record
from cdk.lake.arrow.columns import JSON_TEXT, ColumnType
from cdk.lake.arrow.conversions import NeedsCoercion, conversion, list_array

_NULL = msgspec.Raw(b"null")
_PIECE = 2**20
"""Bytes of text that become objects at once."""


class TypedJsonReader:
    """Reads lines of JSON into the columns of one table. Belongs to one thread.

    It reads nothing where one of the columns has a type that text is not read as, such as decimals.
    """

    def __init__(self, columns: Mapping[str, ColumnType], *, exact: bool = False) -> None:
        """exact: a number that a double would round is left to who decodes it."""
        self._columns = dict(columns)
        supported = columns and all(map(_is_supported, columns, columns.values()))
        self._record_type = RecordType(_object_of(columns), exact=exact) if supported else None

    @property
    def record_type(self) -> RecordType | None:
        """The type of the records that it reads; None where it reads none."""
        return self._record_type

    def of(self, records: Sequence[Record]) -> Mapping[str, pa.Array] | None:
        """The columns of records that are still text; None where they must be decoded."""
        record_type, lines = self._record_type, json_lines(records)
        if record_type is None or not record_type.worth_reading or lines is None:
            return None
        # Text that was decoded before cost nothing here; objects that nobody uses did, and count as a page that failed.
        if lines.text_size is None and not lines.typed:
            return None
        try:
            arrays = self._arrays(lines, record_type)
        except (
            pa.ArrowException,
            msgspec.DecodeError,
            UnicodeDecodeError,
            OverflowError,
            RecursionError,
            NeedsCoercion,
        ):
            arrays = None
        record_type.note_page(fits=arrays is not None)
        return arrays

    def _arrays(self, records: JsonLines, record_type: RecordType) -> Mapping[str, pa.Array] | None:
        if (objects := records.pop_objects(record_type)) is not None:
            parts = [_arrays_of(objects, self._columns)]
            del objects
        elif (lines := records.lines) is not None and not (record_type.exact and has_written_numbers(lines)):
            parts = [_arrays_of(record_type.line.decode_lines(piece), self._columns) for piece in _pieces(lines)]
        else:
            return None
        if sum(len(part[0]) for part in parts) != len(records):
            return None
        arrays = parts[0] if len(parts) == 1 else map(pa.concat_arrays, zip(*parts, strict=True))
        return dict(zip(self._columns, arrays, strict=True))


def _pieces(lines: bytes) -> Iterator[memoryview]:
    """The lines, some at a time."""
    view, begin = memoryview(lines), 0
    while (end := lines.find(b"\n", begin + _PIECE)) >= 0:
        yield view[begin:end]
        begin = end + 1
    yield view[begin:]


def _is_supported(name: str, kind: ColumnType) -> bool:
    if kind is JSON_TEXT:
        return is_plain(name)
    if pa.types.is_struct(kind):
        return is_plain(name) and kind.num_fields > 0 and all(_is_supported(part.name, part.type) for part in kind)
    if pa.types.is_list(kind):
        return _is_supported(name, kind.value_type)
    return is_plain(name) and conversion(kind).decoded is not None


def _object_of(fields: Mapping[str, ColumnType]) -> type[msgspec.Struct]:
    """The class of objects that have these fields at most, in this order."""
    members: list[tuple[str, Any, Any]] = [
        (f"f{n}", msgspec.Raw, _NULL) if kind is JSON_TEXT else (f"f{n}", _type_of(kind), None)
        for n, kind in enumerate(fields.values())
    ]
    renamed = {f"f{n}": name for n, name in enumerate(fields)}
    return msgspec.defstruct("Object", members, rename=renamed, forbid_unknown_fields=True, gc=False)


def _type_of(kind: pa.DataType) -> Any:  # noqa: ANN401 - any type
    if pa.types.is_struct(kind):
        return _object_of({part.name: part.type for part in kind}) | None
    if pa.types.is_list(kind):
        return list[_type_of(kind.value_type)] | None  # type: ignore[misc] # a type that is made here
    return conversion(kind).decoded | None  # type: ignore[operator] # those without one are not supported


def _arrays_of(objects: Sequence[msgspec.Struct], fields: Mapping[str, ColumnType]) -> list[pa.Array]:
    """The columns of the fields. Raises NeedsCoercion, and what Arrow raises."""
    columns = zip(*map(astuple, objects), strict=True)
    return [_array(values, kind) for values, kind in zip(columns, fields.values(), strict=True)]


def _array(values: Sequence[FieldValue], kind: ColumnType) -> pa.Array:
    if kind is JSON_TEXT:
        return _texts(values)
    if pa.types.is_struct(kind):
        return _structs(values, kind)
    if not pa.types.is_list(kind):
        return conversion(kind).array_of_decoded(values)
    inner = kind.value_type
    if not pa.types.is_nested(inner) and conversion(inner).direct:
        return pa.array(values, kind)
    return list_array(values, kind, partial(_array, kind=inner))


def _structs(values: Sequence[FieldValue], kind: pa.StructType) -> pa.Array:
    if not values:
        return pa.array([], kind)
    fields = {part.name: part.type for part in kind}
    rows: Iterable[tuple[FieldValue, ...]] = map(astuple, values)
    mask = None
    # Few pages have a null there: a look at the types takes less than one at each value.
    if type(None) in set(map(type, values)):
        absent = (None,) * len(fields)
        rows = (absent if value is None else astuple(value) for value in values)
        mask = pa.array([value is None for value in values])
    arrays = [_array(column, part) for column, part in zip(zip(*rows, strict=True), fields.values(), strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def _texts(values: Sequence[msgspec.Raw]) -> pa.Array:
    """JSON as it was sent, a null as none."""
    texts = pa.array(list(map(bytes, values)), pa.binary())
    nothing = pc.equal(texts, b"null")
    if pc.any(nothing).as_py():
        texts = pc.if_else(nothing, None, texts)
    return texts.view(pa.string())
