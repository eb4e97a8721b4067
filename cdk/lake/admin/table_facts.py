"""What can be told of a pipeline's tables without reading or changing them, from Delta logs and saved states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from cdk.base.values import Json, from_json
from cdk.lake.delta.table_guard import Guard, Use, check_openable, guard_at, guard_of
from cdk.lake.parquet.table_files import logged_files, rows_of
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.table_folders import table_folders

_LOOKED_BACK = 20
"""Commits in which a RESTORE is looked for."""

_MANY, _SMALL = 100, 8 * 2**20
"""Files, and bytes of each on average, from which on readers of a table are slowed down by their number."""


class TableStatus(StrEnum):
    """Where a stream stands, as its table tells."""

    NEVER = "never"
    COMPLETE = "complete"
    CUT = "cut"
    RESTORED = "restored"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class TableFacts:
    """A stream's table.

    rows: None where a file does not say how many it has. bytes: of the files that the table's version names. waiting:
    rows of a generation that is not visible yet. refused: why the next sync cannot write to it. committed: when the
    version was made. The counts are 0 and version is None where there is no table.
    """

    stream: str
    path: str
    standing: TableStatus
    rows: int | None = 0
    files: int = 0
    bytes: int = 0
    version: int | None = None
    committed: datetime | None = None
    partition_columns: Sequence[str] = ()
    generation: int | None = None
    sync_mode: str | None = None
    write_mode: str | None = None
    waiting: int = 0
    refused: Sequence[str] = ()

    @property
    def file_bytes(self) -> int:
        """The average size of a file."""
        return self.bytes // self.files if self.files else 0

    @property
    def next(self) -> str:
        """What the next sync does with this stream."""
        if self.refused:
            return "fails before it reads: the table has features that forbid it"
        match self.standing:
            case TableStatus.NEVER:
                return "reads everything"
            case TableStatus.CUT:
                return "goes on where the last one stopped"
            case TableStatus.RESTORED:
                return "goes on from the rows that were restored"
            case TableStatus.UNREADABLE:
                return "fails: bring its state file back, or move the table away"
            case TableStatus.COMPLETE:
                what = f"everything, {'replaces' if self.write_mode == 'overwrite' else 'adds to'} the rows"
                return f"reads {'what is new' if self.sync_mode == 'incremental' else what}"

    @property
    def hint(self) -> str | None:
        """What a person might do about this table."""
        if self.refused:
            return "; ".join(self.refused)
        if self.waiting:
            return f"{self.waiting:,} rows of generation {self.generation} are not visible before it is complete"
        if self.files >= _MANY and self.file_bytes < _SMALL:
            return f"many small files: DeltaTable({self.path!r}).optimize.compact() makes few large ones"
        return None


class TableRequest(NamedTuple):
    """What a pipeline asks of a stream's table. write_mode: None where it does not say. removal: of stale rows."""

    write_mode: str | None = None
    removal: str | None = None


def tables_of(target: Path, pipeline: str, named: Mapping[str, TableRequest] | None = None) -> list[TableFacts]:
    """The tables below `target` that the pipeline has filled, and streams of `named` that have none; by name.

    Histories are no streams: they are left out.

    Raises OSError, DeltaError for a table whose log cannot be read, and ConfigError for one that cannot be opened.
    """
    named = named or {}
    roots = [folder.path for folder in table_folders(target, pipeline)]
    existing = [table_facts(root, pipeline, named.get(root.name, TableRequest())) for root in roots]
    existing_names = {facts.stream for facts in existing}
    missing = [
        TableFacts(
            name,
            str(target / name),
            TableStatus.NEVER,
            refused=_refused(guard_at(LocalFolder(target / name), name), options),
        )
        for name, options in named.items()
        if name not in existing_names
    ]
    return sorted([*existing, *missing], key=lambda facts: facts.path)


def table_facts(root: Path, pipeline: str, options: TableRequest | None = None) -> TableFacts:
    """What the log and the state of one table say. options: what the pipeline says of its stream.

    Raises DeltaError: the log cannot be read. ConfigError: delta-rs knows no table with such features.
    """
    options = options or TableRequest()
    with check_openable(str(root), root.name):
        table = DeltaTable(str(root))
    stream = root.name
    marker = table.transaction_version(f"spark-cdk/{pipeline}/{stream}")
    history = table.history(_LOOKED_BACK)
    state = {} if marker is None else _state(root / "_cdk_state" / pipeline / f"{marker}.json")
    # Not `pa.table`: it imports pandas, for a quarter of a second.
    files = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    size = files["size_bytes"]
    guard = guard_of(table, str(root), stream)
    moment = history[0].get("timestamp") if history else None
    return TableFacts(
        stream,
        str(root),
        _standing(marker, state, history),
        rows=rows_of(logged_files(table)),
        files=files.num_rows,
        bytes=_sum(size),
        version=table.version(),
        committed=None if moment is None else datetime.fromtimestamp(moment / 1000, UTC),
        partition_columns=tuple(table.metadata().partition_columns),
        generation=None if state is None else state.get("generation"),
        sync_mode=None if state is None else state.get("sync_mode"),
        write_mode=None if state is None else state.get("write_mode"),
        waiting=0 if state is None else sum(file["rows"] for file in state.get("pending", ())),
        refused=_refused(guard, options, (state or {}).get("write_mode")),
    )


def _refused(guard: Guard, options: TableRequest, write_mode: str | None = None) -> list[str]:
    """Why the next sync cannot write to a table. write_mode: of the last one, where the pipeline does not say."""
    uses = [Use(options.write_mode or write_mode or Use.APPEND)]
    if options.removal in {"soft", "hard"}:
        uses.append(Use(f"remove_stale: {options.removal}"))
    return guard.refusals(uses)


def _state(path: Path) -> Mapping[str, Json] | None:
    """The state that a table's marker names; None where it is gone or is none of ours."""
    try:
        blob = from_json(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    return blob if isinstance(blob, dict) and str(blob.get("format", "")).startswith("spark-cdk/") else None


def _standing(
    marker: int | None, state: Mapping[str, Json] | None, history: Sequence[Mapping[str, Json]]
) -> TableStatus:
    if marker is None:
        return TableStatus.NEVER
    if state is None:
        return TableStatus.UNREADABLE
    for commit in history:
        # Newest first: a restore after the last sync brings older rows back, and the state that belongs to them.
        if commit.get("operation") == "RESTORE":
            return TableStatus.RESTORED
        if "spark-cdk.state" in commit:
            break
    return TableStatus.COMPLETE if state.get("complete") else TableStatus.CUT


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)
