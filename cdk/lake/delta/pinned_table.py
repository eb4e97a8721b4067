"""A table read through one pinned handle: its columns, files and marker as of the handle's version.

The handle stays at its version until it is reopened, so a commit builds on exactly what the run has read: the log
refuses a commit through a handle that another run has overtaken (`cdk.lake.delta.stream_table`). This module has what
needs no state: opening and creating tables, columns and features, files and rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures
from deltalake.exceptions import DeltaError

from cdk.base.errors import ConfigError, StateError, TransientError
from cdk.base.times.clock import Clock
from cdk.lake.arrow.columns import RAW_ID
from cdk.lake.arrow.type_promotion import leaves
from cdk.lake.delta.compaction import join_small_files
from cdk.lake.delta.table_guard import Guard, guard_of, open_newest
from cdk.lake.parquet.partitioning import check_columns, check_same
from cdk.lake.parquet.table_files import (
    FilledColumns,
    LoggedFile,
    TableFile,
    damaged_files,
    files_of,
    filled_columns,
    logged_files,
    missing_files,
    oldest,
    total_rows,
)
from cdk.lake.parquet.table_rows import TableLayout, without_encoding
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder, as_folder


def app_of(pipeline: str, stream: str) -> str:
    """Return the Delta application id whose transaction version is the marker of a pipeline's stream."""
    return f"spark-cdk/{pipeline}/{stream}"


class TableChanged(TransientError):
    """Another writer, such as OPTIMIZE, committed first. Nothing was committed; the caller retries on the new files."""


class FilesMissing(TransientError):
    """Files of a commit are missing or were altered. Nothing was committed; the slices must be read again."""

    def __init__(self, missing: Sequence[str], count: int, *, stream: str, path: str) -> None:
        super().__init__(
            f"{len(missing)} of {count} files of a commit are missing or were altered, such as {missing[0]}. "
            "VACUUM removes files that no version names yet if they are older than its retention, which may be 0 "
            "hours. Nothing was committed; run VACUUM while no sync runs, or with a longer retention",
            stream=stream,
            path=path,
        )


class PinnedTable:
    """A Delta table, opened for one run and read through one handle."""

    def __init__(
        self,
        root: Folder | Path,
        pipeline: str,
        stream: str,
        schema: pa.Schema,
        *,
        clock: Clock,
        partition_by: Sequence[str] | None,
    ) -> None:
        """Open the table, or create it with `schema`. pipeline: the pipeline whose marker is read.

        partition_by: the partition columns; None: the existing ones, or no columns for a new table.

        Raises ConfigError: when the store refuses access, the table has other partition columns, or these are invalid.
        StateError: when the table does not exist, and `schema` has no columns. TransientError: when the store does not
        respond.
        """
        self.root = as_folder(root)
        self.pipeline, self.stream, self._clock = pipeline, stream, clock
        self.app = app_of(pipeline, stream)
        """The Delta application id whose transaction version is the marker."""
        if unquote(self.root.uri) != str(self.root):
            raise ConfigError("delta-rs cannot open a path with %; choose another one", path=str(root), stream=stream)
        with self.root.explaining(stream):
            uri, options = self.root.uri, self.root.storage_options
            if not DeltaTable.is_deltatable(uri, options):
                if not schema.names:
                    raise StateError("nothing was committed for this stream yet: there is no state", stream=stream)
                self.root.make()
                check_columns(schema, partition_by or (), self._partition_setting)
                self._create(schema, partition_by or ())
            self._handle = open_newest(self.root, stream)
        self.partition_by = tuple(self._handle.metadata().partition_columns)
        if partition_by is not None:
            self.check_partition_by(partition_by)
        self.seen_marker = self._marker()
        """The pipeline's own marker as the handle last read it."""
        self._guard: tuple[int, Guard] | None = None

    def check_partition_by(self, columns: Sequence[str]) -> None:
        """Raise ConfigError when the table is partitioned by other columns."""
        check_same(self.partition_by, tuple(columns), self._partition_setting, str(self.root))

    @property
    def _partition_setting(self) -> str:
        return f"streams.{self.stream.partition('/')[0]}.partition_by"

    def _create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Create the table; if another sync creates it at the same moment, keep that table's schema."""
        uri, options = self.root.uri, self.root.storage_options
        try:
            # If delta-rs 1.6 retried, it would overwrite the metadata of the table that exists by then.
            DeltaTable.create(
                uri,
                schema,
                mode="ignore",
                partition_by=list(partition_by) or None,
                configuration=self.root.table_settings,
                storage_options=options,
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (DeltaError, OSError):
            if not DeltaTable.is_deltatable(uri, options):
                raise

    def reopen(self) -> None:
        """Move the handle to the newest version, and read the marker again."""
        with self.root.explaining(self.stream):
            self._handle = open_newest(self.root, self.stream)
        self.seen_marker = self._marker()

    def _marker(self) -> int | None:
        """Return the marker at the handle's version. Each call reads the log: the handle does not cache markers."""
        return self.marker_of(self.pipeline, self.stream)

    def marker_of(self, pipeline: str, stream: str) -> int | None:
        """Return the marker of any pipeline's stream at the handle's version; None: it has never committed here."""
        with self.root.explaining(self.stream):
            marker: int | None = self._handle.transaction_version(app_of(pipeline, stream))
        return marker

    def state_error(self, text: str) -> StateError:
        """Return an error about this table and its state."""
        return StateError(text, path=str(self.root), stream=self.stream)

    @property
    def version(self) -> int:
        """The Delta version of the table that the handle is pinned to."""
        return int(self._handle.version())

    @property
    def table_id(self) -> str:
        """The id in the table's metadata at the handle's version; CREATE OR REPLACE TABLE changes it."""
        return str(self._handle.metadata().id)

    @property
    def is_newest(self) -> bool:
        """Whether no writer has committed since the version that the handle is pinned to."""
        with self.root.explaining(self.stream):
            return not self.root.join("_delta_log").has([f"{self.version + 1:020}.json"])

    @property
    def guard(self) -> Guard:
        """The operations that the table allows at the handle's version."""
        if self._guard is None or self._guard[0] != self.version:
            self._guard = (self.version, guard_of(self._handle, str(self.root), self.stream))
        return self._guard[1]

    @property
    def schema(self) -> pa.Schema:
        """The table's columns at the handle's version."""
        return pa.schema(self._handle.schema().to_arrow())

    def allow_types(self, schema: pa.Schema) -> None:
        """Enable the table feature for timestamps without a zone if `schema` needs it: no commit does so by itself."""
        if any(map(_zoneless, schema.types)) and not any(map(_zoneless, self.schema.types)):
            features = [TableFeatures.TimestampWithoutTimezone]
            with self.root.explaining(self.stream):
                self._handle.alter.add_feature(features, allow_protocol_versions_increase=True)
                self._handle.update_incremental()
            self.seen_marker = self._marker()

    def add(self, columns: Sequence[pa.Field]) -> None:
        """Add columns, or fields of struct columns, without rewriting existing files.

        This is a separate commit, which does not move the state. Raises TableChanged: when another writer committed
        first; the table has been reopened and may have some of the columns with other types: plan them again.
        """
        version, schema = self.version, self.schema
        missing = [c for c in columns if c.name not in schema.names or schema.field(c.name).type != c.type]
        if not missing:
            return
        try:
            self._handle.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
            self._handle.update_incremental()
            self.seen_marker = self._marker()
        except (DeltaError, OSError) as error:
            self.reopen()
            if self.version == version:
                raise self.root.explain(error, self.stream) from None
            changed = "another writer has changed the table"
            raise TableChanged(changed, detail=str(error), path=str(self.root)) from error

    def layout(self, bounded: Sequence[str] = ()) -> TableLayout:
        """Return what tasks need to write files for the table. bounded: columns whose bounds go into the log."""
        return TableLayout(self.root, self.schema, tuple(bounded), self.partition_by)

    def files(self, *keys: str) -> list[TableFile]:
        """Return the files of the version that the handle is pinned to. keys: see `files_of`."""
        with self.root.explaining(self.stream):
            return files_of(self._handle, *keys)

    def oldest(self) -> tuple[int, dict[str, LoggedFile]]:
        """Return the oldest version whose files are known, and its files; see `table_files.oldest`."""
        with self.root.explaining(self.stream):
            return oldest(self.root, self._handle)

    def filled_columns(self) -> FilledColumns:
        """Return which columns have values in the version that the handle is pinned to."""
        with self.root.explaining(self.stream):
            return filled_columns(self._handle)

    def row_count(self, paths: Sequence[str] | None = None) -> int | None:
        """Return the row count of the table, or of some of its files, by its log; None: the log does not count them."""
        if paths is not None and not paths:
            return 0
        with self.root.explaining(self.stream):
            files = logged_files(self._handle)
        return total_rows([files[path].visible_rows for path in (files if paths is None else paths)])

    @property
    def has_synced_rows(self) -> bool:
        """Whether some of the rows were written by a sync: those have an `_airbyte_raw_id`."""
        if RAW_ID not in self.schema.names:
            return False
        return any(batch.column(0).null_count < len(batch) for batch in self.scan([RAW_ID]))

    def reopen_if_files_are_missing(self) -> bool:
        """Move the handle to the newest version if files of its version are missing; return whether they were.

        Raises StateError: when files of the newest version are missing, too.
        """
        with self.root.explaining(self.stream):
            if not missing_files(self.root, [file.path for file in self.files()]):
                return False
            self.reopen()
            missing = missing_files(self.root, [file.path for file in self.files()])
        if missing:
            raise self.state_error(
                f"version {self.version} of the table names {len(missing)} files that no longer exist, such as "
                f"{missing[0]}: it cannot be read. Restore the files, or the table to a version whose files exist"
            )
        return True

    def check_files(self, files: Sequence[DataFile]) -> None:
        """Raise FilesMissing unless these files exist in the table's folder with the size they were written with."""
        with self.root.explaining(self.stream):
            missing = damaged_files(self.root, files)
        if missing:
            raise FilesMissing(missing, len(files), stream=self.stream, path=str(self.root))

    def scan(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns of all rows as a reader that supports the table's features sees them, in any order."""
        with self.root.explaining(self.stream):
            for batch in pa.RecordBatchReader.from_stream(self._handle.scan(columns=list(names))):
                yield without_encoding(batch).select(list(names))

    @contextmanager
    def removing_if_changed(self, files: Iterable[DataFile]) -> Iterator[None]:
        """Remove `files`, written for a commit inside this block, if that commit raises TableChanged."""
        try:
            yield
        except TableChanged:
            for file in files:
                self.root.delete(file.path)
            raise

    def compact(self) -> int:
        """Join small files if there are many, for each partition separately; return how many were joined.

        This is a separate commit, which changes neither rows nor state; VACUUM removes the old files later. Raises
        StateError, and what a store raises.
        """
        with self.root.explaining(self.stream):
            return join_small_files(self._handle, self.root, self._clock())


def _zoneless(kind: pa.DataType) -> bool:
    """Whether a type is, or contains, a timestamp without a zone."""
    return any(pa.types.is_timestamp(part) and part.tz is None for part in leaves(kind))
