"""The history of a table that is merged into: a table beside it with every row as it came.

A commit to the table names the files that belong to the history, and the history then adds them, once. Each state of
the table knows the one before that brought rows, so a history that is behind, by however many commits, learns which
rows are missing, those of states that a RESTORE of the table has undone, too. Where no state knows that, or those files
are missing, it reads the table's own log and copies every row that a file still has and the history has not, by the
row's id.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from cdk.base.errors import StateError
from cdk.base.logs import logger
from cdk.base.process.crash_points import crash_point
from cdk.base.task_map import TaskMap, run_inline
from cdk.lake.arrow.columns import RAW_ID
from cdk.lake.arrow.type_promotion import common_type, only_gains, writable
from cdk.lake.delta.pinned_table import repeat_if_changed
from cdk.lake.delta.receipt import row_count
from cdk.lake.delta.state_blobs import number
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import Use
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.partitioning import Texts
from cdk.lake.parquet.table_files import TableFile, commit_at, missing_files
from cdk.lake.parquet.table_rows import rows_of, schema_of
from cdk.lake.parquet.writer import DataFile


class RowHistory:
    """The table of all rows that came to `main`. Its state is the version of the state of `main` it has followed to."""

    def __init__(self, table: StreamTable, main: StreamTable, bounded: Sequence[str] = ()) -> None:
        """bounded: columns whose bounds go into the log.

        Raises ConfigError: other columns divide the table than `main`. StateError: rows stand twice in it.
        """
        self.table, self.main, self._stream, self._bounded = table, main, main.stream, tuple(bounded)
        table.check_partition_by(main.partition_by)
        table.check_moves()

    def follow(self, spread: TaskMap = run_inline) -> None:
        """Add the rows of the last commit to the table, and all others that are missing, and the columns they need.

        Raises StateError, and what a store or a file raises.
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
        """Add the rows that are missing, and the columns they need, where files are gone, too. Raises as `follow`."""
        repeat_if_changed(self.table, self._remove_missing)
        if self._followed is None:
            self._fill(spread)
        elif self._followed == self.main.state_version:
            self._align((), spread)
        else:
            self.follow(spread)

    def _remove_missing(self) -> None:
        """Have the table name no file that is gone. Which rows it lacks is unknown then."""
        paths = missing_files(self.table.root, [file.path for file in self.table.files()])
        if missing := [file for file in self.table.files() if file.path in paths]:
            logger.warning("%s: %d files of %s are missing", self._stream, len(missing), self.table.root)
            self.table.commit(replace(self._saved, state=None), remove=missing)

    @property
    def _saved(self) -> TableState:
        return self.table.saved or TableState("incremental", Use.APPEND)

    @property
    def _followed(self) -> int | None:
        """The version of the table's state up to which the history has all rows; None: unknown."""
        version: int | None = None if self.table.saved is None else self.table.saved.state
        return version

    def _named_since(self, followed: int) -> list[DataFile] | None:
        """The files that commits to the table have named since the one to `followed`; None: some are unknown."""
        if self._is_of_other_states(followed):
            return None
        files: list[DataFile] = []
        at = self.main.state_version
        while at is not None and number(at) > number(followed):
            saved = self._state_at(at)
            if saved is None or saved.logged == ():
                return None  # it is lost, or rows came while there was no history
            files = [*(saved.logged or ()), *files]
            at = saved.logged_at
        return files

    def _is_of_other_states(self, followed: int) -> bool:
        """Whether the table has others of these numbers: a copy of it was brought back, or it was made anew."""
        now, same = self.main.state_version, number(followed)
        gone_back = now is not None and number(now) < same
        return gone_back or any(number(at) == same and at != followed for at in self.main.states)

    def _state_at(self, version: int) -> TableState | None:
        """A state of the table; None: it is not retained, or cannot be read."""
        if version == self.main.state_version:
            return self.main.newest
        with suppress(StateError):
            return self.main.load(version)
        return None

    def _align(self, written: Iterable[pa.Schema], spread: TaskMap) -> None:
        """Bring columns and files to the table's types, which this run or another pipeline has changed.

        That one may have been interrupted between the two tables. written: the columns of files that are to be added;
        the table may have narrower ones by now.
        """
        target = partial(self._target, list(written))
        if not self.table.schema.equals(target()):
            repeat_if_changed(self.table, partial(self._aligned, target, spread))

    def _aligned(self, planned: Callable[..., pa.Schema], spread: TaskMap) -> None:
        # Another pipeline that has changed the table has changed its history, too, mostly.
        self.table.reopen()
        current, target = self.table.schema, planned()
        self.table.add([field for field in target if field.name not in current.names or _gains(current, field)])
        if not self.table.schema.equals(planned()):
            self.table.widen(self._saved, planned, self._bounded, spread)

    def _target(self, written: Sequence[pa.Schema], exact: frozenset[str] = frozenset()) -> pa.Schema:
        fields = {field.name: field for field in self.table.schema}
        for field in self.main.schema:
            old = fields.get(field.name)
            kind = field.type if old is None else common_type(old.type, field.type, exact=field.name in exact)
            if kind is None:
                where = f"{self.table.root}: column {field.name!r}"
                raise StateError(f"{where} is {old and old.type}, and {field.type} in the table that it follows")
            fields[field.name] = fields.get(field.name, field).with_type(kind)
        for field in chain.from_iterable(written):
            # Other writers have types of their own for what they write again, which readers cast.
            if field.name in fields and writable(field.type):
                known = fields[field.name]
                kind = common_type(known.type, field.type, exact=field.name in exact)
                fields[field.name] = known.with_type(kind or known.type)
        return pa.schema(list(fields.values()))

    def _fitting(self, files: Sequence[DataFile], written: Mapping[str, pa.Schema]) -> list[DataFile]:
        """The files, rewritten where their columns have other types than the history's.

        written: the columns of files, by path; that of others is the history's.
        """
        kinds = {field.name: field.type for field in self.table.schema}
        readable: list[DataFile] = []
        outdated: list[DataFile] = []
        for file in files:
            columns = written.get(file.path, self.table.schema)
            same = all(only_gains(field.type, kinds.get(field.name, field.type)) for field in columns)
            (readable if same else outdated).append(file)
        old = [TableFile(file.path, file.rows, partition=file.partition, size=file.size) for file in outdated]
        return [*readable, *self.table.layout(self._bounded).rewrite(old, run_inline)] if old else readable

    def _fill(self, spread: TaskMap) -> None:
        """Copy the rows that files of the table's log have and the history has not, each as its first file has it.

        In the driver, 150 bytes of memory a row: this comes once, with the history, or after an accident.
        """
        self._align((schema_of(self.main.root, unquote(path)) for path, _ in self._files_of_log()), spread)
        files = self.table.layout(self._bounded).write(self._missing_rows())
        if files:
            text = "%s: its history lacked %d rows that are in the table's log, and has them now; rows that no file of "
            text += "the table has any more are not among them"
            logger.warning(text, self._stream, row_count(files))
        self._commit(files, {})

    def _missing_rows(self) -> Iterator[pa.RecordBatch]:
        schema = self.table.schema
        copied_ids: set[str] = set()
        for file in self.table.files():
            for batch in rows_of(self.table.root, file.path, {}, schema, [RAW_ID]):
                copied_ids.update(filter(None, batch.column(RAW_ID).to_pylist()))
        for path in self._left_to_others():
            for batch in rows_of(self.table.root, path, {}, schema, [RAW_ID]):
                copied_ids.update(filter(None, batch.column(RAW_ID).to_pylist()))
        for path, texts in self._files_of_log():
            for batch in rows_of(self.main.root, path, texts, schema, schema.names):
                ids = batch.column(RAW_ID).to_pylist() if RAW_ID in batch.schema.names else []
                new = pa.array([row is not None and row not in copied_ids for row in ids], pa.bool_())
                if pc.any(new).as_py():
                    copied_ids.update(filter(None, ids))
                    yield batch.filter(new)

    def _left_to_others(self) -> list[str]:
        """The files of rows that other pipelines add with their next commit: they died before the history had these."""
        paths = []
        for name in self.main.others.names:
            table, main = (
                StreamTable(own.root, name, own.stream, own.schema, lost=True) for own in (self.table, self.main)
            )
            other = RowHistory(table, main)
            if (followed := other._followed) is not None and main.state_version is not None:
                paths += [file.path for file in other._named_since(followed) or ()]
        missing = missing_files(self.table.root, paths)
        return [path for path in paths if path not in missing]

    def _files_of_log(self) -> Iterator[tuple[str, Texts]]:
        """The existing files that commits to the table have added, oldest first; then those of its present version.

        Paths are as the log spells them.
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
        """Add the files and note up to which state the history is complete. written: see `_fitting`."""
        repeat_if_changed(self.table, partial(self._add, files, written))

    def _add(self, files: Sequence[DataFile], written: Mapping[str, pa.Schema]) -> None:
        self.table.guard.check([Use.HISTORY])
        saved = replace(self._saved, state=self.main.state_version or 0, records=self._saved.records + row_count(files))
        fitting = self._fitting(files, written)
        with self.table.removing_if_changed([file for file in fitting if file not in files]):
            self.table.commit(saved, fitting)


def _gains(schema: pa.Schema, field: pa.Field) -> bool:
    old = schema.field(field.name).type
    return bool(old != field.type) and only_gains(old, field.type)
