"""The table of a stream that is being written: its columns, as the schema and the table agree on them, and its mode."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from cdk.base.errors import ConfigError
from cdk.base.logs import logger
from cdk.base.task_map import TaskMap
from cdk.base.values import JsonSchema
from cdk.lake.arrow.columns import (
    ADDITIONAL,
    JSON_TEXT,
    OWN_COLUMNS,
    ColumnType,
    column_name,
    column_owner,
    columns,
    without_column,
)
from cdk.lake.arrow.json_schema import warn_of_slips
from cdk.lake.arrow.schema_evolution import Grown, Policy, SchemaChange, plan, with_columns
from cdk.lake.delta.pinned_table import TableChanged, repeat_if_changed
from cdk.lake.delta.receipt import Receipt
from cdk.lake.delta.row_history import RowHistory
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Guard, Use, guard_at, is_table
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import Append, AppendDedup, Overwrite, WriteMode
from cdk.lake.parquet.dedup import CursorColumn, Identity
from cdk.lake.parquet.partitioning import check_columns
from cdk.lake.parquet.rewrite import TableLayout
from cdk.lake.parquet.table_files import TableFile, lost_files
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder
from cdk.streams.order import NaturalOrder
from cdk.sync.loop.resume import is_refreshed
from cdk.sync.settings.stream_plan import StreamPlan, WriteModeName
from cdk.sync.tasks.messages import WriteTarget

_LISTED = 10


class TableWriting:
    """Opens the table, lets it follow the schema as its policy says, and picks the write mode."""

    def __init__(self, stream_plan: StreamPlan, pipeline: str) -> None:
        """Raises ConfigError: the schema needs another table than there is. StateError: see StreamTable."""
        self._plan, self._stream = stream_plan, stream_plan.stream
        self._declared = columns(self._stream.json_schema())
        self._met: dict[str, pa.DataType] = {}
        name = self._stream.name
        warn_of_slips(name, self._stream.json_schema())
        _warn_of_fields_without_column(name, self._stream.json_schema(), self._declared)
        _check_fields(stream_plan, self._declared)
        by, begin = _partition_by(stream_plan, self._declared), _begin(stream_plan, self._declared)
        _check_new(stream_plan, begin, by)
        self.table = StreamTable(stream_plan.root, pipeline, name, begin, partition_by=by)
        if stream_plan.write_mode == "append" and is_refreshed(stream_plan, self.table.saved):
            stream_plan = self._plan = replace(stream_plan, write_mode="overwrite")
        _check_moves(stream_plan, self.table)
        self._columns = self._planned()
        _check_guards(stream_plan, self._declared, self._columns, self.table.guard)
        _warn_of_string_columns(stream_plan, self._columns.columns, self._declared)
        self._may_widen = _may_widen(stream_plan, self.table.guard)
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
                self.mode.open_history(lambda: RowHistory(folder, self.table, pipeline, name, self._bounded))

    def target(self, generation: int) -> WriteTarget:
        """What tasks need to know to read and write the stream."""
        change = self._columns
        staging, by = self.mode.staging, self.table.partition_by
        follows = change.follows.difference(by) if self._may_widen else frozenset()
        return WriteTarget(
            self._stream, staging, change.columns, generation, change.room, follows, self._may_widen, self._bounded, by
        )

    def unusable(self, pending: Sequence[DataFile]) -> str | None:
        """Why files of a generation that is not complete cannot become part of it; None when they can."""
        if not self.table.root.has([file.path for file in pending]):
            # VACUUM removes files that no version of the table names, these among them.
            return "files of the interrupted sync are gone"
        schemas = [self._written(self.table.root, file) for file in pending]
        # The generation may have met values that the columns of the rows before it cannot hold.
        met = {field.name: field.type for schema in schemas for field in schema if field.name in self._columns.follows}
        self._meet({name: kind for name, kind in met.items() if kind != self._columns.schema.field(name).type})
        if any(map(self._differs, schemas)):
            return "the schema has changed since the interrupted sync"
        return None

    def prepare(self, saved: TableState, spread: TaskMap) -> None:
        """Give the table the columns that it lacks, and write its files again where one has become wider.

        The latter is one commit, in which the state stays what it is; a history follows. Raises StateError.
        """
        self.mode.add(self._columns.add)
        if self._columns.widen and self._plan.write_mode != "overwrite":
            repeat_if_changed(self.table, partial(self._widened, saved, spread))
            self._columns = self._planned()
        self.mode.prepare(spread)

    def _widened(self, saved: TableState, spread: TaskMap) -> None:
        """Write the files again. Raises ConfigError: the table has got a feature, and they may not be any more."""
        table = self.table
        table.guard.check([Use.WIDEN])
        layout = self._layout(table.root)
        exact = layout.unfit(table.files(), spread)
        layout = replace(layout, schema=self._planned(exact).schema)
        files = layout.rewrite(table.files(), spread)
        before = table.saved or replace(saved, state=None)
        try:
            table.commit(before, files, overwrite=True, schema=layout.schema, receipt=Receipt())
        except TableChanged:
            for file in files:
                table.root.delete(file.path)
            raise

    def grow(
        self, grown_by_task: Sequence[Grown], files: Sequence[Sequence[DataFile]], saved: TableState, spread: TaskMap
    ) -> tuple[list[Sequence[DataFile] | None], TableState]:
        """See StreamSync.grow; and the state, with the files of a hidden generation as they are now.

        The table's columns come first: where this is cut, they are wider than its rows need, and that is all.
        """
        staging = self.mode.staging
        missing = set(lost_files(staging, [*saved.pending, *chain.from_iterable(files)]))
        if missing:
            text = "%s: %d files that no version names yet are gone; reading again what they held"
            logger.warning(text, self._stream.name, len(missing))
        schema, fits = self._columns.schema, []
        for grown, task_files in zip(grown_by_task, files, strict=True):
            whole = missing.isdisjoint(file.path for file in task_files)
            fits.append(wide := with_columns(schema, grown) if whole else None)
            schema = schema if wide is None else wide
        known = {field.name: field.type for field in self._columns.schema}
        met = {field.name: field.type for field in schema if known.get(field.name) != field.type}
        # The commit that is to show a hidden generation finds that files of it are gone.
        pending = [file for file in saved.pending if file.path not in missing]
        accepted = [
            file
            for task_files, schema_of_task in zip(files, fits, strict=True)
            if schema_of_task is not None
            for file in task_files
        ]
        one_type = not any(name in known for name in met) and all(
            kinds == (schema.field(name).type,)
            for grown, schema_of_task in zip(grown_by_task, fits, strict=True)
            if schema_of_task is not None
            for name, kinds in grown.items()
            if name in met
        )
        written = {} if one_type else {file.path: self._written(staging, file) for file in (*pending, *accepted)}
        self._meet(met)
        if written:
            exact = self._layout(staging).unfit(
                [_named(file) for file in (*pending, *accepted) if self._differs(written[file.path])], spread
            )
            self._meet(dict.fromkeys(exact, pa.string()))
        self.mode.add(self._columns.add)
        if self._columns.widen and self._plan.write_mode != "overwrite":
            self.prepare(saved, spread)

        def again(old: Sequence[DataFile]) -> Sequence[DataFile]:
            narrow = [file for file in old if file.path in written and self._differs(written[file.path])]
            if not narrow:
                return old
            rewritten = self._layout(staging).rewrite([_named(file) for file in narrow], spread)
            return [*(file for file in old if file not in narrow), *rewritten]

        # The state that there is names the hidden files as they were.
        saved = replace(saved, pending=tuple(again(saved.pending)))
        result: list[Sequence[DataFile] | None] = []
        for task_files, schema_of_task in zip(files, fits, strict=True):
            result.append(new := None if schema_of_task is None else again(task_files))
            for file in task_files:
                if new is None or file not in new:
                    staging.delete(file.path)
        return result, saved

    def _meet(self, met: Mapping[str, pa.DataType]) -> None:
        """Plan with columns of undeclared fields as wide as their values need."""
        if not met:
            return
        self._met.update(met)
        self._columns = self._planned()
        if self._plan.write_mode == "overwrite":
            self.mode.add(list(self._columns.schema))

    def _layout(self, folder: Folder) -> TableLayout:
        return TableLayout(folder, self._columns.schema, self._bounded, self.table.partition_by)

    def _written(self, folder: Folder, file: DataFile) -> pa.Schema:
        with folder.explaining(), folder.reader(file.path) as source:
            return pq.read_schema(source)

    def _differs(self, written: pa.Schema) -> bool:
        """Whether a file cannot be named as it is."""
        kinds = {field.name: field.type for field in self._columns.schema}
        return any(kinds.get(field.name) != field.type for field in written)

    def _planned(self, exact: frozenset[str] = frozenset()) -> SchemaChange:
        return _planned(self._plan, self._declared, self.table, exact, self._met)


def _warn_of_string_columns(
    stream_plan: StreamPlan, table_columns: Mapping[str, ColumnType], declared: Mapping[str, ColumnType]
) -> None:
    """Warn of columns that are text for ever, though the schema declares another type now."""
    names = [
        name
        for name, kind in declared.items()
        if table_columns.get(name) == pa.string() and kind is not JSON_TEXT and kind != pa.string()
    ]
    if names and stream_plan.policy is Policy.EVOLVE:
        logger.warning(
            "%s: columns that the schema declares as other types are text in the table: %s. A column never becomes "
            "narrower: to have the declared types, move the table away or sync into another path; all is read again",
            stream_plan.stream.name,
            ", ".join(names),
        )


def _warn_of_fields_without_column(stream: str, schema: JsonSchema, declared: Mapping[str, ColumnType]) -> None:
    """Warn, once, of declared fields whose column is another's."""
    fields = without_column(schema, declared)
    if not fields:
        return
    listed = [
        repr(field) if owner is None else f"{field!r} ({'the kit' if owner in OWN_COLUMNS else repr(owner)} has it)"
        for field, owner in list(fields.items())[:_LISTED]
    ]
    more = [f"and {len(fields) - _LISTED} more"] if len(fields) > _LISTED else []
    logger.warning(
        "%s: declared fields that get no column, for tables do not tell its name from another's, or cannot have it: "
        "%s. Their values are kept in %s",
        stream,
        ", ".join([*listed, *more]),
        ADDITIONAL,
    )


def _check_fields(stream_plan: StreamPlan, declared: Mapping[str, ColumnType]) -> None:
    """Raise ConfigError: a field that the table has to have a column for has none, since another has it."""
    stream, fields = stream_plan.stream, [("partition_by", field) for field in stream_plan.partition_by]
    if stream_plan.write_mode == "append_dedup":
        keys = [stream.primary_key] if isinstance(stream.primary_key, str) else stream.primary_key
        fields += [("primary_key", key if isinstance(key, str) else key[0]) for key in keys]
        fields += [("cursor_field", stream.cursor_field)] if isinstance(stream.cursor_field, str) else []
    for option, field in fields:
        owner = column_owner(field, declared)
        if owner is not None and owner != field:
            raise ConfigError(
                f"streams.{stream.name}.{option}: {field!r} has no column of its own: tables do not tell it from that "
                f"of {owner!r}, for case does not count, and blanks and such become _. Choose another field, or have "
                "the connector give one of the two another name"
            )


def _named(file: DataFile) -> TableFile:
    return TableFile(file.path, file.rows, partition=file.partition, size=file.size)


def _may_widen(stream_plan: StreamPlan, guard: Guard) -> bool:
    """Whether the features of the table, and of its history, let columns become wider."""
    guards = [guard]
    if stream_plan.history is not None:
        with suppress(DeltaError):  # one that cannot be read stops no sync
            guards.append(guard_at(stream_plan.history, f"{stream_plan.stream.name}/history"))
    return not any(each.refusals([Use.WIDEN]) for each in guards)


def check_writing(stream_plan: StreamPlan, pipeline: str) -> StreamTable | None:
    """Raise what `TableWriting` would, and make and change nothing; the table, where there is one."""
    declared = columns(stream_plan.stream.json_schema())
    _check_fields(stream_plan, declared)
    by, begin = _partition_by(stream_plan, declared), _begin(stream_plan, declared)
    if _check_new(stream_plan, begin, by):
        return None
    table = StreamTable(stream_plan.root, pipeline, stream_plan.stream.name, begin, partition_by=by)
    _check_moves(stream_plan, table)
    planned = _planned(stream_plan, declared, table)
    _check_guards(stream_plan, declared, planned, table.guard)
    _identity(stream_plan, planned.schema, planned.columns)
    return table


def _check_moves(stream_plan: StreamPlan, table: StreamTable) -> None:
    """See `StreamTable.check_moves`. An overwrite replaces all rows, however often they are there."""
    if stream_plan.write_mode != "overwrite":
        table.check_moves()


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
    met: Mapping[str, pa.DataType] | None = None,
) -> SchemaChange:
    """What becomes of a table. Raises ConfigError: the stream does not fit it."""
    where, name = str(table.root), stream_plan.stream.name
    new = plan(table.schema, declared, stream_plan.policy, met=met, exact=exact, stream=name, path=where)
    for column, old, wide in ((wider.column, wider.old, wider.new) for wider in new.widen):
        if column in table.partition_by:
            raise ConfigError(
                f"the table is partitioned by {column!r}, which is {old} there, and the stream's schema needs "
                f"{wide}: a partition column keeps its type. Sync into another path, change the schema back, or "
                "choose the schema policy discard",
                path=where,
                stream=name,
            )
    return new


def _check_guards(
    stream_plan: StreamPlan, declared: Mapping[str, ColumnType], planned: SchemaChange, guard: Guard
) -> None:
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
        if declared.get(field) is JSON_TEXT:
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
            raise ConfigError(
                f"{where}: the stream's schema does not declare {path[0]!r}; add it there (`discover --infer` shows "
                "the types of the first records)"
            )
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
    return CursorColumn(field, name, order, declared.get(field) is JSON_TEXT)


def _bounded(stream_plan: StreamPlan, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that people and merges look for rows by."""
    key = stream_plan.stream.primary_key
    names = [key] if isinstance(key, str) else [name for name in key if isinstance(name, str)]
    cursor = stream_plan.stream.cursor_field
    fields = [*names, cursor] if isinstance(cursor, str) else names
    names_of_columns = [column_name(name) or name for name in fields]
    return tuple(name for name in dict.fromkeys(names_of_columns) if name in schema.names)
