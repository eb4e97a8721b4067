"""Which of the rows that were read is the one that counts, key by key. Pure; needs no Spark.

Of the rows with one key the newest by cursor wins, as the stream's own cursor compares (`cdk.streams.order`); of equals
the one that was read last. A row without a value of the cursor that can be read is older than any that has one.

A row whose key is null, missing, or no value of its column is *apart*: it has no key, and must neither merge with
another row nor appear twice after the next read. If its key is complete, but not as the column holds it, the key as the
source sent it identifies the row (`_airbyte_meta` keeps it); otherwise everything that the row holds does.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from cdk.base.values import FieldValue, JsonValue, NotJson, canonical
from cdk.lake.arrow.cast import as_texts
from cdk.lake.arrow.columns import ADDITIONAL, EXTRACTED_AT, GENERATION, LOCAL_TIME, META, MOMENT, RAW_ID
from cdk.lake.arrow.conversions import to_timestamps
from cdk.lake.arrow.json_text import from_json_text
from cdk.streams.order import Order, Rank, bytes_of

DELETED_AT = "_ab_cdc_deleted_at"
"""Set in a row that says that the source deleted its key."""

# Columns of the tables that are compared here and in merges; no table of a lake has them.
FILE, ROW, CURSOR, DELETED = "_file", "_row", "_cursor", "_deleted"
NUMBER, APART, STALE = "_number", "_apart", "_stale"

Rest: TypeAlias = Callable[[Sequence[str] | None, pa.Array], pa.Table]
"""Returns columns (None: all of the table's) of the rows of a file for which a mask is true."""

_VOLATILE_COLUMNS = frozenset({RAW_ID, EXTRACTED_AT, GENERATION, DELETED_AT})
"""Columns of the kit that differ from read to read, or that removing stale rows sets."""

_RANKED_AS_IS = (pa.int64(), pa.int32(), pa.int16(), pa.int8())
"""Types whose values are their own ranks, where the cursor counts."""
_ISO = frozenset({"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%d"})
"""Formats that read nothing else than ISO 8601 does."""

_DIGEST = 16
"""Bytes of a digest."""
NULL, HIDDEN = b"n", b"h"
"""Prefixes of `_apart`: a column of the key is null; none is, and the values differ from the source's."""


@dataclass(frozen=True)
class CursorColumn:
    """The column of the cursor, and how two of its values compare."""

    field: str
    """Its name in the source."""
    column: str
    """Its name in the table.

    Before the table has it, and where a value did not fit, the value is in `_airbyte_additional` or `_airbyte_meta`.
    """
    order: Order
    json: bool = False
    """Whether the column holds JSON text."""


@dataclass(frozen=True)
class Identity:
    """The primary key of a table, and which of two rows with one key is newer."""

    keys: tuple[str, ...]
    """Columns of the primary key, of scalar types."""
    cursor: CursorColumn | None = None
    """The value that grows with each change, if there is one."""
    hard: bool = False
    """Whether rows of deleted keys leave the table; otherwise they stay, with the time of their deletion."""
    fields: tuple[str, ...] = ()
    """The names of the columns of `keys` in the source; none where they are those of the columns."""

    def columns(self, schema: pa.Schema) -> list[str]:
        """The columns that a comparison needs; for few rows it needs others, too."""
        cursor = [self.cursor.column] if self.cursor is not None else []
        deleted = [DELETED_AT] if self.hard else []
        names = dict.fromkeys([*self.keys, *cursor, *deleted, RAW_ID])
        return [name for name in names if name in schema.names]

    def named(self, column: str) -> frozenset[str]:
        """The names of a column of the key in the notes of `_airbyte_meta`."""
        return frozenset(
            {column, *(field for key, field in zip(self.keys, self.fields, strict=False) if key == column)}
        )


def keyed(part: pa.Table, identity: Identity, rest: Rest) -> pa.Table:
    """The rows of a file as merging compares them, in order.

    part: the columns of `identity`. rest: returns others. Columns: `_k0`, ... the key, all null where the row is apart;
    `_apart`, what identifies it; `_cursor`, the rank of its value; `_row`, `_deleted`, `_airbyte_raw_id`.
    """
    names = [f"_k{i}" for i in range(len(identity.keys))]
    nulls = pa.repeat(False, part.num_rows)
    for name in identity.keys:
        nulls = pc.or_(nulls, pc.is_null(part[name]))
    keys, apart = _separated_keys(
        [_comparable(part[name]) for name in identity.keys], contiguous(nulls), identity, rest
    )
    columns = dict(zip(names, keys, strict=True))
    columns[APART] = apart
    columns[CURSOR] = _ranks(part, identity.cursor, rest)
    columns[ROW] = pa.array(range(part.num_rows), pa.int64())
    deletable = identity.hard and DELETED_AT in part.column_names
    columns[DELETED] = pc.is_valid(part[DELETED_AT]) if deletable else pa.repeat(False, part.num_rows)
    columns[RAW_ID] = part[RAW_ID]
    return pa.table({name: contiguous(column) for name, column in columns.items()})


def latest_rows(parts: Iterable[pa.Table], keys: int) -> pa.Table:
    """One row for each key in `parts`, sorted by key, those that are apart last; and where its row is.

    parts: rows of one file each, as `keyed` gives them. keys: how many columns the key has. `_file`, `_row`: the place
    of the part, and of the row in it. `_number`: the place in the result.
    """
    numbered = [
        part.append_column(FILE, pa.repeat(pa.scalar(n, pa.int32()), part.num_rows)) for n, part in enumerate(parts)
    ]
    rows = pa.concat_tables(_alike(numbered))
    names = [f"_k{i}" for i in range(keys)]
    # Nulls come last in either order: a row without a cursor is older than one with.
    if rows[APART].null_count < rows.num_rows:
        names.append(APART)
    order = [
        *((name, "ascending") for name in names),
        *((name, "descending") for name in (CURSOR, RAW_ID)),
    ]
    rows = rows.take(pc.sort_indices(rows, sort_keys=order)).combine_chunks()
    latest = rows.filter(_first_of_each(rows, names)).drop_columns([RAW_ID])
    return latest.append_column(NUMBER, pa.array(range(latest.num_rows), pa.int64()))


def superseded(existing: pa.Table, winners: pa.Table, keys: int) -> tuple[pa.Array, pa.Array]:
    """Rows of a file that `winners` replace, and the numbers of winners that the file has newer rows than; both sorted.

    existing: as `keyed` gives it. keys: how many columns the key has. The types of both are the same.
    """
    joined = pairs(existing, winners, keys)
    stale = joined[STALE]
    return _sorted(joined[ROW].filter(pc.invert(stale))), _sorted(joined[NUMBER].filter(stale))


def pairs(existing: pa.Table, winners: pa.Table, keys: int) -> pa.Table:
    """Each row that has the key of a winner, by `_row`; the winner, by `_number`; whether that is older: `_stale`."""
    existing, winners = _alike([existing, winners])
    joins = [_joined(existing, winners, [f"_k{i}" for i in range(keys)])]
    if winners[APART].null_count < winners.num_rows and existing[APART].null_count < existing.num_rows:
        joins.append(_joined(existing, winners, [APART]))
    joined = pa.concat_tables(joins)
    existing_cursor, new_cursor = joined[CURSOR], joined[f"{CURSOR}_new"]
    # A row without a cursor is older than one with; of equals the one that was just read is newer.
    newer = pc.fill_null(pc.greater(existing_cursor, new_cursor), False)
    stale = pc.or_(newer, pc.and_(pc.is_null(new_cursor), pc.is_valid(existing_cursor)))
    return joined.select([ROW, NUMBER]).append_column(STALE, stale)


def _joined(existing: pa.Table, winners: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows of both that have the same values in `names`, none of them null."""
    has_key = pc.field(names[0]).is_valid()
    existing_rows = existing.filter(has_key).select([*names, CURSOR, ROW])
    new_rows = winners.filter(has_key).select([*names, CURSOR, NUMBER])
    joined = existing_rows.join(new_rows, keys=list(names), join_type="inner", right_suffix="_new")
    return joined.select([CURSOR, ROW, f"{CURSOR}_new", NUMBER])


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of the key whose equal values are equal; NaN equals nothing, and is no value of a key."""
    if not pa.types.is_floating(column.type):
        return column
    # 0.0 and -0.0 are equal, and a join treats them as different.
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), pc.add(column, pa.scalar(0.0, column.type)))


def _separated_keys(
    keys: Sequence[pa.ChunkedArray], nulls: pa.Array, identity: Identity, rest: Rest
) -> tuple[Sequence[pa.ChunkedArray], pa.Array]:
    """The columns of the key, null where the row is apart, and what identifies these rows.

    nulls: whether the file has null in one of the columns.
    """
    size = len(keys[0])
    doubtful = _doubtful(keys, rest)
    if not pc.any(doubtful).as_py():
        return keys, pa.nulls(size, pa.binary())
    rows = pc.indices_nonzero(doubtful).to_pylist()
    notes = rest([META], doubtful)[META].to_pylist()
    texts = [_texts(column.filter(doubtful)).to_pylist() for column in keys]
    ids: list[bytes | None] = [None] * size
    repaired: list[dict[int, str]] = [{} for _ in keys]
    unknown: list[int] = []
    for row, note, *values in zip(rows, notes, *texts, strict=True):
        named = zip(values, identity.keys, keys, strict=True)
        parts = [_part(text, note, identity.named(name), column.type) for text, name, column in named]
        if None in parts:
            unknown.append(row)
        elif any(part.raw for part in parts if part is not None):
            ids[row] = _digest([[part.raw, part.text] for part in parts if part is not None])
        else:
            for i, part in enumerate(parts):
                if part is not None and part.text != values[i]:
                    repaired[i][row] = part.text
    if unknown:
        mask = pc.is_in(pa.array(range(size), pa.int64()), value_set=pa.array(unknown, pa.int64()))
        for row, digest in zip(unknown, _digests(rest(None, mask)), strict=True):
            ids[row] = digest
    starts = pc.if_else(nulls, pa.scalar(NULL), pa.scalar(HIDDEN))
    apart = pc.binary_join_element_wise(starts, pa.array(ids, pa.binary()), pa.scalar(b""))
    ordinary = pc.is_null(apart)
    columns = [_with(column, texts) for column, texts in zip(keys, repaired, strict=True)]
    return [pc.if_else(ordinary, column, pa.scalar(None, column.type)) for column in columns], apart


def _with(column: pa.ChunkedArray, texts: Mapping[int, str]) -> pa.ChunkedArray:
    if not texts:
        return column
    values = column.to_pylist()
    for row, text in texts.items():
        values[row] = text
    return pa.chunked_array([pa.array(values, column.type)])


@dataclass(frozen=True)
class _Part:
    """A part of a key. raw: as the source sent it, for the column could not hold it."""

    text: str
    raw: bool


def _part(text: str | None, note: FieldValue, names: frozenset[str], kind: pa.DataType) -> _Part | None:
    """A part of a doubtful key; None: unknown. text: the value of the column. note: the row's `_airbyte_meta`."""
    original = _noted(note, names)
    if original is None:
        return None if text is None else _Part(text, raw=False)
    # A string column holds any value; one that could not, once, has become wider since.
    return _Part(original, raw=not (text is None and pa.types.is_string(kind)))


def _noted(note: FieldValue, names: Collection[str]) -> str | None:
    """The original of a value that did not fit its column, from `_airbyte_meta`."""
    for entry in (note or {}).get("changes") or ():
        if entry is not None and entry["field"] in names and entry["change"] != "LEFT_OUT":
            return None if entry["original"] is None else str(entry["original"])
    return None


def _doubtful(keys: Sequence[pa.ChunkedArray], rest: Rest) -> pa.Array:
    """Whether a value of a row's key may differ from what the source sent."""
    doubtful = pa.repeat(False, len(keys[0]))
    for column in keys:
        doubtful = pc.or_(doubtful, pc.is_null(column))
        if pa.types.is_string(column.type):
            # A lone surrogate is written as an escape.
            doubtful = pc.or_(doubtful, pc.fill_null(pc.match_substring(column, "\\"), False))
    if any(pa.types.is_timestamp(column.type) for column in keys):
        # One that is finer than microseconds looks like any other.
        changes = pc.struct_field(rest([META], pa.repeat(True, len(doubtful)))[META], "changes")
        doubtful = pc.or_(doubtful, pc.fill_null(pc.greater(pc.list_value_length(changes), 0), False))
    return contiguous(doubtful)


def _digests(rows: pa.Table) -> list[bytes]:
    """A digest of the content of each row; a null column counts like a missing one."""
    names = [name for name in rows.column_names if name not in _VOLATILE_COLUMNS]
    texts = [_texts(rows[name]).to_pylist() for name in names]
    return [
        _digest([[name, text] for name, text in zip(names, row, strict=True) if text is not None])
        for row in zip(*texts, strict=True)
    ]


def _texts(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    try:
        return as_texts(contiguous(column))
    except (pa.ArrowException, NotJson, ValueError):  # of a type that something else gave the table
        return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())


def _digest(value: JsonValue) -> bytes:
    return blake2b(canonical(value).encode(), digest_size=_DIGEST).digest()


def _ranks(part: pa.Table, cursor: CursorColumn | None, rest: Rest) -> pa.Array:
    """The rank of each row: integers of 64 bits, or bytes where these do not suffice; null where there is none."""
    size = part.num_rows
    if cursor is None:
        return pa.nulls(size, pa.int64())
    column_ranks = pa.nulls(size, pa.int64())
    if cursor.column in part.column_names:
        column_ranks = _column_ranks(contiguous(part[cursor.column]), cursor)
    if column_ranks.null_count == 0:
        return column_ranks
    # Not in its column: the table has none yet, or the value did not fit.
    missing = pc.is_null(column_ranks)
    fallback = rest([META, ADDITIONAL], missing)
    names = {cursor.field, cursor.column}
    values = [
        _noted(note, names) or (None if text is None else from_json_text(text).get(cursor.field))
        for note, text in zip(fallback[META].to_pylist(), fallback[ADDITIONAL].to_pylist(), strict=True)
    ]
    ranks = [None if value is None else cursor.order.rank(value) for value in values]
    if not any(rank is not None for rank in ranks):
        return column_ranks
    column_ranks, fill = _alike_arrays([column_ranks, _array_of(ranks)])
    return pc.replace_with_mask(column_ranks, missing, fill)


def _column_ranks(column: pa.Array, cursor: CursorColumn) -> pa.Array:
    kind, order = column.type, cursor.order
    if order.kind is int and kind in _RANKED_AS_IS:
        return column.cast(pa.int64())
    if order.kind is datetime and kind in (MOMENT, LOCAL_TIME, pa.date32()):
        return column.cast(pa.timestamp("us")).cast(pa.int64())
    if order.kind is datetime and pa.types.is_string(kind) and not cursor.json and _ISO.issuperset(order.formats):
        with suppress(pa.ArrowException):
            # As `MomentOrder` has them, in a tenth of the time; it reads more spellings.
            if (timestamps := to_timestamps(column, MOMENT)) is not None:
                return timestamps.cast(pa.int64())
    # Most values come more than once, or are written in a few ways.
    encoded = column.dictionary_encode()
    # Python has no timestamps before its year 1.
    values = (_texts(encoded.dictionary) if pa.types.is_temporal(kind) else encoded.dictionary).to_pylist()
    if cursor.json:
        values = list(map(_json, values))
    return _array_of([None if value is None else order.rank(value) for value in values]).take(encoded.indices)


def _json(text: str | None) -> FieldValue:
    try:
        return None if text is None else from_json_text(text)
    except ValueError:  # from before the column held JSON
        return text


def _array_of(ranks: Sequence[Rank | None]) -> pa.Array:
    """Ranks as integers of 64 bits where these hold them, else as bytes."""
    if all(rank is None or (type(rank) is int and -(2**63) <= rank < 2**63) for rank in ranks):
        return pa.array(ranks, pa.int64())
    return pa.array([bytes_of(rank) if isinstance(rank, int) else rank for rank in ranks], pa.binary())


def _alike(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The tables with ranks of one type."""
    arrays = _alike_arrays([contiguous(table[CURSOR]) for table in tables])
    return [
        table.set_column(table.column_names.index(CURSOR), CURSOR, array)
        for table, array in zip(tables, arrays, strict=True)
    ]


def _alike_arrays(arrays: Sequence[pa.Array]) -> list[pa.Array]:
    if len({array.type for array in arrays}) == 1:
        return list(arrays)
    return [
        array
        if pa.types.is_binary(array.type)
        else pa.array([None if rank is None else bytes_of(rank) for rank in array.to_pylist()], pa.binary())
        for array in arrays
    ]


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
    return pa.concat_arrays([pa.array([True]), contiguous(differs)])


def contiguous(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column without chunks."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    return pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)


def _sorted(numbers: pa.ChunkedArray) -> pa.Array:
    return contiguous(pc.take(numbers, pc.sort_indices(numbers)))
