"""ProcessLock: a lock for objects that are pickled to other processes, each of which gets its own."""

import threading
from types import TracebackType


class ProcessLock:
    """A picklable lock; unpickling creates a new, unlocked one."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["ProcessLock"], tuple[()]]:
        return ProcessLock, ()
