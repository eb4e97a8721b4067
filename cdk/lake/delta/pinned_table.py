"""A table through one pinned handle: its columns and files in the version that the handle has read, and its marker.

The handle stays at its version until something opens it anew, so what a run has looked at is what its commit builds on:
the log refuses a commit through a handle that another run has overtaken (`cdk.lake.delta.stream_table`). Here is what
needs no state: opening and creating, columns and features, files and rows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures
from deltalake.exceptions import DeltaError

from cdk.base.errors import ConfigError, StateError, TransientError
from cdk.base.logs import logger
from cdk.base.times.clock import Clock
from cdk.lake.arrow.columns import RAW_ID
from cdk.lake.arrow.type_promotion import leaves
from cdk.lake.delta.compaction import join_small_files
from cdk.lake.delta.table_guard import Guard, TableGone, guard_of, is_table, open_newest
from cdk.lake.parquet.partitioning import check_columns, check_same
from cdk.lake.parquet.rewrite import TableLayout
from cdk.lake.parquet.table_files import (
    FilledColumns,
    TableFile,
    files_of,
    filled_columns,
    logged_files,
    lost_files,
    missing_files,
    total_rows,
)
from cdk.lake.parquet.table_rows import without_encoding
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder, as_folder

ATTEMPTS = 5
"""How often a commit is tried while other writers overtake it."""

LOST_IN_A_ROW = 3
"""How often in a row files may be gone, until that ends a stream."""

T = TypeVar("T")


def app_of(pipeline: str, stream: str) -> str:
    """The application, as Delta calls it, whose transaction version is the marker of a stream of a pipeline."""
    return f"spark-cdk/{pipeline}/{stream}"


class TableChanged(TransientError):
    """Another writer, such as OPTIMIZE, committed first. Nothing is committed; repeat it on the present files."""


def repeat_if_changed(table: "PinnedTable", attempt: Callable[[], T]) -> T:
    """Run `attempt`, five times at most, while it fails because another writer has changed the table.

    attempt: lists the table's files anew, and removes what it wrote when it raises TableChanged. Files that vanish
    while it reads them are a change, too: OPTIMIZE replaces files, and VACUUM removes the replaced ones.
    Raises TableChanged: the last attempt failed so, too. StateError: the table's newest version names missing files.
    """
    for attempts_left in reversed(range(ATTEMPTS)):
        try:
            return attempt()
        except TableChanged as error:
            if not attempts_left:
                raise TableChanged(
                    f"something else has changed the table each of the {ATTEMPTS} times that a commit was to be made; "
                    "nothing of it counts, and the next sync reads again what it held. Run the sync again, at a time "
                    "when jobs such as OPTIMIZE, or other syncs, do not write to this table all the while",
                    detail=error.detail,
                    path=error.path,
                ) from error
            logger.warning("%s; doing it again", error)
        except Exception as error:
            if not attempts_left or not table.lost_files():
                raise
            logger.warning(
                "%s: files of the table vanished while they were read (%s); doing it again", table.root, error
            )
    raise AssertionError("the last attempt returns or raises")


class FilesGone(TransientError):
    """Files of a commit are missing, or not as they were written. Nothing is committed; read the slices again."""

    def __init__(self, missing: Sequence[str], count: int, *, stream: str, path: str) -> None:
        super().__init__(
            f"{len(missing)} of {count} files that a commit was to name are gone, or not as they were written, such as "
            f"{missing[0]}. VACUUM removes files that no version names yet when they are older than its retention, 0 "
            "hours for example. Nothing was committed; run VACUUM while no sync runs, or with a longer retention",
            stream=stream,
            path=path,
        )


class FileLosses:
    """How often in a row files of a stream were gone."""

    def __init__(self, root: Folder, stream: str) -> None:
        self._root, self._stream = root, stream
        self._in_a_row, self._before_commit = 0, False

    def before_commit(self, error: FilesGone) -> None:
        """Note that files were gone before the next commit, which counts as one with a loss of its own.

        Raises `error` where it is the last one in a row that may be, and TableGone: they were lost with their table.
        """
        self._before_commit = True
        self.note(error)

    def committed(self, error: FilesGone | None = None) -> None:
        """Note how a commit went. Raises as `before_commit`."""
        before, self._before_commit = self._before_commit, False
        if error is not None:
            self.note(error, again=before)
        elif not before:
            self._in_a_row = 0

    def note(self, error: FilesGone, *, again: bool = False) -> None:
        """Note that files were gone. again: that was noted before. Raises as `before_commit`."""
        if not is_table(self._root, self._stream):
            raise TableGone(self._root, self._stream)
        self._in_a_row += not again
        if self._in_a_row >= LOST_IN_A_ROW:
            raise error
        logger.warning("%s: %s; reading again what they held", self._stream, error)


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
        """Open the table, or create it with `schema`. pipeline: the one whose marker is the table's here.

        partition_by: its partition columns; None: those that it has, none for a new table.

        Raises ConfigError: a store refuses, the table has other partition columns, or these cannot be. TransientError:
        a store does not answer.
        """
        self.root = as_folder(root)
        self.pipeline, self.stream, self._clock = pipeline, stream, clock
        self.app = app_of(pipeline, stream)
        """The application whose transaction version is the marker."""
        if unquote(self.root.uri) != str(self.root):
            raise ConfigError("delta-rs cannot open a path with %; choose another one", path=str(root), stream=stream)
        with self.root.explaining(stream):
            self.root.make()
            uri, options = self.root.uri, self.root.storage_options
            if not DeltaTable.is_deltatable(uri, options):
                check_columns(schema, partition_by or (), self._partition_setting)
                self._create(schema, partition_by or ())
            self._handle = self._new_handle()
        self.partition_by = tuple(self._handle.metadata().partition_columns)
        if partition_by is not None:
            self.check_partition_by(partition_by)
        self.seen_marker = self._marker()
        """The pipeline's own marker, as the handle saw it last."""
        self._guard: tuple[int, Guard] | None = None

    def check_partition_by(self, columns: Sequence[str]) -> None:
        """Raise ConfigError: other columns divide the table."""
        check_same(self.partition_by, tuple(columns), self._partition_setting, str(self.root))

    @property
    def _partition_setting(self) -> str:
        return f"streams.{self.stream.partition('/')[0]}.partition_by"

    def _create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Create the table, unless another sync does so at this moment: its schema then stays as it is."""
        uri, options = self.root.uri, self.root.storage_options
        try:
            # Tried again, delta-rs 1.6 would describe the table that is there now as this one.
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

    def _new_handle(self) -> DeltaTable:
        return open_newest(self.root, self.stream)

    def reopen(self) -> None:
        """Move the handle to the newest version, and read the marker again."""
        with self.root.explaining(self.stream):
            self._handle = self._new_handle()
        self.seen_marker = self._marker()

    def _marker(self) -> int | None:
        """The marker that the handle sees. Asking reads the log anew: the handle keeps none of it."""
        return self.marker_of(self.pipeline, self.stream)

    def marker_of(self, pipeline: str, stream: str) -> int | None:
        """The marker of a stream of any pipeline, as the handle sees it; None: it has not committed to this table."""
        with self.root.explaining(self.stream):
            marker: int | None = self._handle.transaction_version(app_of(pipeline, stream))
        return marker

    @property
    def version(self) -> int:
        """The table's version, as Delta counts it."""
        return int(self._handle.version())

    @property
    def table_id(self) -> str:
        """The id in the table's metadata, as the handle sees it; CREATE OR REPLACE TABLE gives it another one."""
        return str(self._handle.metadata().id)

    @property
    def is_newest(self) -> bool:
        """Whether no writer has committed since the version that the handle is pinned to."""
        with self.root.explaining(self.stream):
            return not self.root.join("_delta_log").has([f"{self.version + 1:020}.json"])

    @property
    def guard(self) -> Guard:
        """What may be done to the table, as the handle sees it."""
        if self._guard is None or self._guard[0] != self.version:
            self._guard = (self.version, guard_of(self._handle, str(self.root), self.stream))
        return self._guard[1]

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, as the handle sees them."""
        return pa.schema(self._handle.schema().to_arrow())

    def allow_types(self, schema: pa.Schema) -> None:
        """Turn on what timestamps without a zone need, which no commit does by itself."""
        if any(map(_zoneless, schema.types)) and not any(map(_zoneless, self.schema.types)):
            features = [TableFeatures.TimestampWithoutTimezone]
            self._handle.alter.add_feature(features, allow_protocol_versions_increase=True)
            self._handle.update_incremental()
            self.seen_marker = self._marker()

    def add(self, columns: Sequence[pa.Field]) -> None:
        """Add columns, or fields to columns that are structs; old files need not be rewritten for it.

        A commit of its own, which moves no state. Raises TableChanged: the table has been opened anew, and may have
        some of the columns with other types: plan them again.
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
            changed = "something else has changed the table"
            raise TableChanged(changed, detail=str(error), path=str(self.root)) from error

    def layout(self, bounded: Sequence[str] = ()) -> TableLayout:
        """The table as tasks write files for it. bounded: columns whose bounds go into the log."""
        return TableLayout(self.root, self.schema, tuple(bounded), self.partition_by)

    def files(self, *keys: str) -> list[TableFile]:
        """The files of the version that the handle is pinned to. keys: see `files_of`."""
        with self.root.explaining(self.stream):
            return files_of(self._handle, *keys)

    def filled_columns(self) -> FilledColumns:
        """Which columns have values, in the version that the handle is pinned to."""
        with self.root.explaining(self.stream):
            return filled_columns(self._handle)

    def row_count(self, paths: Sequence[str] | None = None) -> int | None:
        """The rows of the table, or of some of its files, by its log; None: the log does not count them."""
        if paths is not None and not paths:
            return 0
        with self.root.explaining(self.stream):
            files = logged_files(self._handle)
        return total_rows([files[path].counted for path in (files if paths is None else paths)])

    @property
    def has_synced_rows(self) -> bool:
        """Whether a sync has written some of the rows: these have ids."""
        if RAW_ID not in self.schema.names:
            return False
        return any(batch.column(0).null_count < len(batch) for batch in self.scan([RAW_ID]))

    def lost_files(self) -> bool:
        """Whether files of the version that the handle is pinned to are missing; it then moves to the newest version.

        Raises StateError: files of that one are missing, too.
        """
        with self.root.explaining(self.stream):
            if not missing_files(self.root, [file.path for file in self.files()]):
                return False
            self.reopen()
            missing = missing_files(self.root, [file.path for file in self.files()])
        if missing:
            raise StateError(
                f"version {self.version} of the table names {len(missing)} files that are gone, such as "
                f"{missing[0]}: no reader can read it. Restore the files, or the table to a version that has its files",
                path=str(self.root),
                stream=self.stream,
            )
        return True

    def check_files(self, files: Sequence[DataFile]) -> None:
        """Raise FilesGone unless all these files lie here, as large as they were written."""
        with self.root.explaining(self.stream):
            missing = lost_files(self.root, files)
        if missing:
            raise FilesGone(missing, len(files), stream=self.stream, path=str(self.root))

    def scan(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of all rows, as readers that know the table's features see them; in no order."""
        with self.root.explaining(self.stream):
            for batch in pa.RecordBatchReader.from_stream(self._handle.scan(columns=list(names))):
                yield without_encoding(batch).select(list(names))

    @contextmanager
    def removing_if_changed(self, files: Iterable[DataFile]) -> Iterator[None]:
        """Remove the files that were written for this block's commit where another writer has changed the table."""
        try:
            yield
        except TableChanged:
            for file in files:
                self.root.delete(file.path)
            raise

    def compact(self) -> int:
        """Join small files where they are many, in each partition of a partitioned table; returns how many they were.

        A commit of its own, which changes neither rows nor state; VACUUM removes the old files later. Raises
        StateError, and what a store raises.
        """
        with self.root.explaining(self.stream):
            return join_small_files(self._handle, self.root, self._clock())


def _zoneless(kind: pa.DataType) -> bool:
    """Whether a type is, or contains, a timestamp without a zone."""
    return any(pa.types.is_timestamp(part) and part.tz is None for part in leaves(kind))
