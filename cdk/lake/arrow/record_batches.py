"""Records -> Arrow batches. Bad data never stops a sync and is never lost.

A value that does not fit its column becomes null, and `_airbyte_meta.changes` stores it as a string. A field without a
column is stored as JSON text in `_airbyte_additional`, or gets a column of the type of its values, which is widened as
later values need it. A string column stores other values as JSON text. pyarrow alone does not suffice: it turns 1.5
into 1 for an integer column, true into 1.0 for a number, "abc" into ["a", "b", "c"] for a list, and drops undeclared
fields of a struct.

Duplicate keys in a record never get here: JSON decoders keep only the last value (RFC 8259, 4).
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
    RAW_ID,
    RESERVED,
    ROW_SOURCE,
    ROW_SOURCE_TYPE,
    TIMESTAMP_UTC,
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
"""How consecutive rows are distributed over slices: pairs of a slice's number and its number of rows."""

_SLICE_DIGITS, _DIGITS = 8, 10
_MARK = b"\0"
_THOUSAND = b"".join(b"%s%03d" % (_MARK, number) for number in range(1000))
_FEW = 100
"""Up to this many ids are made one by one: making a thousand at once would take longer."""


class RecordBatchBuilder:
    """Converts pages of records to batches with the schema of one table.

    schema: the schema of the last batch. It gains a column at its end for each undeclared field, while there is room,
    and inferred columns are widened; so an earlier batch may have fewer or narrower columns.
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
        compared: bool = False,
    ) -> None:
        """Make rows of `generation`. unique: a part of their ids, see RowIds.

        room: how many undeclared fields get columns; later ones are stored in `_airbyte_additional`. follows: fields
        whose columns, of types in INFERRED, are widened as their values need. infers: whether new columns get the type
        of their values and are widened; otherwise they are strings. compared: see TypedJsonReader.
        """
        self.schema = table_schema(declared)
        self._traced, declared = ROW_SOURCE in declared, {n: kind for n, kind in declared.items() if n != ROW_SOURCE}
        self._columns = dict(declared)
        self._column_names = {name: column_name(name) or name for name in declared}
        self._names = frozenset(declared)
        self._owners = {column.lower(): name for name, column in self._column_names.items()}
        self._owners |= {name: name for name in RESERVED}
        self._room = room
        self._grown: dict[str, tuple[pa.DataType, ...]] = {}
        self._follows, self._infers = set(follows), infers
        self.without_column: tuple[str, str] | None = None
        """A field that got no column, and the owner of the column with its name, see `column_owner`; None: no field."""
        # Undeclared fields with only null values so far: the type of their columns is not known yet.
        self._always_null: set[str] = set()
        self._compared = compared
        self._typed_reader = self._new_typed_reader()
        self._added_count, self._generation, self._clock = 0, generation, clock
        self._ids = RowIds(unique)

    @property
    def grown(self) -> Mapping[str, tuple[pa.DataType, ...]]:
        """The undeclared fields that got columns, in order of appearance, and the fields whose columns were widened.

        Each with the types that its column has had in batches, the widest last.
        """
        return dict(self._grown)

    @property
    def record_type(self) -> RecordType | None:
        """The type of records that are converted to columns without being decoded; None: all records are decoded."""
        return self._typed_reader.record_type

    def batch(
        self, records: Sequence[Record], runs: Runs | None = None, sources: Sequence[Record | None] = ()
    ) -> pa.RecordBatch:
        """Return one row per record, in order. runs: the slices that they belong to; by default a single one, number 0.

        sources: where the rows of each run come from, for tables whose rows are traced.

        Raises FatalError: when a record is not an object, or the name of a field is not a string. NotJson: when a value
        is not of JSON's types.
        """
        try:
            return self._batch(records, runs or [(0, len(records))], sources)
        except NotJson as error:
            raise _error_of_record(records, error) from None

    def _batch(self, records: Sequence[Record], runs: Runs, sources: Sequence[Record | None]) -> pa.RecordBatch:
        changes: dict[int, list[Change]] = {}
        undeclared_rows: Sequence[int] = ()
        columns = self._typed_reader.of(records)
        if columns is None:
            columns, undeclared_rows = self._fitted(records, changes)
        size = len(records)
        arrays = {
            self._column_names[name]: columns[name] if name in columns else pa.nulls(size, arrow_type(kind))
            for name, kind in self._columns.items()
        }
        arrays[ADDITIONAL] = self._additional(records, undeclared_rows, changes)
        if self._traced:
            arrays[ROW_SOURCE] = _as_column(
                _source_of_rows(sources or [None] * len(runs), runs), self.schema.field(ROW_SOURCE).type
            )
        arrays[RAW_ID] = self._ids.next_ids(runs)
        arrays[EXTRACTED_AT] = pa.repeat(pa.scalar(self._clock(), TIMESTAMP_UTC), size)
        arrays[META] = self._meta(changes, size)
        arrays[GENERATION] = pa.repeat(pa.scalar(self._generation, pa.int64()), size)
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)

    def _fitted(
        self, records: Sequence[Record], changes: dict[int, list[Change]]
    ) -> tuple[Mapping[str, pa.Array], Sequence[int]]:
        """Return the columns of fields that occur in the records, and the indexes of records with undeclared fields."""
        if not {dict}.issuperset(map(type, records)):
            _check(records)
        fields = by_field(records)
        if fields is not None and self._names.issuperset(fields) and not self._has_values_in_always_null(fields):
            undeclared_rows: Sequence[int] = ()
        else:
            undeclared_rows = [i for i, record in enumerate(records) if self._has_undeclared(record)]
            _check_names([records[i] for i in undeclared_rows])
        if undeclared_rows and self._added_count < self._room:
            self._grow([records[i] for i in undeclared_rows])
        arrays: dict[str, pa.Array] = {}
        for name in list(self._columns):
            values: Sequence[JsonValue] | None
            values = [record.get(name) for record in records] if fields is None else fields.get(name)
            if values is not None:
                arrays[name] = self._column(name, values, changes)
        return arrays, undeclared_rows

    def _has_undeclared(self, record: Record) -> bool:
        """Whether a record has a field without a column, other than a field that has always been null."""
        return not self._names.issuperset(record) or any(record.get(name) is not None for name in self._always_null)

    def _has_values_in_always_null(self, fields: Mapping[str, Sequence[JsonValue]]) -> bool:
        return any(any(value is not None for value in fields.get(name, ())) for name in self._always_null)

    def _column(self, name: str, values: Sequence[JsonValue], changes: dict[int, list[Change]]) -> pa.Array:
        """Return the values of a field as its column holds them; an inferred column is widened as they need."""
        kind = self._columns[name]
        if name in self._follows and kind is not JSON_TEXT:
            # A double column also takes integers, but only all values together decide whether it can hold them.
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
        """Give columns to the undeclared fields of some records, while there is room."""
        undeclared: dict[str, list[JsonValue]] = {}
        for record in records:
            for name, value in record.items():
                if name not in self._columns and self._owner(name) is None:
                    undeclared.setdefault(name, []).append(value)
        # Of fields that would share a column, the one with the column's exact name gets it, as with declared fields.
        for name, values in sorted(undeclared.items(), key=lambda field: column_name(field[0]) != field[0]):
            kind = inferred(values)
            if kind is None and len(self._always_null) < self._room:
                self._always_null.add(name)
            if kind is None:
                continue
            self._always_null.discard(name)
            if self._added_count < self._room and self._owner(name) is None:
                self._added_count += 1
                self._change(name, kind if self._infers else pa.string())
        self._always_null = {name for name in self._always_null if self._owner(name) is None}
        if self._added_count >= self._room:
            self._always_null.clear()
        self._names = frozenset(self._columns) | self._always_null
        self._typed_reader = self._new_typed_reader()

    def _change(self, name: str, kind: pa.DataType) -> None:
        """Give a field a column of type `kind`, or change its column to that type."""
        column, before = column_of(name, kind), self._columns.get(name)
        self._columns[name] = kind
        if before is None:
            self._column_names[name], self._owners[column.name.lower()] = column.name, name
            self.schema = self.schema.append(column)
        else:
            self.schema = self.schema.set(self.schema.get_field_index(column.name), column)
        earlier = self._grown.get(name, () if before is None else (arrow_type(before),))
        self._grown[name] = (*earlier, kind)
        (self._follows.add if kind in INFERRED else self._follows.discard)(name)
        self._typed_reader = self._new_typed_reader()

    def _new_typed_reader(self) -> TypedJsonReader:
        # A declared number is a double because the schema says so; an inferred one only as long as no digit is lost.
        exact = any(self._columns.get(name) == pa.float64() for name in self._follows)
        columns = {**self._columns, **dict.fromkeys(sorted(self._always_null), pa.null())}
        return TypedJsonReader(columns, exact=exact, compared=self._compared)

    def _additional(
        self, records: Sequence[Record], undeclared_rows: Sequence[int], changes: dict[int, list[Change]]
    ) -> pa.Array:
        if not undeclared_rows:
            return pa.nulls(len(records), pa.string())
        texts: list[str | None] = [None] * len(records)
        for i in undeclared_rows:
            fields = {name: value for name, value in records[i].items() if name not in self._names}
            self.without_column = self.without_column or self._first_without_column(fields)
            noted: list[Change] = []
            texts[i] = _undeclared_json(fields, noted) if fields else None
            if noted:
                changes.setdefault(i, []).extend(noted)
        return pa.array(texts, pa.string())

    def _owner(self, field: str) -> str | None:
        """Return the owner of a field's column, see `column_owner`; empty: no column can have the field's name."""
        column = column_name(field)
        return "" if column is None else self._owners.get(column.lower())

    def _first_without_column(self, fields: Record) -> tuple[str, str] | None:
        """Return the first field with a value whose column belongs to another field, and that owner."""
        owners = ((name, self._owner(name)) for name, value in fields.items() if value is not None)
        return next(((name, owner) for name, owner in owners if owner), None)

    def _meta(self, changes: Mapping[int, list[Change]], size: int) -> pa.Array:
        kind = self.schema.field(META).type
        if changes:
            return pa.array([{"changes": changes.get(i, [])} for i in range(size)], kind)
        # The usual case. Building each row, or repeating a scalar, would take a quarter of a batch's time.
        (noted,) = kind
        ends = pa.repeat(pa.scalar(0, pa.int32()), size + 1)
        none = pa.ListArray.from_arrays(ends, pa.nulls(0, noted.type.value_type), type=noted.type)
        return pa.StructArray.from_arrays([none], fields=[noted])


def _source_of_rows(sources: Sequence[Record | None], runs: Runs) -> pa.Array:
    """Return the source of each row. Made once per run and repeated, as many rows share it."""
    run_numbers = pa.concat_arrays([pa.repeat(number, count) for number, (_, count) in enumerate(runs)])
    return pa.array(sources, ROW_SOURCE_TYPE).take(run_numbers)


def _as_column(sources: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the sources of rows for a column of type `kind`; of another program's column as JSON text, or as nulls."""
    if kind == ROW_SOURCE_TYPE:
        return sources
    return as_texts(sources) if pa.types.is_string(kind) else pa.nulls(len(sources), kind)


def _check(records: Sequence[Record]) -> None:
    for i, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise FatalError(
                f"record {i + 1} of a page is of type {type(record).__name__}, expected a JSON object; "
                "check what the stream returns as its records"
            )


def _check_names(records: Sequence[Record]) -> None:
    for record in records:
        for name in record:
            if not isinstance(name, str):
                raise FatalError(
                    f"the record {shortened(record)} has a field named {name!r}, a {type(name).__name__}; expected a "
                    f"string, such as {str(name)!r}"
                )


def _error_of_record(records: Sequence[Record], error: NotJson) -> NotJson:
    """Return the error of the first record that JSON cannot represent, with the record's place."""
    for record in records:
        for name, value in record.items():
            try:
                json_of(value, special="null")
            except NotJson as found:
                advice = "yield a string, a number, a list or a dict"
                return NotJson(f"the field {name!r} of the record {shortened(record)}: {found}; {advice}")
    return error


def _undeclared_json(fields: Record, noted: list[Change]) -> str | None:
    """Return fields without a column as JSON. Values that JSON cannot represent are left out and noted."""
    text = json_text(fields)
    if text is None:
        left_out = {name: value for name, value in fields.items() if json_text(value) is None}
        noted += [change(name, "LEFT_OUT", NO_JSON, value) for name, value in left_out.items()]
        text = json_text({name: value for name, value in fields.items() if name not in left_out})
    return text


def _column(name: str, values: Sequence[JsonValue], kind: ColumnType, changes: dict[int, list[Change]]) -> pa.Array:
    """Return the values as `kind`: all at once if each has the right type, else one by one."""
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
    """Generates the ids of rows, in order. Not thread-safe.

    An id consists of eight hexadecimal digits for the slice, a string unique to the writer, and ten digits that count
    the writer's rows. Each slice has one writer in a commit, so of two rows of a commit the one read later has the
    greater id, compared as strings: slices in the order in which they were planned, the rows of each in the order of
    the source. No clock is involved. Hexadecimal, because a long sync may have more slices than eight decimal digits
    can count.
    """

    def __init__(self, unique: str | None = None) -> None:
        """Generate ids that contain `unique`, by default a new random string."""
        self._unique = (unique or uuid4().hex).encode()
        self._next = 0

    def next_ids(self, runs: Runs) -> pa.Array:
        """Return the next ids, for rows of these slices."""
        ids, size = [], 0
        for number, count in runs:
            prefix = b"%0*x%s" % (_SLICE_DIGITS, number, self._unique)
            ids.append(_row_ids(prefix, self._next, count))
            self._next += count
            size += count
        width = _SLICE_DIGITS + len(self._unique) + _DIGITS
        data = pa.py_buffer(b"".join(ids))
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), size, [None, data]).cast(pa.string())


def _row_ids(prefix: bytes, first: int, count: int) -> bytes:
    last = first + count
    if count <= _FEW:
        return b"".join([b"%s%010d" % (prefix, number) for number in range(first, last)])
    # The ids of a thousand rows share all but the last three digits, so they are made at once.
    thousands = range(first // 1000, -(-last // 1000))
    ids = b"".join(_THOUSAND.replace(_MARK, b"%s%07d" % (prefix, number)) for number in thousands)
    width = len(prefix) + _DIGITS
    return ids[first % 1000 * width : (first % 1000 + count) * width]
