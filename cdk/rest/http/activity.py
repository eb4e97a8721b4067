"""Activity: what is being done right now, for a person who looks on: pages that came, and waits before another attempt.

It says nothing that counts: what is done is told by results. A task in another process has no way to whoever looks on
but a file; where its folder is seen by both, it notes there what it does, now and then.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from cdk.base.process.durable_files import replace_file
from cdk.base.run import current_run, setting
from cdk.base.values import Stored, from_json, to_json

_NOTED_EVERY = 0.5
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Doing:
    """What is being done for a stream.

    pages: those that came since its last result. until: when the last of those who wait tries again, in seconds since
    1970; 0: no request waits. why: for what reason.
    """

    pages: int = 0
    until: float = 0.0
    why: str = ""

    def __add__(self, other: "Doing") -> "Doing":
        last = max(self, other, key=lambda one: one.until)
        return Doing(self.pages + other.pages, last.until, last.why)


class Activity:
    """What one task does, or the planning of a run, by stream. Safe to use from several threads.

    file: where it is noted for other processes; None: it is only seen in this one.
    """

    def __init__(self, file: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._file, self._clock, self._noted = file, clock, 0.0
        self._lock = threading.Lock()
        self._doing: dict[str, Doing] = {}

    def page(self, stream: str) -> None:
        """A page came: no request waits any more."""
        with self._lock:
            self._doing[stream] = Doing(self._doing.get(stream, Doing()).pages + 1)
            self._note()

    def wait(self, stream: str, seconds: float, why: str) -> None:
        """A wait before another attempt begins."""
        with self._lock:
            now = self._doing.get(stream, Doing())
            self._doing[stream] = replace(now, until=self._clock() + seconds, why=why[:_LONGEST])
            self._note(now=True)

    def current(self) -> Mapping[str, Doing]:
        """What is being done, by stream."""
        with self._lock:
            return dict(self._doing)

    def end(self) -> None:
        """Nothing is done any more."""
        with self._lock:
            self._doing.clear()
            if self._file is not None:
                with suppress(OSError):
                    self._file.unlink(missing_ok=True)

    def _note(self, *, now: bool = False) -> None:
        if self._file is None or not (now or self._clock() - self._noted >= _NOTED_EVERY):
            return
        self._noted = self._clock()
        notes = {stream: [doing.pages, doing.until, doing.why] for stream, doing in self._doing.items()}
        # Who looks on misses nothing that counts: where this cannot be written, the reading goes on.
        with suppress(OSError):
            replace_file(self._file, to_json(notes), mode=0o600, durable=False)


class Activities:
    """The activities of a run that this process sees. Made by `current_run().own(Activities)`.

    folder: where tasks of other processes note theirs; None: they cannot.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.planning = Activity()
        self._lock = threading.Lock()
        self._tasks: set[Activity] = set()

    @contextmanager
    def task(self, folder: Path | None) -> Iterator[None]:
        """Let this block be a task. folder: where its activity is noted, unless the run itself is in this process."""
        file = None if folder is None or self.folder is not None else folder / f"{uuid4().hex}.json"
        activity = Activity(file)
        with self._lock:
            self._tasks.add(activity)
        try:
            with setting(_task, activity):
                yield
        finally:
            with self._lock:
                self._tasks.discard(activity)
            activity.end()

    def current(self) -> Mapping[str, Doing]:
        """What is being done in all processes, by stream."""
        with self._lock:
            own = [self.planning.current(), *(task.current() for task in self._tasks)]
        doing: dict[str, Doing] = {}
        for notes in (*own, *_noted(self.folder)):
            for stream, doing_now in notes.items():
                doing[stream] = doing.get(stream, Doing()) + doing_now
        return doing


def _noted(folder: Path | None) -> Iterator[Mapping[str, Doing]]:
    if folder is None:
        return
    for file in folder.glob("*.json"):
        # It may be gone by now.
        with suppress(OSError, ValueError, TypeError):
            noted: Stored = from_json(file.read_bytes())
            yield {stream: Doing(*values) for stream, values in noted.items()}


_task: ContextVar[Activity | None] = ContextVar("task_activity", default=None)
_current: ContextVar[tuple[Activity, str] | None] = ContextVar("activity", default=None)


def task_activity() -> Activity:
    """The activity of the task that runs here; one without readers outside of a task."""
    return _task.get() or Activity()


def activities() -> Activities:
    """The activities of the run that works here."""
    return current_run().own(Activities)


def note_wait(seconds: float, why: str) -> None:
    """Note that a wait begins, for whatever stream this is about."""
    if (current := _current.get()) is not None:
        current[0].wait(current[1], seconds, why)


def current_stream() -> str | None:
    """The stream that this thread works for, if it is known."""
    return None if (current := _current.get()) is None else current[1]


def working_for(stream: str, activity: Activity) -> AbstractContextManager[tuple[Activity, str]]:
    """Let what a block does count for a stream."""
    return setting(_current, (activity, stream))
