"""Handles errors of a commit: the store may have made the commit although its response was lost.

The table is reopened, and its marker says whether the commit was made or another run committed first. If neither, the
error means what it says, or another writer has changed the table meanwhile; then the commit is attempted again.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from cdk.base.errors import ConfigError, StateConflict, StateError
from cdk.base.logs import logger
from cdk.lake.delta.pinned_table import PinnedTable, TableChanged

ATTEMPTS = 5
"""How often a commit is attempted while other writers keep overtaking it."""

_CONSTRAINT_ERROR = re.compile("failed validation check|declared as non-nullable")
"""Matches the errors of delta-rs for rows that violate a constraint."""

T = TypeVar("T")


def repeat_if_changed(table: PinnedTable, attempt: Callable[[], T]) -> T:
    """Run `attempt`, at most five times, while it fails because another writer has changed the table.

    attempt: must list the table's files anew on each call, and remove what it wrote when it raises TableChanged. Files
    that vanish while it reads them also count as a change: OPTIMIZE replaces files, and VACUUM removes the replaced
    ones. Raises TableChanged: when the last attempt fails this way, too. StateError: when the table's newest version
    names missing files.
    """
    for attempts_left in reversed(range(ATTEMPTS)):
        try:
            return attempt()
        except TableChanged as error:
            if not attempts_left:
                raise TableChanged(
                    f"another writer has changed the table during each of {ATTEMPTS} attempts to commit; nothing was "
                    "committed, and the next sync reads again what the commit held. Run it at a time when jobs such "
                    "as OPTIMIZE, or other syncs, do not write to this table all the time",
                    detail=error.detail,
                    path=error.path,
                ) from error
            logger.warning("%s; trying again", error)
        except Exception as error:
            if not attempts_left or not table.reopen_if_files_are_missing():
                raise
            text = "%s: files of the table were removed while they were read (%s); trying again"
            logger.warning(text, table.root, error)
    raise AssertionError("the last attempt returns or raises")


def resolve_failed_commit(
    table: PinnedTable, error: Exception, marker: int, before: int | None, remove_draft: Callable[[], None]
) -> None:
    """Reopen the table after an error of a commit, and raise what the error means unless the commit was made.

    marker: the marker that the commit sets. before: the marker before it. remove_draft: removes the draft of the
    commit's state, which no commit will name.
    """
    path, stream = str(table.root), table.stream
    explained, version = table.root.explain(error, stream), table.version
    try:
        table.reopen()
    except StateError:
        remove_draft()
        raise
    if table.seen_marker == marker:
        return
    cause = error if explained is error else None
    if table.seen_marker != before:
        raise overtaken_error(table) from cause
    refused = _CONSTRAINT_ERROR.search(str(error)) is not None
    if refused or (cause is not None and table.version != version):
        # Beside the rows of a table without a marker, a draft would look as if the marker had been lost.
        remove_draft()
    if refused:
        # The error shows rows.
        if table.version != version:
            raise TableChanged("another writer has changed the table", path=path) from None
        reason = str(error).partition("\n")[0].rpartition(": ")[2]
        raise ConfigError(
            f"the table's constraints refuse rows that were read, so nothing of their commit was written ({reason}): "
            f"{table.guard.constraints}. Change the rows at their source, or the constraints",
            path=path,
            stream=stream,
        ) from None
    if cause is None:
        raise explained from None
    if table.version != version:
        # The message of delta-rs recommends setting isolation levels, which would not help.
        raise TableChanged("another writer has changed the table", detail=str(error), path=path) from error
    raise StateError(f"the table refused a commit: {error}", path=path, stream=stream) from error


def overtaken_error(table: PinnedTable) -> StateConflict:
    """Return the error of a run that another run has overtaken."""
    return StateConflict(
        "another run moved this stream's state while this one was reading; this run wrote nothing more. "
        "Run one sync of a pipeline at a time.",
        path=str(table.root),
        stream=table.stream,
    )
