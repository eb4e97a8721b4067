"""The files of a table's log: reads the actions of a commit, and finds the damaged file if a table cannot be opened.

delta-rs reports that a log cannot be read, but for most damage not in which file. It accepts an empty commit file, as a
power failure may leave it: the rows of that version are then missing silently. This module checks the files that the
newest version needs: the newest checkpoint, and all commits after it.
"""

import re
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from cdk.base.errors import StateError
from cdk.lake.storage.folder import Folder

Action: TypeAlias = dict[str, Any]
"""A line of a commit. `Any`: its structure depends on the kind of action, which the caller knows."""

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:.+\.)?(?:parquet|json)")
_HINT = "_last_checkpoint"
_EMPTY = "found an empty file, expected JSON objects"
_RESTORE = "Restore the file from a backup"
_MISSING_REMEDY = (
    f"{_RESTORE}. Without a backup, the rows of the table are unknown: move the table's folder away, and the next sync "
    "reads everything from the start"
)


class UnreadableTable(StateError):
    """A table that cannot be opened: its log is damaged, or needs what delta-rs does not support."""


class BrokenLog(UnreadableTable):
    """A file of a table's log is damaged or missing."""

    def __init__(self, root: Folder, name: str, problem: str, remedy: str, stream: str = "") -> None:
        text = f"the table's log is damaged: {problem}. {remedy}"
        super().__init__(text, path=f"{root}/_delta_log/{name}", stream=stream)


def actions_of(root: Folder, version: int, stream: str = "") -> list[Action]:
    """Return the actions of a version's commit. Raises FileNotFoundError: when it left the log. BrokenLog."""
    actions: list[Action] = []
    for number, line in enumerate(root.join("_delta_log").read(_file(version)).splitlines(), start=1):
        try:
            action = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            problem = f"found no JSON in line {number} ({error.msg}), expected an object"
            raise _broken_commit(root, version, problem, stream) from None
        if not isinstance(action, dict):
            raise _broken_commit(root, version, f"found no object in line {number}, expected one", stream)
        actions.append(action)
    if not actions:
        raise _broken_commit(root, version, _EMPTY, stream)
    return actions


def check_written(root: Folder, version: int, stream: str) -> None:
    """Raise BrokenLog when a commit that `version` needs is empty, or the next one cannot be written.

    Disks only: a store writes files as a whole, and has no folders.
    """
    if (disk := root.on_disk) is None:
        return
    log, following = root.join("_delta_log"), _file(version + 1)
    entry = disk / "_delta_log" / following
    if not entry.is_file() and (entry.is_symlink() or entry.exists()):
        problem = "found a folder or a broken link with the name of the next commit, expected that nothing has it yet"
        raise BrokenLog(root, following, problem, "Move it out of the folder", stream)
    commits = {_file(at): at for at in range(version, _hinted(log), -1)}
    for name, size in log.sizes(commits).items():
        if not size:
            raise _broken_commit(root, commits[name], _EMPTY, stream)


def check_log(root: Folder, stream: str) -> None:
    """Raise BrokenLog when a file that the newest version needs is missing or unreadable."""
    log = root.join("_delta_log")
    commits, checkpoints = _versions(log)
    newest, summed = max(commits, default=-1), max(*checkpoints, _hinted(log), -1)
    if summed >= 0:
        before = max((at for at in checkpoints if at < summed), default=-1)
        _check_checkpoint(root, summed, stream, is_redundant=commits.issuperset(range(before + 1, newest + 1)))
    for version in range(summed + 1, newest + 1):
        if version not in commits:
            text = "the file is missing, and newer commits exist"
            raise BrokenLog(root, _file(version), text, _MISSING_REMEDY, stream)
        actions_of(root, version, stream)


def broken_transaction(root: Folder, version: int, stream: str) -> BrokenLog:
    """Return the error of a sync's commit whose last line, which moves the state, is missing."""
    problem = "found a commit of a sync without the line that moves the state, expected this line at the end"
    return _broken_commit(root, version, problem, stream)


def _check_checkpoint(root: Folder, version: int, stream: str, *, is_redundant: bool) -> None:
    """Raise BrokenLog when a checkpoint is missing or unreadable. is_redundant: all commits that it sums up exist."""
    remedy = _MISSING_REMEDY
    if is_redundant:
        moved = f"{_HINT} and the files of checkpoint {version}"
        remedy = (
            f"{_RESTORE}, or move {moved} out of the folder: the commits that it sums up exist, and are read instead"
        )
    files = [name for name in root.join("_delta_log").names() if name.startswith(f"{version:020}.checkpoint.")]
    if not files:
        text = f"the log names checkpoint {version}, and none of its files exists"
        raise BrokenLog(root, _HINT, text, remedy, stream)
    for name in files:
        if why := _unreadable(root.join("_delta_log"), name):
            raise BrokenLog(root, name, f"the checkpoint cannot be read ({why})", remedy, stream)


def _unreadable(log: Folder, name: str) -> str:
    """Return why a file of a checkpoint cannot be read; empty if it can."""
    if not log.sizes([name]).get(name):
        return "it is empty"
    if name.endswith(".parquet"):
        try:
            with log.reader(name) as source:
                for _ in pq.ParquetFile(source).iter_batches():
                    pass
        except (pa.ArrowException, OSError) as error:
            return str(error).partition("\n")[0]
    return ""


def _broken_commit(root: Folder, version: int, problem: str, stream: str) -> BrokenLog:
    commits, checkpoints = _versions(root.join("_delta_log"))
    if any(at >= version for at in checkpoints):
        remedy = (
            f"{_RESTORE}, or move it out of the folder: a later checkpoint has the rows of the table, but older "
            "versions are then lost"
        )
    elif any(at > version for at in commits):
        remedy = _MISSING_REMEDY
    else:
        remedy = (
            f"{_RESTORE}. Without a backup, and if nothing else writes to the table, move the file out of the folder: "
            "the table and its state are then those before that commit, and the next sync reads its records again; "
            "the changes of another program in it are lost"
        )
    return BrokenLog(root, _file(version), problem, remedy, stream)


def _hinted(log: Folder) -> int:
    """Return the version of the checkpoint that the log names as its newest; -1: it names no checkpoint."""
    try:
        hint = orjson.loads(log.read(_HINT))
    except (FileNotFoundError, orjson.JSONDecodeError):
        return -1  # readers then find checkpoints by file name
    match hint:
        case {"version": int(version)}:
            return version
        case _:
            return -1


def _versions(log: Folder) -> tuple[set[int], set[int]]:
    """Return the versions that have commits, and those that have checkpoints."""
    names = log.names()
    commits, checkpoints = (
        {int(match[1]) for match in map(kind.fullmatch, names) if match is not None} for kind in (_COMMIT, _CHECKPOINT)
    )
    return commits, checkpoints


def _file(version: int) -> str:
    return f"{version:020}.json"
