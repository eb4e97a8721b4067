"""The history of a table that rows are merged into: a second table with every row as it was read.

A commit to the main table names the files that belong to the history; the history then adds each of them once. Each
state of the main table names the last earlier one that added rows, so a history that is any number of commits behind
can find out which rows it lacks, including those of states that a RESTORE of the main table has undone. If no state can
tell, or those files are missing, the history reads the main table's own log and copies, by row id, every row that a
file still holds and the history does not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from cdk.base.errors import StateError
from cdk.base.logs import logger
from cdk.base.process.crash_points import crash_point
from cdk.base.task_map import TaskMap, run_inline
from cdk.lake.arrow.columns import RAW_ID
from cdk.lake.arrow.type_promotion import common_type, only_gains, writable
from cdk.lake.delta.failed_commit import repeat_if_changed
from cdk.lake.delta.receipt import row_count
from cdk.lake.delta.state_blobs import number
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Use
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.partitioning import PartitionValues
from cdk.lake.parquet.table_files import commit_at, missing_files
from cdk.lake.parquet.table_rows import read_rows, schema_of
from cdk.lake.parquet.writer import DataFile


class RowHistory:
    """The history of the table `main`. Its own state is the version of the last state of `main` whose rows it has."""

    def __init__(self, table: StreamTable, main: StreamTable, bounded: Sequence[str] = ()) -> None:
        """table: holds the history. bounded: columns whose bounds go into the log.

        Raises ConfigError: when the history is partitioned by other columns than `main`. Raises StateError: when a
        commit has duplicated rows of the history.
        """
        self.table, self.main, self._stream, self._bounded = table, main, main.stream, tuple(bounded)
        table.check_partition_by(main.partition_by)
        table.check_row_moves()

    def follow(self, spread: TaskMap = run_inline) -> None:
        """Add the rows of the main table's last commit, any other missing rows, and the columns that they need.

        spread: runs tasks that rewrite files with wider columns. Raises StateError, and what a store or a file raises.
        """
        if self._followed is None or self._followed == self.main.state_version:
            return
        files = self._named_since(self._followed)
        if files is None or missing_files(self.table.root, [file.path for file in files]):
            self._fill(spread)
            return
        written = {file.path: schema_of(self.table.root, file.path, self._stream) for file in files}
        self._align(written.values(), spread)
        if files:
            crash_point("before_history")
            self._commit(files, written)

    def catch_up(self, spread: TaskMap = run_inline) -> None:
        """Add missing rows and the columns they need, even if the history lost files. Raises what `follow` raises."""
        repeat_if_changed(self.table, self._remove_missing)
        if self._followed is None:
            self._fill(spread)
        elif self._followed == self.main.state_version:
            self._align((), spread)
        else:
            self.follow(spread)

    def _remove_missing(self) -> None:
        """Remove missing files from the history's table. It is then unknown which rows the history lacks."""
        paths = missing_files(self.table.root, [file.path for file in self.table.files()])
        if missing := [file for file in self.table.files() if file.path in paths]:
            logger.warning("%s: %d files of %s are missing", self._stream, len(missing), self.table.root)
            self.table.commit(replace(self._saved, state=None), remove=missing)

    @property
    def _saved(self) -> TableState:
        return self.table.saved or TableState("incremental", Use.APPEND)

    @property
    def _followed(self) -> int | None:
        """The version of the main table's state up to which the history has all rows; None: unknown."""
        version: int | None = None if self.table.saved is None else self.table.saved.state
        return version

    def _named_since(self, followed: int) -> list[DataFile] | None:
        """Return the files that commits to the main table named after state `followed`; None: some are unknown."""
        if self._is_of_other_states(followed):
            return None
        files: list[DataFile] = []
        at = self.main.state_version
        while at is not None and number(at) > number(followed):
            saved = self._state_at(at)
            if saved is None or saved.logged == ():
                return None  # the state is missing, or rows were added while there was no history
            files = [*(saved.logged or ()), *files]
            at = saved.logged_version
        return files

    def _is_of_other_states(self, followed: int) -> bool:
        """Whether the main table no longer has state `followed`: an old copy was put back, or it was recreated."""
        now, same = self.main.state_version, number(followed)
        is_older = now is not None and number(now) < same
        return is_older or any(number(at) == same and at != followed for at in self.main.states)

    def _state_at(self, version: int) -> TableState | None:
        """Return a state of the main table; None: it is not retained, or unreadable."""
        if version == self.main.state_version:
            return self.main.newest
        with suppress(StateError):
            return self.main.blobs.load(version)
        return None

    def _align(self, written: Iterable[pa.Schema], spread: TaskMap) -> None:
        """Give the history's columns and files the main table's types, if this run or another pipeline changed them.

        Another pipeline may have been interrupted after changing one of the two tables. written: the columns of the
        files to add; the main table may have narrower ones by now.
        """
        target = partial(self._target_schema, list(written))
        if not self.table.schema.equals(target()):
            repeat_if_changed(self.table, partial(self._align_columns, target, spread))

    def _align_columns(self, planned: Callable[..., pa.Schema], spread: TaskMap) -> None:
        # A pipeline that has changed the main table has usually changed the history as well.
        self.table.reopen()
        current, target = self.table.schema, planned()
        self.table.add([field for field in target if field.name not in current.names or _gains_fields(current, field)])
        if not self.table.schema.equals(planned()):
            self.table.widen(self._saved, planned, self._bounded, spread)

    def _target_schema(self, written: Sequence[pa.Schema], exact: frozenset[str] = frozenset()) -> pa.Schema:
        fields = {field.name: field for field in self.table.schema}
        for field in self.main.schema:
            old = fields.get(field.name)
            kind = field.type if old is None else common_type(old.type, field.type, exact=field.name in exact)
            if kind is None:
                where = f"{self.table.root}: column {field.name!r}"
                raise StateError(f"{where} is {old and old.type}, and {field.type} in the table that it follows")
            fields[field.name] = fields.get(field.name, field).with_type(kind)
        for field in chain.from_iterable(written):
            # Other writers rewrite files with types of their own, which readers cast.
            if field.name in fields and writable(field.type):
                known = fields[field.name]
                kind = common_type(known.type, field.type, exact=field.name in exact)
                fields[field.name] = known.with_type(kind or known.type)
        return pa.schema(list(fields.values()))

    def _with_history_types(self, files: Sequence[DataFile], written: Mapping[str, pa.Schema]) -> list[DataFile]:
        """Return the files, rewriting those whose columns have other types than the history's.

        written: the columns of files, by path; files without an entry have the history's columns.
        """
        kinds = {field.name: field.type for field in self.table.schema}
        readable: list[DataFile] = []
        outdated: list[DataFile] = []
        for file in files:
            columns = written.get(file.path, self.table.schema)
            same = all(only_gains(field.type, kinds.get(field.name, field.type)) for field in columns)
            (readable if same else outdated).append(file)
        return [*readable, *self.table.layout(self._bounded).rewrite(outdated, run_inline)]

    def _fill(self, spread: TaskMap) -> None:
        """Copy rows that the history lacks from the files in the main table's log, each from the first file with it.

        Runs in the driver and takes 150 bytes of memory per row: needed once, when the history is created, or after
        an accident.
        """
        self._align((schema_of(self.main.root, unquote(path)) for path, _ in self._files_of_log()), spread)
        files = self.table.layout(self._bounded).write(self._missing_rows())
        if files:
            text = "%s: its history lacked %d rows of the table's log, which were added; rows that no file of "
            text += "the table has any more could not be added"
            logger.warning(text, self._stream, row_count(files))
        self._commit(files, {})

    def _missing_rows(self) -> Iterator[pa.RecordBatch]:
        schema = self.table.schema
        copied_ids: set[str] = set()
        for path in [*(file.path for file in self.table.files()), *self._files_of_other_pipelines()]:
            for batch in read_rows(self.table.root, path, {}, schema, [RAW_ID]):
                copied_ids.update(filter(None, batch.column(RAW_ID).to_pylist()))
        for path, texts in self._files_of_log():
            for batch in read_rows(self.main.root, path, texts, schema, schema.names):
                ids = batch.column(RAW_ID).to_pylist() if RAW_ID in batch.schema.names else []
                new = pa.array([row is not None and row not in copied_ids for row in ids], pa.bool_())
                if pc.any(new).as_py():
                    copied_ids.update(filter(None, ids))
                    yield batch.filter(new)

    def _files_of_other_pipelines(self) -> list[str]:
        """Return the files whose rows other, interrupted pipelines will add to the history with their next commit."""
        paths = []
        for name in self.main.others.names:
            table, main = (
                StreamTable(own.root, name, own.stream, own.schema, allow_lost_state=True)
                for own in (self.table, self.main)
            )
            other = RowHistory(table, main)
            if (followed := other._followed) is not None and main.state_version is not None:
                paths += [file.path for file in other._named_since(followed) or ()]
        missing = missing_files(self.table.root, paths)
        return [path for path in paths if path not in missing]

    def _files_of_log(self) -> Iterator[tuple[str, PartitionValues]]:
        """Yield the existing files that commits to the main table added, oldest first, then its current files.

        Paths are spelled as in the log.
        """
        root = self.main.root
        yielded = set()
        for version in range(self.main.version + 1):
            try:
                commit = commit_at(root, version)
            except FileNotFoundError:
                continue  # cleaned up
            for path, add in commit.add.items():
                if path not in yielded and root.has([unquote(path)]):
                    yielded.add(path)
                    yield path, {name: text or None for name, text in add.get("partitionValues", {}).items()}
        for file in self.main.files():
            if file.path not in yielded:
                yield file.path, file.partition

    def _commit(self, files: Sequence[DataFile], written: Mapping[str, pa.Schema]) -> None:
        """Add the files, and save the main table's version up to which the history is complete.

        written: see `_with_history_types`.
        """
        repeat_if_changed(self.table, partial(self._add, files, written))

    def _add(self, files: Sequence[DataFile], written: Mapping[str, pa.Schema]) -> None:
        self.table.guard.check([Use.HISTORY])
        saved = replace(self._saved, state=self.main.state_version or 0, records=self._saved.records + row_count(files))
        fitting = self._with_history_types(files, written)
        with self.table.removing_if_changed([file for file in fitting if file not in files]):
            self.table.commit(saved, fitting)


def _gains_fields(schema: pa.Schema, field: pa.Field) -> bool:
    old = schema.field(field.name).type
    return bool(old != field.type) and only_gains(old, field.type)
