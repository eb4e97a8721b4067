"""How rows get into a table: one class for each write mode, and its name in `MODES`.

Each makes rows and state one commit, and leaves both as they were when it cannot. What others have to know of a mode
are its `Traits`: no other module goes by names, so a mode that is added is added here alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import ClassVar, Literal, TypeAlias

import pyarrow as pa
from deltalake.exceptions import DeltaError

from cdk.base.errors import CdkError
from cdk.base.logs import logger
from cdk.base.process.crash_points import crash_point
from cdk.base.task_map import TaskMap, run_inline
from cdk.base.times.clock import system_clock
from cdk.base.values import JsonValue
from cdk.lake.arrow.cast import cast_batch
from cdk.lake.delta.engine_merge import engine_comparison
from cdk.lake.delta.engine_writes import inserted, merged
from cdk.lake.delta.pinned_table import repeat_if_changed
from cdk.lake.delta.receipt import CommitRows, Receipt, row_count
from cdk.lake.delta.row_history import RowHistory
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Use, Way
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.dedup import Identity
from cdk.lake.parquet.merge import Merged, TableMerge, remove_scratch
from cdk.lake.parquet.table_rows import rows_of
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder

_LONGEST_MERGE = timedelta(days=1)
"""Older files of merges are orphans; a younger one may belong to a run on another machine."""

WriteModeName: TypeAlias = Literal["append", "overwrite", "append_dedup"]

INCREMENTAL_DEFAULT: WriteModeName = "append"
"""How incremental syncs write where the pipeline does not say."""
FULL_REFRESH_DEFAULT: WriteModeName = "overwrite"
"""The same of full refreshes, and of streams that are read again in place of rows without a key."""


@dataclass(frozen=True)
class Traits:
    """What a write mode is to those who neither read nor write rows."""

    use: Use
    """What it does to a table, as guards have it."""
    reread: str
    """What becomes of rows when a stream is read again from its start, as the end of a message."""
    one_row_per_key: bool = False
    """Rows need a primary key, and no two of them have the same."""
    hidden_until_complete: bool = False
    """No reader sees a generation before all of it is there; it then replaces the rows of the one before."""
    repeats_rows: bool = False
    """What is read again is there once more."""

    @property
    def merges(self) -> bool:
        """Whether a new row replaces the one of its key, whenever that was read."""
        return self.one_row_per_key and not self.hidden_until_complete


@dataclass(frozen=True)
class Opening:
    """What a write mode is opened with, by a sync of one stream."""

    table: StreamTable
    schema: pa.Schema
    """What files are written with; the table may lack some of it yet."""
    identity: Identity | None = None
    """How rows are told apart, where the mode has one row per key."""
    bounded: tuple[str, ...] = ()
    """Columns whose bounds go into the log."""
    history: Callable[[], RowHistory | None] = lambda: None
    """Opens the history, if there is to be one."""


@dataclass(frozen=True)
class Committed:
    """The outcome of a commit: the state, the files that came and the receipt."""

    saved: TableState
    """The state that the next commit starts from."""
    done: bool
    """Whether there was something to commit."""
    files: Sequence[DataFile] = ()
    """The added files."""
    receipt: Receipt = field(default_factory=Receipt)
    """What became of the rows."""
    apart: int = 0
    """Rows that came without a key."""


class WriteMode(ABC):
    """The writing end of one stream in one sync."""

    traits: ClassVar[Traits]

    def __init__(self, opening: Opening) -> None:
        self.table = opening.table

    @property
    def in_read_order(self) -> bool:
        """Whether it matters in which order slices are committed: of two rows, what was read last counts."""
        return False

    @property
    def staging(self) -> Folder:
        """The folder that tasks write their files into."""
        return self.tables[-1].root

    @property
    def tables(self) -> Sequence[StreamTable]:
        """The tables that rows get into; files are written into the folder of the last one."""
        return [self.table]

    @abstractmethod
    def commit(self, saved: TableState, rows: CommitRows, spread: TaskMap = run_inline) -> Committed:
        """Commit rows and the state that goes with them.

        saved: its records are those before this commit. spread: runs tasks where there is more to do than name files.
        Raises ReceiptError, StateError, and what a store raises: neither is committed.
        """

    def prepare(self, spread: TaskMap) -> None:  # noqa: B027 - most have nothing beside the table
        """Prepare what lies beside the table, before the first commit."""

    def add(self, columns: Sequence[pa.Field]) -> None:
        """Add columns; in a generation that is hidden they may be wider ones. Raises StateConflict."""
        self.table.add(columns)

    def _changed(self, saved: TableState) -> bool:
        before = self.table.saved
        return before is None or _facts(saved) != _facts(before)


class Append(WriteMode):
    """Every row is added, none is replaced."""

    traits = Traits(
        Use.APPEND, "Records that it reads again become further rows beside those that are there", repeats_rows=True
    )

    def commit(self, saved: TableState, rows: CommitRows, spread: TaskMap = run_inline) -> Committed:
        del spread
        files = rows.files
        receipt = replace(rows.staged, added=row_count(files))
        saved = replace(saved, records=saved.records + receipt.landed)
        if done := bool(files) or self._changed(saved):
            files = repeat_if_changed(self.table, partial(self._added, saved, files, receipt))
        return Committed(saved, done, files, receipt)

    def _added(self, saved: TableState, files: Sequence[DataFile], receipt: Receipt) -> Sequence[DataFile]:
        """Commit the rows of files; the files that have them then."""
        table = self.table
        if not files or table.guard.way(Use.APPEND) is Way.FILES:
            table.commit(saved, files, logged=() if files else None, receipt=receipt)
            return files
        table.check_files(files)
        return _rewritten(table, saved, files, receipt, "append")


class Overwrite(WriteMode):
    """A generation stays invisible until it is complete; the commit that completes it replaces the one before.

    The table's columns are then those that the generation's files were written with.
    """

    traits = Traits(
        Use.OVERWRITE,
        "The rows that are there stay until the new generation is complete and replaces them",
        hidden_until_complete=True,
    )

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        self._schema = opening.schema

    def commit(self, saved: TableState, rows: CommitRows, spread: TaskMap = run_inline) -> Committed:
        del spread
        files, finished = rows.files, rows.finished
        receipt, pending = rows.staged, (*saved.pending, *files)
        # What was hidden counts as the state counts it, what is shown as the files do.
        shows = {"shown": saved.records, "added": row_count(pending)}
        receipt = replace(receipt, **(shows if finished else {"hidden": row_count(files)}))
        saved = replace(saved, pending=() if finished else pending, records=saved.records + receipt.staged)
        done = finished or bool(files) or self._changed(saved)
        if finished:
            receipt = repeat_if_changed(self.table, lambda: self._shown(saved, pending, receipt))
        elif done:
            repeat_if_changed(self.table, partial(self._hidden, saved, files, receipt))
        return Committed(saved, done, files, receipt)

    def _hidden(self, saved: TableState, files: Sequence[DataFile], receipt: Receipt) -> None:
        """Commit a state that names the files, which no reader sees yet."""
        self.table.check_files(files)
        self.table.commit(saved, receipt=receipt)

    def _shown(self, saved: TableState, pending: Sequence[DataFile], receipt: Receipt) -> Receipt:
        """Commit the complete generation in place of the present rows."""
        table = self.table
        receipt = replace(receipt, removed=table.row_count() or 0)
        if table.guard.way(Use.OVERWRITE) is Way.ENGINE and pending:
            # delta-rs writes the columns as they are: a generation that needs others was begun before it had to.
            final, columns = self._final_schema(), table.schema
            if any(columns.field(name).type != final.field(name).type for name in columns.names):
                table.guard.check([Use.WIDEN])
            table.check_files(pending)
            _rewritten(table, saved, pending, receipt, "overwrite")
            return receipt
        table.commit(saved, pending, overwrite=True, schema=self._final_schema(), logged=(), receipt=receipt)
        return receipt

    def _final_schema(self) -> pa.Schema:
        """The generation's columns, and those that the table was given since: it never loses one."""
        others = [field for field in self.table.schema if field.name not in self._schema.names]
        return pa.schema([*self._schema, *others])

    def add(self, columns: Sequence[pa.Field]) -> None:
        self._schema = pa.schema({field.name: field for field in (*self._schema, *columns)}.values())
        super().add([column for column in columns if column.name not in self.table.schema.names])


class AppendDedup(WriteMode):
    """One row per key: a new row replaces an older one. A history gets every row as it came.

    The table does not wait for the history: where it cannot be written, the sync logs that and continues, and the next
    one adds the missing rows.
    """

    traits = Traits(
        Use.APPEND_DEDUP,
        "Records that it reads again replace the rows of their keys: nothing is there twice",
        one_row_per_key=True,
    )

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        assert opening.identity is not None  # as its traits say
        self.identity, self._bounded = opening.identity, opening.bounded
        self._history: RowHistory | None = None
        with self._logging_history_errors():
            self._history = opening.history()

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
            text += "the history away, and the next sync makes it anew from the table's log"
            logger.warning(text, self.table.stream, error)

    @property
    def tables(self) -> Sequence[StreamTable]:
        return [self.table] if self._history is None else [self.table, self._history.table]

    def commit(self, saved: TableState, rows: CommitRows, spread: TaskMap = run_inline) -> Committed:
        if not rows.files:
            if done := self._changed(saved):
                self.table.move(saved, receipt=rows.staged)
            return Committed(saved, done, receipt=rows.staged)
        saved, merged, receipt = repeat_if_changed(self.table, partial(self._merged, saved, rows, spread))
        for path in merged.orphans:
            self.table.root.delete(path)
        if self._history is not None:
            with self._logging_history_errors():
                self._history.follow()
        return Committed(saved, True, merged.add, receipt, merged.apart)

    def _merged(self, saved: TableState, rows: CommitRows, spread: TaskMap) -> tuple[TableState, Merged, Receipt]:
        table, source, files = self.table, self.tables[-1], rows.files
        staged_in = None if source is table else source.root
        merge = TableMerge(table.layout(self._bounded), self.identity, spread, staged_in)
        source.check_files(files)
        if table.guard.way(Use.APPEND_DEDUP) is Way.ENGINE:
            return self._merged_by_engine(merge, saved, rows)
        present = table.files(*self.identity.keys)
        result = merge(files, present)
        crash_point("merged")
        records = sum(file.rows for file in present) + result.added - result.replaced
        saved, receipt = replace(saved, records=records), _merge_receipt(rows, result)
        if staged_in is not None:
            source.check_files(files)
        with table.removing_if_changed([file for file in result.add if file not in files]):
            # Alone, though no file may leave: a neighbour may have brought the same new key.
            table.commit(
                saved, result.add, remove=result.remove, alone=True, logged=self._logged(files), receipt=receipt
            )
        return saved, result, receipt

    def _logged(self, files: Sequence[DataFile]) -> Sequence[DataFile]:
        """What the history has to follow."""
        return () if self._history is None else files

    def _merged_by_engine(
        self, merge: TableMerge, saved: TableState, rows: CommitRows
    ) -> tuple[TableState, Merged, Receipt]:
        table, files = self.table, rows.files
        comparison = engine_comparison(merge, files, table.scan)
        crash_point("merged")
        result = comparison.merged
        records = comparison.rows + result.added - result.replaced
        saved, receipt = replace(saved, records=records), _merge_receipt(rows, result)
        if any(comparison.expected.values()):
            change = merged(comparison.source(), table.schema, merge.identity.keys)
            written = table.change(saved, change, receipt, comparison.expected, logged=self._logged(files))
            result = replace(result, add=tuple(written))
        else:
            # delta-rs commits no MERGE that changes nothing, and the state has to move.
            table.commit(saved, alone=True, logged=self._logged(files), receipt=receipt)
        return saved, result, receipt


MODES: Mapping[str, type[WriteMode]] = {"append": Append, "overwrite": Overwrite, "append_dedup": AppendDedup}
_UNKNOWN = Traits(Use.APPEND, "What becomes of rows that are there follows from the write mode of the next sync")


def traits_of(name: str) -> Traits:
    """The traits of a write mode, as pipelines, catalogs and states name it; of an unknown one those of none."""
    return MODES[name].traits if name in MODES else _UNKNOWN


def _rewritten(
    table: StreamTable,
    saved: TableState,
    files: Sequence[DataFile],
    receipt: Receipt,
    mode: Literal["append", "overwrite"],
) -> Sequence[DataFile]:
    """Have delta-rs write the rows of files, which no version names, into files of its own; these."""
    schema = table.schema
    batches = (cast_batch(batch, schema) for file in files for batch in rows_of(table.root, file.path, {}, schema))
    written = table.change(saved, inserted(batches, schema, mode), receipt, logged=())
    for file in files:
        table.root.delete(file.path)
    return written


def _merge_receipt(rows: CommitRows, merged: Merged) -> Receipt:
    """The receipt of a commit with what merging counts, whoever writes the rows."""
    return replace(
        rows.staged,
        superseded=merged.superseded,
        stale=merged.stale,
        deleted=merged.deleted,
        added=merged.added,
        removed=merged.replaced,
    )


def _facts(saved: TableState) -> Mapping[str, JsonValue]:
    return {"state": saved.state, "complete": saved.complete, "generation": saved.generation, "mode": saved.sync_mode}
