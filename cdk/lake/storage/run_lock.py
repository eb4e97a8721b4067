"""One sync of a pipeline at a time on one machine, and whether the last one was cut.

The lock makes a second run fail early and says who holds it. It is not what keeps the tables right: the pinned handle
does that (`cdk.lake.delta.stream_table`), across machines too. A file in the target, `_cdk/<pipeline>.sync`, names the
sync that runs, and is removed when that sync ends, with failed streams or without. A name that no sync holds means: it
was cut, by a kill, a signal or a limit, and the next run is the rest of it. The file is replaced as a whole, so a disk
that is full keeps the name that it has.

The lock itself is an empty file beside it. A store has no locks: what is held is then a file in the user's cache
folder, one for each address, which keeps out a second run on the same machine and no other. A run on another machine
takes a sync that still runs for one that was cut: the first commit of either makes the other's next one fail.

Beside them, `_cdk/<pipeline>.completed` says of each stream when the read began that last came to its end: one that
finds nothing new need not commit anything.
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
    """Hold the pipeline's lock; the system frees it when the process ends, however it ends. Gives the sync's id.

    The id is that of the sync before when that one was cut: killed, or ended by an error of its own, or with a rest.
    has_rest: whether the next run is the rest of this one, asked at its end.
    Raises StateConflict: another process holds the lock. ConfigError: the target cannot be written, or a store refuses.
    TransientError: a store does not answer.
    """
    notes, name = as_folder(target).join("_cdk"), f"{pipeline}.sync"
    with _locked(as_folder(target), pipeline):
        sync = _read(notes, name).partition(" ")[0] or uuid4().hex
        try:
            notes.write(name, f"{sync} by process {os.getpid()} on {socket.gethostname()}".encode())
        except OSError as error:
            raise unwritable(error, f"{notes}/{name}") from error
        yield sync
        if not has_rest():
            notes.delete(name)
            return
        with suppress(OSError):  # it has the name already
            # Of no process: the number of this one may soon be that of another.
            notes.write(name, sync.encode())


@contextmanager
def between_runs(target: Folder | Path, pipeline: str) -> Iterator[None]:
    """Hold the pipeline's lock without being a sync: one that was cut before is still to be gone on with.

    Raises StateConflict and ConfigError, as `only_run` does.
    """
    with _locked(as_folder(target), pipeline):
        yield


def unfinished_sync(target: Folder, pipeline: str) -> tuple[str, bool] | None:
    """The sync that has not ended, and whether its process is one of this machine and runs; None: all have ended."""
    sync, _, holder = _read(target.join("_cdk"), f"{pipeline}.sync").partition(" by process ")
    process, _, host = holder.partition(" on ")
    if not sync:
        return None
    return sync, host == socket.gethostname() and process.isdecimal() and _runs(int(process))


def note_completed(target: Folder, pipeline: str, began: Mapping[str, datetime]) -> None:
    """Note that the sync that holds the lock has read streams to their ends. Raises OSError, and what a store does.

    began: when the read of each stream did.
    """
    times = {**last_completed(target, pipeline), **began}
    content = to_json({name: moment.isoformat() for name, moment in times.items()})
    target.join("_cdk").write(f"{pipeline}.completed", content)


def last_completed(target: Folder, pipeline: str) -> Mapping[str, datetime]:
    """When the read of each stream began that last came to its end, as far as that was noted."""
    with suppress(ValueError, TypeError, AttributeError):  # whatever else somebody has put there
        noted: Stored = from_json(_read(target.join("_cdk"), f"{pipeline}.completed") or "{}")
        return {name: datetime.fromisoformat(moment) for name, moment in noted.items()}
    return {}


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)  # sends no signal
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def _locked(folder: Folder, pipeline: str) -> Iterator[None]:
    name = f"{pipeline}.lock"
    with _open(folder.local_path / name) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            notes = folder.join("_cdk")
            holder = _read(notes, f"{pipeline}.sync").partition(" ")[2] or "by another process"
            raise StateConflict(
                f"another sync of the pipeline {pipeline!r} is running, {holder}; wait for it to end, or stop it",
                path=f"{notes}/{name}",
            ) from None
        yield


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
