"""Compaction: rewriting the many small files of frequent commits as few large ones.

A commit of its own, which changes neither rows nor state; VACUUM removes the old files later.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from cdk.base.errors import StateError
from cdk.base.task_map import run_inline
from cdk.lake.delta.receipt import RECEIPT, Receipt, row_count
from cdk.lake.delta.table_guard import Use, Way, guard_of
from cdk.lake.parquet.rewrite import LARGE_BYTES, TableLayout, crowded
from cdk.lake.parquet.table_files import (
    TableFile,
    bounded_columns,
    file_actions,
    files_of,
    logged_files,
    lost_files,
    total_rows,
)
from cdk.lake.storage.folder import Folder


def join_small_files(handle: DeltaTable, root: Folder, now: datetime) -> int:
    """Join the small files of a table, or of each of its partitions, where they are many; returns how many they were.

    The handle is brought to the version that is then the newest. Raises StateError: the table refused the commit, as
    it does when another commit came first; nothing has changed. ReceiptError: the new files have other rows than the
    old ones. And what a store raises.
    """
    groups = crowded(files_of(handle))
    if not groups:
        return 0
    if guard_of(handle, str(root), "").way(Use.JOIN) is Way.ENGINE:
        return _join_by_engine(handle, root, groups)
    return _join(handle, root, groups, now)


def _join_by_engine(handle: DeltaTable, root: Folder, groups: Sequence[Sequence[TableFile]]) -> int:
    """As `_join`, by delta-rs, which heeds deletion vectors.

    delta-rs 1.6 tries its commit again whatever the properties say, also when another OPTIMIZE has removed the same
    files: the rows are then there twice, and the next sync finds it (`StreamTable.check_moves`).
    """
    with _committing(handle, root):
        receipt = CommitProperties(custom_metadata={RECEIPT: Receipt().to_text()})
        handle.optimize.compact(target_size=LARGE_BYTES, commit_properties=receipt)
    return sum(map(len, groups))


def _join(handle: DeltaTable, root: Folder, groups: Sequence[Sequence[TableFile]], now: datetime) -> int:
    """Write each group as one file, and name these in a commit that counts only if nobody else has committed."""
    partition_by = handle.metadata().partition_columns
    schema = pa.schema(handle.schema().to_arrow())
    files = TableLayout(root, schema, bounded_columns(handle), tuple(partition_by)).join(groups, run_inline)
    small = [file for group in groups for file in group]
    logged = logged_files(handle)
    before = total_rows([logged[file.path].counted for file in small])
    Receipt().check(None if before is None else row_count(files) - before, stream="", path=str(root))
    if missing := lost_files(root, files):
        raise StateError(
            f"the table's small files stay: {missing[0]}, which was to take their rows, is missing", path=str(root)
        )
    with _committing(handle, root):
        handle.create_write_transaction(
            file_actions(files, small, partition_by=partition_by, now=now, rows_change=False),
            Use.APPEND,
            handle.schema(),
            partition_by,
            # Measured with delta-rs 1.6: tried again, it removes files that OPTIMIZE has removed before.
            commit_properties=CommitProperties(max_commit_retries=0, custom_metadata={RECEIPT: Receipt().to_text()}),
        )
    return len(small)


@contextmanager
def _committing(handle: DeltaTable, root: Folder) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise StateError(
            "the table's small files stay, for something else has changed the table; the next sync looks again",
            detail=str(error),
            path=str(root),
        ) from error
    except DeltaError as error:
        # New files stay for VACUUM: a store may have taken the commit and not said so.
        raise StateError(f"the table's small files stay: {error}", path=str(root)) from error
    finally:
        handle.update_incremental()
