"""Whether a stream fits its table: the checks and refusals before anything is written to it."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import pyarrow as pa
from deltalake.exceptions import DeltaError

from cdk.base.errors import ConfigError
from cdk.base.logs import logger
from cdk.base.values import JsonSchema
from cdk.base.wording import listed
from cdk.lake.admin.locate import OpenTables
from cdk.lake.arrow.columns import (
    ADDITIONAL,
    JSON_TEXT,
    OWN_COLUMNS,
    RESERVED,
    ROW_SOURCE,
    ROW_SOURCE_TYPE,
    ColumnType,
    column_name,
    column_owner,
    columns,
    field_of,
    without_column,
)
from cdk.lake.arrow.schema_evolution import Policy, SchemaChange, plan_schema
from cdk.lake.arrow.type_promotion import keeps_spelling, writable
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Guard, Use
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.dedup import CursorColumn, Identity
from cdk.lake.parquet.partitioning import check_columns, check_fillable
from cdk.lake.storage.table_log import BrokenLog
from cdk.streams.order import NaturalOrder
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.resume import is_refreshed
from cdk.sync.tables.table_owner import check_owned, check_owner

_LISTED = 10
"""The most fields that a warning names."""


def declared_columns(plan: StreamPlan) -> dict[str, ColumnType]:
    """Return the columns of the stream's schema, plus that of the row source if rows are traced."""
    traced: dict[str, ColumnType] = {ROW_SOURCE: ROW_SOURCE_TYPE} if plan.trace_rows else {}
    return columns(plan.stream.json_schema()) | traced


def check_writing(plan: StreamPlan, tables: OpenTables) -> StreamTable | None:
    """Raise what `TableWriting` would raise, without creating or changing anything. Return the table, if it exists."""
    declared = declared_columns(plan)
    table, history = existing_table(plan, declared, tables), history_guard(plan, tables)
    if table is None:
        # A new table has no features, and its columns from the start; its history may be older.
        check_guards(plan, declared, SchemaChange(declared, pa.schema([])), Guard(), history)
        return None
    check_owner(table, plan, tables.pipeline)
    check_row_moves(plan, table)
    planned = planned_columns(plan, declared, table)
    check_guards(plan, declared, planned, table.guard, history)
    check_key(plan, table, identity(plan, planned.schema, planned.columns), planned)
    return table


def existing_table(plan: StreamPlan, declared: Mapping[str, ColumnType], tables: OpenTables) -> StreamTable | None:
    """Return the stream's table, whose state is usable; None if it does not exist yet.

    Raises ConfigError: when a table with these columns is impossible, would be nested with another one, or belongs to
    another stream. Also raises what StreamTable raises.
    """
    table = tables.existing(plan.location)
    if table is None:
        check_new_table(plan, declared)
        _check_not_nested(plan)
        return None
    check_fields(plan, declared)
    check_owned(table, plan.stream.name)
    table.check_partition_by(new_columns(plan, declared)[1])
    if table.lost_state is not None:
        raise table.lost_state
    return table


def _check_not_nested(plan: StreamPlan) -> None:
    """Raise ConfigError if a new table would lie inside another one, or around it; see also `check_apart`."""
    root = plan.root
    if (other := plan.location.nested()) is not None:
        relation = "inside" if root.inside(other) else "around"
        raise ConfigError(
            f"its table {root} would lie {relation} the table {other}, and cleaning up the outer one removes the inner "
            "one; rename the stream or its namespace, or write it to another target.path",
            path=plan.where,
        )


def check_new_table(plan: StreamPlan, declared: Mapping[str, ColumnType]) -> None:
    """Raise ConfigError if a table with these columns is impossible."""
    check_fields(plan, declared)
    begin, by = new_columns(plan, declared)
    check_columns(begin, by, plan.where.below("partition_by"))
    identity(plan, begin, {})


def new_columns(plan: StreamPlan, declared: Mapping[str, ColumnType]) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return the schema and partition columns of a new table. Raises ConfigError: when it cannot be partitioned so."""
    where = plan.where.below("partition_by")
    names: list[str] = []
    for field in plan.partition_by:
        if declared.get(field) is JSON_TEXT:
            raise ConfigError(f"{field!r} is stored as a JSON string; expected values of one simple type", path=where)
        name = column_name(field) or field
        if name in names:
            raise ConfigError(f"{field!r} is listed twice; remove one", path=where)
        names.append(name)
    return plan_schema(None, declared, plan.policy).schema, tuple(names)


def warn_of_string_columns(
    plan: StreamPlan, table_columns: Mapping[str, ColumnType], declared: Mapping[str, ColumnType]
) -> None:
    """Warn about columns that remain strings, although the schema now declares another type."""
    names = [
        name
        for name, kind in declared.items()
        if table_columns.get(name) == pa.string() and kind is not JSON_TEXT and kind != pa.string()
    ]
    if names and plan.policy is Policy.EVOLVE:
        logger.warning(
            "%s: columns that the schema declares with other types are strings in the table: %s. A column is never "
            "narrowed: to have the declared types, move the table away or sync into another path; everything is then "
            "read again",
            plan.stream.name,
            ", ".join(names),
        )


def warn_of_wider_columns(stream: str, before: pa.Schema, schema: pa.Schema) -> None:
    """Warn about columns that a commit has made wider than `before`: programs that read the table meet another type."""
    known = {column.name: column.type for column in before}
    wider = [(each, known[each.name]) for each in schema if known.get(each.name, each.type) != each.type]
    if wider:
        changes = ", ".join(f"{column.name} ({old} -> {column.type})" for column, old in wider)
        text = "%s: columns of the table have a wider type now, which values of the source need: %s; "
        logger.warning(text + "check what reads them", stream, changes)


def warn_of_fields_without_column(stream: str, schema: JsonSchema, declared: Mapping[str, ColumnType]) -> None:
    """Warn about declared fields that get no column, because another field or the kit has their column name."""
    fields = without_column(schema, declared)
    if not fields:
        return
    named = [
        repr(field) if owner is None else f"{field!r} ({'the kit' if owner in RESERVED else repr(owner)} has it)"
        for field, owner in fields.items()
    ]
    logger.warning(
        "%s: declared fields that get no column, because their column name equals that of another field (case is "
        "ignored, blanks become _), or is reserved: %s. Their values are stored in %s",
        stream,
        listed(named, _LISTED),
        ADDITIONAL,
    )


def check_fields(plan: StreamPlan, owners: Iterable[str]) -> None:
    """Raise ConfigError if a field that needs a column gets none, because one of `owners` has its column name."""
    stream, fields = plan.stream, [("partition_by", field) for field in plan.partition_by]
    if plan.traits.one_row_per_key:
        fields += [("primary_key", path[0]) for path in stream.key_paths]
        fields += [("cursor_field", stream.cursor_field)] if isinstance(stream.cursor_field, str) else []
    owners = set(owners)
    for option, field in fields:
        owner = column_owner(field, owners)
        if owner is not None and owner != field:
            raise ConfigError(
                f"{field!r} has no column of its own: its column name equals that of {owner!r} (case is ignored, "
                "blanks and the like become _). Choose another field, or rename one of the two in the connector",
                path=plan.where.below(option),
            )


def check_row_moves(plan: StreamPlan, table: StreamTable) -> None:
    """Raise StateError if the table has duplicate rows (`StreamTable.check_row_moves`) that would remain."""
    # An overwrite replaces all rows, including duplicates.
    if not plan.traits.hidden_until_complete:
        table.check_row_moves()


def planned_columns(
    plan: StreamPlan,
    declared: Mapping[str, ColumnType],
    table: StreamTable,
    exact: frozenset[str] = frozenset(),
    undeclared: Mapping[str, pa.DataType] | None = None,
) -> SchemaChange:
    """Plan the changes to a table's columns. exact, undeclared: as for `plan_schema`.

    Raises ConfigError: when the stream does not fit the table.
    """
    where, name = str(table.root), plan.stream.name
    new = plan_schema(table.schema, declared, plan.policy, undeclared=undeclared, exact=exact, stream=name, path=where)
    check_fields(plan, map(field_of, new.schema))
    for column, old, wide in ((wider.column, wider.old, wider.new) for wider in new.widen):
        if column in table.partition_by:
            raise ConfigError(
                f"the table is partitioned by {column!r}, which is {old} there, but the stream's schema needs "
                f"{wide}: a partition column keeps its type. Sync into another path, change the schema back, or "
                "choose the schema policy discard",
                path=where,
                stream=name,
            )
    check_fillable(
        table.partition_by, table.schema, {column_name(field) or field for field in new.columns}, name, where
    )
    return new


def check_guards(
    plan: StreamPlan, declared: Mapping[str, ColumnType], planned: SchemaChange, guard: Guard, history: Guard
) -> None:
    """Raise ConfigError if features of the table or of its history forbid the planned operations."""
    changes = [*([Use.NEW_COLUMNS] if planned.add else []), *([Use.WIDEN] if planned.widen else [])]
    written = {*(column_name(name) or name for name in declared), *OWN_COLUMNS}
    guard.check([plan.traits.use, *changes], written)
    history.check([Use.HISTORY, *changes], written)


def history_guard(plan: StreamPlan, tables: OpenTables) -> Guard:
    """Return the guard of the table's history; it allows everything if there is no readable history.

    Raises ConfigError: when the table in its place belongs to another stream.
    """
    if (beside := plan.location.of_history) is not None:
        with suppress(DeltaError, BrokenLog):  # a broken history does not stop the sync
            if (table := tables.existing(beside)) is not None:
                check_owned(table, plan.stream.name)
                return table.guard
    return Guard()


def identity(plan: StreamPlan, schema: pa.Schema, declared: Mapping[str, ColumnType]) -> Identity | None:
    """Return how rows are identified; None if not by key. Raises ConfigError: when a key field has no usable column."""
    if not plan.traits.one_row_per_key:
        return None
    stream = plan.stream
    where = plan.where.below("primary_key")
    keys: list[str] = []
    fields: list[str] = []
    for path in stream.key_paths:
        if len(path) > 1:
            why = f"{'.'.join(path)} lies inside another field; a primary key consists of columns"
            raise ConfigError(why, path=where)
        name = column_name(path[0]) or path[0]
        if name not in schema.names:
            if path[0] in declared_columns(plan):
                raise ConfigError(
                    f"the table has no column {name!r}, and the schema policy {plan.policy} adds none; choose "
                    "evolve, or sync into another path",
                    path=where,
                )
            raise ConfigError(
                f"the stream's schema does not declare {path[0]!r}; add it there (`discover --infer` shows "
                "the types of the first records, and with `--schemas FOLDER` writes them to files)",
                path=where,
            )
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or not writable(kind):
            why = f"{path[0]!r} is {kind}; expected a string, an integer, a double or a timestamp"
            raise ConfigError(why, path=where)
        keys.append(name)
        fields.append(path[0])
    return Identity(tuple(keys), _cursor(plan, schema, declared), plan.hard_deletes, tuple(fields))


def check_key(plan: StreamPlan, table: StreamTable, key: Identity | None, planned: SchemaChange) -> None:
    """Raise ConfigError if the key has changed, or its types would, while this sync does not reread all rows.

    With another key, a row would replace all rows that share the new key, although these are not read again. With other
    types, or JSON text in other spellings, existing rows would have different keys, and each would stay beside the row
    that is read again.
    """
    if key is None or not plan.traits.merges:
        return
    _check_key_types(plan, table, key, planned)
    known = {f"the pipeline {name!r} has": keys for name, keys in table.others.keys.items()}
    if table.saved is not None and table.saved.state is not None and not _starts_complete_read(plan, table.saved):
        known["the table has"] = table.saved.keys
    for who, keys in known.items():
        if not set(keys) <= set(key.keys):
            before, now = ", ".join(keys), ", ".join(key.keys)
            raise ConfigError(
                f"found {now}, but {who} one row for each {before}: a row would replace all others with the same "
                f"{now}. Change it back, or read everything again into a new table: move this one away",
                path=plan.where.below("primary_key"),
            )


def _check_key_types(plan: StreamPlan, table: StreamTable, key: Identity, planned: SchemaChange) -> None:
    saved, as_json = table.saved, json_keys(plan, planned)
    widened = {wider.column: wider for wider in planned.widen}
    for column in key.keys:
        new = JSON_TEXT if column in as_json else planned.schema.field(column).type
        old: ColumnType = planned.schema.field(column).type
        source_spells = False
        if column in widened:
            old = widened[column].old
        elif saved is not None and pa.types.is_string(old):
            old = JSON_TEXT if column in saved.json_keys else old
            source_spells = old is JSON_TEXT and column not in saved.keys
        if (keeps_spelling(old, new) and not source_spells) or table.row_count() == 0:
            continue
        if is_refreshed(plan, saved):  # the existing rows will be removed
            continue
        raise ConfigError(
            f"the table has {column!r}, a column of its primary key, as {_type_name(old)}"
            f"{' that the source formats' if source_spells else ''}, but the stream's schema "
            f"makes it {_type_name(new)}: existing rows would have their keys in another format (rounded, "
            '`2024-01-01T10:00:00.000000Z`, `"A7"`), and would stay beside each row that is read again. Change the '
            "type or the write mode back, or read everything again into a new table: move this one away",
            path=str(table.root),
            stream=plan.stream.name,
        )


def json_keys(plan: StreamPlan, planned: SchemaChange) -> tuple[str, ...]:
    """Return the columns of the primary key that hold JSON text."""
    fields = [path[0] for path in plan.stream.key_paths if planned.columns.get(path[0]) is JSON_TEXT]
    return tuple(column_name(field) or field for field in fields)


def _type_name(kind: ColumnType) -> str:
    return "JSON text" if kind is JSON_TEXT else str(kind)


def _starts_complete_read(plan: StreamPlan, saved: TableState) -> bool:
    """Whether the sync starts a complete read, instead of resuming one."""
    newer = plan.generation is not None and plan.generation > saved.generation
    if plan.sync_mode == "incremental":
        return newer and is_refreshed(plan, saved)
    return newer or saved.complete or saved.sync_mode != plan.sync_mode


def _cursor(plan: StreamPlan, schema: pa.Schema, declared: Mapping[str, ColumnType]) -> CursorColumn | None:
    """Return the cursor's column and the order of its values, which is that of the stream's own cursor."""
    stream = plan.stream
    field = stream.cursor_field
    if not isinstance(field, str) or not field:
        return None
    name = column_name(field) or field
    if name in schema.names and pa.types.is_nested(schema.field(name).type):
        return None
    order = NaturalOrder() if stream.cursor is None else stream.cursor.order
    return CursorColumn(field, name, order, declared.get(field) is JSON_TEXT)


def bounded_columns(plan: StreamPlan) -> tuple[str, ...]:
    """Return the columns that queries and merges search by, including columns that do not exist yet."""
    names = [path[0] for path in plan.stream.key_paths if len(path) == 1]
    cursor = plan.stream.cursor_field
    fields = [*names, cursor] if isinstance(cursor, str) else names
    return tuple(dict.fromkeys(column_name(name) or name for name in fields))
