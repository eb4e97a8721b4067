"""How a stream fits its table: what is looked at, and refused, before anything of it is written."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import pyarrow as pa
from deltalake.exceptions import DeltaError

from cdk.base.errors import ConfigError, StateError
from cdk.base.logs import logger
from cdk.base.values import JsonSchema
from cdk.base.wording import listed
from cdk.lake.admin.locate import OpenTables
from cdk.lake.arrow.columns import (
    ADDITIONAL,
    JSON_TEXT,
    OWN_COLUMNS,
    RAW_ID,
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
from cdk.lake.arrow.schema_evolution import Policy, SchemaChange, plan
from cdk.lake.arrow.type_promotion import keeps_spelling
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Guard, Use
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.dedup import CursorColumn, Identity
from cdk.lake.parquet.partitioning import check_columns
from cdk.lake.storage.table_log import BrokenLog
from cdk.streams.order import NaturalOrder
from cdk.sync.loop.resume import is_refreshed
from cdk.sync.settings.stream_plan import StreamPlan

_LISTED = 10
_FEW_STAY = 0.25
"""Where no more than this part of a table's rows is left, it was no clean-up of old ones."""


def declared_columns(stream_plan: StreamPlan) -> dict[str, ColumnType]:
    """The columns of the stream's schema, and of what brought a row, where that is traced."""
    traced: dict[str, ColumnType] = {ROW_SOURCE: ROW_SOURCE_TYPE} if stream_plan.trace_rows else {}
    return columns(stream_plan.stream.json_schema()) | traced


def check_writing(stream_plan: StreamPlan, tables: OpenTables) -> StreamTable | None:
    """Raise what `TableWriting` would, and make and change nothing; the table, where there is one."""
    declared = declared_columns(stream_plan)
    table, history = existing_table(stream_plan, declared, tables), history_guard(stream_plan, tables)
    if table is None:
        # A new table has no features, and its columns from the start; its history may be older.
        check_guards(stream_plan, declared, SchemaChange(declared, pa.schema([])), Guard(), history)
        return None
    check_owner(table, stream_plan, tables.pipeline)
    check_moves(stream_plan, table)
    planned = planned_columns(stream_plan, declared, table)
    check_guards(stream_plan, declared, planned, table.guard, history)
    check_key(stream_plan, table, identity(stream_plan, planned.schema, planned.columns), planned)
    return table


def existing_table(
    stream_plan: StreamPlan, declared: Mapping[str, ColumnType], tables: OpenTables
) -> StreamTable | None:
    """The stream's table, with a state that can be used; None where there is none yet.

    Raises ConfigError: there cannot be one with these columns, or it is another's. And what StreamTable raises.
    """
    table = tables.existing(stream_plan.location)
    if table is None:
        check_new_table(stream_plan, declared)
        return None
    check_fields(stream_plan, declared)
    _check_owned(table, stream_plan.stream.name)
    table.check_partition_by(new_columns(stream_plan, declared)[1])
    if table.lost_state is not None:
        raise table.lost_state
    return table


def check_new_table(stream_plan: StreamPlan, declared: Mapping[str, ColumnType]) -> None:
    """Raise ConfigError: there can be no table with these columns."""
    check_fields(stream_plan, declared)
    begin, by = new_columns(stream_plan, declared)
    check_columns(begin, by, f"streams.{stream_plan.stream.name}.partition_by")
    identity(stream_plan, begin, {})


def check_owner(table: StreamTable, stream_plan: StreamPlan, pipeline: str) -> None:
    """Raise StateError: a sync has filled the table, this pipeline has no state, and would append the rows again.

    Warns where an overwrite is about to replace the rows of another pipeline.
    """
    name = stream_plan.stream.name
    if stream_plan.traits.hidden_until_complete and (other := table.others.last_writer):
        logger.warning(
            "%s: the pipeline %r fills this table, too: this overwrite replaces its rows once it is complete, and each "
            "overwrite of one replaces those of the other. Give one of them another target, or both the write_mode "
            "append_dedup and a primary key, so that the table has the rows of both. If %r was only renamed, nothing "
            "is wrong",
            name,
            other,
            other,
        )
        return
    if not (text := rows_of_others(table, stream_plan, pipeline)):
        return
    if stream_plan.traits.repeats_rows:
        raise StateError(text, path=str(table.root), stream=name)
    again = "" if stream_plan.history is None else ", and its history gets each record once more"
    logger.warning("%s: %s; it is read from its start%s", name, text, again)


def rows_of_others(table: StreamTable, stream_plan: StreamPlan, pipeline: str) -> str:
    """Whose rows a table has, of which this pipeline has no state, and what to do; nothing where there are none."""
    if table.rows_state_version is not None or table.row_count() == 0:
        return ""
    if others := table.others.names:
        return (
            f"the table has rows and a state of the pipeline {others[0]!r}, and none of {pipeline!r}. If it was "
            f"renamed, give its file the name {others[0]!r} again, run `spark-cdk state fork FILE {pipeline}`, and "
            "rename it: it then goes on from there. If both are to fill the table, do the same, and then `spark-cdk "
            "state reset`"
        )
    if table.has_synced_rows:
        return (
            f"the table has rows of a sync, with ids in {RAW_ID}, and no state says how far the source was read: the "
            "table was copied or created again, or its _cdk_state was removed. Give a state that fits the rows with "
            "`spark-cdk state import`, have all read again with `spark-cdk state reset FILE --stream "
            f"{stream_plan.name}`, or move the table away"
        )
    return ""


def warn_of_removed_rows(table: StreamTable, stream_plan: StreamPlan) -> None:
    """Warn where another program has removed most rows since the last commit, and the sync goes on behind them.

    Rows that are removed in small numbers, as by a program that deletes old ones each day, are no accident.
    """
    saved = table.saved
    if saved is None or not saved.rows or stream_plan.traits.hidden_until_complete:
        return
    rows = table.row_count()
    if rows is None or rows > saved.rows * _FEW_STAY:
        return
    logger.warning(
        "%s: the table has %s rows, and had %s after this pipeline's last commit: another program has removed them, "
        "and this sync, which goes on from the state, does not bring them back. To have them again, restore the table "
        "to the version before, or have all read again with `spark-cdk state reset FILE --stream %s`",
        stream_plan.stream.name,
        *(f"{rows:,}", f"{saved.rows:,}", stream_plan.name),
    )


def new_columns(stream_plan: StreamPlan, declared: Mapping[str, ColumnType]) -> tuple[pa.Schema, tuple[str, ...]]:
    """The columns of a table that is new, and those that divide it. Raises ConfigError: these cannot divide it."""
    return plan(None, declared, stream_plan.policy).schema, _partition_by(stream_plan, declared)


def warn_of_string_columns(
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


def warn_of_fields_without_column(stream: str, schema: JsonSchema, declared: Mapping[str, ColumnType]) -> None:
    """Warn, once, of declared fields whose column is another's."""
    fields = without_column(schema, declared)
    if not fields:
        return
    named = [
        repr(field) if owner is None else f"{field!r} ({'the kit' if owner in RESERVED else repr(owner)} has it)"
        for field, owner in fields.items()
    ]
    logger.warning(
        "%s: declared fields that get no column, for tables do not tell its name from another's, or cannot have it: "
        "%s. Their values are kept in %s",
        stream,
        listed(named, _LISTED),
        ADDITIONAL,
    )


def check_fields(stream_plan: StreamPlan, owners: Iterable[str]) -> None:
    """Raise ConfigError: a field that the table has to have a column for has none, since one of `owners` has it."""
    stream, fields = stream_plan.stream, [("partition_by", field) for field in stream_plan.partition_by]
    if stream_plan.traits.one_row_per_key:
        fields += [("primary_key", path[0]) for path in stream.key_paths]
        fields += [("cursor_field", stream.cursor_field)] if isinstance(stream.cursor_field, str) else []
    owners = set(owners)
    for option, field in fields:
        owner = column_owner(field, owners)
        if owner is not None and owner != field:
            raise ConfigError(
                f"streams.{stream.name}.{option}: {field!r} has no column of its own: tables do not tell it from that "
                f"of {owner!r}, for case does not count, and blanks and such become _. Choose another field, or have "
                "the connector give one of the two another name"
            )


def check_moves(stream_plan: StreamPlan, table: StreamTable) -> None:
    """Raise StateError: rows stand twice in the table (`StreamTable.check_moves`), and would stay."""
    # An overwrite replaces all rows, however often they are there.
    if not stream_plan.traits.hidden_until_complete:
        table.check_moves()


def planned_columns(
    stream_plan: StreamPlan,
    declared: Mapping[str, ColumnType],
    table: StreamTable,
    exact: frozenset[str] = frozenset(),
    met: Mapping[str, pa.DataType] | None = None,
) -> SchemaChange:
    """What becomes of a table. Raises ConfigError: the stream does not fit it."""
    where, name = str(table.root), stream_plan.stream.name
    new = plan(table.schema, declared, stream_plan.policy, met=met, exact=exact, stream=name, path=where)
    check_fields(stream_plan, map(field_of, new.schema))
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


def check_guards(
    stream_plan: StreamPlan, declared: Mapping[str, ColumnType], planned: SchemaChange, guard: Guard, history: Guard
) -> None:
    """Raise ConfigError where the features of the table, or of its history, forbid what is to be done to them."""
    also = [*([Use.GAIN] if planned.add else []), *([Use.WIDEN] if planned.widen else [])]
    written = {*(column_name(name) or name for name in declared), *OWN_COLUMNS}
    guard.check([stream_plan.traits.use, *also], written)
    history.check([Use.HISTORY, *also], written)


def history_guard(stream_plan: StreamPlan, tables: OpenTables) -> Guard:
    """What may be done to the table's history; everything where there is none, or it cannot be read.

    Raises ConfigError: the table in its place is another stream's.
    """
    if (beside := stream_plan.location.of_history) is not None:
        with suppress(DeltaError, BrokenLog):  # it stops no sync
            if (table := tables.existing(beside)) is not None:
                _check_owned(table, stream_plan.stream.name)
                return table.guard
    return Guard()


def _check_owned(table: StreamTable, stream: str) -> None:
    """Raise ConfigError: a pipeline fills the table with something else than the stream, or its history."""
    # It has a marker once it was found to be no other pipeline's.
    if table.state_version is None and (owner := table.others.other_stream):
        raise ConfigError(
            f"the table is {owner}, and the rows of {table.stream!r} would be among its rows. Rename one of the "
            "streams, sync into another path, or keep no history; if it is no longer filled, move its folder away",
            path=str(table.root),
            stream=stream,
        )


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


def identity(stream_plan: StreamPlan, schema: pa.Schema, declared: Mapping[str, ColumnType]) -> Identity | None:
    """How rows are told apart. Raises ConfigError: a field of the key is no column, or not one that can be a key."""
    if not stream_plan.traits.one_row_per_key:
        return None
    stream = stream_plan.stream
    where = f"streams.{stream.name}.primary_key"
    keys: list[str] = []
    fields: list[str] = []
    for path in stream.key_paths:
        if len(path) > 1:
            raise ConfigError(f"{where}: {'.'.join(path)} lies inside another field; rows are told apart by columns")
        name = column_name(path[0]) or path[0]
        if name not in schema.names:
            raise ConfigError(
                f"{where}: the stream's schema does not declare {path[0]!r}; add it there (`discover --infer` shows "
                "the types of the first records, and with `--schemas FOLDER` writes them to files)"
            )
        if pa.types.is_nested(schema.field(name).type):
            raise ConfigError(f"{where}: {path[0]!r} is {schema.field(name).type}; expected a text, number or moment")
        keys.append(name)
        fields.append(path[0])
    return Identity(tuple(keys), _cursor(stream_plan, schema, declared), stream_plan.hard_deletes, tuple(fields))


def check_key(stream_plan: StreamPlan, table: StreamTable, key: Identity | None, planned: SchemaChange) -> None:
    """Raise ConfigError: the table has a row for each of another key, and this sync does not read them all again.

    A row would replace all those that share the new key with it, which are not read again. Or the keys of its rows
    would be others in the types that are planned: each row would stay beside the one that is read again.
    """
    if key is None or not stream_plan.traits.merges:
        return
    _check_key_types(stream_plan, table, key, planned)
    known = {f"the pipeline {name!r} has": keys for name, keys in table.others.keys.items()}
    if table.saved is not None and table.saved.state is not None and not _begins_anew(stream_plan, table.saved):
        known["the table has"] = table.saved.keys
    for who, keys in known.items():
        if not set(keys) <= set(key.keys):
            before, now = ", ".join(keys), ", ".join(key.keys)
            raise ConfigError(
                f"streams.{stream_plan.name}.primary_key: found {now}, and {who} one row for each {before}: a row "
                f"would replace all others with its {now}. Change it back, or have all read again into a new table: "
                "move this one away"
            )


def _check_key_types(stream_plan: StreamPlan, table: StreamTable, key: Identity, planned: SchemaChange) -> None:
    for wider in planned.widen:
        if wider.column not in key.keys or keeps_spelling(wider.old, wider.new) or table.row_count() == 0:
            continue
        if is_refreshed(stream_plan, table.saved):  # the rows that are there leave
            continue
        raise ConfigError(
            f"the table has {wider.column!r}, a column of its primary key, as {wider.old}, and the stream's schema "
            f"makes it {wider.new}: the rows that are there would have their keys as the kit writes them "
            "(`5.0`, `2024-01-01T10:00:00.000000Z`), and stay beside each row that is read again with its key as the "
            "source writes it. Change the type back, or have all read again into a new table: move this one away",
            path=str(table.root),
            stream=stream_plan.stream.name,
        )


def _begins_anew(stream_plan: StreamPlan, saved: TableState) -> bool:
    """Whether the sync reads all from its start, and does not resume one that did."""
    newer = stream_plan.generation is not None and stream_plan.generation > saved.generation
    if stream_plan.sync_mode == "incremental":
        return newer and is_refreshed(stream_plan, saved)
    return newer or saved.complete or saved.sync_mode != stream_plan.sync_mode


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


def bounded_columns(stream_plan: StreamPlan) -> tuple[str, ...]:
    """The columns that people and merges look for rows by, also those that are yet to come."""
    names = [path[0] for path in stream_plan.stream.key_paths if len(path) == 1]
    cursor = stream_plan.stream.cursor_field
    fields = [*names, cursor] if isinstance(cursor, str) else names
    return tuple(dict.fromkeys(column_name(name) or name for name in fields))
