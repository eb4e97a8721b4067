"""Rows without a key: what identifies each, so that it neither merges with another row nor appears twice.

A row is *keyless* when a part of its key is null, is missing, or did not fit its column. It is not keyless if the
column was widened since and can hold the value now, even though the row still has null there. A keyless row is
identified by its key as the source sent it, if that is complete (it is in `_airbyte_meta`); otherwise by all of its
content. Pure; needs no Spark.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from cdk.base.records.exact_json import exact_json
from cdk.base.values import JsonValue, NotJson, canonical
from cdk.lake.arrow.cast import as_texts
from cdk.lake.arrow.coerce import coerce_value
from cdk.lake.arrow.columns import ADDITIONAL, DELETED_AT, EXTRACTED_AT, GENERATION, META, RAW_ID, ROW_SOURCE, field_of
from cdk.lake.arrow.conversions import NOT_A_NUMBER, CoercionError, conversion
from cdk.lake.arrow.json_text import shown, valid
from cdk.lake.arrow.type_promotion import writable

ReadColumns: TypeAlias = Callable[[Sequence[str] | None, pa.Array], pa.Table]
"""Returns columns (None: all columns of the table) of the rows of a file for which a mask is true."""

Change: TypeAlias = Mapping[str, str | None]
"""The change made to a value, from `_airbyte_meta`; see `cdk.lake.arrow.coerce`."""

RowMeta: TypeAlias = Mapping[str, Sequence[Change | None] | None] | None
"""A row's `_airbyte_meta`."""

_NO_CONTENT = frozenset({RAW_ID, EXTRACTED_AT, GENERATION, DELETED_AT, ROW_SOURCE, ADDITIONAL, META})
"""Columns of the kit that differ between reads, are set by removing stale rows, or hold values of other columns."""

_MOST_DIGITS = 1000
_DIGEST = 16
"""Size of a digest in bytes."""
NULL, HIDDEN = b"n", b"h"
"""The first byte of what identifies a keyless row. NULL: a column of its key is null. HIDDEN: no column is null,
but the values differ from the source's."""


def separated_keys(
    keys: Sequence[pa.ChunkedArray], nulls: pa.Array, names: Sequence[frozenset[str]], read_columns: ReadColumns
) -> tuple[Sequence[pa.ChunkedArray], pa.Array]:
    """Return the columns of the key, null where the row is keyless, and what identifies the keyless rows.

    nulls: whether each row has null in one of the columns. names: the names that `_airbyte_meta` may use for each
    column.
    """
    size = len(keys[0])
    doubtful = _doubtful(keys, read_columns)
    if not pc.any(doubtful).as_py():
        return keys, pa.nulls(size, pa.binary())
    rows = pc.indices_nonzero(doubtful).to_pylist()
    metas = read_columns([META], doubtful)[META].to_pylist()
    texts = [texts_of(column.filter(doubtful).combine_chunks()).to_pylist() for column in keys]
    ids: list[bytes | None] = [None] * size
    repaired: list[dict[int, object]] = [{} for _ in keys]
    unknown: list[int] = []
    for row, meta, *values in zip(rows, metas, *texts, strict=True):
        named = zip(values, names, keys, strict=True)
        parts = [_part(text, meta, its_names, column.type) for text, its_names, column in named]
        if None in parts:
            unknown.append(row)
        elif any(part.raw for part in parts if part is not None):
            ids[row] = _digest([[part.raw, part.text] for part in parts if part is not None])
        else:
            for i, part in enumerate(parts):
                if part is not None and part.text != values[i]:
                    repaired[i][row] = part.value
    if unknown:
        mask = pc.is_in(pa.array(range(size), pa.int64()), value_set=pa.array(unknown, pa.int64()))
        for row, digest in zip(unknown, _digests(read_columns(None, mask)), strict=True):
            ids[row] = digest
    starts = pc.if_else(nulls, pa.scalar(NULL), pa.scalar(HIDDEN))
    keyless_ids = pc.binary_join_element_wise(starts, pa.array(ids, pa.binary()), pa.scalar(b""))
    ordinary = pc.is_null(keyless_ids)
    columns = [_with(column, values) for column, values in zip(keys, repaired, strict=True)]
    return [pc.if_else(ordinary, column, pa.scalar(None, column.type)) for column in columns], keyless_ids


def _with(column: pa.ChunkedArray, values: Mapping[int, object]) -> pa.ChunkedArray:
    """Return the column with other values in some rows. values: by row number, in ascending order."""
    if not values:
        return column
    which = pa.array([row in values for row in range(len(column))], pa.bool_())
    return pc.replace_with_mask(column.combine_chunks(), which, pa.array(values.values(), column.type))


class _Part(Struct, frozen=True):
    """A part of a key. raw: `text` is as the source sent it: the column cannot hold it. value: otherwise, the value."""

    text: str
    raw: bool
    value: object = None


def _part(text: str | None, meta: RowMeta, names: frozenset[str], kind: pa.DataType) -> _Part | None:
    """Return a part of a doubtful key; None: unknown. text: the column's value. meta: the row's `_airbyte_meta`."""
    changed = _change(meta, names)
    original = None if changed is None else changed["original"]
    if changed is None or original is None:
        return None if text is None else _Part(text, raw=False)
    # A value that did not fit when it was written may fit since the column was widened.
    value = None if text is not None else _held(changed, original, kind)
    if value is None:
        return _Part(_in_full(original) if _is_number(changed, kind) else original, raw=True)
    return _Part(texts_of(pa.array([value], kind))[0].as_py(), raw=False, value=value)


def _held(changed: Change, original: str, kind: pa.DataType) -> object:
    """Return a once rejected value as a column of type `kind` holds it; None: it still does not fit."""
    try:
        return conversion(kind).value(exact_json(original.encode()) if _is_number(changed, kind) else original)
    except (CoercionError, ValueError):
        return None


def _is_number(changed: Change, kind: pa.DataType) -> bool:
    """Whether a value that a column of numbers rejected was a number; the string "1.5" is none."""
    numeric = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    return numeric and changed["reason"] != NOT_A_NUMBER


def _in_full(text: str) -> str:
    """Return a number in its one spelling without an exponent and trailing zeros, unless that is very long."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        return text
    digits = f"{number:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def have_changes(metas: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which of the rows have changes in `_airbyte_meta`."""
    return pc.fill_null(pc.greater(pc.list_value_length(pc.struct_field(metas, "changes")), 0), False)


def original_of(meta: RowMeta, names: Collection[str]) -> str | None:
    """Return the original of a value that did not fit its column, from `_airbyte_meta`; None: there is none."""
    changed = _change(meta, names)
    return None if changed is None else changed["original"]


def _change(meta: RowMeta, names: Collection[str]) -> Change | None:
    for entry in (meta or {}).get("changes") or ():
        if entry is not None and entry["field"] in names and entry["change"] != "LEFT_OUT":
            return entry
    return None


def _doubtful(keys: Sequence[pa.ChunkedArray], read_columns: ReadColumns) -> pa.Array:
    """Whether a value of a row's key may differ from what the source sent."""
    doubtful = pa.chunked_array([pa.repeat(False, len(keys[0]))])
    for column in keys:
        doubtful = pc.or_(doubtful, pc.is_null(column))
        if pa.types.is_string(column.type):
            # A lone surrogate is written as an escape sequence.
            doubtful = pc.or_(doubtful, pc.fill_null(pc.match_substring(column, "\\"), False))
    if any(pa.types.is_timestamp(column.type) for column in keys):
        # A timestamp that was finer than microseconds looks like any other.
        doubtful = pc.or_(doubtful, have_changes(read_columns([META], pa.repeat(True, len(doubtful)))[META]))
    return doubtful.combine_chunks()


def _digests(rows: pa.Table) -> list[bytes]:
    """Return a digest of the content of each row: its non-null field values, wherever the row stores them.

    The same value is in `_airbyte_additional` while there is no column for it, in `_airbyte_meta` while its column
    cannot hold it, and in the column otherwise, which another program may have added.
    """
    columns = [column for column in rows.schema if column.name not in _NO_CONTENT]
    kinds = {field_of(column): column.type for column in columns}
    contents = [texts_of(rows[column.name].combine_chunks()).to_pylist() for column in columns]
    others = [
        [None] * len(rows) if name not in rows.column_names else rows[name].to_pylist() for name in (ADDITIONAL, META)
    ]
    return [
        _digest(
            {
                **{field: text for field, text in zip(kinds, row, strict=True) if text is not None},
                **_without_column(additional, kinds),
                **_originals((meta or {}).get("changes") or ()),
            }
        )
        for additional, meta, *row in zip(*others, *contents, strict=True)
    ]


def _without_column(additional: str | None, kinds: Mapping[str, pa.DataType]) -> dict[str, str]:
    """Return the fields of a row's `_airbyte_additional`, each as its column would hold it, if there is one by now.

    A column of a type that the kit does not write, such as binary, never receives the value.
    """
    try:
        fields = None if additional is None else exact_json(additional.encode())
    except ValueError:  # something else wrote the row
        fields = additional
    if not isinstance(fields, Mapping):
        return {} if fields is None else {ADDITIONAL: shown(fields)}
    contents: dict[str, str] = {}
    for name, value in fields.items():
        field = valid(name)
        if value is not None:
            has_column = field in kinds and writable(kinds[field])
            contents |= _in_column(field, value, kinds[field]) if has_column else {field: shown(value)}
    return contents


def _in_column(field: str, value: JsonValue, kind: pa.DataType) -> dict[str, str]:
    """Return the content of a row for a value in a column of type `kind`: what it holds, and the originals."""
    changes: list[dict[str, str]] = []
    (text,) = texts_of(pa.array([coerce_value(value, kind, field, changes)], kind)).to_pylist()
    return {**({} if text is None else {field: text}), **_originals(changes)}


def _originals(changes: Iterable[Change | None]) -> dict[str, str]:
    """Return what the source sent for values that were changed to fit their columns, or did not fit."""
    return {
        change["field"] or "": change["original"]
        for change in changes
        if change is not None and change["original"] is not None
    }


def texts_of(column: pa.Array) -> pa.Array:
    """Return values as strings, whatever their type, to compare or digest them."""
    try:
        return as_texts(column)
    except (pa.ArrowException, NotJson, ValueError):  # the column has a type that another program gave the table
        return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())


def _digest(value: JsonValue) -> bytes:
    return blake2b(canonical(value).encode(), digest_size=_DIGEST).digest()
