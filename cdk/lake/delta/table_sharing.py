"""Tables that several pipelines write to: the other pipelines, their states, and which pipeline wrote rows last.

Each pipeline moves its own marker, `txn(spark-cdk/<pipeline>/<stream>)`, and keeps its states in its own folder beside
the table. A commit that changes rows moves the marker of the pipeline that made it, so the log tells its author.
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
    """The other pipelines that write to a stream's table, as of the version of the table's handle."""

    def __init__(self, table: PinnedTable) -> None:
        self._table = table

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def names(self) -> list[str]:
        """The pipelines that have committed to the table and have states beside it, sorted."""
        return [name for name in self._pipelines_of(self._table.stream) if name != self._table.pipeline]

    @property
    def generation(self) -> int:
        """The greatest generation in their newest readable states; 0: there are none."""
        return max((state.generation for _, state in self._states()), default=0)

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that each pipeline merges rows by; without pipelines whose state cannot be read."""
        return {name: state.keys for name, state in self._states()}

    @property
    def last_writer(self) -> str:
        """The pipeline that changed rows last, by the log; empty: the table's own pipeline, or the log cannot tell."""
        with suppress(FileNotFoundError):
            for version in range(self._table.version, -1, -1) if self else ():
                if (writer := self._writer(version)) is not None:
                    return writer
        return ""

    def writer_since(self, version: int) -> str | None:
        """Return another pipeline that changed rows after a version; empty: none has. None: the log cannot tell."""
        if not self:
            return ""
        try:
            return next(filter(None, map(self._writer, range(version + 1, self._table.version + 1))), "")
        except FileNotFoundError:
            return None

    @property
    def other_stream(self) -> str:
        """The other stream or history whose rows pipelines wrote to this table, as a phrase; empty: there is none."""
        stream, folder = self._table.stream, str(self._table.root).rpartition("/")[2]
        main = folder.removesuffix(HISTORY)
        if stream != folder and (names := self._pipelines_of(folder)):
            return f"the table of the stream {folder!r} of the pipeline {names[0]!r}"
        if stream == folder != main and (names := self._pipelines_of(f"{main}/history")):
            return f"the history of the stream {main!r} of the pipeline {names[0]!r}"
        return ""

    def _pipelines_of(self, stream: str) -> list[str]:
        """Return the pipelines that have committed to this table as the table of `stream` and have states beside it."""
        table = self._table
        with table.root.explaining(table.stream):
            names = sorted(table.root.join("_cdk_state").folders())
        return [name for name in names if table.marker_of(name, stream) is not None]

    def _writer(self, version: int) -> str | None:
        """Return the pipeline that made a commit; empty: the table's own. None: no pipeline, or no row changed.

        Raises FileNotFoundError: when the log was cleaned up.
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
