"""Restore detection: finds the state that belongs to a table's rows. It is the marker's, unless a RESTORE came later.

RESTORE brings back the rows of an older version and leaves the marker where it was. `state_of_rows` reads the log
backwards, jumping from each RESTORE to the version it restored, until it finds a commit that moved the marker. If the
log was cleaned up before that point, it proves nothing, and the table's rows are compared with the state instead.
Commits that only move rows are checked, too, because some of them duplicate rows. CREATE OR REPLACE TABLE also leaves
the marker, but no rows: the table then has another id than the one stored in the state.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from msgspec import Struct

from cdk.base.errors import StateError
from cdk.lake.arrow.columns import RAW_ID
from cdk.lake.arrow.type_promotion import common_type
from cdk.lake.delta.pinned_table import PinnedTable
from cdk.lake.delta.table_state import COMPLETE, TableState
from cdk.lake.parquet.table_files import LoggedCommit, apply_commit, commit_at, counted_rows, logged_files
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.table_log import broken_transaction

_MOST_ROW_MOVES = 20
"""How many commits that only move rows are checked when a table is opened: each check costs as much as an opening."""
_CLOCKS_DIFFER = 3_600_000
"""Milliseconds by which the clocks of machines that write to one table may differ."""


class RowsState(Struct, frozen=True):
    """The state that belongs to a table's rows, and the later commits that moved these rows between files.

    version: of the state; None: the rows have no state. certain: whether the log proves it; if the log was cleaned up,
    the state may belong to other rows. row_moves: the table versions after that state, newest first, whose commits say
    that rows only move from file to file; without those that a RESTORE has undone. doubt: why a RESTORE may have undone
    the state; empty: the log shows none that may have.
    """

    version: int | None
    certain: bool
    row_moves: tuple[int, ...] = ()
    doubt: str = ""


def state_of_rows(table: PinnedTable, marker: int) -> RowsState:
    """Return what the log says about the rows of the handle's version. marker: the version of the table's marker.

    Raises StateError: when the log cannot decide.
    """
    restored = False
    row_moves: list[int] = []
    for at, commit in _commits_of_rows(table):
        if commit is None:
            doubt = f"the log no longer has version {at}, to which the table was restored" if restored else ""
            return RowsState(marker, certain=False, row_moves=tuple(row_moves), doubt=doubt)
        if table.app in commit.markers:
            return RowsState(commit.markers[table.app], certain=True, row_moves=tuple(row_moves))
        if COMPLETE in commit.info and not commit.markers:
            raise broken_transaction(table.root, at, table.stream)
        if commit.add and not commit.changes_rows:
            row_moves.append(at)
        restored = restored or commit.operation == "RESTORE"
    return RowsState(None if restored else marker, certain=True, row_moves=tuple(row_moves))


def may_have_rows_of(table: PinnedTable, version: int) -> bool:
    """Whether the commit of a state led to the rows of the handle's version, or may have, if the log was cleaned up."""
    with suppress(StateError):
        commits = (commit for _, commit in _commits_of_rows(table))
        return any(commit is None or commit.markers.get(table.app) == version for commit in commits)
    return True


def _commits_of_rows(table: PinnedTable) -> Iterator[tuple[int, LoggedCommit | None]]:
    """Yield the versions that led to the rows and their commits, newest first, without what a RESTORE has undone.

    None, as the last commit: the log no longer has that version. Raises StateError: when it is unknown which one comes
    before a RESTORE.
    """
    at = table.version
    while at >= 0:
        try:
            commit = commit_at(table.root, at)
        except FileNotFoundError:
            yield at, None
            return
        yield at, commit
        at -= 1
        if commit.operation == "RESTORE":
            match commit.info.get("operationParameters"):
                case {"version": int() | str() as to}:
                    at = int(to)
                case _:
                    why = "the table was restored to a timestamp; restore it to a version, by its number"
                    raise _unknown(why, table)


def missing_marker_error(table: PinnedTable, number: int) -> StateError:
    """Return the error of a table whose marker is missing, beside states up to `number`."""
    return table.state_error(
        f"there are states of this stream beside the table, up to number {number}, but the table's marker, which names "
        "the current one, is missing: the table was cloned or created again, or its transaction ids expired. Reading "
        "from the start would add every row again. Choose the state that matches the table's rows with `spark-cdk "
        "state rollback`, have everything read again with `spark-cdk state reset`, or move the table away"
    )


def check_not_restored(table: PinnedTable, *, after: int, marker: int, rows_state: int | None) -> None:
    """Raise StateError when a commit after version `after` restored the rows of an older state.

    marker: the marker's version. rows_state: the version of the rows' state at `after`; None: the rows have no state.
    """
    if not any(_is_restore(table.root, at) for at in range(after + 1, table.version + 1)):
        return
    rows = state_of_rows(table, marker)
    if rows.doubt:
        raise _unknown(rows.doubt, table)
    if rows.version != rows_state:
        raise table.state_error(
            "the table was restored to an older version while this run was reading; what it had committed before is "
            "lost, and nothing more is written. Run the sync again: it resumes after the rows that the table has"
        )


def check_same_table(table: PinnedTable, saved: TableState) -> None:
    """Raise StateError when the table is not the state's table, but one that was created in its place."""
    if saved.table_id == table.table_id:
        return
    raise table.state_error(
        f"the state belongs to another table: found the id {table.table_id} in the table's log, expected "
        f"{saved.table_id}. Another program has replaced the table (CREATE OR REPLACE TABLE), and a sync that resumes "
        "from the state would not read the old rows again. Read everything again after `spark-cdk state reset`, "
        "restore the table to the version before, DeltaTable(path).restore(VERSION), or choose the state that matches "
        "the table's rows with `spark-cdk state rollback`, which may be the newest one"
    )


def check_columns_stay(table: PinnedTable, before: pa.Schema) -> None:
    """Raise StateError when columns that files were written for are gone, or cannot hold the values of these files.

    Caused by a RESTORE to rows of the same state, or by another program's overwrite with another schema. before: the
    columns that the files were written for.
    """
    kinds = {column.name: column.type for column in table.schema}
    changes = [f"{column.name} is missing" for column in before if column.name not in kinds]
    changes += [
        f"{column.name} was {column.type} and is {kinds[column.name]}"
        for column in before
        if column.name in kinds and common_type(kinds[column.name], column.type) != kinds[column.name]
    ]
    if changes:
        raise table.state_error(
            f"columns of the table were removed or narrowed while this run was reading ({'; '.join(changes)}): it was "
            "restored to an older version, or another program wrote it with another schema; nothing more is written. "
            "Run the sync again: it plans with the columns that exist then"
        )


def check_rows(table: PinnedTable, saved: TableState, *, doubt: str, number: int, others: Collection[str]) -> None:
    """Raise StateError when the table's rows contradict the marker's state, whose commit is no longer in the log.

    RESTORE removes the files and the rows of that commit. A program that joins files removes only the files. If no id
    of the rows is known, their number has to be the same then, and some file as new. doubt: see RowsState.
    number: of the state. others: other pipelines that write to the table.
    """
    version, files = table.oldest()
    if not doubt and not files.keys().isdisjoint(saved.newest):
        return
    if saved.newest_ids and _has_row(table, saved.newest_ids):
        return
    if doubt:
        raise _unknown(doubt, table)
    before, rows = saved.rows, counted_rows(files)
    if not saved.newest_ids:
        if before is None or rows is None or not saved.newest:
            return
        # A program that joins files rewrites the rows of that commit; the clocks of two machines may differ.
        joined = not files or max(file.modified for file in files.values()) >= saved.newest_ms - _CLOCKS_DIFFER
        if (rows == before and joined) or (rows > before and others):
            return
    lacks = "none of the rows that its commit added" if saved.newest_ids else "no file of that commit"
    raise table.state_error(
        f"state {number} and the table's rows contradict each other: with it, the table had {_count(before)} rows, and "
        f"version {version}, the oldest in its log, has {_count(rows)} rows and {lacks}. The table was "
        "restored to an older version, and the log was cleaned up since. Choose the state that matches the rows "
        "with `spark-cdk state rollback`, which may be this one if another program has added or deleted the rows, or "
        "have everything read again with `spark-cdk state reset`"
    )


def _count(rows: int | None) -> str:
    return "an unknown number of" if rows is None else f"{rows:,}"


def _has_row(table: PinnedTable, ids: Sequence[str]) -> bool:
    """Whether the table has a row with one of these ids."""
    if RAW_ID not in table.schema.names:
        return False
    known = pa.array(ids, pa.string())
    return any(pc.any(pc.is_in(batch.column(0), value_set=known)).as_py() for batch in table.scan([RAW_ID]))


def check_row_moves(table: PinnedTable, row_moves: Sequence[int]) -> None:
    """Raise StateError when one of these commits says that it only moves rows, but changed their number.

    delta-rs 1.6 commits two OPTIMIZEs that started from the same version one after the other, and the files that both
    wrote hold the same rows. Checks the newest `_MOST_ROW_MOVES` commits, as of when the table was opened.
    """
    root = table.root
    for version in reversed(row_moves[:_MOST_ROW_MOVES]):
        with root.explaining(table.stream):
            try:
                files = logged_files(DeltaTable(root.uri, version=version - 1, storage_options=root.storage_options))
            except DeltaError:
                continue  # the log was cleaned up
            before, commit = counted_rows(files), commit_at(root, version)
            apply_commit(files, commit)
            after = counted_rows(files)
        if before is None or after is None or before == after:
            continue
        raise table.state_error(
            f"version {version}, {commit.operation or 'unnamed'}, claims only to move rows, and the table had "
            f"{before:,} rows before it and {after:,} after it. This happens when two jobs join the same files at "
            f"once. Restore the table to version {version - 1}, DeltaTable(path).restore({version - 1}), and sync "
            "again: the rows of this pipeline stay, and what others have added since is lost. If the rows are already "
            "correct, choose the state that matches them with `spark-cdk state rollback`"
        )


def _is_restore(root: Folder, version: int) -> bool:
    try:
        return commit_at(root, version).operation == "RESTORE"
    except FileNotFoundError:
        return False  # the log was cleaned up


def _unknown(why: str, table: PinnedTable) -> StateError:
    message = (
        f"the state of the table's rows is unknown: {why}. Choose the state that matches the rows with "
        "`spark-cdk state rollback`, or have everything read again with `spark-cdk state reset`"
    )
    return table.state_error(message)
