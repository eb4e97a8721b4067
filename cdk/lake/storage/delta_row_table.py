"""A Delta table whose rows come and go one by one, on a disk or in an object store.

The columns that say which row it is divide the table, so every row has a partition and a file of its own. The log alone
then tells what there is; OPTIMIZE has nothing to join; and a row is removed by naming its file.

A commit makes the very next version, through the handle that showed what is there, or it makes none. delta-rs would let
an append pass its neighbours, so it may not try again: whoever was overtaken looks again first.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from cdk.base.errors import ConfigError, TransientError
from cdk.lake.storage.folder import Folder, LocalFolder, sync_to_disk

CONTENT = pa.schema([("record", pa.string()), ("blob", pa.binary())])
"""The columns that the files hold: one of them has the row's data, the other is null."""

_SETTINGS = {
    # To open a table is to read each commit since its last checkpoint.
    "delta.checkpointInterval": "10",
    # A checkpoint also removes commits that are older. A busy table has thousands of them a week.
    "delta.logRetentionDuration": "interval 7 days",
}
_ATTEMPTS = 100
_HINDRANCES = ("Permission denied", "Not a directory", "Is a directory", "File exists", "Read-only file system")


class Row(NamedTuple):
    """Which row: the values of the partition columns. kind: the column of `CONTENT` that holds its data."""

    namespace: str
    pipeline: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.namespace}/{self.pipeline}"


Rows: TypeAlias = Mapping[Row, Sequence[str]]
"""The files of each row, relative to the table, as its log has them. More than one: each holds the row."""

Actions: TypeAlias = Sequence[AddAction | RemoveAction]

_WHICH = Row._fields
_SCHEMA = pa.schema([*((name, pa.string()) for name in _WHICH), *CONTENT])


class RowTable:
    """The table at `place`, which holds nothing else. Where no table is, no rows are.

    May be used by several threads: one of them looks or commits at a time.
    Raises ConfigError: delta-rs cannot open a table there.
    """

    def __init__(self, folder: Folder) -> None:
        if unquote(folder.uri) != str(folder):
            raise ConfigError("delta-rs cannot open a path with %; choose another one", path=str(folder))
        self._folder = folder
        self._where = str(folder)
        self._lock = threading.Lock()
        self._table: DeltaTable | None = None
        self._seen_version = -1
        self._rows: Rows = {}

    def make(self) -> None:
        """Make the table, unless it is there."""
        with self._lock, self.translating_errors():
            if self._opened() is None:
                self._create()

    def rows(self) -> Rows:
        """What is there now: every commit that has returned is seen."""
        with self._lock, self.translating_errors():
            return self._refreshed()

    def reconcile(self, changes: Callable[[Rows], Actions]) -> Rows:
        """Commit what `changes` makes of what is there, until it wants nothing more; give what is there then.

        changes: called anew whenever somebody else has committed in between. When an answer was lost, it sees what
        became of its own commit. Raises TransientError: others were always faster.
        """
        with self._lock, self.translating_errors():
            # A round is in vain only if another commit came first, so together the pipelines always get on.
            for _ in range(_ATTEMPTS):
                rows = self._refreshed()
                if self._table is None:
                    raise ConfigError("found no table; prepare the store before it is written to", path=self._where)
                actions = changes(rows)
                if not actions:
                    return rows
                self._commit(self._table, actions)
        raise TransientError(
            f"{_ATTEMPTS} commits of others came first; run fewer pipelines on this table", path=self._where
        )

    def close(self) -> None:
        """Let go of the table; the next look opens it again."""
        self._table, self._seen_version = None, -1

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Turn what delta-rs, pyarrow and the system say into errors of the kit."""
        try:
            with self._folder.explaining():
                yield
        except (DeltaError, OSError, pa.ArrowException) as error:
            text = " ".join(str(error).split())
            hindered = isinstance(error, DeltaProtocolError) or any(word in text for word in _HINDRANCES)
            raise (ConfigError if hindered else TransientError)(
                f"the table of states failed: {text}", path=self._where
            ) from error

    def _refreshed(self) -> Rows:
        """What is there now. The handle then stands at version `_seen`, until the next look."""
        if self._table is None:
            self._table = self._opened()
            if self._table is None:
                return {}
        else:
            self._table.update_incremental()
        if self._table.version() != self._seen_version:
            self._rows, self._seen_version = _rows(self._table), self._table.version()
        return self._rows

    def _commit(self, table: DeltaTable, actions: Actions) -> None:
        """Try to make the version after the one that was looked at; whether it came to be, the next look tells.

        Raises what delta-rs raised, if the table has not moved since.
        """
        at = self._seen_version
        self._sync(at)
        try:
            table.create_write_transaction(
                list(actions),
                "append",
                table.schema(),
                list(_WHICH),
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (DeltaError, OSError):
            self._refreshed()
            if self._seen_version == at:
                raise
        self._sync(at + 1)

    def _sync(self, version: int) -> None:
        """Make a commit survive a power failure. delta-rs does not, and one that is lost hides all that follow it."""
        if isinstance(self._folder, LocalFolder):
            with suppress(FileNotFoundError):  # a checkpoint holds it
                sync_to_disk(self._folder.path / "_delta_log" / f"{version:020}.json")

    def _opened(self) -> DeltaTable | None:
        """The table; None where nothing is. Raises ConfigError: something else is."""
        # Listed before the table is looked for: what comes with a table that is being made is not strange.
        foreign = self._foreign_files()
        uri, options = self._folder.uri, self._folder.storage_options
        if not DeltaTable.is_deltatable(uri, options):
            if foreign:
                raise ConfigError(
                    f"found {foreign[0]!r}, expected a Delta table of states, or nothing; give the states a folder of "
                    "their own",
                    path=self._where,
                )
            return None
        table = DeltaTable(uri, storage_options=options)
        columns, divided_by = [field.name for field in table.schema().fields], table.metadata().partition_columns
        if columns != _SCHEMA.names or tuple(divided_by) != _WHICH:
            raise ConfigError(
                f"found a Delta table with the columns {', '.join(columns)}, expected {', '.join(_SCHEMA.names)}; "
                "give the states a table of their own",
                path=self._where,
            )
        return table

    def _create(self) -> None:
        self._folder.make()
        try:
            DeltaTable.create(
                self._folder.uri,
                _SCHEMA,
                mode="ignore",
                partition_by=list(_WHICH),
                name="spark-cdk state",
                description="State logs of pipelines. OPTIMIZE and VACUUM may run here; do not write.",
                configuration=_SETTINGS,
                storage_options=self._folder.storage_options,
                # Of two who make it at once, the second would describe it again (delta-rs 1.6).
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (DeltaError, OSError):
            if self._opened() is None:  # else somebody else made it at the same moment
                raise
        if isinstance(self._folder, LocalFolder):
            sync_to_disk(self._folder.path)

    def _foreign_files(self) -> list[str]:
        """What lies there, by names, but for those with `_` or `.` in front, which Delta leaves to others."""
        try:
            files = fs.PyFileSystem(DeltaStorageHandler(self._folder.uri, self._folder.storage_options))
        except TableNotFoundError:  # no such folder
            return []
        entries = files.get_file_info(fs.FileSelector(""))
        return sorted(item.base_name for item in entries if not item.base_name.startswith(("_", ".")))


def _rows(table: DeltaTable) -> Rows:
    """What the log of a table names."""
    actions = pa.table(table.get_add_actions(flatten=True))
    rows: dict[Row, list[str]] = defaultdict(list)
    if actions.num_rows:
        columns = [actions[f"partition.{name}"].to_pylist() for name in _WHICH]
        for path, *which in zip(actions["path"].to_pylist(), *columns, strict=True):
            rows[Row(*which)].append(path)
    return dict(rows)
