"""JSON text -> Arrow columns without decoding records, if each value fits its column as it is.

msgspec parses the fields that have columns, each as its column's one type: any other value (1.0 or true for an integer,
a number for a string) or any other field is an error, and then the page is decoded. Both ways produce the same columns,
except that JSON text keeps the source's spelling here, unless the rows are compared with others.

Arrow's own JSON reader took one and a half times as long, as it has to infer the types.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple

from cdk.base.records.exact_json import exact_json, has_written_numbers
from cdk.base.records.raw_json_lines import JsonLines, is_plain, json_lines
from cdk.base.records.typed_json_lines import RecordType
from cdk.base.values import FieldValue, Record
from cdk.lake.arrow.columns import JSON_TEXT, ColumnType
from cdk.lake.arrow.conversions import NeedsCoercion, conversion, list_array
from cdk.lake.arrow.json_text import json_text

_NULL = msgspec.Raw(b"null")
_PIECE = 2**20
"""How many bytes of text are parsed to objects at once."""


class TypedJsonReader:
    """Parses lines of JSON into the columns of one table. Used by one thread.

    It parses nothing if a column has a type without direct parsing, such as decimal.
    """

    def __init__(self, columns: Mapping[str, ColumnType], *, exact: bool = False, compared: bool = False) -> None:
        """exact: decode pages with a number that a double would round instead of parsing them here.

        compared: spell JSON text as `json_text` does, so that equal values are equal however their pages are read.
        """
        self._columns, self._compared = dict(columns), compared
        supported = columns and all(map(_is_supported, columns, columns.values()))
        self._record_type = RecordType(_object_of(columns), exact=exact) if supported else None

    @property
    def record_type(self) -> RecordType | None:
        """The type of the records that it parses; None if it parses none."""
        return self._record_type

    def of(self, records: Sequence[Record]) -> Mapping[str, pa.Array] | None:
        """Return the columns of records that are still text; None if they must be decoded."""
        record_type, lines = self._record_type, json_lines(records)
        if record_type is None or not record_type.worth_reading or lines is None:
            return None
        # Text that is already decoded cost nothing here. Objects parsed in vain did, and count as a page that failed.
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
        if arrays is None or not self._compared:
            return arrays
        return {n: _respelled(array) if self._columns[n] is JSON_TEXT else array for n, array in arrays.items()}

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
    """Yield the lines in pieces of about `_PIECE` bytes."""
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
    """Return a class for objects that have only these fields, in this order."""
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
        return list[_type_of(kind.value_type)] | None  # type: ignore[misc] # a type built at run time
    return conversion(kind).decoded | None  # type: ignore[operator] # those without one are not supported


def _arrays_of(objects: Sequence[msgspec.Struct], fields: Mapping[str, ColumnType]) -> list[pa.Array]:
    """Return the columns of the fields. Raises NeedsCoercion, and what Arrow raises."""
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
    # Few pages have a null here, and checking the set of types is faster than checking each value.
    if type(None) in set(map(type, values)):
        absent = (None,) * len(fields)
        rows = (absent if value is None else astuple(value) for value in values)
        mask = pa.array([value is None for value in values])
    arrays = [_array(column, part) for column, part in zip(zip(*rows, strict=True), fields.values(), strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def _texts(values: Sequence[msgspec.Raw]) -> pa.Array:
    """Return JSON text as the source sent it, `null` as null."""
    texts = pa.array(list(map(bytes, values)), pa.binary())
    nothing = pc.equal(texts, b"null")
    if pc.any(nothing).as_py():
        texts = pc.if_else(nothing, None, texts)
    return texts.view(pa.string())


def _respelled(texts: pa.Array) -> pa.Array:
    """Return JSON text as `json_text` spells it."""
    listed = ",".join("null" if text is None else text for text in texts.to_pylist())
    body = f"[{listed}]"
    items = exact_json(body.encode())
    if json_text(items) == body:
        return texts
    return pa.array([None if item is None else json_text(item) for item in items], pa.string())
