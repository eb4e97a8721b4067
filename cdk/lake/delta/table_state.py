"""What a table remembers of its stream between runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdk.base.values import JsonValue, Stored
from cdk.lake.parquet.writer import DataFile

_NEWEST = 3
"""Files of a commit that are remembered."""


@dataclass(frozen=True)
class TableState:
    """What a table remembers of its stream between runs."""

    sync_mode: str
    write_mode: str
    sync: str = ""
    """The sync that saved it."""
    generation: int = 1
    """Counts full refreshes; each row carries it."""
    complete: bool = False
    """Whether the last sync of this generation reached the end."""
    state: Stored = None
    """The stream's state in its exact wire form."""
    pending: tuple[DataFile, ...] = ()
    """Files of a generation that is not visible yet."""
    logged: tuple[DataFile, ...] | None = field(default=None, compare=False)
    """Files that this commit names for the history of the table, as `StreamTable.commit` knows them.

    Empty: rows came, and there is no history. None: no rows came.
    """
    logged_at: int | None = field(default=None, compare=False)
    """The version of the last state before this one that brought rows, also where a RESTORE has undone it.

    `StreamTable.commit` knows it.
    """
    records: int = 0
    """Records committed in this generation."""
    known: int | None = None
    """Rows that were visible when the read of this generation began, if stale rows are to leave.

    None: nobody counted them.
    """
    source: Mapping[str, JsonValue] | None = None
    """The validators of the responses that the rows came from (`cdk.sync.loop.conditional_state`).

    None: the sync did not ask for them.
    """
    start: JsonValue = field(default=None, compare=False)
    """Where the stream's cursor begins, as the sync had it that saved this; None: nobody knows."""
    rows: int | None = field(default=None, compare=False)
    """Rows of the table after this commit, by its log; None: the log does not count them."""
    newest: tuple[str, ...] = field(default=(), compare=False)
    """Some files of the newest commit that brought any, unless a later one removed them."""
    newest_at: int = field(default=0, compare=False)
    """When the last of `newest` was written, in milliseconds since 1970."""
    history: tuple[int, ...] = field(default=(), compare=False)
    """Versions of earlier states, newest first."""

    def with_newest(
        self, files: Sequence[DataFile], before: "TableState | None", stays: Callable[[str], bool]
    ) -> "TableState":
        """This state with the files of the newest commit that brought any: of this one, or what stays of them."""
        if files:
            newest = files[-_NEWEST:]
            at = max(file.modified for file in newest)
            return replace(self, newest=tuple(file.path for file in newest), newest_at=at)
        if before is None:
            return replace(self, newest=(), newest_at=0)
        return replace(self, newest=tuple(filter(stays, before.newest)), newest_at=before.newest_at)
