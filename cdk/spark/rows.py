"""Records -> Arrow batches. Bad data never stops a sync and never vanishes.

A value that does not fit its column becomes null and is kept, as text, in `_airbyte_meta.changes`; a field without a
column is kept as JSON text in `_airbyte_additional`, or gets a text column of its own. A text column takes other values
as JSON text. pyarrow alone would not do: it turns 1.5 into 1 for an integer column, true into 1.0 for a number, "abc"
into ["a", "b", "c"] for a list, and drops undeclared fields of a struct.

What never gets here: a record that has a key twice, for decoders of JSON keep the last value of it (RFC 8259, 4).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from cdk.base.errors import FatalError
from cdk.base.expected_lines import Expected
from cdk.base.plain import ALREADY, plain
from cdk.base.times import Clock, system_clock
from cdk.base.values import Json, NotJson, Record
from cdk.spark.at_once import at_once, by_field
from cdk.spark.fit import Change, change, fit
from cdk.spark.json_text import NO_JSON, json_text
from cdk.spark.row_ids import RowIds, Runs
from cdk.spark.schema import (
    ADDITIONAL,
    EXTRACTED_AT,
    GENERATION,
    META,
    MOMENT,
    RAW_ID,
    ColumnType,
    arrow_type,
    column_name,
    table_schema,
)
from cdk.spark.straight import Straight


class Rows:
    """Turns pages of records into batches of one table's schema.

    schema: that of the last batch. It grows at its end, by a text column for each undeclared field, while there is
    room; a batch from before has fewer columns, and `widened` adds them.
    """

    def __init__(
        self,
        declared: Mapping[str, ColumnType],
        *,
        generation: int,
        clock: Clock = system_clock,
        unique: str | None = None,
        room: int = 0,
    ) -> None:
        """Make rows of `generation`. unique: what is in their ids, see RowIds.

        room: how many undeclared fields get columns; those that come later are kept in `_airbyte_additional`.
        """
        self.schema = table_schema(declared)
        self._columns = dict(declared)
        self._places = {name: column_name(name) or name for name in declared}
        self._names = frozenset(declared)
        self._straight = Straight(declared)
        self._taken = {name.lower() for name in self.schema.names}
        self._room = room
        self._grown: list[str] = []
        self._generation, self._clock = generation, clock
        self._ids = RowIds(unique)

    @property
    def undeclared(self) -> tuple[str, ...]:
        """The undeclared fields that got columns, in the order they were met."""
        return tuple(self._grown)

    @property
    def expected(self) -> Expected | None:
        """The type of records that become columns without being decoded; None where none would."""
        return self._straight.expected

    def batch(self, records: Sequence[Record], runs: Runs | None = None) -> pa.RecordBatch:
        """One row per record, in order. runs: the slices that they belong to; by default they are of one, number 0.

        Raises FatalError: a record is not an object, or NotJson, one of its values is not made of JSON's types.
        """
        changes: dict[int, list[Change]] = {}
        odd: Sequence[int] = ()
        columns = self._straight.of(records)
        if columns is None:
            columns, odd = self._fitted(records, changes)
        size = len(records)
        arrays = {
            self._places[name]: columns[name] if name in columns else pa.nulls(size, arrow_type(kind))
            for name, kind in self._columns.items()
        }
        arrays[ADDITIONAL] = self._additional(records, odd, changes)
        arrays[RAW_ID] = self._ids.take([(0, size)] if runs is None else runs)
        arrays[EXTRACTED_AT] = pa.repeat(pa.scalar(self._clock(), MOMENT), size)
        arrays[META] = self._meta(changes, size)
        arrays[GENERATION] = pa.repeat(pa.scalar(self._generation, pa.int64()), size)
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.schema.names], schema=self.schema)

    def _fitted(
        self, records: Sequence[Record], changes: dict[int, list[Change]]
    ) -> tuple[Mapping[str, pa.Array], Sequence[int]]:
        """The columns that some of the records have, and which records have undeclared fields."""
        if not {dict}.issuperset(map(type, records)):
            _check(records)
        fields = by_field(records)
        if fields is not None and self._names.issuperset(fields):
            odd: Sequence[int] = ()
        else:
            odd = [i for i, record in enumerate(records) if not self._names.issuperset(record)]
        if odd and len(self._grown) < self._room:
            self._grow(records[i] for i in odd)
        arrays: dict[str, pa.Array] = {}
        for name, kind in self._columns.items():
            if fields is None:
                arrays[name] = _column(name, [record.get(name) for record in records], kind, changes)
            elif name in fields:
                arrays[name] = _column(name, fields[name], kind, changes)
        return arrays, odd

    def _grow(self, records: Iterator[Record]) -> None:
        """Give the undeclared fields of some records columns, while there is room.

        A name that a column could not have as it is would need another, and two tasks might choose the same.
        """
        for record in records:
            for name in record:
                if (
                    name not in self._columns
                    and len(self._grown) < self._room
                    and column_name(name) == name
                    and name.lower() not in self._taken
                ):
                    self._grown.append(name)
                    self._taken.add(name.lower())
                    self._columns[name], self._places[name] = pa.string(), name
                    self.schema = self.schema.append(pa.field(name, pa.string()))
        self._names = frozenset(self._columns)
        self._straight = Straight(self._columns)

    def _additional(self, records: Sequence[Record], odd: Sequence[int], changes: dict[int, list[Change]]) -> pa.Array:
        if not odd:
            return pa.nulls(len(records), pa.string())
        texts: list[str | None] = [None] * len(records)
        for i in odd:
            fields = {name: value for name, value in records[i].items() if name not in self._names}
            noted: list[Change] = []
            texts[i] = _rest(fields, noted) if fields else None
            if noted:
                changes.setdefault(i, []).extend(noted)
        return pa.array(texts, pa.string())

    def _meta(self, changes: Mapping[int, list[Change]], size: int) -> pa.Array:
        kind = self.schema.field(META).type
        if changes:
            return pa.array([{"changes": changes.get(i, [])} for i in range(size)], kind)
        # As a rule; a quarter of a batch's time if each row were looked at, or if a scalar were repeated.
        (noted,) = kind
        ends = pa.repeat(pa.scalar(0, pa.int32()), size + 1)
        none = pa.ListArray.from_arrays(ends, pa.nulls(0, noted.type.value_type), type=noted.type)
        return pa.StructArray.from_arrays([none], fields=[noted])


def _check(records: Sequence[Record]) -> None:
    for i, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise FatalError(
                f"record {i + 1} of a page is of type {type(record).__name__}, expected a JSON object; "
                "check what the stream takes for its records"
            )


def _rest(fields: Record, noted: list[Change]) -> str | None:
    """Fields without a column, as JSON. What is no JSON is left out, and noted."""
    try:
        text = json_text(fields)
    except NotJson:
        for name, value in fields.items():
            with _naming(name):
                json_text(value)
        raise
    if text is None:
        left_out = {name: value for name, value in fields.items() if json_text(value) is None}
        noted += [change(name, "LEFT_OUT", NO_JSON, value) for name, value in left_out.items()]
        text = json_text({name: value for name, value in fields.items() if name not in left_out})
    return text


def _column(name: str, values: Sequence[Json], kind: ColumnType, changes: dict[int, list[Change]]) -> pa.Array:
    """The values as `kind`: at once where each is of the right type, else one by one."""
    if (array := at_once(values, kind)) is not None:
        return array
    fitted = []
    with _naming(name):
        if not ALREADY.issuperset(map(type, values)):
            values = list(map(plain, values))
            if (array := at_once(values, kind)) is not None:
                return array
        for i, value in enumerate(values):
            noted: list[Change] = []
            fitted.append(fit(value, kind, name, noted))
            if noted:
                changes.setdefault(i, []).extend(noted)
    return pa.array(fitted, arrow_type(kind))


@contextmanager
def _naming(field: str) -> Iterator[None]:
    """Say which field holds what is no JSON."""
    try:
        yield
    except NotJson as error:
        raise NotJson(f"the field {field!r} of a record: {error}") from None
