"""Joining the small files that many short epochs have left: they are written again as few large ones.

A commit of its own, which changes neither rows nor state; VACUUM removes the old files later.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError

from cdk.base.errors import StateError
from cdk.base.task_map import run_inline
from cdk.lake.delta.receipt import RECEIPT, Receipt, row_count
from cdk.lake.delta.table_guard import Use, Way, guard_of
from cdk.lake.parquet.rewrite import LARGE_BYTES, MANY, SMALL_BYTES, Rewrite, crowded
from cdk.lake.parquet.table_files import bounded_columns, file_actions, files_of, logged_files, lost_files, total_rows
from cdk.lake.storage.folder import Folder


def join_small_files(handle: DeltaTable, root: Folder, now: datetime) -> int:
    """Join the small files of a table, or of each of its partitions, where they are many; tell how many they were.

    The handle is brought to the version that is then the newest. Raises StateError: the table refused the commit, as
    it does when another has come between; nothing has changed. ReceiptError: the new files have other rows than the old
    ones. And what a store raises.
    """
    if not handle.metadata().partition_columns:
        return _join(handle, root)
    if guard_of(handle, str(root), "").way(Use.JOIN) is Way.ENGINE:
        return _join(handle, root) if crowded(files_of(handle)) else 0
    return _join_in_partitions(handle, root, now)


def _join(handle: DeltaTable, root: Folder) -> int:
    sizes = pa.table(handle.get_add_actions())["size_bytes"].to_pylist()
    small = len([size for size in sizes if size < SMALL_BYTES])
    if small < MANY:
        return 0
    with _committing(handle, root):
        receipt = CommitProperties(custom_metadata={RECEIPT: Receipt().to_text()})
        handle.optimize.compact(target_size=LARGE_BYTES, commit_properties=receipt)
    return small


def _join_in_partitions(handle: DeltaTable, root: Folder, now: datetime) -> int:
    """As `_join`; delta-rs would leave the partition columns out of the files."""
    groups = crowded(files_of(handle))
    if not groups:
        return 0
    partition_by = handle.metadata().partition_columns
    schema = pa.schema(handle.schema().to_arrow())
    files = Rewrite(root, schema, bounded_columns(handle), tuple(partition_by)).joined(groups, run_inline)
    small = [file for group in groups for file in group]
    logged = logged_files(handle)
    before = total_rows([logged[file.path].counted for file in small])
    Receipt().check(None if before is None else row_count(files) - before, stream="", path=str(root))
    if missing := lost_files(root, files):
        raise StateError(
            f"the table's small files stay: {missing[0]}, which was to take their rows, is gone", path=str(root)
        )
    with _committing(handle, root):
        handle.create_write_transaction(
            file_actions(files, small, partition_by=partition_by, now=now, rows_change=False),
            "append",
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
    except DeltaError as error:
        # New files stay for VACUUM: a store may have taken the commit and not said so.
        raise StateError(f"the table's small files stay: {error}", path=str(root)) from error
    finally:
        handle.update_incremental()
