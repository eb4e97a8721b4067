"""TableWriting: the table that a stream is written to, its planned columns, and its write mode."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

import pyarrow as pa
from deltalake.exceptions import DeltaError
from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import CdkError, StateError
from cdk.base.logs import FirstWarning, logger
from cdk.base.task_map import TaskMap
from cdk.base.values import JsonValue
from cdk.lake.admin.edits import import_state
from cdk.lake.admin.locate import OpenTables
from cdk.lake.admin.state_admin import Admin, EditResult
from cdk.lake.arrow.columns import ADDITIONAL, column_name, field_of
from cdk.lake.arrow.json_schema import warn_of_schema_mistakes
from cdk.lake.arrow.schema_evolution import MOST_COLUMNS, Grown, Policy, SchemaChange, with_columns
from cdk.lake.delta.failed_commit import repeat_if_changed
from cdk.lake.delta.pinned_table import FilesMissing
from cdk.lake.delta.table_guard import Use
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import FULL_REFRESH_DEFAULT, MODES, WriteMode, WriteModeSetup
from cdk.lake.parquet.table_files import damaged_files
from cdk.lake.parquet.table_rows import TableLayout, schema_of
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import Folder
from cdk.state.wire import state_of
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.resume import is_refreshed
from cdk.sync.tables.table_fit import (
    bounded_columns,
    check_guards,
    check_key,
    check_row_moves,
    declared_columns,
    existing_table,
    history_guard,
    identity,
    json_keys,
    new_columns,
    planned_columns,
    warn_of_fields_without_column,
    warn_of_string_columns,
    warn_of_wider_columns,
)
from cdk.sync.tables.table_owner import check_owner, rows_of_others
from cdk.sync.tasks.messages import WriteTarget


class GrownFiles(Struct, frozen=True):
    """The files of tasks after the table's columns have grown, rewritten where necessary."""

    files: list[Sequence[DataFile] | None]
    """One item per task; None if its files are gone, so that its slices must be read again."""
    saved: TableState
    """The state, with the current files of a hidden generation."""
    lost: FilesMissing | None = None
    """The error for files that had vanished, if any."""


class TableWriting:
    """Opens a stream's table, adapts it to the schema as the schema policy says, and selects the write mode."""

    def __init__(self, plan: StreamPlan, tables: OpenTables, *, removes_stale: bool = False) -> None:
        """removes_stale: rows that a complete read does not see are to be removed.

        Raises ConfigError: when the existing table does not fit the schema. StateError: see StreamTable.
        """
        stream, name = plan.stream, plan.stream.name
        self._declared = declared_columns(plan)
        self._undeclared: dict[str, pa.DataType] = {}
        self._warn_of_most, self._warn_of_unwritable = FirstWarning(), FirstWarning()
        warn_of_schema_mistakes(name, stream.json_schema())
        warn_of_fields_without_column(name, stream.json_schema(), self._declared)
        self.table = existing_table(plan, self._declared, tables) or tables.create(
            plan.location, *new_columns(plan, self._declared)
        )
        refreshed = is_refreshed(plan, self.table.saved)
        if refreshed and plan.traits.repeats_rows:
            plan = replace(plan, write_mode=FULL_REFRESH_DEFAULT)
        self._plan = plan
        check_row_moves(plan, self.table)
        self._columns = self._planned()
        guards = (self.table.guard, history_guard(plan, tables))
        check_guards(plan, self._declared, self._columns, *guards)
        warn_of_string_columns(plan, self._columns.columns, self._declared)
        self._may_widen = not any(guard.refusals([Use.WIDEN]) for guard in guards)
        self.bounded = bounded_columns(plan)
        """Columns whose bounds are written to the log."""
        self.refreshes_keys = refreshed and plan.traits.merges
        """Whether everything is read again, and rows of other generations are stale after that."""
        key = identity(plan, self._columns.schema, self._columns.columns)
        check_key(plan, self.table, key, self._columns)
        self.keys = key.keys if key is not None and plan.traits.merges else ()
        """The key columns by which rows are merged; empty if they are not merged."""
        added_to = self.table.saved if plan.traits.repeats_rows else None
        earlier = () if added_to is None else added_to.json_keys
        self.json_keys = tuple(dict.fromkeys([*earlier, *json_keys(plan, self._columns)]))
        """The columns of the primary key that hold JSON text in some rows."""
        if key is not None and (removes_stale or self.refreshes_keys):
            # The row that was read last wins, so that each key that was read has this generation's number. If the
            # newest by cursor won, a key whose row returned with an older value would look as if it was not read.
            key = replace(key, cursor=None)
        history = partial(tables.history, plan.location, self.table, self.bounded)
        setup = WriteModeSetup(self.table, self._columns.schema, key, self.bounded, history)
        self.mode: WriteMode = MODES[plan.write_mode](setup)

    def target(self, generation: int) -> WriteTarget:
        """Return what tasks need to know to read the stream and write its rows."""
        change = self._columns
        staging, by = self.mode.staging, self.table.partition_by
        follows = frozenset(field for field in change.follows if column_name(field) not in by and self._may_widen)
        return WriteTarget(
            self._plan.stream,
            staging,
            change.columns,
            generation,
            change.room,
            follows,
            self._may_widen,
            self.bounded,
            bool(self.keys),
            by,
        )

    def outgrew(self, target: WriteTarget) -> bool:
        """Whether the columns differ from those of `target`."""
        return target.columns != self._columns.columns

    def unusable(self, pending: Sequence[DataFile]) -> str | None:
        """Return why the hidden files of an incomplete generation cannot be used any more; None if they can."""
        if not self.table.root.has([file.path for file in pending]):
            # VACUUM removes files that no version of the table names, including these.
            return "files of the interrupted sync are missing"
        schemas = list(_schemas(self.table.root, pending).values())
        # The generation may have values that the columns of the earlier rows cannot hold.
        known = {column.name: column for column in self._columns.schema if field_of(column) in self._columns.follows}
        undeclared = {column.name: column.type for schema in schemas for column in schema if column.name in known}
        self._plan_undeclared(
            {field_of(known[name]): kind for name, kind in undeclared.items() if kind != known[name].type}
        )
        return "the schema has changed since the interrupted sync" if any(map(self._differs, schemas)) else None

    def prepare(self, saved: TableState, spread: TaskMap) -> None:
        """Add the columns that the table lacks, and rewrite its files if a column is to become wider.

        Rewriting is one commit that leaves the state unchanged; the history follows. Raises StateError.
        """
        repeat_if_changed(self.table, partial(self._match_plan, saved, spread))
        self.mode.prepare(spread)

    def _match_plan(self, saved: TableState, spread: TaskMap) -> None:
        self._follow_table()
        self._widen(saved, spread)

    def _widen(self, saved: TableState, spread: TaskMap) -> bool:
        """Change the table's columns as planned. Return whether that took rewriting its files."""
        self.mode.add(self._columns.add)
        if not self._columns.widen or self._plan.traits.hidden_until_complete:
            return False
        before, narrow = self.table.saved or replace(saved, state=None), self.table.schema
        self.table.widen(before, lambda exact: self._planned(exact).schema, self.bounded, spread)
        self._columns = self._planned()
        warn_of_wider_columns(self._plan.stream.name, narrow, self.table.schema)
        return True

    def grow(
        self,
        grown: Sequence[Grown],
        files: Sequence[Sequence[DataFile]],
        saved: TableState,
        spread: TaskMap,
        *,
        stale: bool = False,
    ) -> GrownFiles:
        """Add or widen the columns that tasks found necessary for undeclared fields, see StreamSync.grow.

        The table's columns are changed first: if this is interrupted, they are merely wider than its rows need.
        VACUUM may remove uncommitted files at any time; files that cannot be rewritten because of that are left out.
        """
        staged = [*saved.pending, *chain.from_iterable(files)]
        missing = set[str]()

        def attempt() -> GrownFiles:
            nonlocal stale
            # From the second attempt on, the plan may have columns that the files lack.
            differ, stale = self._follow_table() or stale, True
            return self._grown(grown, files, saved, missing, spread, stale=differ)

        while True:
            try:
                return repeat_if_changed(self.table, attempt)
            except Exception as error:
                before, missing = missing, set(damaged_files(self.mode.staging, staged))
                if missing <= before:
                    raise
                text = "%s: files disappeared while they were rewritten (%s); rewriting again without them"
                logger.warning(text, self._plan.stream.name, error)

    def _grown(
        self,
        grown: Sequence[Grown],
        files: Sequence[Sequence[DataFile]],
        saved: TableState,
        missing: set[str],
        spread: TaskMap,
        *,
        stale: bool,
    ) -> GrownFiles:
        """Do one attempt of `grow`, assuming that no further file vanishes. missing: paths of lost files."""
        staging = self.mode.staging
        schema, fits = self._schema_of_all(grown, files, missing)
        # Missing files of a hidden generation are detected by the commit that is to make it visible.
        present = [file for file in saved.pending if file.path not in missing]
        present += chain.from_iterable(task_files for task_files, usable in zip(files, fits, strict=True) if usable)
        known = {field_of(column): column.type for column in self._columns.schema}
        undeclared = {field: column.type for column in schema if known.get(field := field_of(column)) != column.type}
        alike = undeclared.keys().isdisjoint(known) and all(
            kinds == (undeclared[field],)
            for task_grown, usable in zip(grown, fits, strict=True)
            for field, kinds in task_grown.items()
            if usable and field in undeclared
        )
        written = {} if alike and not stale else _schemas(staging, present)
        self._plan_undeclared(undeclared)
        if written:
            narrow = [file for file in present if self._differs(written[file.path])]
            rounded = self._layout(staging).rounded_columns(narrow, spread)
            self._plan_undeclared({field_of(self._columns.schema.field(name)): pa.string() for name in rounded})
        if self._widen(saved, spread):
            self.mode.prepare(spread)
        # The committed state still names the hidden files from before rewriting, so those are not deleted.
        saved = replace(saved, pending=tuple(self._rewritten(saved.pending, written, spread)))
        fitting = [
            self._rewritten(task_files, written, spread) if usable else None
            for task_files, usable in zip(files, fits, strict=True)
        ]
        for task_files, new in zip(files, fitting, strict=True):
            for file in task_files:
                if new is None or file not in new:
                    staging.delete(file.path)
        return GrownFiles(fitting, saved, self._lost(files, missing))

    def _schema_of_all(
        self, grown: Sequence[Grown], files: Sequence[Sequence[DataFile]], missing: set[str]
    ) -> tuple[pa.Schema, list[bool]]:
        """Return the table's columns plus those that tasks found, and whether each task's files fit into them."""
        schema, fits = self._columns.schema, []
        for task_grown, task_files in zip(grown, files, strict=True):
            wide = with_columns(schema, task_grown) if missing.isdisjoint(file.path for file in task_files) else None
            fits.append(wide is not None)
            schema = schema if wide is None else wide
        return schema, fits

    def _rewritten(
        self, files: Sequence[DataFile], written: Mapping[str, pa.Schema], spread: TaskMap
    ) -> Sequence[DataFile]:
        """Return the files, rewriting those with narrower columns. written: the columns of files, by path."""
        narrow = [file for file in files if file.path in written and self._differs(written[file.path])]
        if not narrow:
            return files
        rewritten = self._layout(self.mode.staging).rewrite(narrow, spread)
        return [*(file for file in files if file not in narrow), *rewritten]

    def _lost(self, files: Sequence[Sequence[DataFile]], missing: set[str]) -> FilesMissing | None:
        """Return the error for missing files of the tasks; None if there are none."""
        paths = [file.path for task_files in files for file in task_files]
        lost = [path for path in paths if path in missing]
        if not lost:
            return None
        return FilesMissing(lost, len(paths), stream=self._plan.stream.name, path=str(self.mode.staging))

    def _plan_undeclared(self, undeclared: Mapping[str, pa.DataType]) -> None:
        """Plan again, with columns of undeclared fields that are wide enough for their values."""
        if not undeclared:
            return
        self._undeclared.update(undeclared)
        self._plan_with(self._planned())

    def _plan_with(self, planned: SchemaChange) -> None:
        self._columns = planned
        if self._plan.traits.hidden_until_complete:
            self.mode.add(list(self._columns.schema))

    def _follow_table(self) -> bool:
        """Plan again, with the table's current columns. Return whether the planned schema has changed."""
        before, planned = self._columns, self._planned()
        # The plan is replaced even if the schema is the same, because the columns to add or widen for it may differ: a
        # RESTORE can bring back a narrower column where one was to be added.
        self._plan_with(planned)
        return not planned.schema.equals(before.schema)

    def _layout(self, folder: Folder) -> TableLayout:
        return TableLayout(folder, self._columns.schema, self.bounded, self.table.partition_by)

    def compact(self) -> None:
        """Join the small files that frequent commits have left in the tables."""
        for table in self.mode.tables:
            try:
                table.compact()
            except (CdkError, DeltaError, OSError, pa.ArrowException) as error:
                # Also a full disk is only a warning: all rows and the state are in the table already.
                text = "%s: its small files were not joined, which the next sync will do: %s"
                logger.warning(text, self._plan.stream.name, error)

    def _differs(self, written: pa.Schema) -> bool:
        """Whether a file must be rewritten before it can be committed."""
        kinds = {field.name: field.type for field in self._columns.schema}
        return any(kinds.get(field.name) != field.type for field in written)

    def _planned(self, exact: frozenset[str] = frozenset()) -> SchemaChange:
        planned = planned_columns(self._plan, self._declared, self.table, exact, self._undeclared)
        if len(planned.schema) >= MOST_COLUMNS and self._plan.policy is Policy.EVOLVE:
            self._warn_of_most(
                f"{self._plan.stream.name}: the table has {len(planned.schema):,} columns, and undeclared fields get "
                f"columns up to {MOST_COLUMNS:,}: values of further fields are stored in {ADDITIONAL}. Declare the "
                "fields that should have columns; ids belong in values, not in field names"
            )
        if planned.unwritable:
            names = ", ".join(f"{field.name!r} is {field.type}" for field in planned.unwritable)
            self._warn_of_unwritable(
                f"{self._plan.stream.name}: found columns of another program whose types the kit does not write "
                f"({names}), expected its own types, or fields that the schema declares: undeclared fields get no "
                f"columns, and values of these fields are stored in {ADDITIONAL} as well. Declare the fields, so "
                "that their columns are widened, or sync into another path"
            )
        return planned


def import_into_table(admin: Admin, plan: StreamPlan, blob: JsonValue, *, replaces: bool) -> EditResult:
    """Import the state of another program or pipeline into a stream's table, and create the table if necessary.

    replaces: the import may replace an existing state.
    Raises StateError: when there is a state already and `replaces` is not set; or, as in a sync, when the imported
    state is that of a stream never read, but the table has rows of others. BadState: when `blob` is not a state.
    """
    location = plan.location
    table = location.open(admin.pipeline, clock=admin.clock, allow_lost_state=True) if location.exists else None
    saved = None if table is None else table.saved
    fresh = TableState(plan.sync_mode, plan.write_mode)
    change = import_state(saved or fresh, plan.stream, blob, "import", of_another=True)
    # An import that was killed is completed by the same one: what it has imported stays as it is.
    if table is not None and table.state_version is not None and not replaces and change.saved != saved:
        text = "the stream already has another state; pass --replace to replace it with the imported one"
        raise StateError(text, stream=location.name)
    if table is None:
        admin.check(location.name, change.saved)
        if admin.dry:
            return EditResult(location.name, change)
        table = TableWriting(plan, OpenTables(admin.pipeline)).table
    elif not state_of(plan.stream, blob).positions:
        check_owner(table, plan, admin.pipeline)
    elif table.others and (text := rows_of_others(table, plan, admin.pipeline)):
        change = replace(change, consequences=(f"{text[0].upper()}{text[1:]}.", *change.consequences))
    return admin.commit(location, table, change)


def _schemas(folder: Folder, files: Sequence[DataFile]) -> dict[str, pa.Schema]:
    """Return the schemas of files, by path."""
    return {file.path: schema_of(folder, file.path) for file in files}
