"""The table of a stream that is being written: its columns, as the schema and the table agree on them, and its mode."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from cdk.base.errors import ConfigError
from cdk.spark.evolution import Plan, plan, with_columns
from cdk.spark.files import DataFile
from cdk.spark.going_on import refreshes
from cdk.spark.history import History
from cdk.spark.newest import CursorColumn, Identity
from cdk.spark.partitions import check_columns
from cdk.spark.plan import StreamPlan, WriteModeName
from cdk.spark.progress import Target
from cdk.spark.receipt import Receipt
from cdk.spark.rewrite import Rewrite
from cdk.spark.saved import Saved
from cdk.spark.schema import OWN_COLUMNS, ColumnType, JsonText, column_name, columns
from cdk.spark.table_guard import Guard, Use, guard_at, is_table
from cdk.spark.tables import StreamTable, TableChanged, repeat_if_changed
from cdk.spark.tasks import Spread
from cdk.spark.write_modes import Append, AppendDedup, Overwrite, WriteMode
from cdk.streams.order import NaturalOrder


class Writing:
    """Opens the table, lets it follow the schema as its policy says, and picks the write mode."""

    def __init__(self, stream_plan: StreamPlan, pipeline: str) -> None:
        """Raises ConfigError: the schema needs another table than there is. StateError: see StreamTable."""
        self._plan, self._stream = stream_plan, stream_plan.stream
        self._declared = columns(self._stream.json_schema())
        name = self._stream.name
        by, begin = _partition_by(stream_plan, self._declared), _begin(stream_plan, self._declared)
        _check_new(stream_plan, begin, by)
        self.table = StreamTable(stream_plan.root, pipeline, name, begin, partition_by=by)
        if stream_plan.write_mode == "append" and refreshes(stream_plan, self.table.saved):
            stream_plan = self._plan = replace(stream_plan, write_mode="overwrite")
        self._columns = self._planned()
        _check_guards(stream_plan, self._declared, self._columns, self.table.guard)
        identity = _identity(stream_plan, self._columns.schema, self._columns.columns)
        self._bounded = _bounded(stream_plan, self._columns.schema)
        self.mode: WriteMode
        if stream_plan.write_mode == "overwrite":
            self.mode = Overwrite(self.table, self._columns.schema)
        elif identity is None:
            self.mode = Append(self.table)
        else:
            self.mode = AppendDedup(self.table, identity, self._bounded, name)
            if stream_plan.history is not None:
                folder = stream_plan.history
                self.mode.open_history(lambda: History(folder, self.table, pipeline, name, self._bounded))
        self.mode.add(self._columns.add)

    def target(self, generation: int) -> Target:
        """What tasks need to know to read and write the stream."""
        found = self._columns
        place, by = self.mode.staging, self.table.partition_by
        return Target(self._stream, place, found.columns, generation, found.room, self._bounded, by)

    def unusable(self, pending: Sequence[DataFile]) -> str | None:
        """Why files of a generation that is not complete cannot become part of it; None when they can."""
        if not self.table.root.has([file.path for file in pending]):
            # VACUUM removes files that no version of the table names, these among them.
            return "files of the interrupted sync are gone"
        fields = {field.name: field.type for field in self._columns.schema}
        for file in pending:
            with self.table.root.explaining(), self.table.root.reader(file.path) as source:
                written = pq.read_schema(source)
            if any(fields.get(field.name) != field.type for field in written):
                return "the schema has changed since the interrupted sync"
        return None

    def prepare(self, saved: Saved, spread: Spread) -> None:
        """Write the table's files again where a column has become wider, in one commit, and let its history follow.

        The state stays what it is. Raises StateError.
        """
        if self._columns.widen and self._plan.write_mode != "overwrite":
            exact = Rewrite(self.table.root, self._columns.schema).unfit(self.table.files(), spread)
            repeat_if_changed(self.table, partial(self._widened, saved, exact, spread))
            self._columns = self._planned()
        self.mode.prepare(spread)

    def _widened(self, saved: Saved, exact: frozenset[str], spread: Spread) -> None:
        table = self.table
        rewrite = Rewrite(table.root, self._planned(exact).schema, self._bounded, table.partition_by)
        files = rewrite.files(table.files(), spread)
        before = table.saved or replace(saved, state=None)
        try:
            table.commit(before, files, overwrite=True, schema=rewrite.schema, receipt=Receipt())
        except TableChanged:
            for file in files:
                table.root.delete(file.path)
            raise

    def grow(self, names: Sequence[str]) -> bool:
        """See StreamRun.grow."""
        known = self._columns.schema
        schema = with_columns(known, names)
        if schema is None:
            return False
        self.mode.add([field for field in schema if field.name not in known.names])
        self._columns = self._planned()
        return True

    def _planned(self, exact: frozenset[str] = frozenset()) -> Plan:
        return _planned(self._plan, self._declared, self.table, exact)


def check_writing(stream_plan: StreamPlan, pipeline: str) -> StreamTable | None:
    """Raise what `Writing` would, and make and change nothing; the table, where there is one."""
    declared = columns(stream_plan.stream.json_schema())
    by, begin = _partition_by(stream_plan, declared), _begin(stream_plan, declared)
    if _check_new(stream_plan, begin, by):
        return None
    table = StreamTable(stream_plan.root, pipeline, stream_plan.stream.name, begin, partition_by=by)
    planned = _planned(stream_plan, declared, table)
    _check_guards(stream_plan, declared, planned, table.guard)
    _identity(stream_plan, planned.schema, planned.columns)
    return table


def _check_new(stream_plan: StreamPlan, begin: pa.Schema, partition_by: Sequence[str]) -> bool:
    """Whether the table is still to be made. Raises ConfigError: it is, and cannot be with the columns of `begin`."""
    name = stream_plan.stream.name
    if is_table(stream_plan.root, name):
        return False
    check_columns(begin, partition_by, f"streams.{name}.partition_by")
    _identity(stream_plan, begin, {})
    return True


def _begin(stream_plan: StreamPlan, declared: Mapping[str, ColumnType]) -> pa.Schema:
    """The columns of a table that is new."""
    return plan(None, declared, stream_plan.policy).schema


def _planned(
    stream_plan: StreamPlan,
    declared: Mapping[str, ColumnType],
    table: StreamTable,
    exact: frozenset[str] = frozenset(),
) -> Plan:
    """What becomes of a table. Raises ConfigError: the stream does not fit it."""
    where, name = str(table.root), stream_plan.stream.name
    new = plan(table.schema, declared, stream_plan.policy, exact=exact, stream=name, path=where)
    for column, old, wide in ((one.column, one.old, one.new) for one in new.widen):
        if column in table.partition_by:
            raise ConfigError(
                f"the table is partitioned by {column!r}, which is {old} there, and the stream's schema needs "
                f"{wide}: a partition column keeps its type. Sync into another path, change the schema back, or "
                "choose the schema policy discard",
                path=where,
                stream=name,
            )
    return new


def _check_guards(stream_plan: StreamPlan, declared: Mapping[str, ColumnType], planned: Plan, guard: Guard) -> None:
    """Raise ConfigError where the features of the table, or of its history, forbid what is to be done to them."""
    also = [*([Use.GAIN] if planned.add else []), *([Use.WIDEN] if planned.widen else [])]
    written = {*(column_name(name) or name for name in declared), *OWN_COLUMNS}
    guard.check([_USES[stream_plan.write_mode], *also], written)
    if stream_plan.history is not None:
        with suppress(DeltaError):  # one that cannot be read stops no sync
            guard_at(stream_plan.history, f"{stream_plan.stream.name}/history").check([Use.HISTORY, *also], written)


_USES: Mapping[WriteModeName, Use] = {
    "append": Use.APPEND,
    "overwrite": Use.OVERWRITE,
    "append_dedup": Use.MERGE,
}


def _partition_by(stream_plan: StreamPlan, declared: Mapping[str, ColumnType]) -> tuple[str, ...]:
    """The columns that divide the table. Raises ConfigError: one is given twice, or holds JSON."""
    where = f"streams.{stream_plan.stream.name}.partition_by"
    names: list[str] = []
    for field in stream_plan.partition_by:
        if isinstance(declared.get(field), JsonText):
            raise ConfigError(f"{where}: {field!r} is kept as JSON text; expected values of one simple type")
        name = column_name(field) or field
        if name in names:
            raise ConfigError(f"{where}: {field!r} stands there twice; leave one of them out")
        names.append(name)
    return tuple(names)


def _identity(stream_plan: StreamPlan, schema: pa.Schema, declared: Mapping[str, ColumnType]) -> Identity | None:
    """How rows are told apart. Raises ConfigError: a field of the key is no column, or not one that can be a key."""
    if stream_plan.write_mode != "append_dedup":
        return None
    stream = stream_plan.stream
    where = f"streams.{stream.name}.primary_key"
    keys: list[str] = []
    fields: list[str] = []
    for field in [stream.primary_key] if isinstance(stream.primary_key, str) else stream.primary_key:
        path = [field] if isinstance(field, str) else list(field)
        if len(path) > 1:
            raise ConfigError(f"{where}: {'.'.join(path)} lies inside another field; rows are told apart by columns")
        name = column_name(path[0]) or path[0]
        if name not in schema.names:
            raise ConfigError(f"{where}: the stream's schema does not declare {path[0]!r}; add it there")
        if pa.types.is_nested(schema.field(name).type):
            raise ConfigError(f"{where}: {path[0]!r} is {schema.field(name).type}; expected a text, number or moment")
        keys.append(name)
        fields.append(path[0])
    return Identity(tuple(keys), _cursor(stream_plan, schema, declared), stream_plan.hard_deletes, tuple(fields))


def _cursor(stream_plan: StreamPlan, schema: pa.Schema, declared: Mapping[str, ColumnType]) -> CursorColumn | None:
    """Where the rows have the cursor's value, and how two of them compare: as the stream's own cursor does."""
    stream = stream_plan.stream
    field = stream.cursor_field
    if not isinstance(field, str) or not field:
        return None
    name = column_name(field) or field
    if name in schema.names and pa.types.is_nested(schema.field(name).type):
        return None
    order = NaturalOrder() if stream.cursor is None else stream.cursor.order
    return CursorColumn(field, name, order, isinstance(declared.get(field), JsonText))


def _bounded(stream_plan: StreamPlan, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that people and merges look for rows by."""
    key = stream_plan.stream.primary_key
    names = [key] if isinstance(key, str) else [name for name in key if isinstance(name, str)]
    cursor = stream_plan.stream.cursor_field
    fields = [*names, cursor] if isinstance(cursor, str) else names
    wanted = [column_name(name) or name for name in fields]
    return tuple(name for name in dict.fromkeys(wanted) if name in schema.names)
