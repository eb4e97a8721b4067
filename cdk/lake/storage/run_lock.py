"""The run lock: one sync of a pipeline at a time on one machine, and whether the last sync was interrupted.

The lock makes a second run fail early with the name of its holder. It does not guarantee that the tables are correct:
the pinned handle does (`cdk.lake.delta.stream_table`), across machines too. A file in the target,
`_cdk/<pipeline>.sync`, names the running sync and is removed when that sync ends, whether streams failed or not. If the
file exists but no sync holds the lock, the sync was interrupted by a kill, a signal or a limit, and the next run is the
rest of it. The file is replaced atomically, so a full disk keeps the old name.

The lock itself is an empty file beside it. A store has no locks, so for a store the lock is a file in the user's cache
folder, one for each address; it keeps out a second run on the same machine only. A run on another machine mistakes a
sync that still runs for an interrupted one: the first commit of either makes the next commit of the other fail.

Beside them, `_cdk/<pipeline>.completed` records for each stream when its last complete read started: a read that finds
nothing new need not make a commit.
"""

import fcntl
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TextIO
from uuid import uuid4

from cdk.base.errors import StateConflict
from cdk.base.values import Stored, from_json, to_json
from cdk.lake.storage.folder import Folder, as_folder, unwritable


@contextmanager
def only_run(target: Folder | Path, pipeline: str, has_rest: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Hold the pipeline's lock and yield the sync's id; the system frees the lock however the process ends.

    The id is that of the previous sync if that was interrupted: killed, ended by its own error, or ended with a rest.
    has_rest: whether the next run is the rest of this one; called at the end of the run.
    Raises StateConflict: when another process holds the lock. ConfigError: when the target cannot be written, or a
    store refuses access. TransientError: when a store does not respond.
    """
    notes, name = as_folder(target).join("_cdk"), f"{pipeline}.sync"
    with between_runs(target, pipeline):
        sync = _read(notes, name).partition(" ")[0] or uuid4().hex
        try:
            notes.write(name, f"{sync} by process {os.getpid()} on {socket.gethostname()}".encode())
        except OSError as error:
            raise unwritable(error, f"{notes}/{name}") from error
        yield sync
        if not has_rest():
            notes.delete(name)
            return
        with suppress(OSError):  # the file already has the id
            # Without a process: the id of this process may soon be reused by another.
            notes.write(name, sync.encode())


@contextmanager
def between_runs(target: Folder | Path, pipeline: str) -> Iterator[None]:
    """Hold the pipeline's lock without starting a sync: an interrupted sync stays interrupted and can be resumed.

    Raises StateConflict and ConfigError, as `only_run` does.
    """
    folder, name = as_folder(target), f"{pipeline}.lock"
    with _open(folder.local_path / name) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notes = folder.join("_cdk")
            holder = _read(notes, f"{pipeline}.sync").partition(" ")[2] or "by another process"
            why = f"another sync of the pipeline {pipeline!r} is running, {holder}; wait for it to end, or stop it"
            raise StateConflict(why, path=f"{notes}/{name}") from None
        yield


def unfinished_sync(target: Folder, pipeline: str) -> tuple[str, bool] | None:
    """Return the id of the unfinished sync, and whether its process runs on this machine; None: there is none."""
    sync, _, holder = _read(target.join("_cdk"), f"{pipeline}.sync").partition(" by process ")
    process, _, host = holder.partition(" on ")
    if not sync:
        return None
    return sync, host == socket.gethostname() and process.isdecimal() and _runs(int(process))


def note_completed(target: Folder, pipeline: str, started: Mapping[str, datetime]) -> None:
    """Record that the sync that holds the lock has read streams to their ends. Raises OSError, and what a store raises.

    started: when the read of each stream started.
    """
    times = {**last_completed(target, pipeline), **started}
    content = to_json({name: started_at.isoformat() for name, started_at in times.items()})
    target.join("_cdk").write(f"{pipeline}.completed", content)


def last_completed(target: Folder, pipeline: str) -> Mapping[str, datetime]:
    """Return when the last complete read of each stream started, as far as it was recorded."""
    with suppress(ValueError, TypeError, AttributeError):  # the file may have been edited
        noted: Stored = from_json(_read(target.join("_cdk"), f"{pipeline}.completed") or "{}")
        return {name: datetime.fromisoformat(text) for name, text in noted.items()}
    return {}


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)  # sends no signal
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _open(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a")
    except OSError as error:
        raise unwritable(error, str(path)) from error


def _read(notes: Folder, name: str) -> str:
    with suppress(FileNotFoundError):
        return notes.read(name).decode()
    return ""
