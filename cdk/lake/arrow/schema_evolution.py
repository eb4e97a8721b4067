"""What happens to a table when the schema of its stream has changed.

A table never loses a column and no column becomes narrower, so old rows stay what they were. Pure: decides, and leaves
the table to its owner.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import pyarrow as pa

from cdk.base.errors import ConfigError
from cdk.lake.arrow.columns import INFERRED, JSON_TEXT, OWN_COLUMNS, ColumnType, arrow_type, column_name, table_schema
from cdk.lake.arrow.type_promotion import common_type, only_gains, writable

MOST_COLUMNS = 1000
"""Undeclared fields get columns until the table has this many. A source that puts ids into names has any number."""


Grown: TypeAlias = Mapping[str, Sequence[pa.DataType]]
"""Columns that a task added or widened, and the types that they have in its files, the widest last."""


class Policy(StrEnum):
    """What a stream does when its table does not fit its schema."""

    EVOLVE = "evolve"
    """The table follows; undeclared fields get columns of the types of their values."""
    FREEZE = "freeze"
    """The stream fails."""
    DISCARD = "discard"
    """The table stays; `_airbyte_meta` keeps values that do not fit, `_airbyte_additional` fields without a column."""


@dataclass(frozen=True)
class Widening:
    """A column whose old files have to be rewritten with a wider type."""

    column: str
    old: pa.DataType
    new: pa.DataType


@dataclass(frozen=True)
class SchemaChange:
    """What to do with a table, and what the sync then writes."""

    columns: Mapping[str, ColumnType]
    """The columns of a `RecordBatchBuilder`, by the name of the field."""
    schema: pa.Schema
    """The table's schema after the change; its columns keep their order."""
    add: tuple[pa.Field, ...] = ()
    """Columns to add, and structs with the fields that they gain: old files need no rewrite for either."""
    widen: tuple[Widening, ...] = ()
    """Columns whose old files need a rewrite."""
    room: int = 0
    """How many undeclared fields may get columns."""
    follows: frozenset[str] = frozenset()
    """The undeclared fields whose columns may become wider."""
    undeclared: frozenset[str] = frozenset()
    """The columns of undeclared fields."""


def plan(
    table: pa.Schema | None,
    declared: Mapping[str, ColumnType],
    policy: Policy,
    *,
    met: Mapping[str, pa.DataType] | None = None,
    exact: Collection[str] = (),
    stream: str = "",
    path: str = "",
) -> SchemaChange:
    """What becomes of `table` (None: there is none yet) and the declared columns of its stream.

    met: columns of undeclared fields, and the types that their values need. exact: columns whose numbers a double would
    round, as `unfit` found them in the table's files; they become text.
    Raises ConfigError, with every difference: the policy is freeze and the table would have to change, or the table
    has a column that the kit cannot write.
    """
    if table is None:
        table = pa.schema(list(OWN_COLUMNS.items()))
        start = table_schema(declared)
        return SchemaChange(dict(declared), start, tuple(start), (), _room(start, policy))
    declared_columns = {column_name(name) or name: kind for name, kind in declared.items()}
    problems = list(_problems(table, declared_columns, policy))
    if problems:
        raise ConfigError(
            f"the table and the stream's schema differ: {'; '.join(problems)}. "
            "Sync into another path, change the schema back, or choose another schema policy "
            "(evolve changes the table, discard keeps it)",
            path=path,
            stream=stream,
        )
    return _evolved(table, declared, met or {}, exact) if policy is Policy.EVOLVE else _unchanged(table, declared)


def with_columns(schema: pa.Schema, grown: Grown) -> pa.Schema | None:
    """A table's schema with the columns that a task gave undeclared fields, as wide as its rows need them.

    None: the task's files do not fit, for the table has a name in another spelling since the task
    began: a task beside it was quicker. Its slices are to be read again; the new columns then stand in the plan, and it
    ends there.
    """
    spelled = {name.lower(): name for name in schema.names}
    for name, kinds in grown.items():
        spelling = spelled.get(name.lower())
        if spelling is None:
            spelled[name.lower()] = name
            schema = schema.append(pa.field(name, kinds[-1]))
            continue
        current = schema.field(spelling).type
        wide = common_type(current, kinds[-1])
        if spelling != name or wide is None or not (current in INFERRED or pa.types.is_string(current)):
            return None
        schema = schema.set(schema.get_field_index(name), pa.field(name, wide))
    return schema


def _evolved(
    table: pa.Schema, declared: Mapping[str, ColumnType], met: Mapping[str, pa.DataType], exact: Collection[str]
) -> SchemaChange:
    fields = {field.name: field for field in table}
    writes: dict[str, ColumnType] = {}
    add, widen = [], []
    for name, kind in [*declared.items(), *OWN_COLUMNS.items(), *met.items()]:
        column = column_name(name) or name
        old, new = fields.get(column), arrow_type(kind)
        if old is not None:
            new = common_type(old.type, new, exact=column in exact)
        if old is None or new != old.type:
            fields[column] = pa.field(column, new)
            if old is None or only_gains(old.type, new):
                add.append(fields[column])
            else:
                widen.append(Widening(column, old.type, new))
        if name in declared:
            writes[name] = _as_declared(new, kind)
    taken = {column_name(name) for name in writes}
    rest = {
        field.name: field.type for field in fields.values() if field.name not in taken and field.name not in OWN_COLUMNS
    }
    followed = {name: kind for name, kind in rest.items() if writable(kind)}
    schema = pa.schema(list(fields.values()))
    # A field of the name of a column that the kit cannot write must not get another.
    room = _room(schema, Policy.EVOLVE) if len(followed) == len(rest) else 0
    follows = frozenset(name for name, kind in followed.items() if kind in INFERRED)
    return SchemaChange({**writes, **followed}, schema, tuple(add), tuple(widen), room, follows, frozenset(followed))


def _unchanged(table: pa.Schema, declared: Mapping[str, ColumnType]) -> SchemaChange:
    """The plan for a table that keeps its columns: it writes the fields that have one."""
    fields = {field.name: field.type for field in table}
    # Also of undeclared fields: the table has got them while the policy was another.
    names = {column_name(name) or name for name in declared} | OWN_COLUMNS.keys()
    writes: dict[str, ColumnType] = {
        name: kind for name, kind in fields.items() if name not in names and writable(kind)
    }
    undeclared = frozenset(writes)
    for name, kind in declared.items():
        old = fields.get(column_name(name))
        if old is not None and writable(old):
            writes[name] = _as_declared(old, kind)
    own = tuple(pa.field(name, kind) for name, kind in OWN_COLUMNS.items() if name not in fields)
    return SchemaChange(writes, pa.schema([*table, *own]), own, undeclared=undeclared)


def _as_declared(column: pa.DataType, kind: ColumnType) -> ColumnType:
    return kind if kind is JSON_TEXT and pa.types.is_string(column) else column


def _room(schema: pa.Schema, policy: Policy) -> int:
    return max(0, MOST_COLUMNS - len(schema)) if policy is Policy.EVOLVE else 0


def _problems(table: pa.Schema, declared_columns: Mapping[str, ColumnType], policy: Policy) -> Iterator[str]:
    """Why the stream cannot be written, a clause for each reason."""
    spelled = {name.lower(): name for name in table.names}
    for name, kind in OWN_COLUMNS.items():
        spelling = spelled.get(name)
        if spelling is not None and (spelling != name or not only_gains(kind, table.field(spelling).type)):
            actual = f"column {spelling!r}, one of the kit's own, is {table.field(spelling).type}"
            yield f"{actual}, expected {name!r} of {kind}"
    if policy is Policy.DISCARD:
        return
    for name, kind in declared_columns.items():
        spelling = spelled.get(name.lower())
        new = arrow_type(kind)
        if spelling is None:
            if policy is Policy.FREEZE:
                yield f"column {name!r} is missing in the table, and {new} in the schema"
        elif spelling != name:
            yield f"column {name!r} is spelled {spelling!r} in the table, which cannot hold both"
        else:
            old = table.field(name).type
            hold = common_type(old, new)
            if hold is None or (policy is Policy.FREEZE and hold != old):
                yield f"column {name!r} is {old} in the table, and {new} in the schema"
