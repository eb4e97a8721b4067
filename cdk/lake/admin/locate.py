"""Finds the tables of a pipeline and the states beside them, and opens them without creating a table."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import DeltaError
from msgspec import Struct

from cdk.base.errors import ConfigError, StateError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.wording import did_you_mean
from cdk.lake.delta.pinned_table import app_of
from cdk.lake.delta.row_history import RowHistory
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import is_table, open_newest
from cdk.lake.storage.folder import Folder, LocalFolder
from cdk.lake.storage.table_folders import table_folders


class StreamLocation(Struct, frozen=True):
    """The location of a stream's table. history: the folder of its history, if it is to have one."""

    stream: str
    root: Folder
    namespace: str | None = None
    history: Folder | None = None

    @property
    def exists(self) -> bool:
        """Whether the folder of the stream holds a Delta table."""
        return is_table(self.root, self.stream)

    @property
    def name(self) -> str:
        """The stream's name, with its namespace if it has one."""
        return f"{self.namespace}.{self.stream}" if self.namespace else self.stream

    def nested(self) -> Folder | None:
        """Return a table around this one's folder, or inside it; None if there is none.

        Cleaning up the outer one, such as by a full VACUUM, would remove the files of the inner one.
        """
        around = [self.root.parent] if self.namespace else []
        inside = (self.root.join(name) for name in self.root.folders() if not name.startswith("_"))
        return next((folder for folder in chain(around, inside) if is_table(folder, self.stream)), None)

    def open(self, pipeline: str, *, clock: Clock = system_clock, allow_lost_state: bool = False) -> StreamTable:
        """Open the table, which must exist. Raises ConfigError, StateError and TransientError: see StreamTable."""
        return StreamTable(
            self.root, pipeline, self.stream, pa.schema([]), clock=clock, allow_lost_state=allow_lost_state
        )

    @property
    def of_history(self) -> "StreamLocation | None":
        """The location of the history, whether it exists or not; None: the stream has no history."""
        return None if self.history is None else StreamLocation(f"{self.stream}/history", self.history)


class OpenTables:
    """The tables of one run of a pipeline: each is opened once, and again only if another writer has committed.

    So a run uses one pinned handle of a table from its first read of the state to its last commit. Used by one thread.
    """

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self._tables: dict[Folder, StreamTable] = {}

    def existing(self, location: StreamLocation) -> StreamTable | None:
        """Return the stream's table, even if its state is lost (`StreamTable.lost_state`); None if it does not exist.

        Raises ConfigError and TransientError: see StreamTable.
        """
        table = self._tables.get(location.root)
        if table is not None and table.is_newest:
            return table
        if not location.exists:
            return None
        self._tables[location.root] = table = location.open(self.pipeline, allow_lost_state=True)
        return table

    def create(
        self,
        location: StreamLocation,
        schema: pa.Schema,
        partition_by: Sequence[str],
        *,
        allow_lost_state: bool = False,
    ) -> StreamTable:
        """Create the stream's table, which must not exist, with these columns.

        allow_lost_state: see StreamTable.

        Raises ConfigError, StateError and TransientError: see StreamTable.
        """
        table = StreamTable(
            location.root,
            self.pipeline,
            location.stream,
            schema,
            partition_by=partition_by,
            allow_lost_state=allow_lost_state,
        )
        self._tables[location.root] = table
        return table

    def history(self, location: StreamLocation, main: StreamTable, bounded: Sequence[str] = ()) -> RowHistory | None:
        """Return the history of a table, created with its columns if missing; None: the stream has no history.

        bounded: columns whose bounds go into the log. Raises ConfigError, StateError and TransientError: see
        StreamTable.
        """
        if (beside := location.of_history) is None:
            return None
        # The state of a history only saves work: without it, the history's rows tell what it has.
        table = self.existing(beside) or self.create(beside, main.schema, main.partition_by, allow_lost_state=True)
        return RowHistory(table, main, bounded)

    def complete_history(self, location: StreamLocation, main: StreamTable) -> None:
        """Add missing rows to the history before the table's state moves. Raises what `RowHistory.follow` raises."""
        if main.saved is not None and (history := self.history(location, main)) is not None:
            history.catch_up()


def locations_in(target: Folder, pipeline: str) -> list[StreamLocation]:
    """Return the pipeline's tables below a folder, by path. Raises ConfigError: when it is not local, or missing."""
    if (path := target.on_disk) is None:
        raise ConfigError("the tables of an object store cannot be listed; name the streams", path=str(target))
    if not path.is_dir():
        raise ConfigError("the folder does not exist; run a sync, which creates it", path=str(target))
    return [
        StreamLocation(
            each.path.name,
            LocalFolder(each.path),
            each.namespace,
            None if each.history is None else LocalFolder(each.history),
        )
        for each in table_folders(path, pipeline, partial(_is_marked, pipeline))
    ]


def unfilled(target: Folder, pipeline: str, streams: Collection[str]) -> list[StreamLocation]:
    """Return the tables below a folder that have states of the pipeline, but whose streams are not in `streams`.

    streams: with their namespaces. A history belongs to its stream, even before the first commit to that one's table.
    Empty if the tables cannot be listed, as in a store.
    """
    if (path := target.on_disk) is None or not path.is_dir():
        return []

    def is_marked(root: Path, stream: str) -> bool:
        return stream != root.name and _is_marked(pipeline, root, stream)  # tables without states do not matter here

    return [
        StreamLocation(each.path.name, LocalFolder(each.path), each.namespace)
        for each in table_folders(path, pipeline, is_marked)
        if StreamLocation(each.stream, LocalFolder(each.path), each.namespace).name not in streams
    ]


def _is_marked(pipeline: str, root: Path, stream: str) -> bool:
    """Whether a pipeline's stream has commits in the table in a folder; false if the table cannot be opened."""
    with suppress(ConfigError, StateError, DeltaError):
        return open_newest(LocalFolder(root), stream).transaction_version(app_of(pipeline, stream)) is not None
    return False


def choose_locations(locations: Sequence[StreamLocation], names: Sequence[str]) -> list[StreamLocation]:
    """Return the locations of the named streams; all if `names` is empty. Raises ConfigError: when one is missing."""
    stream_names = [name for location in locations for name in (location.stream, location.name)]
    for name in names:
        if name not in stream_names:
            hint = did_you_mean(name, stream_names) or f"; there are {', '.join(stream_names) or 'none'}"
            raise ConfigError(f"no table of this pipeline belongs to a stream {name!r}{hint}")
    return [location for location in locations if not names or {location.stream, location.name} & set(names)]
