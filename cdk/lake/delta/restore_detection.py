"""Which state belongs to the rows of a table: that of its marker, unless the table was restored since.

RESTORE brings the rows of an older version back and leaves the marker where it was. The log is read backwards, over
each RESTORE to the version it went to, until a commit is met that moved the marker. Where the log was cleaned up before
that, it proves nothing; then the table's rows have to (`StreamTable`).
"""

from typing import NamedTuple

from cdk.base.errors import StateError
from cdk.lake.parquet.table_files import actions, changes_rows
from cdk.lake.storage.folder import Folder


class RowsState(NamedTuple):
    """Which state belongs to a table's rows, and what has become of their files since.

    version: of the state; None: they have none. certain: the log says so; where it was cleaned up, the state may be
    that of other rows. moves: the versions since that state, newest first, whose commits say that rows only move from
    file to file; those that a RESTORE has undone are not among them.
    """

    version: int | None
    certain: bool
    moves: tuple[int, ...] = ()


def state_of_rows(root: Folder, stream: str, app: str, *, version: int, marker: int) -> RowsState:
    """What the log says of the rows of the table's `version`.

    app: the application of the marker. marker: its version. Raises StateError: the log cannot decide.
    """
    at, restored = version, False
    moves: list[int] = []
    while at >= 0:
        try:
            lines = actions(root, at)
        except FileNotFoundError:
            if not restored:
                return RowsState(marker, certain=False, moves=tuple(moves))
            why = f"the log no longer has version {at}, to which the table was restored"
            raise _unknown(why, root, stream) from None
        for line in lines:
            if line.get("txn", {}).get("appId") == app:
                return RowsState(line["txn"]["version"], certain=True, moves=tuple(moves))
        if any("add" in line for line in lines) and not changes_rows(lines):
            moves.append(at)
        at -= 1
        for info in (line.get("commitInfo", {}) for line in lines):
            if info.get("operation") == "RESTORE":
                to, restored = info.get("operationParameters", {}).get("version"), True
                if to is None:
                    why = "the table was restored to a timestamp; restore it to a version, by its number"
                    raise _unknown(why, root, stream)
                at = int(to)
    return RowsState(None if restored else marker, certain=True, moves=tuple(moves))


def _unknown(why: str, root: Folder, stream: str) -> StateError:
    message = f"the state of the table's rows is unknown: {why}"
    return StateError(message, path=str(root), stream=stream)
