"""Compaction: rewrites the many small files of frequent commits as few large ones.

This is a separate commit, which changes neither rows nor state; VACUUM removes the old files later.
"""

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from cdk.base.errors import StateError
from cdk.base.task_map import run_inline
from cdk.lake.delta.receipt import RECEIPT, Receipt, row_count
from cdk.lake.delta.table_guard import Use, guard_of
from cdk.lake.parquet.table_files import (
    TableFile,
    bounded_columns,
    damaged_files,
    file_actions,
    files_of,
    logged_files,
    total_rows,
)
from cdk.lake.parquet.table_rows import TableLayout, small_file_groups
from cdk.lake.storage.folder import Folder


def join_small_files(handle: DeltaTable, root: Folder, now: datetime) -> int:
    """Join the small files of a table, or of each of its partitions, if there are many; return how many were joined.

    Joins nothing if a feature of the table forbids it. After a commit, the handle is at the newest version.
    Raises StateError: when the table refuses the commit, for example because another commit came first; nothing has
    changed. ReceiptError: when the new files have another number of rows than the old ones. And what a store raises.
    """
    # Files with deletion vectors are left to the engine that writes the vectors. delta-rs could join them, but retries
    # its commit whatever the properties say (measured, 1.6), even after an OPTIMIZE that has removed the same files:
    # the rows would then be duplicated.
    if guard_of(handle, str(root), "").refusals([Use.JOIN]):
        return 0
    groups = small_file_groups(files_of(handle))
    return _join(handle, root, groups, now) if groups else 0


def _join(handle: DeltaTable, root: Folder, groups: Sequence[Sequence[TableFile]], now: datetime) -> int:
    """Write each group as one file, and name the new files in a commit that fails if another writer has committed."""
    partition_by = handle.metadata().partition_columns
    schema = pa.schema(handle.schema().to_arrow())
    files = TableLayout(root, schema, bounded_columns(handle), tuple(partition_by)).join(groups, run_inline)
    small = [file for group in groups for file in group]
    logged = logged_files(handle)
    before = total_rows([logged[file.path].visible_rows for file in small])
    Receipt().check(None if before is None else row_count(files) - before, stream="", path=str(root))
    if missing := damaged_files(root, files):
        why = f"the small files were not joined: {missing[0]}, which has their rows, is missing"
        raise StateError(why, path=str(root))
    try:
        handle.create_write_transaction(
            file_actions(files, small, partition_by=partition_by, now=now, rows_change=False),
            Use.APPEND,
            handle.schema(),
            partition_by,
            # Measured with delta-rs 1.6: on a retry it removes files that OPTIMIZE has already removed.
            commit_properties=CommitProperties(max_commit_retries=0, custom_metadata={RECEIPT: Receipt().to_text()}),
        )
    except CommitFailedError as error:
        raise StateError(
            "the small files were not joined, because another writer has changed the table; the next sync tries again",
            detail=str(error),
            path=str(root),
        ) from error
    except DeltaError as error:
        # New files stay until VACUUM: the store may have made the commit although its response was lost.
        raise StateError(f"the small files were not joined: {error}", path=str(root)) from error
    finally:
        handle.update_incremental()
    return len(small)
