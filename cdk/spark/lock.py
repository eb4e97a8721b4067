"""One sync of a pipeline at a time on one machine, and whether the last one was cut.

The lock makes a second run fail early and says who holds it. It is not what keeps the tables right: the pinned handle
does that (`cdk.spark.tables`), across machines too. The lock's file names the sync that holds it and is emptied when
that sync ends, with failed streams or without. A file that names one nobody holds means: it was cut, and the next run
is the rest of it.

A store has no locks. What is held is then a file in the user's cache folder, one for each address: it keeps out a
second run on the same machine and no other. The name of the sync lies in the store, so that any machine can go on with
a sync that was cut. A run on another machine takes a sync that still runs for one that was cut: the first commit of
either makes the other's next one fail.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO
from uuid import uuid4

from cdk.base.errors import ConfigError, StateConflict
from cdk.spark.place import Disk, Place, as_place


@contextmanager
def only_run(target: Place | Path, pipeline: str) -> Iterator[str]:
    """Hold the pipeline's lock; the system frees it when the process ends, however it ends. Gives the sync's id.

    The id is that of the sync before when that one was cut: killed, or ended by an error of its own.
    Raises StateConflict: another process holds the lock. ConfigError: the target cannot be written, or a store refuses.
    TransientError: a store does not answer.
    """
    place = as_place(target)
    notes, name = place.join("_cdk"), f"{pipeline}.lock"
    with _held(place, pipeline) as file:
        far = not isinstance(place, Disk)
        sync = (_fetch(notes, name) if far else _read(file)).partition(" ")[0] or uuid4().hex
        text = f"{sync} by process {os.getpid()} on {socket.gethostname()}"
        _write(file.fileno(), text)
        if far:
            notes.write(name, text.encode())
        yield sync
        if far:
            notes.write(name, b"")
        _write(file.fileno(), "")


@contextmanager
def between_runs(target: Place | Path, pipeline: str) -> Iterator[None]:
    """Hold the pipeline's lock without being a sync: one that was cut before is still to be gone on with.

    Raises StateConflict and ConfigError, as `only_run` does.
    """
    with _held(as_place(target), pipeline):
        yield


@contextmanager
def _held(place: Place, pipeline: str) -> Iterator[TextIO]:
    name = f"{pipeline}.lock"
    with _open(place.here / name) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _read(file).partition(" ")[2] or "by another process"
            raise StateConflict(
                f"another sync of the pipeline {pipeline!r} is running, {holder}; wait for it to end, or stop it",
                path=f"{place.join('_cdk')}/{name}",
            ) from None
        yield file


def _open(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")
    except OSError as error:
        raise ConfigError(f"the target cannot be written: {error.strerror}", path=str(path)) from error


def _read(file: TextIO) -> str:
    file.seek(0)
    return file.read()


def _fetch(notes: Place, name: str) -> str:
    with suppress(FileNotFoundError):
        return notes.read(name).decode()
    return ""


def _write(file: int, text: str) -> None:
    os.ftruncate(file, 0)
    os.write(file, text.encode())
    os.fsync(file)
