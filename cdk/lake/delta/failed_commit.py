"""Handles errors of a commit: the store may have made the commit although its response was lost.

The table is reopened, and its marker says whether the commit was made or another run committed first. If neither, the
error means what it says, or another writer has changed the table meanwhile.
"""

import re
from collections.abc import Callable

from cdk.base.errors import ConfigError, StateConflict, StateError
from cdk.lake.delta.pinned_table import PinnedTable, TableChanged

_CONSTRAINT_ERROR = re.compile("failed validation check|declared as non-nullable")
"""Matches the errors of delta-rs for rows that violate a constraint."""


def look_again(
    table: PinnedTable, error: Exception, marker: int, before: int | None, forget: Callable[[], None]
) -> None:
    """Reopen the table after an error of a commit, and raise what the error means unless the commit was made.

    marker: the marker that the commit sets. before: the marker before it. forget: removes the draft of the commit's
    state, which no commit will name.
    """
    path, stream = str(table.root), table.stream
    explained, version = table.root.explain(error, stream), table.version
    try:
        table.reopen()
    except StateError:
        forget()
        raise
    if table.seen_marker == marker:
        return
    cause = error if explained is error else None
    if table.seen_marker != before:
        raise overtaken(table) from cause
    refused = _CONSTRAINT_ERROR.search(str(error)) is not None
    if refused or (cause is not None and table.version != version):
        # Beside the rows of a table without a marker, a draft would look as if the marker had been lost.
        forget()
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


def overtaken(table: PinnedTable) -> StateConflict:
    """Return the error of a run that another run has overtaken."""
    return StateConflict(
        "another run moved this stream's state while this one was reading; this run wrote nothing more. "
        "Run one sync of a pipeline at a time.",
        path=str(table.root),
        stream=table.stream,
    )
