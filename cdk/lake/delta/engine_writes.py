"""Commits that delta-rs makes with its own INSERT, MERGE, UPDATE or DELETE, where a table's features require that.

Each is a `Change` once all arguments but the last two are bound: the table's handle, and the commit properties, which
carry the state's marker. Like a commit of files it goes through the pinned handle (`cdk.lake.delta.stream_table`).
delta-rs checks constraints, writes the change feed and supports deletion vectors (measured with 1.6, as is that it
expects names in backticks).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from cdk.lake.arrow.columns import DELETED_AT, GENERATION, RAW_ID
from cdk.lake.parquet.dedup import NOT_DELETED

Change: TypeAlias = Callable[[DeltaTable, CommitProperties], Mapping[str, int]]
"""A function that makes one commit and returns the row counts of delta-rs."""
Rows: TypeAlias = Iterable[pa.RecordBatch]

OPERATION = "_cdk_operation"
"""Column of the rows to merge: what is done with the row, `UPSERT`, `INSERT` or `REMOVE`."""
TARGET = "_cdk_target"
"""Column of the rows to merge: the `_airbyte_raw_id` of the row to match, if that row has null in its key."""
UPSERT, INSERT, REMOVE = "upsert", "insert", "remove"


def insert_rows(
    rows: Rows,
    schema: pa.Schema,
    mode: Literal["append", "overwrite"],
    handle: DeltaTable,
    properties: CommitProperties,
) -> Mapping[str, int]:
    """Have delta-rs write `rows` of `schema`, beside the existing rows or in their place."""
    reader = pa.RecordBatchReader.from_batches(schema, rows)
    write_deltalake(handle, reader, mode=mode, commit_properties=properties)
    return {}


def merge_rows(
    rows: Rows, schema: pa.Schema, keys: Sequence[str], handle: DeltaTable, properties: CommitProperties
) -> Mapping[str, int]:
    """Merge `rows`, which have an `OPERATION` and a `TARGET` besides the columns of `schema`.

    An upsert replaces the one row with its key, a removal deletes the rows with its key, an insert matches no row. A
    row with null in its key matches the row whose id is in its `TARGET`.
    """
    values = {_quoted(name): f"read.{_quoted(name)}" for name in schema.names}
    same = " AND ".join(f"(there.{_quoted(key)} IS NOT DISTINCT FROM read.{_quoted(key)})" for key in keys)
    # An equality, so that delta-rs looks rows up instead of comparing each with each.
    null = " OR ".join(f"there.{_quoted(key)} IS NULL" for key in keys)
    same += f" AND (CASE WHEN {null} THEN there.{_quoted(RAW_ID)} END IS NOT DISTINCT FROM read.{_quoted(TARGET)})"
    operation = f"read.{_quoted(OPERATION)}"
    columns = schema.append(pa.field(OPERATION, pa.string())).append(pa.field(TARGET, pa.string()))
    metrics = (
        handle.merge(
            pa.RecordBatchReader.from_batches(columns, rows),
            f"{same} AND {operation} <> '{INSERT}'",
            source_alias="read",
            target_alias="there",
            commit_properties=properties,
        )
        .when_matched_delete(f"{operation} = '{REMOVE}'")
        .when_matched_update(values, f"{operation} = '{UPSERT}'")
        .when_not_matched_insert(values, f"{operation} <> '{REMOVE}'")
        .execute()
    )
    return {name: int(metrics[f"num_target_rows_{name}"]) for name in ("inserted", "updated", "deleted")}


def flag_stale_rows(
    schema: pa.Schema, generation: int, now: datetime, handle: DeltaTable, properties: CommitProperties
) -> Mapping[str, int]:
    """Flag the unflagged rows of other generations as deleted at `now`."""
    text = f"'{now.isoformat().replace('+00:00', 'Z')}'"
    value = text if pa.types.is_string(schema.field(DELETED_AT).type) else f"to_timestamp_micros({text})"
    metrics = handle.update(
        updates={_quoted(DELETED_AT): value}, predicate=_stale_rows(schema, generation), commit_properties=properties
    )
    return {"updated": int(metrics["num_updated_rows"])}


def delete_stale_rows(
    schema: pa.Schema, generation: int, handle: DeltaTable, properties: CommitProperties
) -> Mapping[str, int]:
    """Delete the unflagged rows of other generations."""
    metrics = handle.delete(_stale_rows(schema, generation), commit_properties=properties)
    return {"deleted": int(metrics["num_deleted_rows"])}


def _stale_rows(schema: pa.Schema, generation: int) -> str:
    """The predicate of rows to flag or delete. A row without a generation is not the kit's and stays.

    The same rule as in `cdk.lake.parquet.generation_diff`.
    """
    other = f"{_quoted(GENERATION)} <> {generation}"
    if DELETED_AT not in schema.names:
        return other
    mark, kind = _quoted(DELETED_AT), schema.field(DELETED_AT).type
    unmarked = f"{mark} IS NULL"
    if pa.types.is_string(kind):
        listed = ", ".join(f"'{text}'" for text in NOT_DELETED)
        # `trim` would remove only blanks, `\\s` is all white space of Unicode, as in `deletion_mask`.
        unmarked += rf" OR lower(regexp_replace({mark}, '^\s+|\s+$', '', 'g')) IN ({listed})"
    elif pa.types.is_boolean(kind):
        unmarked += f" OR NOT {mark}"
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        unmarked += f" OR {mark} = 0"
    return f"{other} AND ({unmarked})"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
