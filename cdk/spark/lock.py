"""One sync of a pipeline at a time, on one machine.

The lock makes a second run fail early and says who holds it. It is not what keeps the tables right: the pinned handle
does that (`cdk.spark.tables`), across machines too.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdk.base.errors import StateConflict


@contextmanager
def only_run(target: Path, pipeline: str) -> Iterator[None]:
    """Hold the pipeline's lock; the system frees it when the process ends, however it ends.

    Raises StateConflict: another process holds it.
    """
    path = target / "_cdk" / f"{pipeline}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise StateConflict(
                f"another sync of the pipeline {pipeline!r} is running ({holder}); wait for it to end, or stop it",
                path=str(path),
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
