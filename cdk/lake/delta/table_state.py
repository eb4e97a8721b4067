"""What a table remembers of its stream between runs."""

from dataclasses import dataclass, field

from cdk.base.values import Json
from cdk.lake.parquet.writer import DataFile


@dataclass(frozen=True)
class TableState:
    """What a table remembers of its stream between runs.

    sync: the sync that saved it. generation: counts full refreshes; rows carry it. complete: the last sync of this
    generation reached the end. state: the stream's state in its exact wire form. pending: files of a generation that
    is not yet visible. logged: files that this commit names for the history of the table; empty: rows came, and there
    is no history; None: no rows came. logged_at: the version of the last state before that brought rows. Both are what
    `StreamTable.commit` makes them. records: rows committed in this generation. history: versions of earlier states,
    newest first. known: rows that were shown when the read of this generation began, where rows that it does not see
    are to leave; None: nobody counted them. source: what the source said of the answers that the rows came from
    (`cdk.sync.loop.conditional_state`); None: nobody asked. rows: of the table after this commit, by its log; None: it
    does not say. newest: some files of the newest commit that brought any, unless a later one took them away;
    newest_at: when the last of them was written, in milliseconds since 1970. All three are what `StreamTable.commit`
    makes them.
    """

    sync_mode: str
    write_mode: str
    sync: str = ""
    generation: int = 1
    complete: bool = False
    state: Json = None
    pending: tuple[DataFile, ...] = ()
    logged: tuple[DataFile, ...] | None = field(default=None, compare=False)
    logged_at: int | None = field(default=None, compare=False)
    records: int = 0
    known: int | None = None
    source: Json = None
    rows: int | None = field(default=None, compare=False)
    newest: tuple[str, ...] = field(default=(), compare=False)
    newest_at: int = field(default=0, compare=False)
    history: tuple[int, ...] = field(default=(), compare=False)
