"""Where the states of a pipeline's streams lie, and opening them without making a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cdk.base.errors import ConfigError
from cdk.base.suggestions import did_you_mean
from cdk.base.times.clock import Clock, system_clock
from cdk.lake.delta.row_history import RowHistory
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import is_table
from cdk.lake.storage.folder import Folder, LocalFolder
from cdk.lake.storage.table_folders import table_folders


@dataclass(frozen=True)
class StreamLocation:
    """A stream's table. history: where the table of all its rows lies, if there is one."""

    stream: str
    root: Folder
    namespace: str | None = None
    history: Folder | None = None

    @property
    def there(self) -> bool:
        """Whether there is a table."""
        return is_table(self.root, self.stream)

    @property
    def name(self) -> str:
        """The stream's name as people tell it from those of other namespaces."""
        return f"{self.namespace}.{self.stream}" if self.namespace else self.stream

    def app(self, pipeline: str) -> str:
        """Whose marker the table has."""
        return f"spark-cdk/{pipeline}/{self.stream}"

    def states(self, pipeline: str) -> Folder:
        """Where the files of the pipeline's states lie."""
        return self.root.join("_cdk_state", pipeline)

    def open(self, pipeline: str, *, clock: Clock = system_clock, lost: bool = False) -> StreamTable:
        """The table, which is there. Raises ConfigError, StateError and TransientError: see StreamTable."""
        return StreamTable(self.root, pipeline, self.stream, pa.schema([]), clock=clock, lost=lost)

    def settle(self, pipeline: str, table: StreamTable) -> None:
        """Add to the history what it lacks, before the table's state goes elsewhere. Raises what History does."""
        if self.history is not None and table.saved is not None:
            RowHistory(self.history, table, pipeline, self.stream).catch_up()


def locations_in(target: Folder, pipeline: str) -> list[StreamLocation]:
    """The tables below a folder that the pipeline has filled, by path. Raises ConfigError: it is none, or not there."""
    if not isinstance(target, LocalFolder):
        raise ConfigError("only in a folder can the tables be listed; name the streams", path=str(target))
    if not target.path.is_dir():
        raise ConfigError("there is no such folder; the first sync makes it", path=str(target))
    return [
        StreamLocation(path.name, LocalFolder(path), namespace, None if history is None else LocalFolder(history))
        for path, namespace, history in table_folders(target.path, pipeline)
    ]


def choose_locations(found: Sequence[StreamLocation], names: Sequence[str]) -> list[StreamLocation]:
    """Those that are named, all without names. Raises ConfigError: there is no such stream."""
    known = [name for one in found for name in (one.stream, one.name)]
    for name in names:
        if name not in known:
            there = did_you_mean(name, known) or f"; there are {', '.join(known) or 'none'}"
            raise ConfigError(f"no table of this pipeline belongs to a stream {name!r}{there}")
    return [one for one in found if not names or {one.stream, one.name} & set(names)]
