"""Tables that several pipelines fill: who the others are, where each stands, and whose rows a table has.

Each pipeline moves a marker of its own, `txn(spark-cdk/<pipeline>/<stream>)`, and has its states in a folder of its own
beside the table. Commits that change rows move the marker of who made them, so the log says whose they are.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from cdk.base.errors import StateError
from cdk.lake.delta.pinned_table import PinnedTable
from cdk.lake.delta.state_blobs import StateBlobs
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.table_files import commit_at
from cdk.lake.storage.table_folders import HISTORY


class OtherPipelines:
    """The pipelines other than its own that fill the table of a stream, as its handle sees them."""

    def __init__(self, table: PinnedTable) -> None:
        self._table = table

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def names(self) -> list[str]:
        """Those that have committed to the table and whose states lie beside it, sorted."""
        return [name for name in self._with_states(self._table.stream) if name != self._table.pipeline]

    @property
    def generation(self) -> int:
        """The greatest generation of their newest states; 0: there is none."""
        return max((state.generation for _, state in self._states()), default=0)

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """The columns by which they merge rows, by name; none of one whose state cannot be read."""
        return {name: state.keys for name, state in self._states()}

    @property
    def last_writer(self) -> str:
        """The one that changed rows last, by the log; empty: the table's own pipeline, or the log no longer says."""
        with suppress(FileNotFoundError):
            for version in range(self._table.version, -1, -1) if self else ():
                if (writer := self._writer(version)) is not None:
                    return writer
        return ""

    def writer_since(self, version: int) -> str | None:
        """One that has changed rows after a version; empty: none has. None: the log no longer says."""
        if not self:
            return ""
        try:
            return next(filter(None, map(self._writer, range(version + 1, self._table.version + 1))), "")
        except FileNotFoundError:
            return None

    @property
    def other_stream(self) -> str:
        """What else than its stream pipelines have filled the table with, in words; empty: nothing."""
        stream, folder = self._table.stream, str(self._table.root).rpartition("/")[2]
        main = folder.removesuffix(HISTORY)
        if stream != folder and (names := self._with_states(folder)):
            return f"the table of the stream {folder!r} of the pipeline {names[0]!r}"
        if stream == folder != main and (names := self._with_states(f"{main}/history")):
            return f"the history of the stream {main!r} of the pipeline {names[0]!r}"
        return ""

    def _with_states(self, stream: str) -> list[str]:
        """The pipelines that have committed to the table as that of `stream`, and whose states lie beside it."""
        table = self._table
        with table.root.explaining(table.stream):
            names = sorted(table.root.join("_cdk_state").folders())
        return [name for name in names if table.marker_of(name, stream) is not None]

    def _writer(self, version: int) -> str | None:
        """Who made the commit of a version; empty: the table's own pipeline. None: no pipeline, or no row changed.

        Raises FileNotFoundError: the log was cleaned up.
        """
        commit, table = commit_at(self._table.root, version), self._table
        if not (commit.changes_rows and commit.markers):
            return None
        others = [app for app in commit.markers if app != table.app]
        return others[0].removeprefix("spark-cdk/").removesuffix(f"/{table.stream}") if others else ""

    def _states(self) -> Iterator[tuple[str, TableState]]:
        table = self._table
        for name in self.names:
            marker = table.marker_of(name, table.stream)
            assert marker is not None
            with suppress(StateError):
                yield name, StateBlobs(table.root.join("_cdk_state", name), table.stream).load(marker)
