"""Which of the rows that were read is the one that counts, key by key. Pure; needs no Spark.

Of the rows with one key the newest by cursor wins, of equals the one that was extracted last. A key that is null, or
null in part, is a key like any other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from cdk.spark.schema import EXTRACTED_AT, RAW_ID

DELETED_AT = "_ab_cdc_deleted_at"
"""Set in a row that says that the source deleted its key."""

FILE, ROW, CURSOR, DELETED, NUMBER = "_file", "_row", "_cursor", "_deleted", "_number"


@dataclass(frozen=True)
class Identity:
    """How rows of a table are told apart, and which of two with one key is newer.

    keys: columns of the primary key, of scalar types. cursor: the column that grows with each change, if there is one.
    hard: rows of deleted keys leave the table; otherwise they stay, with the moment of their deletion in them.
    """

    keys: tuple[str, ...]
    cursor: str | None = None
    hard: bool = False

    def columns(self, schema: pa.Schema) -> list[str]:
        """The columns that deciding takes."""
        also = [self.cursor] if self.cursor is not None and self.cursor not in self.keys else []
        deleted = [DELETED_AT] if self.hard and DELETED_AT in schema.names else []
        return [*self.keys, *also, *(name for name in deleted if name not in self.keys), EXTRACTED_AT, RAW_ID]


def newest(parts: Iterable[pa.Table], identity: Identity) -> pa.Table:
    """One row for each key in `parts`, sorted by key: `_k0`, ... `_cursor`, `_deleted`, and where its row is.

    parts: rows of one file each, in the file's order, with the columns of `identity`. `_file`, `_row`: the place of
    the part, and of the row in it. `_number`: the place in the result.
    """
    rows = pa.concat_tables([_ranked(part, n, identity) for n, part in enumerate(parts)])
    names = [f"_k{i}" for i in range(len(identity.keys))]
    # Nulls come last in either order: a row without a cursor is older than one with.
    order = [
        *((name, "ascending") for name in names),
        *((name, "descending") for name in (CURSOR, EXTRACTED_AT, RAW_ID)),
    ]
    rows = rows.take(pc.sort_indices(rows, sort_keys=order)).combine_chunks()
    first = _first_of_each(rows, names)
    kept = rows.filter(first).drop_columns([EXTRACTED_AT, RAW_ID])
    return kept.append_column(NUMBER, pa.array(range(kept.num_rows), pa.int64()))


def keyed(part: pa.Table, identity: Identity) -> pa.Table:
    """The keys and the cursor of `part` under the names that `newest` gives them, and `_row`."""
    columns = {f"_k{i}": part[name] for i, name in enumerate(identity.keys)}
    columns[CURSOR] = part[identity.cursor] if identity.cursor is not None else pa.nulls(part.num_rows, pa.int64())
    columns[ROW] = pa.array(range(part.num_rows), pa.int64())
    return pa.table(columns)


def superseded(existing: pa.Table, winners: pa.Table, keys: int) -> tuple[pa.Array, pa.Array]:
    """Rows of a file that `winners` replace, and the numbers of winners that the file has newer rows than; both sorted.

    existing: as `keyed` gives it. keys: how many columns the key has. The types of both are the same.
    """
    names = [f"_k{i}" for i in range(keys)]
    left, right = _joinable(existing, names), _joinable(winners.select([*names, CURSOR, NUMBER]), names)
    on = [*names, *(f"{name}_null" for name in names)]
    joined = left.join(right, keys=on, join_type="inner", right_suffix="_new")
    ours, theirs = joined[CURSOR], joined[f"{CURSOR}_new"]
    # A row without a cursor is older than one with; of equals the one that was just read is newer.
    newer = pc.fill_null(pc.greater(ours, theirs), False)
    stale = pc.or_(newer, pc.and_(pc.is_null(theirs), pc.is_valid(ours)))
    return _sorted(joined[ROW].filter(pc.invert(stale))), _sorted(joined[NUMBER].filter(stale))


def _ranked(part: pa.Table, number: int, identity: Identity) -> pa.Table:
    table = keyed(part, identity)
    deleted = pa.repeat(False, part.num_rows)
    if identity.hard and DELETED_AT in part.column_names:
        deleted = pc.is_valid(part[DELETED_AT])
    table = table.append_column(DELETED, deleted)
    table = table.append_column(FILE, pa.repeat(pa.scalar(number, pa.int32()), part.num_rows))
    for name in (EXTRACTED_AT, RAW_ID):
        table = table.append_column(name, part[name])
    return table


def _first_of_each(rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Of sorted rows, whether each is the first of its key."""
    size = rows.num_rows
    if size == 0:
        return pa.array([], pa.bool_())
    differs = pa.repeat(False, size - 1)
    for name in names:
        before, after = rows[name].slice(0, size - 1), rows[name].slice(1)
        nulls = pc.xor(pc.is_null(before), pc.is_null(after))
        differs = pc.or_(differs, pc.or_(nulls, pc.fill_null(pc.not_equal(before, after), False)))
    return pa.concat_arrays([pa.array([True]), *_chunks(differs)])


def _chunks(array: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return list(array.chunks) if isinstance(array, pa.ChunkedArray) else [array]


def _joinable(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The table with keys that a join finds: it takes no null for another."""
    for name in names:
        column = table[name]
        table = table.append_column(f"{name}_null", pc.is_null(column))
        table = table.set_column(table.column_names.index(name), name, pc.fill_null(column, _any(column.type)))
    return table


def _any(kind: pa.DataType) -> pa.Scalar:
    """Some value of a type, to stand where there is none."""
    if pa.types.is_string(kind):
        return pa.scalar("", kind)
    return pa.array([0], pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)[0]


def _sorted(numbers: pa.ChunkedArray) -> pa.Array:
    return pc.take(numbers, pc.sort_indices(numbers)).combine_chunks()
