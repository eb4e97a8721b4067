"""Schema evolution: plans how a table changes when the schema of its stream has changed.

A table never loses a column, no column becomes narrower, and each column has the values of one field, so old rows keep
their meaning. Pure: it only decides; the caller changes the table.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import pyarrow as pa
from msgspec import Struct

from cdk.base.errors import ConfigError
from cdk.lake.arrow.columns import (
    INFERRED,
    JSON_TEXT,
    OWN_COLUMNS,
    ColumnType,
    arrow_type,
    column_name,
    column_of,
    field_of,
    noted_field,
    table_schema,
)
from cdk.lake.arrow.type_promotion import common_type, only_gains, writable

MOST_COLUMNS = 1000
"""Undeclared fields get columns until the table has this many: a source that uses ids as names has no limit."""


Grown: TypeAlias = Mapping[str, Sequence[pa.DataType]]
"""Fields whose columns a task added or widened, and the types of each column in the task's files, the widest last."""


class Policy(StrEnum):
    """The schema policy: what a stream does when its table does not match its schema."""

    EVOLVE = "evolve"
    """The table is changed; undeclared fields get columns of the types of their values."""
    FREEZE = "freeze"
    """The stream fails."""
    DISCARD = "discard"
    """The table stays; `_airbyte_meta` has values that do not fit, `_airbyte_additional` fields without a column."""


class Widening(Struct, frozen=True):
    """A column whose old files have to be rewritten with a wider type."""

    column: str
    old: pa.DataType
    new: pa.DataType


class SchemaChange(Struct, frozen=True):
    """The planned change of a table, and what the sync then writes."""

    columns: Mapping[str, ColumnType]
    """The columns of a `RecordBatchBuilder`, by the name of the field."""
    schema: pa.Schema
    """The table's schema after the change; its columns keep their order."""
    add: tuple[pa.Field, ...] = ()
    """Columns to add, and struct columns with fields to add: neither requires a rewrite of old files."""
    widen: tuple[Widening, ...] = ()
    """Columns to widen, which requires a rewrite of old files."""
    room: int = 0
    """How many undeclared fields may get columns."""
    follows: frozenset[str] = frozenset()
    """The undeclared fields whose columns may be widened."""
    unwritable: tuple[pa.Field, ...] = ()
    """Undeclared columns that the kit cannot write; because of them, undeclared fields get no columns."""


_OTHER_POLICIES = {Policy.EVOLVE: "evolve changes the table", Policy.DISCARD: "discard leaves it unchanged"}
"""The policies that an error recommends if they would accept the table."""


def plan_schema(
    table: pa.Schema | None,
    declared: Mapping[str, ColumnType],
    policy: Policy,
    *,
    undeclared: Mapping[str, pa.DataType] | None = None,
    exact: Collection[str] = (),
    stream: str = "",
    path: str = "",
) -> SchemaChange:
    """Plan the change of `table` (None: it does not exist yet) for the declared columns of its stream.

    undeclared: other fields, and the types that their values need; a field whose column belongs to another gets none.
    exact: columns with numbers that a double would round, as `rounded_columns` found them in the table's files; they
    become strings.
    Raises ConfigError, listing all differences: when the policy is freeze and the table would have to change, or when
    the table has a column that the kit cannot write.
    """
    if table is None:
        table = pa.schema(list(OWN_COLUMNS.items()))
        start = table_schema(declared)
        return SchemaChange(dict(declared), start, tuple(start), (), _room(start, policy))
    problems = list(_problems(table, declared, policy))
    if problems:
        others = [text for other, text in _OTHER_POLICIES.items() if not any(_problems(table, declared, other))]
        help_ = f"change the schema back, or choose another schema policy ({', '.join(others)})"
        raise ConfigError(
            f"the table and the stream's schema differ: {'; '.join(problems)}. "
            f"Sync into another path, {help_ if others else 'or change the schema back'}",
            path=path,
            stream=stream,
        )
    return (
        _evolved(table, declared, undeclared or {}, exact) if policy is Policy.EVOLVE else _unchanged(table, declared)
    )


def with_columns(schema: pa.Schema, grown: Grown) -> pa.Schema | None:
    """Return a table's schema with the columns that a task added or widened for undeclared fields.

    None: the task's files do not fit, because a concurrent task has given one of their columns to another field since
    this task started. Its slices must be read again; the plan then has the new columns, so that this happens only once.
    """
    spelled = {name.lower(): name for name in schema.names}
    for field, kinds in grown.items():
        column = column_of(field, kinds[-1])
        spelling = spelled.get(column.name.lower())
        if spelling is None:
            spelled[column.name.lower()] = column.name
            schema = schema.append(column)
            continue
        current = schema.field(spelling)
        wide = common_type(current.type, column.type)
        follows = current.type in INFERRED or pa.types.is_string(current.type)
        if field_of(current) != field or wide is None or not follows:
            return None
        schema = schema.set(schema.get_field_index(spelling), current.with_type(wide))
    return schema


def _evolved(
    table: pa.Schema, declared: Mapping[str, ColumnType], undeclared: Mapping[str, pa.DataType], exact: Collection[str]
) -> SchemaChange:
    fields = {field.name.lower(): field for field in table}
    writes: dict[str, ColumnType] = {}
    add, widen = [], []
    for name, kind in [*declared.items(), *OWN_COLUMNS.items(), *undeclared.items()]:
        column = column_of(name, kind)
        old, new = fields.get(column.name.lower()), column.type
        if old is not None and name in undeclared and field_of(old) != name:
            continue
        if old is not None:
            new = common_type(old.type, new, exact=column.name in exact)
            column = old.with_type(new)
        if old is None or new != old.type:
            fields[column.name.lower()] = column
            if old is None or only_gains(old.type, new):
                add.append(column)
            else:
                widen.append(Widening(column.name, old.type, new))
        if name in declared:
            writes[name] = _as_declared(new, kind)
    taken = {column_name(name) for name in writes}
    rest = [field for field in fields.values() if field.name not in taken and field.name not in OWN_COLUMNS]
    followed = {field_of(field): field.type for field in rest if writable(field.type)}
    unwritable = tuple(field for field in rest if not writable(field.type))
    schema = pa.schema(list(fields.values()))
    # A field with the name of a column that the kit cannot write must not get another column.
    room = 0 if unwritable else _room(schema, Policy.EVOLVE)
    follows = frozenset(name for name, kind in followed.items() if kind in INFERRED)
    return SchemaChange({**writes, **followed}, schema, tuple(add), tuple(widen), room, follows, unwritable)


def _unchanged(table: pa.Schema, declared: Mapping[str, ColumnType]) -> SchemaChange:
    """Plan for a table that keeps its columns: the sync writes the fields that have one."""
    owners = {column_name(name) or name: name for name in declared}
    writes: dict[str, ColumnType] = {}
    for column in table:
        # Including columns of undeclared fields, which the table got under another policy.
        name = noted_field(column) or owners.get(column.name, column.name)
        if column.name not in OWN_COLUMNS and writable(column.type):
            writes[name] = _as_declared(column.type, declared.get(name, column.type))
    own = tuple(pa.field(name, kind) for name, kind in OWN_COLUMNS.items() if name not in table.names)
    return SchemaChange(writes, pa.schema([*table, *own]), own)


def _as_declared(column: pa.DataType, kind: ColumnType) -> ColumnType:
    return kind if kind is JSON_TEXT and pa.types.is_string(column) else column


def _room(schema: pa.Schema, policy: Policy) -> int:
    return max(0, MOST_COLUMNS - len(schema)) if policy is Policy.EVOLVE else 0


def _problems(table: pa.Schema, declared: Mapping[str, ColumnType], policy: Policy) -> Iterator[str]:
    """Yield why the stream cannot be written, a clause for each reason."""
    spelled = {name.lower(): name for name in table.names}
    for name, kind in OWN_COLUMNS.items():
        spelling = spelled.get(name)
        if spelling is not None and (spelling != name or not only_gains(kind, table.field(spelling).type)):
            actual = f"column {spelling!r}, one of the kit's own, is {table.field(spelling).type}"
            yield f"{actual}, expected {name!r} of {kind}"
    if policy is Policy.DISCARD:
        return
    for field, kind in declared.items():
        name, new = column_name(field) or field, arrow_type(kind)
        spelling = spelled.get(name.lower())
        if spelling is None:
            if policy is Policy.FREEZE:
                yield f"column {name!r} is missing in the table, and {new} in the schema"
        elif spelling != name:
            yield f"column {name!r} is spelled {spelling!r} in the table, which cannot hold both"
        elif (owner := noted_field(table.field(name))) not in {None, field}:
            yield f"column {name!r} has the field {owner!r} in the table, and {field!r} in the schema"
        else:
            old = table.field(name).type
            hold = common_type(old, new)
            if hold is None or (policy is Policy.FREEZE and hold != old):
                yield f"column {name!r} is {old} in the table, and {new} in the schema"
