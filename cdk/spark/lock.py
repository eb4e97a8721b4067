"""One sync of a pipeline at a time on one machine, and whether the last one was cut.

The lock makes a second run fail early and says who holds it. It is not what keeps the tables right: the pinned handle
does that (`cdk.spark.tables`), across machines too. The lock's file names the sync that holds it and is emptied when
that sync ends, with failed streams or without. A file that names one nobody holds means: it was cut, and the next run
is the rest of it.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from uuid import uuid4

from cdk.base.errors import ConfigError, StateConflict


@contextmanager
def only_run(target: Path, pipeline: str) -> Iterator[str]:
    """Hold the pipeline's lock; the system frees it when the process ends, however it ends. Gives the sync's id.

    The id is that of the sync before when that one was cut: killed, or ended by an error of its own.
    Raises StateConflict: another process holds the lock. ConfigError: the target cannot be written.
    """
    path = target / "_cdk" / f"{pipeline}.lock"
    with _open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().partition(" ")[2] or "by another process"
            raise StateConflict(
                f"another sync of the pipeline {pipeline!r} is running, {holder}; wait for it to end, or stop it",
                path=str(path),
            ) from None
        file.seek(0)
        sync = file.read().partition(" ")[0] or uuid4().hex
        _write(file.fileno(), f"{sync} by process {os.getpid()} on {socket.gethostname()}")
        yield sync
        _write(file.fileno(), "")


def _open(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")
    except OSError as error:
        raise ConfigError(f"the target cannot be written: {error.strerror}", path=str(path)) from error


def _write(file: int, text: str) -> None:
    os.ftruncate(file, 0)
    os.write(file, text.encode())
    os.fsync(file)
