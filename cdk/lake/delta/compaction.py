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
from cdk.lake.delta.table_guard import Use, guard_of
from cdk.lake.parquet.rewrite import TableLayout, crowded
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

    None are joined where a feature of the table refuses it. The handle is brought to the newest version.
    Raises StateError: the table refused the commit, as it does when another commit came first; nothing has changed.
    ReceiptError: the new files have other rows than the old ones. And what a store raises.
    """
    # Files with deletion vectors stay, for the writer of these. delta-rs could join them, and tries its commit again
    # whatever the properties say (measured, 1.6), also over an OPTIMIZE that has removed the same files: the rows of
    # both are there then.
    if guard_of(handle, str(root), "").refusals([Use.JOIN]):
        return 0
    groups = crowded(files_of(handle))
    return _join(handle, root, groups, now) if groups else 0


def _join(handle: DeltaTable, root: Folder, groups: Sequence[Sequence[TableFile]], now: datetime) -> int:
    """Write each group as one file, and name these in a commit that counts only if no other writer has committed."""
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
