"""How an epoch's rows get into a table: one class for each write mode.

Each makes rows and state one commit, and leaves both as they were when it cannot.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import pyarrow as pa
from deltalake.exceptions import DeltaError

from cdk.base.errors import CdkError
from cdk.base.logs import logger
from cdk.base.process.crash_points import crash_point
from cdk.base.task_map import TaskMap, run_inline
from cdk.base.times.clock import system_clock
from cdk.base.values import JsonValue
from cdk.lake.arrow.cast import cast_batch
from cdk.lake.delta.engine_merge import EngineMerge, engine_comparison
from cdk.lake.delta.engine_writes import appended, merged, overwritten
from cdk.lake.delta.pinned_table import TableChanged, repeat_if_changed
from cdk.lake.delta.receipt import Receipt, RecordCounts, row_count
from cdk.lake.delta.row_history import RowHistory
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Use, Way
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.dedup import Identity
from cdk.lake.parquet.merge import Merge, Merged, remove_scratch
from cdk.lake.parquet.table_rows import rows_of
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder

_LONGEST_MERGE = timedelta(days=1)
"""Older files of merges are orphans; a younger one may belong to a run on another machine."""


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

    def __init__(self, table: StreamTable) -> None:
        self.table = table

    @property
    def staging(self) -> Folder:
        """The folder that tasks write their files into."""
        return self.table.root

    @property
    def tables(self) -> Sequence[StreamTable]:
        """The tables that rows get into."""
        return [self.table]

    @abstractmethod
    def commit(
        self,
        saved: TableState,
        files: Sequence[DataFile],
        read: RecordCounts,
        *,
        finished: bool,
        spread: TaskMap = run_inline,
    ) -> Committed:
        """Commit `files`, which lie in `staging` and which no table names yet, and the state that goes with them.

        saved: its records are those before this commit. read: what the slices counted since the last one. finished:
        the generation is complete. spread: runs tasks, where there is more to do than to name files.
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

    def commit(
        self,
        saved: TableState,
        files: Sequence[DataFile],
        read: RecordCounts,
        *,
        finished: bool,
        spread: TaskMap = run_inline,
    ) -> Committed:
        del finished, spread
        receipt = replace(_staged(read, files), added=row_count(files))
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
        written = table.change(saved, appended(_rows(table, files), table.schema), receipt, logged=())
        _delete(table, files)
        return written


class Overwrite(WriteMode):
    """A generation stays invisible until it is complete; the commit that completes it replaces the one before."""

    def __init__(self, table: StreamTable, schema: pa.Schema) -> None:
        """schema: what the generation's files are written with, and the table's columns once it is complete."""
        super().__init__(table)
        self._schema = schema

    def commit(
        self,
        saved: TableState,
        files: Sequence[DataFile],
        read: RecordCounts,
        *,
        finished: bool,
        spread: TaskMap = run_inline,
    ) -> Committed:
        del spread
        receipt, pending = _staged(read, files), (*saved.pending, *files)
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
        if pending and table.guard.way(Use.OVERWRITE) is Way.ENGINE:
            table.check_files(pending)
            table.change(saved, overwritten(_rows(table, pending), table.schema), receipt, logged=())
            _delete(table, pending)
            return receipt
        table.commit(saved, pending, overwrite=True, schema=self._final_schema(), logged=(), receipt=receipt)
        return receipt

    def _final_schema(self) -> pa.Schema:
        """The generation's columns, and those that somebody has given the table since: it never loses one."""
        return pa.schema(
            [*self._schema, *(field for field in self.table.schema if field.name not in self._schema.names)]
        )

    def add(self, columns: Sequence[pa.Field]) -> None:
        fields = {field.name: field for field in (*self._schema, *columns)}
        self._schema = pa.schema(list(fields.values()))
        super().add([column for column in columns if column.name not in self.table.schema.names])


class AppendDedup(WriteMode):
    """One row per key: a new row replaces an older one. A history gets every row as it came.

    The table does not wait for the history: where it cannot be written, the sync logs that and continues, and the next
    one adds the missing rows.
    """

    def __init__(self, table: StreamTable, identity: Identity, bounded: tuple[str, ...], stream: str) -> None:
        super().__init__(table)
        self.identity, self._bounded, self._stream = identity, bounded, stream
        self._history: RowHistory | None = None

    def open_history(self, opened: Callable[[], RowHistory]) -> None:
        """Let a history follow the table, if it can be opened."""
        with self._logging_history_errors():
            self._history = opened()

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
            logger.warning(text, self._stream, error)

    @property
    def staging(self) -> Folder:
        return self.table.root if self._history is None else self._history.table.root

    @property
    def tables(self) -> Sequence[StreamTable]:
        return [self.table] if self._history is None else [self.table, self._history.table]

    def commit(
        self,
        saved: TableState,
        files: Sequence[DataFile],
        read: RecordCounts,
        *,
        finished: bool,
        spread: TaskMap = run_inline,
    ) -> Committed:
        del finished
        staged = _staged(read, files)
        if not files:
            if done := self._changed(saved):
                repeat_if_changed(self.table, partial(self.table.commit, saved, receipt=staged))
            return Committed(saved, done, receipt=staged)
        saved, merged, receipt = repeat_if_changed(self.table, partial(self._merged, saved, files, staged, spread))
        for path in merged.spare:
            self.table.root.delete(path)
        if self._history is not None:
            with self._logging_history_errors():
                self._history.follow()
        return Committed(saved, True, merged.add, receipt, merged.apart)

    def _merged(
        self, saved: TableState, files: Sequence[DataFile], staged: Receipt, spread: TaskMap
    ) -> tuple[TableState, Merged, Receipt]:
        table = self.table
        source = self.tables[-1]
        staged_in = None if source is table else source.root
        merge = Merge(table.layout(self._bounded), self.identity, spread, staged_in)
        source.check_files(files)
        if table.guard.way(Use.MERGE) is Way.ENGINE:
            return self._merged_by_engine(merge, saved, files, staged)
        present = table.files(*self.identity.keys)
        result = merge(files, present)
        crash_point("merged")
        rows = sum(file.rows for file in present) + result.added - result.replaced
        saved = replace(saved, records=rows)
        receipt = _merge_receipt(staged, result)
        if staged_in is not None:
            source.check_files(files)
        try:
            # Alone, though no file may leave: a neighbour may have brought the same new key.
            table.commit(
                saved, result.add, remove=result.remove, alone=True, logged=self._logged(files), receipt=receipt
            )
        except TableChanged:
            for file in result.add:
                if file not in files:
                    table.root.delete(file.path)
            raise
        return saved, result, receipt

    def _logged(self, files: Sequence[DataFile]) -> Sequence[DataFile]:
        """What the history has to follow."""
        return () if self._history is None else files

    def _merged_by_engine(
        self, merge: Merge, saved: TableState, files: Sequence[DataFile], staged: Receipt
    ) -> tuple[TableState, Merged, Receipt]:
        table = self.table
        comparison = engine_comparison(merge, files, table.scan)
        crash_point("merged")
        saved = replace(saved, records=comparison.rows + comparison.added - comparison.replaced)
        receipt = _merge_receipt(staged, comparison)
        written: Sequence[DataFile] = ()
        if any(comparison.expected.values()):
            change = merged(comparison.source(), table.schema, merge.identity.keys)
            written = table.change(saved, change, receipt, comparison.expected, logged=self._logged(files))
        else:
            # delta-rs commits no MERGE that changes nothing, and the state has to move.
            table.commit(saved, alone=True, logged=self._logged(files), receipt=receipt)
        spare = () if merge.staged else tuple(file.path for file in files)
        return (
            saved,
            Merged(
                tuple(written),
                (),
                comparison.added,
                comparison.replaced,
                apart=comparison.apart,
                where="delta-rs",
                spare=spare,
            ),
            receipt,
        )

    def add(self, columns: Sequence[pa.Field]) -> None:
        super().add(columns)
        if self._history is not None:
            with self._logging_history_errors():
                self._history.add(columns)


def _rows(table: StreamTable, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
    """The rows of files that no version names, with all columns of the table."""
    schema = table.schema
    for file in files:
        for batch in rows_of(table.root, file.path, {}, schema):
            yield cast_batch(batch, schema)


def _delete(table: StreamTable, files: Sequence[DataFile]) -> None:
    """Remove files whose rows delta-rs has written into its own."""
    for file in files:
        table.root.delete(file.path)


def _staged(read: RecordCounts, files: Sequence[DataFile]) -> Receipt:
    """The receipt of a commit, with the figures of the slices and of their files."""
    return Receipt(read.read, read.skipped, read.rejected, staged=row_count(files))


def _merge_receipt(staged: Receipt, merged: Merged | EngineMerge) -> Receipt:
    """The receipt of a commit with what merging counts, whoever writes the rows."""
    return replace(
        staged,
        superseded=merged.superseded,
        stale=merged.stale,
        deleted=merged.deleted,
        added=merged.added,
        removed=merged.replaced,
    )


def _facts(saved: TableState) -> Mapping[str, JsonValue]:
    return {"state": saved.state, "complete": saved.complete, "generation": saved.generation, "mode": saved.sync_mode}
