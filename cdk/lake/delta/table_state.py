"""The state that a table stores for its stream between runs, and the metadata that a commit puts into the log."""

from collections.abc import Collection, Mapping, Sequence

from deltalake import CommitProperties, Transaction
from msgspec import Struct
from msgspec.structs import replace

from cdk.base.values import JsonValue, Stored, to_json
from cdk.lake.delta.receipt import RECEIPT, Receipt
from cdk.lake.parquet.writer import DataFile
from cdk.state.stored_positions import insert_entries, split_entries

NOTE = "spark-cdk.note"
"""In the metadata of a commit: what a person did to the state."""

STATE_IGNORED = '{"what":"ignore_old_state"}'
"""The only note that a sync itself writes: it ignores the old state, as `state.ignore_old_state` requests."""

SYNC = "spark-cdk.sync"
"""In the metadata of a commit: the id of the sync that made it."""

COMPLETE = "spark-cdk.complete"
"""In the metadata of a commit: whether its state says that the stream was read to its end, `true` or `false`."""

_NEWEST = 3
"""How many files of a commit a state names: if one of them still exists, so do the rows of the commit."""

_SHOWN = 4096
"""Maximum number of characters of the state in the metadata of its commit."""


class TableState(Struct, frozen=True):
    """The state that a table stores for its stream between runs."""

    sync_mode: str
    write_mode: str
    sync: str = ""
    """The id of the sync that saved this state."""
    generation: int = 1
    """Number of the generation, which counts full refreshes; each row carries it."""
    complete: bool = False
    """Whether the last sync of this generation read the stream to its end."""
    refreshing: bool = False
    """Whether an incremental read of this generation reads everything again; if `complete`, it has ended."""
    state: Stored = None
    """The stream's state in its exact wire form."""
    pending: tuple[DataFile, ...] = ()
    """Files of a generation that is not visible yet."""
    logged: tuple[DataFile, ...] | None = None
    """Files that this commit names for the table's history; set by `StreamTable.commit`.

    Empty: the commit added rows, but there is no history. None: the commit added no rows.
    """
    logged_version: int | None = None
    """The version of the last earlier state that added rows, even if a RESTORE has undone it.

    Not a time, unlike `newest_ms`. Set by `StreamTable.commit`.
    """
    records: int = 0
    """Records committed in this generation."""
    rows_before: int | None = None
    """Rows that were visible when the read of this generation started, if stale rows are to be removed.

    None: they were not counted.
    """
    rows_before_version: int | None = None
    """The table version in which `rows_before` was counted; rows of this generation were added after it."""
    source: Mapping[str, JsonValue] | None = None
    """The validators of the responses that the rows came from (`cdk.sync.tables.conditional_state`).

    None: the sync did not request them.
    """
    start: JsonValue = None
    """The start value of the stream's cursor in the sync that saved this state; None: unknown."""
    lookback: float | None = None
    """The lookback of the stream's cursor in the sync that saved this state, in seconds; None: unknown."""
    request: str = ""
    """The fingerprint of the stream's request in the sync that saved this state; empty: unknown."""
    started_at: str | None = None
    """When the sync started that read the first records this state continues from, a timestamp; None: unknown."""
    window: Mapping[str, JsonValue] | None = None
    """The window that this read was started for (`cdk.sync.tables.skip_windows`); None: no window, or unknown."""
    keys: tuple[str, ...] = ()
    """The columns that rows were merged by, one for each key; empty: rows were not merged, or unknown."""
    json_keys: tuple[str, ...] = ()
    """The columns of the primary key that hold JSON text in some rows.

    If rows were merged, the kit spelled it, else the source.
    """
    rows: int | None = None
    """Rows of the table after this commit, according to its log; None: the log does not count them."""
    table_id: str = ""
    """The table's id from the metadata of its log. Set by `StreamTable.commit`."""
    newest: tuple[str, ...] = ()
    """Some files of the newest commit that added any, without those that a later commit removed."""
    newest_ms: int = 0
    """When the last of `newest` was written, in milliseconds since 1970; not a version, unlike `logged_version`."""
    newest_ids: tuple[str, ...] = ()
    """The ids of some rows that the newest commit added that added any; empty: unknown."""
    history: tuple[int, ...] = ()
    """Versions of earlier states, newest first."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableState) and self._compared == other._compared

    __hash__ = None  # type: ignore[assignment] # states are objects

    @property
    def _compared(self) -> tuple[object, ...]:
        """What two equal states have in common; the other fields describe the commits that saved them."""
        settings = self.sync_mode, self.write_mode, self.sync, self.generation, self.complete, self.refreshing
        return *settings, self.state, self.pending, self.records, self.rows_before, self.source

    def with_newest(
        self,
        files: Sequence[DataFile],
        added: Sequence[DataFile],
        before: "TableState | None",
        leaving: Collection[str] | None,
        *,
        moves_rows: bool,
    ) -> "TableState":
        """Return this state with `newest` set: from `files`, or if empty, the files of `before` that stay.

        added: files with the rows that the commit adds. leaving: paths of the files that it removes; None: all.
        moves_rows: whether it adds or removes rows.
        """
        ids = tuple(file.last_id for file in added if file.last_id)[-_NEWEST:]
        if before is not None and not moves_rows:
            ids = before.newest_ids
        newest = files[-_NEWEST:]
        paths, written_ms = tuple(file.path for file in newest), max((file.modified for file in newest), default=0)
        if before is not None and not added:
            paths, written_ms = (
                tuple(f for f in before.newest if leaving is not None and f not in leaving),
                before.newest_ms,
            )
        return replace(self, newest=paths, newest_ms=written_ms, newest_ids=ids)


def commit_properties(
    app: str, version: int, saved: TableState, receipt: Receipt, *, note: str = "", exclusive: bool = False
) -> CommitProperties:
    """Return the properties of a commit that moves the marker of `app` to `version`; see `StreamTable.commit`."""
    metadata = {
        "spark-cdk.state": _state_text(saved),
        RECEIPT: receipt.to_text(),
        SYNC: saved.sync,
        COMPLETE: str(saved.complete).lower(),
    }
    return CommitProperties(
        custom_metadata={**metadata, NOTE: note} if note else metadata,
        app_transactions=[Transaction(app, version)],
        # delta-rs accepts the removal, by name or by an overwrite, of a file that OPTIMIZE has already removed, and its
        # rows would be duplicated (measured, 1.6): where files are removed, no other writer may commit in between.
        # For commits that only add rows, it retries after other writers' commits, but not after a RESTORE, which sets
        # the metadata.
        max_commit_retries=0 if exclusive else None,
    )


def _state_text(saved: TableState) -> str:
    """Return the state as shown in the table's Delta history; the kit never reads it back."""
    state, parts = split_entries(saved.state)
    for of, texts in parts.items():
        insert_entries(state, of, f"{len(texts):,} partitions")
    text = to_json(state).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
