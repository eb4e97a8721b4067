"""Write modes: how rows are written to a table. One class for each mode, registered by name in `MODES`.

Each mode commits rows and state together, or changes neither. Other modules rely on a mode's `Traits` and never on its
name, so a new mode is added in this module only.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import ClassVar, Literal, TypeAlias

import pyarrow as pa
from deltalake.exceptions import DeltaError
from msgspec import Struct, field
from msgspec.structs import replace

from cdk.base.errors import CdkError
from cdk.base.logs import logger
from cdk.base.process.crash_points import crash_point
from cdk.base.task_map import TaskMap, run_inline
from cdk.base.times.clock import system_clock
from cdk.base.values import JsonValue
from cdk.lake.arrow.cast import cast_batch
from cdk.lake.delta.engine_merge import engine_comparison
from cdk.lake.delta.engine_writes import insert_rows, merge_rows
from cdk.lake.delta.failed_commit import repeat_if_changed
from cdk.lake.delta.receipt import CommitRows, Receipt, row_count
from cdk.lake.delta.row_history import RowHistory
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Use, Way
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.dedup import Identity
from cdk.lake.parquet.merge import Merged, TableMerge, remove_scratch
from cdk.lake.parquet.table_rows import read_rows
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder

_LONGEST_MERGE = timedelta(days=1)
"""Scratch files of merges older than this are orphans; a younger one may belong to a run on another machine."""

WriteModeName: TypeAlias = Literal["append", "overwrite", "append_dedup"]

INCREMENTAL_DEFAULT: WriteModeName = "append"
"""The write mode of incremental syncs if the pipeline sets none."""
FULL_REFRESH_DEFAULT: WriteModeName = "overwrite"
"""The write mode of full refreshes if the pipeline sets none, and of streams read again to replace keyless rows."""


class Traits(Struct, frozen=True):
    """The properties of a write mode that the rest of the kit decides by."""

    use: Use
    """What it does to a table, in the terms of `Guard`."""
    reread: str
    """What happens to rows when a stream is read again from its start, as the end of a message."""
    one_row_per_key: bool = False
    """Rows need a primary key, and no two rows have the same key."""
    hidden_until_complete: bool = False
    """A generation is invisible until it is complete; it then replaces the rows of the previous one."""
    repeats_rows: bool = False
    """Records that are read again become additional rows."""

    @property
    def merges(self) -> bool:
        """Whether a new row replaces the row with its key, even one of an earlier sync."""
        return self.one_row_per_key and not self.hidden_until_complete


class WriteModeSetup(Struct, frozen=True):
    """What a sync of one stream opens a write mode with."""

    table: StreamTable
    schema: pa.Schema
    """The columns that files are written with; the table may not have all of them yet."""
    identity: Identity | None = None
    """How rows are told apart, if the mode has one row per key."""
    bounded: tuple[str, ...] = ()
    """Columns whose bounds go into the log."""
    history: Callable[[], RowHistory | None] = lambda: None
    """Opens the history; returns None if the stream has no history."""


class Committed(Struct, frozen=True):
    """The outcome of a commit: the state, the added files and the receipt."""

    saved: TableState
    """The state that the next commit starts from."""
    done: bool
    """Whether there was something to commit."""
    files: Sequence[DataFile] = ()
    """The added files."""
    receipt: Receipt = field(default_factory=Receipt)
    """What happened to the rows."""
    keyless: int = 0
    """Number of committed rows without a key."""


class WriteMode(ABC):
    """Base class of the write modes: writes one stream to its table during one sync."""

    traits: ClassVar[Traits]

    def __init__(self, setup: WriteModeSetup) -> None:
        self.table = setup.table

    @property
    def in_read_order(self) -> bool:
        """Whether slices must be committed in the order they are read: of rows of one key, the last read wins."""
        return False

    @property
    def staging(self) -> Folder:
        """The folder that tasks write their files to."""
        return self.tables[-1].root

    @property
    def tables(self) -> Sequence[StreamTable]:
        """The tables that rows are added to; tasks write files to the folder of the last one."""
        return [self.table]

    @abstractmethod
    def commit(self, saved: TableState, rows: CommitRows, spread: TaskMap = run_inline) -> Committed:
        """Commit rows and the state that belongs to them.

        saved: its `records` is the count before this commit. spread: runs tasks where more is to be done than name
        files. Raises ReceiptError, StateError, and what a store raises; then neither rows nor state are committed.
        """

    def prepare(self, spread: TaskMap) -> None:  # noqa: B027 - most modes have nothing to prepare
        """Prepare scratch files and the history beside the table, before the first commit."""

    def add(self, columns: Sequence[pa.Field]) -> None:
        """Add columns; in a hidden generation they may be wider versions of existing ones. Raises StateConflict."""
        self.table.add(columns)

    def _has_changed(self, saved: TableState) -> bool:
        before = self.table.saved
        return before is None or _compared_fields(saved) != _compared_fields(before)


class Append(WriteMode):
    """Append: adds every row and replaces no row."""

    traits = Traits(Use.APPEND, "Records that it reads again are added as further rows", repeats_rows=True)

    def commit(self, saved: TableState, rows: CommitRows, spread: TaskMap = run_inline) -> Committed:
        del spread
        files = rows.files
        receipt = replace(rows.staged, added=row_count(files))
        saved = replace(saved, records=saved.records + receipt.landed)
        if done := bool(files) or self._has_changed(saved):
            files = repeat_if_changed(self.table, partial(self._commit_added, saved, files, receipt))
        return Committed(saved, done, files, receipt)

    def _commit_added(self, saved: TableState, files: Sequence[DataFile], receipt: Receipt) -> Sequence[DataFile]:
        """Commit the rows of `files`; return the files that hold them afterwards."""
        table = self.table
        if not files or table.guard.way(Use.APPEND) is Way.FILES:
            table.commit(saved, files, logged=() if files else None, receipt=receipt)
            return files
        table.check_files(files)
        return _rewrite_by_engine(table, saved, files, receipt, "append")


class Overwrite(WriteMode):
    """Overwrite: a generation stays invisible until it is complete; that commit then replaces the previous one.

    The table then has the columns that the generation's files were written with.
    """

    traits = Traits(
        Use.OVERWRITE,
        "The existing rows stay until the new generation is complete and replaces them",
        hidden_until_complete=True,
    )

    def __init__(self, setup: WriteModeSetup) -> None:
        super().__init__(setup)
        self._schema = setup.schema

    def commit(self, saved: TableState, rows: CommitRows, spread: TaskMap = run_inline) -> Committed:
        del spread
        files, finished = rows.files, rows.finished
        receipt, pending = rows.staged, (*saved.pending, *files)
        # Hidden rows are counted by the state, shown rows by the footers of their files.
        shows = {"shown": saved.records, "added": row_count(pending)}
        receipt = replace(receipt, **(shows if finished else {"hidden": row_count(files)}))
        saved = replace(saved, pending=() if finished else pending, records=saved.records + receipt.staged)
        done = finished or bool(files) or self._has_changed(saved)
        if finished:
            receipt = repeat_if_changed(self.table, lambda: self._commit_shown(saved, pending, receipt))
        elif done:
            repeat_if_changed(self.table, partial(self._commit_hidden, saved, files, receipt))
        return Committed(saved, done, files, receipt)

    def _commit_hidden(self, saved: TableState, files: Sequence[DataFile], receipt: Receipt) -> None:
        """Commit a state that names the files; readers do not see them yet."""
        self.table.check_files(files)
        self.table.commit(saved, receipt=receipt)

    def _commit_shown(self, saved: TableState, pending: Sequence[DataFile], receipt: Receipt) -> Receipt:
        """Commit the complete generation in place of the current rows."""
        table = self.table
        receipt = replace(receipt, removed=table.row_count() or 0)
        if table.guard.way(Use.OVERWRITE) is Way.ENGINE and pending:
            # delta-rs keeps the table's column types. A generation with other types was started before the table got
            # the feature that requires delta-rs.
            final, columns = self._final_schema(), table.schema
            if any(columns.field(name).type != final.field(name).type for name in columns.names):
                table.guard.check([Use.WIDEN])
            table.check_files(pending)
            _rewrite_by_engine(table, saved, pending, receipt, "overwrite")
            return receipt
        table.commit(saved, pending, overwrite=True, schema=self._final_schema(), logged=(), receipt=receipt)
        return receipt

    def _final_schema(self) -> pa.Schema:
        """The generation's columns, and those added to the table meanwhile: the table never loses a column."""
        others = [field for field in self.table.schema if field.name not in self._schema.names]
        return pa.schema([*self._schema, *others])

    def add(self, columns: Sequence[pa.Field]) -> None:
        self._schema = pa.schema({field.name: field for field in (*self._schema, *columns)}.values())
        super().add([column for column in columns if column.name not in self.table.schema.names])


class AppendDedup(WriteMode):
    """Append and deduplicate: one row per key, a new row replaces an older one. A history stores every row as read.

    The table does not wait for the history: if the history cannot be written, the sync logs that and continues, and the
    next sync adds the missing rows.
    """

    traits = Traits(
        Use.APPEND_DEDUP,
        "Records that it reads again replace the rows with their keys: nothing is duplicated",
        one_row_per_key=True,
    )

    def __init__(self, setup: WriteModeSetup) -> None:
        super().__init__(setup)
        assert setup.identity is not None  # as its traits say
        self.identity, self._bounded = setup.identity, setup.bounded
        self._history: RowHistory | None = None
        with self._logging_history_errors():
            self._history = setup.history()

    @property
    def in_read_order(self) -> bool:
        return self.identity.cursor is None

    def prepare(self, spread: TaskMap) -> None:
        remove_scratch(self.table.root, system_clock() - _LONGEST_MERGE)
        history, self._history = self._history, None
        if history is not None:
            with self._logging_history_errors():
                history.catch_up(spread)
                self._history = history

    @contextmanager
    def _logging_history_errors(self) -> Iterator[None]:
        """Log errors of the history instead of raising them."""
        try:
            yield
        except (CdkError, DeltaError, OSError, pa.ArrowException) as error:
            text = "%s: its history lacks rows: %s. The next sync adds them; if it cannot, move the folder of "
            text += "the history away, and the next sync creates it again from the table's log"
            logger.warning(text, self.table.stream, error)

    @property
    def tables(self) -> Sequence[StreamTable]:
        return [self.table] if self._history is None else [self.table, self._history.table]

    def commit(self, saved: TableState, rows: CommitRows, spread: TaskMap = run_inline) -> Committed:
        if not rows.files:
            if done := self._has_changed(saved):
                self.table.move(saved, receipt=rows.staged)
            return Committed(saved, done, receipt=rows.staged)
        saved, merged, receipt = repeat_if_changed(self.table, partial(self._merge, saved, rows, spread))
        for path in merged.orphans:
            self.table.root.delete(path)
        if self._history is not None:
            with self._logging_history_errors():
                self._history.follow()
        return Committed(saved, True, merged.add, receipt, merged.keyless)

    def _merge(self, saved: TableState, rows: CommitRows, spread: TaskMap) -> tuple[TableState, Merged, Receipt]:
        table, source, files = self.table, self.tables[-1], rows.files
        staged_in = None if source is table else source.root
        merge = TableMerge(table.layout(self._bounded), self.identity, spread, staged_in)
        source.check_files(files)
        if table.guard.way(Use.APPEND_DEDUP) is Way.ENGINE:
            return self._merge_by_engine(merge, saved, rows)
        existing = table.files(*self.identity.keys)
        result = merge(files, existing)
        crash_point("merged")
        records = sum(file.rows for file in existing) + result.added - result.replaced
        saved, receipt = replace(saved, records=records), _merge_receipt(rows, result)
        if staged_in is not None:
            source.check_files(files)
        with table.removing_if_changed([file for file in result.add if file not in files]):
            # `exclusive` even if no file is removed: another writer may have added a row with the same new key.
            table.commit(
                saved, result.add, remove=result.remove, exclusive=True, logged=self._logged(files), receipt=receipt
            )
        return saved, result, receipt

    def _logged(self, files: Sequence[DataFile]) -> Sequence[DataFile]:
        """The files that the history has to add."""
        return () if self._history is None else files

    def _merge_by_engine(
        self, merge: TableMerge, saved: TableState, rows: CommitRows
    ) -> tuple[TableState, Merged, Receipt]:
        table, files = self.table, rows.files
        comparison = engine_comparison(merge, files, table.scan)
        crash_point("merged")
        result = comparison.merged
        records = comparison.rows + result.added - result.replaced
        saved, receipt = replace(saved, records=records), _merge_receipt(rows, result)
        if any(comparison.expected.values()):
            change = partial(merge_rows, comparison.source(), table.schema, merge.identity.keys)
            logged = self._logged(files)
            written = table.change(saved, change, receipt, comparison.expected, logged=logged, changed=files)
            result = replace(result, add=tuple(written))
        else:
            # delta-rs makes no commit for a MERGE without changes, but the state has to move.
            table.commit(saved, exclusive=True, logged=self._logged(files), receipt=receipt)
        return saved, result, receipt


MODES: Mapping[str, type[WriteMode]] = {"append": Append, "overwrite": Overwrite, "append_dedup": AppendDedup}
_UNKNOWN = Traits(Use.APPEND, "What happens to the existing rows depends on the write mode of the next sync")


def traits_of(name: str) -> Traits:
    """Return the traits of a write mode by its name in pipelines, catalogs and states; neutral ones if unknown."""
    return MODES[name].traits if name in MODES else _UNKNOWN


def _rewrite_by_engine(
    table: StreamTable,
    saved: TableState,
    files: Sequence[DataFile],
    receipt: Receipt,
    mode: Literal["append", "overwrite"],
) -> Sequence[DataFile]:
    """Have delta-rs write the rows of `files`, which no version names, to files of its own; return those."""
    schema = table.schema
    batches = (cast_batch(batch, schema) for file in files for batch in read_rows(table.root, file.path, {}, schema))
    change = partial(insert_rows, batches, schema, mode)
    written = table.change(saved, change, receipt, logged=(), changed=files)
    for file in files:
        table.root.delete(file.path)
    return written


def _merge_receipt(rows: CommitRows, merged: Merged) -> Receipt:
    """Return the receipt of a merge: the staged figures and what merging counted, whoever writes the rows."""
    return replace(
        rows.staged,
        superseded=merged.superseded,
        stale=merged.stale,
        deleted=merged.deleted,
        added=merged.added,
        removed=merged.replaced,
    )


def _compared_fields(saved: TableState) -> Mapping[str, JsonValue]:
    return {"state": saved.state, "complete": saved.complete, "generation": saved.generation, "mode": saved.sync_mode}
