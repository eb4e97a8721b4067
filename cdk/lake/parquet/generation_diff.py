"""Stale rows: rows of a table whose generation number is not that of the last complete read.

Merging a complete read sets the generation number in each row that the read saw, so the table itself tells which rows
are stale. Finding them takes one or two columns of each file, one task per file, no join and no second set of keys.

A row without a generation number is not the kit's and stays.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from cdk.base.errors import ConfigError
from cdk.base.task_map import TaskMap
from cdk.lake.arrow.cast import cast_batch
from cdk.lake.arrow.columns import DELETED_AT, GENERATION, TIMESTAMP_UTC
from cdk.lake.parquet.dedup import deletion_mask
from cdk.lake.parquet.table_files import TableFile
from cdk.lake.parquet.table_rows import TableLayout, flat
from cdk.lake.parquet.writer import DataFile

_HASH_BITS = 64


class GenerationCounts(Struct, frozen=True):
    """Row counts of a file or a table. current: rows of the generation. stale: unflagged rows of other generations."""

    current: int = 0
    stale: int = 0

    def __add__(self, other: "GenerationCounts") -> "GenerationCounts":
        return GenerationCounts(self.current + other.current, self.stale + other.stale)


class GenerationDiff(Struct, frozen=True):
    """A table, and the generation of the rows that a complete read saw. Immutable; it is sent to tasks."""

    table: TableLayout
    """Its schema has `DELETED_AT` if rows are to be flagged."""
    generation: int
    keys: tuple[str, ...]
    """The columns of the key."""

    @property
    def compared_columns(self) -> list[str]:
        """The columns that `summary` reads."""
        return list(dict.fromkeys([*self.keys, *_mark_columns(self)]))

    def summary(self, batches: Iterable[pa.RecordBatch]) -> tuple[GenerationCounts, int, str]:
        """Return the counts of a table as its readers see it, its number of rows, and the digest of its stale keys.

        batches: the `compared_columns` of all rows.
        """
        schema = pa.schema([self.table.schema.field(name) for name in self.compared_columns])
        counts, rows, total = GenerationCounts(), 0, 0
        for batch in (cast_batch(batch, schema) for batch in batches):
            counts += _count(self, batch)
            rows += batch.num_rows
            total += _hash(self, batch)
        return counts, rows, _named(total)

    def counted(self, files: Sequence[TableFile], spread: TaskMap) -> list[GenerationCounts]:
        """Return the numbers of current and of stale rows of each file."""
        return spread(partial(_counted, self), files)

    def plan(self, files: Sequence[TableFile], spread: TaskMap) -> str:
        """Return the digest of the stale keys of these files: the same for the same keys in any order."""
        parts: list[int] = spread(partial(_hashed, self), files)
        return _named(sum(parts))

    def rewritten(self, files: Sequence[TableFile], now: datetime | None, spread: TaskMap) -> list[DataFile]:
        """Rewrite these files, flagging stale rows with `now`, or without these rows if `now` is None.

        New files are invisible until a commit names them.
        """
        return flat(spread(partial(_rewritten, self, now), files))


def check_flag(schema: pa.Schema, where: str) -> None:
    """Raise ConfigError when rows cannot be flagged: the column exists and holds neither timestamps nor strings."""
    if DELETED_AT not in schema.names:
        return
    kind = schema.field(DELETED_AT).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_string(kind)):
        why = f"the column {DELETED_AT} is {kind}, expected a timestamp or string; set it to hard"
        raise ConfigError(why, path=where)


FLAG = pa.field(DELETED_AT, TIMESTAMP_UTC)
"""The column that flagging adds to a table without one."""


def _mark_columns(diff: GenerationDiff) -> list[str]:
    return [name for name in (GENERATION, DELETED_AT) if name in diff.table.schema.names]


def _stale_mask(diff: GenerationDiff, batch: pa.RecordBatch) -> pa.Array:
    other = pc.fill_null(pc.not_equal(batch.column(GENERATION), diff.generation), fill_value=False)
    if DELETED_AT not in batch.schema.names:
        return other
    flagged = deletion_mask(pa.chunked_array([batch.column(DELETED_AT)])).combine_chunks()
    return pc.and_(other, pc.invert(flagged))


def _counted(diff: GenerationDiff, file: TableFile) -> GenerationCounts:
    return sum((_count(diff, batch) for batch in diff.table.rows(file, _mark_columns(diff))), GenerationCounts())


def _count(diff: GenerationDiff, batch: pa.RecordBatch) -> GenerationCounts:
    current = pc.equal(batch.column(GENERATION), diff.generation)
    return GenerationCounts(*(pc.sum(rows).as_py() or 0 for rows in (current, _stale_mask(diff, batch))))


def _hashed(diff: GenerationDiff, file: TableFile) -> int:
    return sum(_hash(diff, batch) for batch in diff.table.rows(file, diff.compared_columns))


def _hash(diff: GenerationDiff, batch: pa.RecordBatch) -> int:
    keys = batch.filter(_stale_mask(diff, batch)).select(list(diff.keys))
    rows = zip(*(column.to_pylist() for column in keys.columns), strict=True)
    return sum(int.from_bytes(blake2b(repr(key).encode(), digest_size=_HASH_BITS // 8).digest()) for key in rows)


def _named(total: int) -> str:
    return f"{total % 2**_HASH_BITS:016x}"


def _rewritten(diff: GenerationDiff, now: datetime | None, file: TableFile) -> list[DataFile]:
    rows = ((batch, _stale_mask(diff, batch)) for batch in diff.table.rows(file))
    return diff.table.write(
        batch.filter(pc.invert(stale)) if now is None else _with_flag(batch, stale, now) for batch, stale in rows
    )


def _with_flag(batch: pa.RecordBatch, stale: pa.Array, now: datetime) -> pa.RecordBatch:
    at = batch.schema.get_field_index(DELETED_AT)
    kind = batch.schema.field(at).type
    value = now.isoformat().replace("+00:00", "Z") if pa.types.is_string(kind) else now
    flags = pc.if_else(stale, pa.scalar(value, kind), batch.column(at))
    return batch.set_column(at, batch.schema.field(at), flags)
