"""What a table remembers of its stream between runs, and what a commit of it says in the log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deltalake import CommitProperties, Transaction

from cdk.base.values import JsonValue, Stored, to_json
from cdk.lake.delta.receipt import RECEIPT, Receipt
from cdk.lake.parquet.writer import DataFile
from cdk.state.stored_positions import apart, put_back

NOTE = "spark-cdk.note"
"""In the metadata of a commit: what a person did to the state."""

BEGUN_ANEW = '{"what":"ignore_old_state"}'
"""The one note that a sync makes: it forgets the state, as `state.ignore_old_state` says."""

SYNC = "spark-cdk.sync"
"""In the metadata of a commit: the id of the sync that made it."""

COMPLETE = "spark-cdk.complete"
"""In the metadata of a commit: whether its state is that of a stream read to its end, `true` or `false`."""

_NEWEST = 3
"""Files of a commit that are remembered: any one that is there still proves that its rows are."""

_SHOWN = 4096
"""Characters of a state in the metadata of its commit."""


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
    refreshing: bool = False
    """Whether an incremental read of this generation began that reads all again; it has ended where it is complete."""
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

    No time, as `newest_at` is. `StreamTable.commit` knows it.
    """
    records: int = 0
    """Records committed in this generation."""
    known: int | None = None
    """Rows that were visible when the read of this generation began, if stale rows are to leave.

    None: they were not counted.
    """
    known_at: int | None = field(default=None, compare=False)
    """The version of the table in which `known` rows were counted: rows of this generation came after it."""
    source: Mapping[str, JsonValue] | None = None
    """The validators of the responses that the rows came from (`cdk.sync.loop.conditional_state`).

    None: the sync did not ask for them.
    """
    start: JsonValue = field(default=None, compare=False)
    """Where the stream's cursor begins, as the sync had it that saved this; None: unknown."""
    lookback: float | None = field(default=None, compare=False)
    """How many seconds the stream's cursor looked back in the sync that saved this; None: unknown."""
    began: str | None = field(default=None, compare=False)
    """When the sync began that read the first of what this state goes on with, a timestamp; None: unknown."""
    window: Mapping[str, JsonValue] | None = field(default=None, compare=False)
    """The window that this read was begun for (`cdk.sync.loop.skip_windows`); None: for none, or it is unknown."""
    keys: tuple[str, ...] = field(default=(), compare=False)
    """The columns by which rows were merged, one for each key; none: they were not, or it is unknown."""
    rows: int | None = field(default=None, compare=False)
    """Rows of the table after this commit, by its log; None: the log does not count them."""
    table_id: str = field(default="", compare=False)
    """The id of the table, in the metadata of its log; empty: unknown. `StreamTable.commit` knows it."""
    newest: tuple[str, ...] = field(default=(), compare=False)
    """Some files of the newest commit that brought any, unless a later one removed them."""
    newest_at: int = field(default=0, compare=False)
    """When the last of `newest` was written, in milliseconds since 1970; no version, as `logged_at` is."""
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


def commit_properties(
    app: str, version: int, saved: TableState, receipt: Receipt, *, note: str = "", alone: bool = False
) -> CommitProperties:
    """What goes into the log with a commit that moves the marker of `app` to `version`; see `StreamTable.commit`."""
    metadata = {
        "spark-cdk.state": _for_people(saved),
        RECEIPT: receipt.to_text(),
        SYNC: saved.sync,
        COMPLETE: str(saved.complete).lower(),
    }
    return CommitProperties(
        custom_metadata={**metadata, NOTE: note} if note else metadata,
        app_transactions=[Transaction(app, version)],
        # delta-rs lets a file be removed that OPTIMIZE has removed before, by name or by an overwrite, and its rows
        # would be there twice (measured, 1.6): where files leave, no neighbour may come in between. Rows that are only
        # added it adds again beside those of neighbours, but not over a RESTORE, which sets the metadata.
        max_commit_retries=0 if alone else None,
    )


def _for_people(saved: TableState) -> str:
    """The state as the table's history shows it; never read back."""
    state, parts = apart(saved.state)
    for of, texts in parts.items():
        put_back(state, of, f"{len(texts):,} partitions")
    text = to_json(state).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
