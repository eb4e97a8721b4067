"""Records -> Arrow batches. Bad data never stops a sync and never vanishes.

A value that does not fit its column becomes null and is kept, as text, in `_airbyte_meta.changes`; a field without a
column is kept as JSON text in `_airbyte_additional`, or gets a column of its own, of the type that its values have, and
as wide as later ones need it. A text column takes other values as JSON text. pyarrow alone would not do: it turns 1.5
into 1 for an integer column, true into 1.0 for a number, "abc" into ["a", "b", "c"] for a list, and drops undeclared
fields of a struct.

What never gets here: a record that has a key twice, for decoders of JSON keep the last value of it (RFC 8259, 4).
"""

from collections.abc import Collection, Mapping, Sequence
from reprlib import repr as shortened
from typing import TypeAlias
from uuid import uuid4

import pyarrow as pa

from cdk.base.errors import FatalError
from cdk.base.records.plain_values import ALREADY, json_of, plain
from cdk.base.records.typed_json_lines import RecordType
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue, NotJson, Record
from cdk.lake.arrow.cast import as_texts
from cdk.lake.arrow.coerce import Change, change, coerce_value
from cdk.lake.arrow.columns import (
    ADDITIONAL,
    EXTRACTED_AT,
    GENERATION,
    INFERRED,
    JSON_TEXT,
    META,
    MOMENT,
    RAW_ID,
    RESERVED,
    ROW_SOURCE,
    ROW_SOURCE_TYPE,
    ColumnType,
    arrow_type,
    column_name,
    column_of,
    inferred,
    table_schema,
)
from cdk.lake.arrow.json_text import NO_JSON, json_text
from cdk.lake.arrow.typed_json_reader import TypedJsonReader
from cdk.lake.arrow.vectorized import by_field, to_array

Runs: TypeAlias = Sequence[tuple[int, int]]
"""How consecutive rows are spread over slices: the number of a slice, and how many rows are its."""

_SLICE_DIGITS, _DIGITS = 8, 10
_MARK = b"\0"
_THOUSAND = b"".join(b"%s%03d" % (_MARK, number) for number in range(1000))
_FEW = 100
"""Rows whose ids are made one by one: a thousand at once would take longer."""


class RecordBatchBuilder:
    """Turns pages of records into batches of one table's schema.

    schema: that of the last batch. It grows at its end, by a column for each undeclared field, while there is room, and
    columns that were inferred become wider; a batch from before has fewer columns, or narrower ones.
    """

    def __init__(
        self,
        declared: Mapping[str, ColumnType],
        *,
        generation: int,
        clock: Clock = system_clock,
        unique: str | None = None,
        room: int = 0,
        follows: Collection[str] = (),
        infers: bool = True,
    ) -> None:
        """Make rows of `generation`. unique: what is in their ids, see RowIds.

        room: how many undeclared fields get columns; those that come later are kept in `_airbyte_additional`. follows:
        fields whose columns, of types of INFERRED, become as wide as their values need. infers: whether new columns
        become wider; otherwise they are text.
        """
        self.schema = table_schema(declared)
        self._traced, declared = ROW_SOURCE in declared, {n: kind for n, kind in declared.items() if n != ROW_SOURCE}
        self._columns = dict(declared)
        self._places = {name: column_name(name) or name for name in declared}
        self._names = frozenset(declared)
        self._owners = {column.lower(): name for name, column in self._places.items()}
        self._owners |= {name: name for name in RESERVED}
        self._room = room
        self._grown: dict[str, tuple[pa.DataType, ...]] = {}
        self._follows, self._infers = set(follows), infers
        self.without_column: tuple[str, str] | None = None
        """A field that had no column, and who has the one of its name, as `column_owner` says; None: there was none."""
        # Undeclared fields that were null wherever they were met: nothing says yet of which type their columns are.
        self._nulls: set[str] = set()
        self._typed_reader = self._new_typed_reader()
        self._new = 0
        self._generation, self._clock = generation, clock
        self._ids = RowIds(unique)

    @property
    def grown(self) -> Mapping[str, tuple[pa.DataType, ...]]:
        """The undeclared fields that got columns, in the order they were met, and those whose columns became wider.

        With the types that their columns have had in batches, the widest last.
        """
        return dict(self._grown)

    @property
    def record_type(self) -> RecordType | None:
        """The type of records that become columns without being decoded; None where none would."""
        return self._typed_reader.record_type

    def batch(
        self, records: Sequence[Record], runs: Runs | None = None, sources: Sequence[Record | None] = ()
    ) -> pa.RecordBatch:
        """One row per record, in order. runs: the slices that they belong to; by default they are of one, number 0.

        sources: what brought the rows of each of the runs, for tables with a column for it.

        Raises FatalError: a record is not an object, or a name in it no text, or NotJson, one of its values is not made
        of JSON's types.
        """
        try:
            return self._batch(records, runs or [(0, len(records))], sources)
        except NotJson as error:
            raise _located(records, error) from None

    def _batch(self, records: Sequence[Record], runs: Runs, sources: Sequence[Record | None]) -> pa.RecordBatch:
        changes: dict[int, list[Change]] = {}
        odd: Sequence[int] = ()
        columns = self._typed_reader.of(records)
        if columns is None:
            columns, odd = self._fitted(records, changes)
        size = len(records)
        arrays = {
            self._places[name]: columns[name] if name in columns else pa.nulls(size, arrow_type(kind))
            for name, kind in self._columns.items()
        }
        arrays[ADDITIONAL] = self._additional(records, odd, changes)
        if self._traced:
            arrays[ROW_SOURCE] = _as_column(
                _spread(sources or [None] * len(runs), runs), self.schema.field(ROW_SOURCE).type
            )
        arrays[RAW_ID] = self._ids.next_ids(runs)
        arrays[EXTRACTED_AT] = pa.repeat(pa.scalar(self._clock(), MOMENT), size)
        arrays[META] = self._meta(changes, size)
        arrays[GENERATION] = pa.repeat(pa.scalar(self._generation, pa.int64()), size)
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)

    def _fitted(
        self, records: Sequence[Record], changes: dict[int, list[Change]]
    ) -> tuple[Mapping[str, pa.Array], Sequence[int]]:
        """The columns that some of the records have, and which of these have undeclared fields."""
        if not {dict}.issuperset(map(type, records)):
            _check(records)
        fields = by_field(records)
        if fields is not None and self._names.issuperset(fields) and not self._any_in_nulls(fields):
            odd: Sequence[int] = ()
        else:
            odd = [i for i, record in enumerate(records) if self._is_odd(record)]
            _check_names([records[i] for i in odd])
        if odd and self._new < self._room:
            self._grow([records[i] for i in odd])
        arrays: dict[str, pa.Array] = {}
        for name in list(self._columns):
            values: Sequence[JsonValue] | None
            values = [record.get(name) for record in records] if fields is None else fields.get(name)
            if values is not None:
                arrays[name] = self._column(name, values, changes)
        return arrays, odd

    def _is_odd(self, record: Record) -> bool:
        """Whether a record has undeclared fields that there are no columns for, and that are not null as always."""
        return not self._names.issuperset(record) or any(record.get(name) is not None for name in self._nulls)

    def _any_in_nulls(self, fields: Mapping[str, Sequence[JsonValue]]) -> bool:
        return any(any(value is not None for value in fields.get(name, ())) for name in self._nulls)

    def _column(self, name: str, values: Sequence[JsonValue], changes: dict[int, list[Change]]) -> pa.Array:
        """The values of a field as its column holds them; one that was inferred becomes as wide as they need."""
        kind = self._columns[name]
        if name in self._follows and kind is not JSON_TEXT:
            # A double takes whole numbers, too, and not each of them decides alone whether a column can be one.
            if kind != pa.float64() or int not in set(map(type, values)):
                array = to_array(values, kind)
                if array is not None:
                    return array
            wide = inferred(values, kind)
            if wide is not None and wide != kind:
                kind = wide
                self._change(name, kind)
        return _column(name, values, kind, changes)

    def _grow(self, records: Sequence[Record]) -> None:
        """Give the undeclared fields of some records columns, while there is room."""
        undeclared: dict[str, list[JsonValue]] = {}
        for record in records:
            for name, value in record.items():
                if name not in self._columns and self._owner(name) is None:
                    undeclared.setdefault(name, []).append(value)
        # Of fields that would share a column, the one whose name is the column's has it, as with declared ones.
        for name, values in sorted(undeclared.items(), key=lambda field: column_name(field[0]) != field[0]):
            kind = inferred(values)
            if kind is None and len(self._nulls) < self._room:
                self._nulls.add(name)
            if kind is None:
                continue
            self._nulls.discard(name)
            if self._new < self._room and self._owner(name) is None:
                self._new += 1
                self._change(name, kind if self._infers else pa.string())
        self._nulls = {name for name in self._nulls if self._owner(name) is None}
        if self._new >= self._room:
            self._nulls.clear()
        self._names = frozenset(self._columns) | self._nulls
        self._typed_reader = self._new_typed_reader()

    def _change(self, name: str, kind: pa.DataType) -> None:
        """Give a field a column of a type, or its column another."""
        column, before = column_of(name, kind), self._columns.get(name)
        self._columns[name] = kind
        if before is None:
            self._places[name], self._owners[column.name.lower()] = column.name, name
            self.schema = self.schema.append(column)
        else:
            self.schema = self.schema.set(self.schema.get_field_index(column.name), column)
        earlier = self._grown.get(name, () if before is None else (arrow_type(before),))
        self._grown[name] = (*earlier, kind)
        (self._follows.add if kind in INFERRED else self._follows.discard)(name)
        self._typed_reader = self._new_typed_reader()

    def _new_typed_reader(self) -> TypedJsonReader:
        # A declared number is a double, as the schema has it; an inferred one only while it loses no digit.
        exact = any(self._columns.get(name) == pa.float64() for name in self._follows)
        return TypedJsonReader({**self._columns, **dict.fromkeys(sorted(self._nulls), pa.null())}, exact=exact)

    def _additional(self, records: Sequence[Record], odd: Sequence[int], changes: dict[int, list[Change]]) -> pa.Array:
        if not odd:
            return pa.nulls(len(records), pa.string())
        texts: list[str | None] = [None] * len(records)
        for i in odd:
            fields = {name: value for name, value in records[i].items() if name not in self._names}
            self.without_column = self.without_column or self._shadowed(fields)
            noted: list[Change] = []
            texts[i] = _rest(fields, noted) if fields else None
            if noted:
                changes.setdefault(i, []).extend(noted)
        return pa.array(texts, pa.string())

    def _owner(self, field: str) -> str | None:
        """Who has the column that a field would have, see `column_owner`; empty: no column can have its name."""
        column = column_name(field)
        return "" if column is None else self._owners.get(column.lower())

    def _shadowed(self, fields: Record) -> tuple[str, str] | None:
        """The first of some fields with a value that has no column because another has the one of its name."""
        owners = ((name, self._owner(name)) for name, value in fields.items() if value is not None)
        return next(((name, owner) for name, owner in owners if owner), None)

    def _meta(self, changes: Mapping[int, list[Change]], size: int) -> pa.Array:
        kind = self.schema.field(META).type
        if changes:
            return pa.array([{"changes": changes.get(i, [])} for i in range(size)], kind)
        # As a rule; a quarter of a batch's time if each row were looked at, or if a scalar were repeated.
        (noted,) = kind
        ends = pa.repeat(pa.scalar(0, pa.int32()), size + 1)
        none = pa.ListArray.from_arrays(ends, pa.nulls(0, noted.type.value_type), type=noted.type)
        return pa.StructArray.from_arrays([none], fields=[noted])


def _spread(sources: Sequence[Record | None], runs: Runs) -> pa.Array:
    """What brought each row. It is made once for a page: of many rows it is the same."""
    places = pa.concat_arrays([pa.repeat(number, count) for number, (_, count) in enumerate(runs)])
    return pa.array(sources, ROW_SOURCE_TYPE).take(places)


def _as_column(sources: pa.Array, kind: pa.DataType) -> pa.Array:
    """What brought rows, as a column holds it that another program has made: as JSON text, or not at all."""
    if kind == ROW_SOURCE_TYPE:
        return sources
    return as_texts(sources) if pa.types.is_string(kind) else pa.nulls(len(sources), kind)


def _check(records: Sequence[Record]) -> None:
    for i, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise FatalError(
                f"record {i + 1} of a page is of type {type(record).__name__}, expected a JSON object; "
                "check what the stream takes for its records"
            )


def _check_names(records: Sequence[Record]) -> None:
    for record in records:
        for name in record:
            if not isinstance(name, str):
                raise FatalError(
                    f"the record {shortened(record)} has a field named {name!r}, a {type(name).__name__}; expected a "
                    f"text, such as {str(name)!r}"
                )


def _located(records: Sequence[Record], error: NotJson) -> NotJson:
    """The error of the first record that JSON cannot hold, with its place."""
    for record in records:
        for name, value in record.items():
            try:
                json_of(value, special="null")
            except NotJson as found:
                advice = "yield a text, a number, a list or a dict"
                return NotJson(f"the field {name!r} of the record {shortened(record)}: {found}; {advice}")
    return error


def _rest(fields: Record, noted: list[Change]) -> str | None:
    """Fields without a column, as JSON. What is no JSON is left out, and noted."""
    text = json_text(fields)
    if text is None:
        left_out = {name: value for name, value in fields.items() if json_text(value) is None}
        noted += [change(name, "LEFT_OUT", NO_JSON, value) for name, value in left_out.items()]
        text = json_text({name: value for name, value in fields.items() if name not in left_out})
    return text


def _column(name: str, values: Sequence[JsonValue], kind: ColumnType, changes: dict[int, list[Change]]) -> pa.Array:
    """The values as `kind`: at once where each is of the right type, else one by one."""
    if (array := to_array(values, kind)) is not None:
        return array
    fitted = []
    if not ALREADY.issuperset(map(type, values)):
        values = list(map(plain, values))
        if (array := to_array(values, kind)) is not None:
            return array
    for i, value in enumerate(values):
        noted: list[Change] = []
        fitted.append(coerce_value(value, kind, name, noted))
        if noted:
            changes.setdefault(i, []).extend(noted)
    return pa.array(fitted, arrow_type(kind))


class RowIds:
    """Gives rows their ids, in order. Not thread-safe.

    An id is eight hexadecimal digits for the slice, a string of the writer's own, ten digits that count the writer's
    rows. A slice has one writer in a commit, so of two rows of a commit the one that was read later has the greater id,
    compared as strings: slices in the order in which they were planned, the rows of each in the order of the source. No
    clock is involved. A long sync hands out more slices than eight decimal digits would count.
    """

    def __init__(self, unique: str | None = None) -> None:
        """Give ids with `unique` in them, by default a new random string."""
        self._unique = (unique or uuid4().hex).encode()
        self._next = 0

    def next_ids(self, runs: Runs) -> pa.Array:
        """The next ids, for rows of these slices."""
        ids, size = [], 0
        for number, count in runs:
            prefix = b"%0*x%s" % (_SLICE_DIGITS, number, self._unique)
            ids.append(_numbered(prefix, self._next, count))
            self._next += count
            size += count
        width = _SLICE_DIGITS + len(self._unique) + _DIGITS
        data = pa.py_buffer(b"".join(ids))
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), size, [None, data]).cast(pa.string())


def _numbered(prefix: bytes, first: int, count: int) -> bytes:
    last = first + count
    if count <= _FEW:
        return b"".join([b"%s%010d" % (prefix, number) for number in range(first, last)])
    # Of a thousand only the beginning differs, so they are made at once.
    thousands = range(first // 1000, -(-last // 1000))
    ids = b"".join(_THOUSAND.replace(_MARK, b"%s%07d" % (prefix, number)) for number in thousands)
    width = len(prefix) + _DIGITS
    return ids[first % 1000 * width : (first % 1000 + count) * width]
