"""Merging by delta-rs: which of the rows that were read are upserts, inserts or removals, and what they amount to.

The rules are those of merging files (`cdk.spark.merge`): the same winners, compared in the same way with the rows that
are there. delta-rs only carries it out, by key. The table's keys are read as its readers see them, batch by batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from cdk.spark.engine_writes import INSERT, OPERATION, REMOVE, UPSERT
from cdk.spark.files import DataFile
from cdk.spark.merge import Merge
from cdk.spark.newest import CURSOR, DELETED, FILE, NUMBER, ROW, keyed, newest, superseded
from cdk.spark.table_rows import rows_of
from cdk.spark.widen import widened


@dataclass(frozen=True)
class EngineMerge:
    """What becomes of the rows that were read. The figures are those of `cdk.spark.merge.Merged`.

    rows: of the table before it. winners: of each key the row that counts, and its operations.
    expected: what delta-rs is to count.
    """

    merge: Merge
    staged: Sequence[DataFile]
    winners: pa.Table
    rows: int
    added: int
    replaced: int
    stale: int
    superseded: int
    deleted: int
    expected: dict[str, int]

    def source(self) -> Iterator[pa.RecordBatch]:
        """The rows for `cdk.spark.engine_writes.merged`; one that is to take the place of several comes twice."""
        merge = self.merge
        for n, file in enumerate(self.staged):
            mine = self.winners.filter(pc.equal(self.winners[FILE], n))
            start = 0
            for batch in rows_of(merge.staged or merge.root, file.path, {}, merge.schema):
                numbers = pa.array(range(start, start + batch.num_rows), pa.int64())
                start += batch.num_rows
                whole = widened(batch, merge.schema)
                for operation in (UPSERT, INSERT, REMOVE):
                    rows = mine.filter(mine[operation])[ROW].combine_chunks()
                    part = whole.filter(pc.is_in(numbers, value_set=rows))
                    if part.num_rows:
                        said = pa.repeat(pa.scalar(operation), part.num_rows)
                        yield part.append_column(pa.field(OPERATION, pa.string()), said)


def compared(merge: Merge, staged: Sequence[DataFile], present: Iterable[pa.RecordBatch]) -> EngineMerge:
    """Compare what was read with the rows of the table. present: at least their columns of `compared_columns`."""
    identity = merge.identity
    read = [merge.keys_of(merge.staged or merge.root, file.path) for file in staged]
    winners = newest(read, identity)
    count = len(identity.keys)
    schema = pa.schema([merge.schema.field(name) for name in compared_columns(merge)])
    rows, lost, hits = 0, [pa.array([], pa.int64())], [pa.array([], pa.int64())]
    for batch in present:
        rows += batch.num_rows
        there = keyed(pa.Table.from_batches([widened(batch.select(schema.names), schema)]), identity)
        replaced, late = superseded(there, winners, count)
        lost.append(late)
        hits.append(_matched(winners, there.take(replaced), count))
    stale = pc.is_in(winners[NUMBER], value_set=pa.concat_arrays(lost))
    all_hits = pa.concat_arrays(hits)
    all_hits = all_hits.filter(pc.invert(pc.is_in(all_hits, value_set=pa.concat_arrays(lost))))
    counts = pc.value_counts(all_hits)
    several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    matched, many = (pc.is_in(winners[NUMBER], value_set=found) for found in (all_hits, several))
    gone = pc.and_not(winners[DELETED], stale)
    kept = pc.and_not(pc.invert(winners[DELETED]), stale)
    operations = {
        UPSERT: pc.and_not(pc.and_(kept, matched), many),
        INSERT: pc.and_(kept, pc.or_(pc.invert(matched), many)),
        REMOVE: pc.and_(matched, pc.or_(gone, pc.and_(kept, many))),
    }
    for name, which in operations.items():
        winners = winners.append_column(name, which)
    upserts, inserts = _sum(operations[UPSERT]), _sum(operations[INSERT])
    return EngineMerge(
        merge,
        staged,
        winners,
        rows,
        added=upserts + inserts,
        replaced=len(all_hits),
        stale=_sum(stale),
        superseded=sum(part.num_rows for part in read) - winners.num_rows,
        deleted=_sum(gone),
        expected={"inserted": inserts, "updated": upserts, "deleted": len(all_hits) - upserts},
    )


def compared_columns(merge: Merge) -> list[str]:
    """The columns of the table that tell which of its rows are replaced."""
    return list(dict.fromkeys([*merge.identity.keys, *([merge.identity.cursor] if merge.identity.cursor else [])]))


def _matched(winners: pa.Table, replaced: pa.Table, keys: int) -> pa.Array:
    """The numbers of the winners that replace rows, each as often as it replaces one."""
    names = [f"_k{i}" for i in range(keys)]
    no_cursor = pa.nulls(winners.num_rows, pa.int64())
    ours = winners.select(names).append_column(CURSOR, no_cursor).append_column(ROW, winners[NUMBER])
    numbers = pa.array(range(replaced.num_rows), pa.int64())
    theirs = replaced.select(names).append_column(CURSOR, pa.nulls(replaced.num_rows, pa.int64()))
    found, _ = superseded(ours, theirs.append_column(NUMBER, numbers), keys)
    return found


def _sum(which: pa.Array | pa.ChunkedArray) -> int:
    return pc.sum(which).as_py() or 0
