"""Named points at which tests kill a sync, as a power failure would, to verify its guarantees.

`CDK_CRASH_AT=after_state_blob` kills the process that reaches the point, driver or task, with SIGKILL;
`after_state_blob:3` does so the third time. `CDK_CRASH_ONCE=FILE` kills only the first process, which creates the file.
Without these variables, a point costs one lookup in the environment.
"""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Final

from cdk.base.errors import ConfigError
from cdk.base.wording import nearest

POINTS: Final = {
    "task_begins": "slices are handed out, nothing of them is read",
    "page_read": "a task has read a page",
    "files_written": "a task has written its files and not returned",
    "task_ended": "a task has returned, nothing that it read is committed",
    "cluster_joined": "Spark is ready, tasks of this process read on",
    "merge_compared": "a task has written a touched file anew and not returned",
    "merged": "all touched files are written anew, nothing is committed",
    "before_state_blob": "the commit is prepared",
    "after_state_blob": "the state lies beside the table, the commit is not made",
    "after_commit": "rows and state are in the table, the caller does not know yet",
    "before_history": "the table is committed, its history is not",
    "done": "all is committed, the lock is still held",
    "noted": "when the reads began is noted, the lock is still held",
}
"""Every point, with what has happened by the time it is reached."""

_VARIABLE = "CDK_CRASH_AT"

reached: Counter[str] = Counter()
"""How often this process has reached each point."""


def crash_point(name: str) -> None:
    """Kill this process if the environment names this point."""
    reached[name] += 1
    point, _, time = os.environ.get(_VARIABLE, "").partition(":")
    if point == name and reached[name] == int(time or 1) and _first():
        os.kill(os.getpid(), signal.SIGKILL)


def check_crash_point() -> None:
    """Raise ConfigError if the environment names an unknown point, at which nothing would be killed."""
    named = os.environ.get(_VARIABLE, "")
    point, colon, time = named.partition(":")
    if named and point not in POINTS:
        near = nearest(point, POINTS)
        meant = f"did you mean {near!r}? " if near else ""
        raise ConfigError(f"found {point!r}, {meant}expected a crash point: {', '.join(POINTS)}", path=_VARIABLE)
    if colon and not (time.isascii() and time.isdigit() and int(time)):
        words = f"expected {point} alone, or with the number of the time it is reached, as {point}:3"
        raise ConfigError(f"found {named!r}, {words}", path=_VARIABLE)


def _first() -> bool:
    once = os.environ.get("CDK_CRASH_ONCE")
    if once is None:
        return True
    try:
        Path(once).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
