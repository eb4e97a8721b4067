"""A table's log, commit by commit, as far back as the log reaches."""

from collections.abc import Iterator
from datetime import UTC, datetime

import orjson
from msgspec import Struct

from cdk.base.errors import BadState
from cdk.lake.delta.receipt import RECEIPT, Receipt
from cdk.lake.delta.table_state import COMPLETE, NOTE, STATE_IGNORED, SYNC
from cdk.lake.parquet.table_files import LoggedCommit, commit_at, row_count_of, total_rows
from cdk.lake.storage.folder import Folder


class Commit(Struct, frozen=True):
    """A commit of a table."""

    version: int
    """The version of the table that it created."""
    at: datetime | None
    """When it was made, by the clock of the writer."""
    operation: str
    state: int | None = None
    """The version of the state that it moved the marker to; None: it did not move the state."""
    rows: int | None = 0
    """Rows that it added, by its receipt or its files; None: unknown, for example if it replaced files."""
    replaced: bool = False
    """Whether it removed files."""
    note: str = ""
    """What a person did to the state, or that a sync ignored the old state as configured."""
    sync: str = ""
    """The id of the sync that made it; empty: no sync did."""
    complete: bool = False
    """Whether it is of a sync whose state says that the stream was read to its end."""
    receipt: str = ""
    """Its receipt as JSON text; empty for a commit of another program."""

    @property
    def edit(self) -> str:
        """What its note says was done to the state; empty without a note."""
        return str(orjson.loads(self.note)["what"]) if self.note else ""


def commits(root: Folder, app: str, version: int) -> Iterator[Commit]:
    """Yield the commits up to `version`, newest first, as far back as the log goes. app: the marker's application."""
    for at in range(version, -1, -1):
        try:
            commit = commit_at(root, at)
        except FileNotFoundError:
            return
        timestamp, note = commit.info.get("timestamp"), str(commit.info.get(NOTE, ""))
        yield Commit(
            at,
            datetime.fromtimestamp(timestamp / 1000, UTC) if isinstance(timestamp, int) else None,
            commit.operation,
            state=commit.markers.get(app),
            rows=_added(commit),
            replaced=bool(commit.remove),
            note=note,
            # A state that a person has changed still names the sync that saved it.
            sync=str(commit.info.get(SYNC, "")) if note in ("", STATE_IGNORED) else "",
            complete=commit.info.get(COMPLETE) == "true",
            receipt=str(commit.info.get(RECEIPT, "")),
        )


def _added(commit: LoggedCommit) -> int | None:
    """Return the rows that a commit added; None: unknown."""
    if RECEIPT in commit.info:
        try:
            return Receipt.from_text(str(commit.info[RECEIPT]), "").added
        except BadState:
            return None
    if not commit.changes_rows:
        return 0
    # Another program's UPDATE rewrites existing rows, so its files do not tell; an overwrite adds only new rows.
    if commit.add and commit.remove and commit.operation != "WRITE":
        return None
    return total_rows([row_count_of(add) for add in commit.add.values()])
