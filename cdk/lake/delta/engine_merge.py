"""Merging by delta-rs: decides which staged rows are upserts, inserts or removals, and the counts to expect.

The rules are those of merging files (`cdk.lake.parquet.merge`): the same winners, compared in the same way with the
existing rows. delta-rs only carries out the result, by key. The table's keys are read as its readers see them, batch by
batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from cdk.base.errors import FatalError
from cdk.lake.arrow.cast import cast_batch
from cdk.lake.arrow.columns import ADDITIONAL, META, RAW_ID
from cdk.lake.delta.engine_writes import INSERT, OPERATION, REMOVE, TARGET, UPSERT
from cdk.lake.parquet.dedup import DELETED, FILE, KEYLESS_ID, NUMBER, ROW, STALE, latest_rows, pairs
from cdk.lake.parquet.keyless_rows import HIDDEN
from cdk.lake.parquet.merge import Merged, TableMerge
from cdk.lake.parquet.table_rows import read_rows
from cdk.lake.parquet.writer import DataFile


class EngineMerge(Struct, frozen=True):
    """The planned merge: what happens to each staged row."""

    merge: TableMerge
    staged: Sequence[DataFile]
    operations: pa.Table
    """The operations on staged rows, by `_file` and `_row`."""
    rows: int
    """Rows of the table before the merge."""
    merged: Merged
    """The outcome, without the files that delta-rs will write."""
    expected: dict[str, int]
    """The counts that delta-rs must return."""

    def source(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows for `engine_writes.merge_rows`; a row that replaces several is repeated."""
        merge = self.merge
        for n, file in enumerate(self.staged):
            in_file = self.operations.filter(pc.equal(self.operations[FILE], n))
            start = 0
            for batch in read_rows(merge.source, file.path, {}, merge.table.schema):
                end = start + batch.num_rows
                in_batch = in_file.filter(pc.and_(pc.greater_equal(in_file[ROW], start), pc.less(in_file[ROW], end)))
                part = cast_batch(batch, merge.table.schema).take(pc.subtract(in_batch[ROW], start).combine_chunks())
                start = end
                for name in (OPERATION, TARGET):
                    part = part.append_column(pa.field(name, pa.string()), in_batch[name].combine_chunks())
                if part.num_rows:
                    yield part


def engine_comparison(
    merge: TableMerge, staged: Sequence[DataFile], scan: Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
) -> EngineMerge:
    """Compare the staged rows with the rows of the table. scan: yields columns of the table's rows.

    Raises FatalError: when a predicate of delta-rs cannot tell rows apart.
    """
    count = len(merge.identity.keys)
    read = [merge.keyed(merge.source, file.path) for file in staged]
    winners = latest_rows(read, count)
    _check_visible(winners, merge)
    rows, comparisons = 0, [_PAIRS.empty_table()]
    # All columns of existing rows are needed only if a staged row has no key: it may equal one of them.
    names = merge.table.schema.names if winners[KEYLESS_ID].null_count < winners.num_rows else _few(merge)
    for batch in scan(names):
        rows += batch.num_rows
        existing = merge.keyed_rows(partial(_columns_of, batch))
        _check_visible(existing, merge)
        _check_stored(existing, batch, merge)
        met = pairs(existing, winners, count)
        met = met.append_column(RAW_ID, existing[RAW_ID].take(met[ROW])).select(_PAIRS.names)
        comparisons.append(met.cast(_PAIRS))
    met = pa.concat_tables(comparisons)
    lost = met.filter(met[STALE])[NUMBER].unique()
    stale = pc.is_in(winners[NUMBER], value_set=lost)
    met = met.filter(pc.invert(pc.is_in(met[NUMBER], value_set=lost)))
    keyless = winners[NUMBER].filter(pc.is_valid(winners[KEYLESS_ID]))
    operations = _operations(winners, stale, met, keyless.combine_chunks())
    counts = {name: _sum(pc.equal(operations[OPERATION], name)) for name in (UPSERT, INSERT)}
    return EngineMerge(
        merge,
        staged,
        operations,
        rows,
        Merged(
            (),
            (),
            added=counts[UPSERT] + counts[INSERT],
            replaced=met.num_rows,
            stale=_sum(stale),
            superseded=sum(part.num_rows for part in read) - winners.num_rows,
            deleted=_sum(pc.and_not(winners[DELETED], stale)),
            keyless=sum(part.num_rows - part[KEYLESS_ID].null_count for part in read),
            orphans=() if merge.staged else tuple(file.path for file in staged),
        ),
        expected={"inserted": counts[INSERT], "updated": counts[UPSERT], "deleted": met.num_rows - counts[UPSERT]},
    )


_PAIRS = pa.schema([(NUMBER, pa.int64()), (STALE, pa.bool_()), (RAW_ID, pa.string())])


def _operations(winners: pa.Table, stale: pa.Array, met: pa.Table, numbers: pa.Array) -> pa.Table:
    """Return the operations for the winners. met: existing rows they replace. numbers: of the keyless winners."""
    counts = pc.value_counts(met[NUMBER].combine_chunks())
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    matched, many = (pc.is_in(winners[NUMBER], value_set=each) for each in (counts.field("values"), repeated))
    deletes = pc.and_not(winners[DELETED], stale)
    survivors = pc.and_not(pc.invert(winners[DELETED]), stale)
    keyless = pc.is_in(winners[NUMBER], value_set=numbers)
    upserts, removals = (
        pc.and_not(pc.and_(survivors, matched), many),
        pc.and_(matched, pc.or_(deletes, pc.and_(survivors, many))),
    )
    parts = [
        _operation_rows(winners.filter(pc.and_(survivors, pc.or_(pc.invert(matched), many))), INSERT),
        _operation_rows(winners.filter(pc.and_not(upserts, keyless)), UPSERT),
        _operation_rows(winners.filter(pc.and_not(removals, keyless)), REMOVE),
    ]
    # A key matches all of its rows; rows without a key must each be named by id.
    for which, operation in ((upserts, UPSERT), (removals, REMOVE)):
        targets = met.filter(
            pc.is_in(met[NUMBER], value_set=winners[NUMBER].filter(pc.and_(which, keyless)).combine_chunks())
        )
        # Copies that another writer made share one id, and delta-rs lets only one source row match each of them.
        targets = targets.group_by([NUMBER, RAW_ID]).aggregate([])
        parts.append(_operation_rows(winners.take(targets[NUMBER]), operation, targets[RAW_ID]))
    return pa.concat_tables(parts)


def _operation_rows(winners: pa.Table, operation: str, targets: pa.ChunkedArray | None = None) -> pa.Table:
    size = winners.num_rows
    table = winners.select([FILE, ROW]).append_column(OPERATION, pa.repeat(pa.scalar(operation), size))
    return table.append_column(TARGET, pa.nulls(size, pa.string()) if targets is None else targets)


def _columns_of(batch: pa.RecordBatch, names: Sequence[str]) -> list[pa.RecordBatch]:
    return [batch.select([name for name in names if name in batch.schema.names])]


def _check_visible(rows: pa.Table, merge: TableMerge) -> None:
    if HIDDEN in {None if mark is None else mark[:1] for mark in pc.unique(rows[KEYLESS_ID]).to_pylist()}:
        raise FatalError(
            f"a value of the primary key ({', '.join(merge.identity.keys)}) does not fit its column exactly: it has "
            "fractions of a microsecond, for example, and the features of the table prevent comparing rows by them. "
            "Make the key a string, or sync into a table without these features",
            path=str(merge.table.root),
        )


def _check_stored(rows: pa.Table, batch: pa.RecordBatch, merge: TableMerge) -> None:
    """Raise FatalError when a row's key value is not in its column, where delta-rs reads null.

    It is an empty string, which no partition can hold, or a value that did not fit when the column was narrower.
    """
    for i, name in enumerate(merge.identity.keys):
        keys = rows[f"_k{i}"].combine_chunks()
        keys = keys.filter(pc.and_(pc.is_null(batch[name]), pc.is_valid(keys)))
        if name in merge.table.partition_by and "" in keys.to_pylist():
            raise FatalError(
                f"found rows with an empty string in {name!r}, a column of the primary key by which the table is "
                "partitioned, expected other strings: a partition cannot hold an empty one, so it is null there, and "
                "the features of the table prevent matching such rows. Remove them from the source, sync into another "
                f"path without {name} in partition_by, or drop the features",
                path=str(merge.table.root),
            )
        if len(keys):
            raise FatalError(
                f"rows have null in {name!r}, a column of the primary key, because their values did not fit it before "
                "it was widened, and the features of the table prevent matching them. Delete the rows with null "
                "there, or drop the features for one sync",
                path=str(merge.table.root),
            )


def _few(merge: TableMerge) -> list[str]:
    schema = merge.table.schema
    return [name for name in dict.fromkeys([*merge.identity.columns(schema), META, ADDITIONAL]) if name in schema.names]


def _sum(which: pa.Array | pa.ChunkedArray) -> int:
    return pc.sum(which).as_py() or 0
