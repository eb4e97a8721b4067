"""Activity: live progress for the user who watches a run: pages that arrived, and waits before another attempt.

It is for display only: nothing depends on it, as results report what was done. A task in another process can report its
activity only by a file: if both processes see the folder, the task writes one there now and then.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.process.durable_files import replace_file
from cdk.base.run import current_run, setting
from cdk.base.values import Stored, from_json, to_json

_WRITTEN_EVERY_SECONDS = 0.5
_MAX_REASON_LENGTH = 300


class StreamActivity(Struct, frozen=True):
    """What is currently done for a stream.

    pages: how many arrived since its last result. until: when the last waiting request is tried again, in seconds since
    1970; 0 if no request waits. why: the reason for the wait.
    """

    pages: int = 0
    until: float = 0.0
    why: str = ""

    def __add__(self, other: "StreamActivity") -> "StreamActivity":
        last = max(self, other, key=lambda each: each.until)
        return StreamActivity(self.pages + other.pages, last.until, last.why)


class Activity:
    """The activity of one task, or of the planning of a run, by stream. Thread-safe.

    file: where it is written for other processes; None if only this process needs it.
    """

    def __init__(self, file: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._file, self._clock, self._written_at = file, clock, 0.0
        self._lock = threading.Lock()
        self._doing: dict[str, StreamActivity] = {}

    def page(self, stream: str) -> None:
        """Count a page that arrived, which ends the stream's wait."""
        with self._lock:
            self._doing[stream] = StreamActivity(self._doing.get(stream, StreamActivity()).pages + 1)
            self._write()

    def wait(self, stream: str, seconds: float, why: str) -> None:
        """Record that a wait before another attempt starts."""
        with self._lock:
            now = self._doing.get(stream, StreamActivity())
            self._doing[stream] = replace(now, until=self._clock() + seconds, why=why[:_MAX_REASON_LENGTH])
            self._write(now=True)

    def current(self) -> Mapping[str, StreamActivity]:
        """Return the current activity by stream."""
        with self._lock:
            return dict(self._doing)

    def end(self) -> None:
        """Clear the activity when the task ends, and remove its file."""
        with self._lock:
            self._doing.clear()
            if self._file is not None:
                with suppress(OSError):
                    self._file.unlink(missing_ok=True)

    def _write(self, *, now: bool = False) -> None:
        if self._file is None or not (now or self._clock() - self._written_at >= _WRITTEN_EVERY_SECONDS):
            return
        self._written_at = self._clock()
        notes = {stream: [doing.pages, doing.until, doing.why] for stream, doing in self._doing.items()}
        # For display only: a file that cannot be written must not stop the read.
        with suppress(OSError):
            replace_file(self._file, to_json(notes), mode=0o600, durable=False)


class Activities:
    """The activities of a run that this process sees. Created by `current_run().own(Activities)`.

    folder: where tasks in other processes write theirs; None if they cannot.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.planning = Activity()
        self._lock = threading.Lock()
        self._tasks: set[Activity] = set()

    @contextmanager
    def task(self, folder: Path | None) -> Iterator[None]:
        """Run this block as a task. folder: where its activity is written, unless the run itself is in this process."""
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

    def current(self) -> Mapping[str, StreamActivity]:
        """Return the current activity in all processes, by stream."""
        with self._lock:
            own = [self.planning.current(), *(task.current() for task in self._tasks)]
        doing: dict[str, StreamActivity] = {}
        for notes in (*own, *_activities_in(self.folder)):
            for stream, doing_now in notes.items():
                doing[stream] = doing.get(stream, StreamActivity()) + doing_now
        return doing


def _activities_in(folder: Path | None) -> Iterator[Mapping[str, StreamActivity]]:
    if folder is None:
        return
    for file in folder.glob("*.json"):
        # The task may have ended and removed its file.
        with suppress(OSError, ValueError, TypeError):
            noted: Stored = from_json(file.read_bytes())
            yield {stream: StreamActivity(*values) for stream, values in noted.items()}


_task: ContextVar[Activity | None] = ContextVar("task_activity", default=None)
_current: ContextVar[tuple[Activity, str] | None] = ContextVar("activity", default=None)


def task_activity() -> Activity:
    """Return the activity of the current task; outside of a task, an unused one."""
    return _task.get() or Activity()


def activities() -> Activities:
    """Return the activities of the current run."""
    return current_run().own(Activities)


def note_wait(seconds: float, why: str) -> None:
    """Record that a wait starts, for the stream that this thread works for."""
    if (current := _current.get()) is not None:
        current[0].wait(current[1], seconds, why)


def current_stream() -> str | None:
    """Return the stream that this thread works for, None if unknown."""
    return None if (current := _current.get()) is None else current[1]


def working_for(stream: str, activity: Activity) -> AbstractContextManager[tuple[Activity, str]]:
    """Attribute the activity of a block to a stream."""
    return setting(_current, (activity, stream))
