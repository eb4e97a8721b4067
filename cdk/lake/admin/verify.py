"""Checks of `state verify`: damage to states, tables and receipts; and orphan files, which nothing needs any more."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import orjson
from msgspec import Struct

from cdk.base.errors import BadState, StateError
from cdk.base.values import Stored, from_json
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.table_audit import Audit, audit
from cdk.lake.delta.state_blobs import number
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_guard import is_table, open_newest
from cdk.lake.delta.write_modes import traits_of
from cdk.lake.parquet.merge import scratch_files
from cdk.lake.parquet.table_files import commit_at
from cdk.lake.storage.folder import Folder
from cdk.lake.storage.table_log import UnreadableTable
from cdk.state.stored_positions import split_entries

_DATA = re.compile(r"part-[0-9a-f]{32}\.parquet")


class StateFinding(Struct, frozen=True):
    """A fact about a stream's state. broken: the next sync fails, or rows are missing."""

    stream: str
    text: str
    broken: bool = True


class OrphanFile(Struct, frozen=True):
    """A file that no table and no state needs. why: what kind of file it was."""

    root: Folder
    name: str
    why: str
    bytes: int


class CheckedTable(Struct, frozen=True):
    """A table to check, with its location and the audit of its commits."""

    location: StreamLocation
    table: StreamTable
    audited: Audit
    """The audit of its receipts."""

    @property
    def name(self) -> str:
        """The stream's name in findings."""
        return self.location.name


Check: TypeAlias = Callable[[CheckedTable], Iterator[StateFinding]]
"""A check for one kind of damage. It reads logs, file names and footers, but no rows, and changes nothing."""


def audits(location: StreamLocation) -> tuple[dict[str, Audit], list[StateFinding]]:
    """Return the audits of a stream's table and its history, by name, and a finding for each unreadable log."""
    roots = {location.name: location.root}
    if location.history is not None and is_table(location.history, location.stream):
        roots[f"{location.name}, history"] = location.history
    audited, broken = dict[str, Audit](), list[StateFinding]()
    for name, root in roots.items():
        try:
            audited[name] = audit(root, location.stream)
        except UnreadableTable as error:
            broken.append(StateFinding(name, str(error)))
    return audited, broken


def verify_tables(tables: Iterable[StreamLocation], pipeline: str) -> tuple[dict[str, Audit], list[StateFinding]]:
    """Return the audits of tables and their histories, by name, and everything that is wrong with the tables."""
    audited, wrong = dict[str, Audit](), list[StateFinding]()
    for table in tables:
        of_table, unreadable = audits(table)
        audited |= of_table
        wrong += [*unreadable, *findings(table, pipeline, of_table)]
    return audited, wrong


def findings(location: StreamLocation, pipeline: str, audited: Mapping[str, Audit]) -> Iterator[StateFinding]:
    """Yield what is wrong with a stream's state, files and receipts; nothing if all is well.

    audited: see `audits`; the log of a table that is missing there cannot be read, so it is not checked further.
    """
    yield from _of_receipts(audited)
    if location.name not in audited:
        return
    table = location.open(pipeline, allow_lost_state=True)
    if table.lost_state is not None or table.state_version is not None:
        checked = CheckedTable(location, table, audited[location.name])
        for check in CHECKS:
            yield from check(checked)


def _of_receipts(audited: Mapping[str, Audit]) -> Iterator[StateFinding]:
    for name, table_audit in audited.items():
        yield from (StateFinding(name, text) for text in table_audit.contradictions)
        yield from (StateFinding(name, text, broken=False) for text in table_audit.notes())


def _lost_state(checked: CheckedTable) -> Iterator[StateFinding]:
    if checked.table.lost_state is not None:
        yield StateFinding(checked.name, str(checked.table.lost_state))


def _restore(checked: CheckedTable) -> Iterator[StateFinding]:
    if checked.table.lost_state is None and checked.table.restored:
        version = checked.table.rows_state_version
        owner = "no state, so the next sync reads from the start" if version is None else _state(version)
        yield StateFinding(checked.name, f"the table was restored; its rows belong to {owner}", broken=False)


def _unreadable_states(checked: CheckedTable) -> Iterator[StateFinding]:
    for version in _versions(checked.table):
        try:
            _, parts = split_entries(checked.table.blobs.load(version).state)
            for texts in parts.values():
                texts.load()
        except StateError as error:
            if version == checked.table.rows_state_version:
                if checked.table.lost_state is None:
                    yield StateFinding(checked.name, str(error))
            else:
                text = f"a rollback to {_state(version)} is not possible: {error}"
                yield StateFinding(checked.name, text, broken=False)


def _missing_hidden_files(checked: CheckedTable) -> Iterator[StateFinding]:
    saved = checked.table.saved
    if saved is not None and not checked.location.root.has([file.path for file in saved.pending]):
        text = "files of a generation that is not visible yet are missing; the next sync reads it from its start"
        yield StateFinding(checked.name, text, broken=False)


def _deleted_rows(checked: CheckedTable) -> Iterator[StateFinding]:
    saved = checked.table.saved
    if saved is None or not checked.audited.since:
        return
    if traits_of(saved.write_mode).hidden_until_complete and not saved.complete:
        return
    # As far as the log reaches, it tells who removed rows; for older changes, only the state's count is left.
    rows = checked.table.row_count()
    if rows is not None and rows < saved.records:
        text = f"the table has {rows:,} rows, and its state counts {saved.records:,}: some were deleted since"
        yield StateFinding(checked.name, text, broken=False)


CHECKS: tuple[Check, ...] = (_lost_state, _restore, _unreadable_states, _missing_hidden_files, _deleted_rows)
"""The checks for a table with a state, in the order in which their findings are shown."""


def orphan_files(location: StreamLocation, pipeline: str, *, now: datetime, age: timedelta) -> Iterator[OrphanFile]:
    """Yield old states and drafts, and data files that no version in the table's log names, older than `age`.

    Files that a state of any pipeline names are no orphans, including those of retained older states. In a store, data
    files are left alone, because it cannot be listed which other pipelines have states there. Scratch files of killed
    merges are orphans everywhere.
    Raises StateError: when a state cannot be read, so that it is unknown which files it names.
    """
    states, table = location.root.join("_cdk_state", pipeline), location.open(pipeline)
    retained = table.blobs.names(_versions(table))

    def orphans(root: Folder, names: Iterable[str], why: str) -> Iterator[OrphanFile]:
        for name in names:
            info = root.make_durable(name)
            if now - datetime.fromtimestamp(info.modified / 1000, now.tzinfo) >= age:
                yield OrphanFile(root, name, why, info.size)

    unneeded = (name for name in states.names() if name not in retained)
    drafts = list(orphans(states, unneeded, "a state that is no longer retained, or a draft"))
    yield from drafts
    path = location.root.on_disk
    named = set[str]() if path is None else _waiting(path, {f"{draft.root}/{draft.name}" for draft in drafts})
    for root in (location.root, location.history):
        if root is not None and root.on_disk is not None:
            named |= _named(root)
            names = (name for name in root.names() if _DATA.fullmatch(name) and name not in named)
            yield from orphans(root, names, "rows that were never committed")
    for folder, name in scratch_files(location.root):
        yield from orphans(folder, [name], "keys of a merge that was killed")


def _state(version: int) -> str:
    return f"state {number(version)}"


def _versions(table: StreamTable) -> list[int]:
    """Return the versions of the table's states, newest first; if no state is readable, those of all state files."""
    return sorted(table.blobs.versions, reverse=True) if table.saved is None else table.states


def _named(root: Folder) -> set[str]:
    """Return the files that any version in the log names, including removed ones, which RESTORE needs."""
    with root.explaining():
        table = open_newest(root, "")
        files = {str(uri).rpartition("/")[2] for uri in table.file_uris()}
    for version in range(table.version(), -1, -1):
        try:
            commit = commit_at(root, version)
        except FileNotFoundError:
            break
        files |= {*commit.add, *commit.remove}
    return files


def _waiting(root: Path, orphans: Collection[str]) -> set[str]:
    """Return the files that states of any pipeline name: of hidden generations, and with rows for a history.

    orphans: paths of states that do not count.
    """
    named: set[str] = set()
    for path in root.glob("_cdk_state/*/*.json"):
        if str(path) in orphans:
            continue
        try:
            blob: Stored = from_json(path.read_bytes())
            named |= {file["path"] for kind in ("pending", "logged") for file in blob[kind] or ()}
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise BadState(str(path), str(error), "a state; remove it if it is no longer needed") from error
    return named
