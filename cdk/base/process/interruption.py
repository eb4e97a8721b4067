"""Interruption: a run that a user, a signal or a limit stops early ends at its next checkpoints."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

CTRL_C, MAX_DURATION, MAX_REQUESTS = "Ctrl-C", "max_duration", "max_requests"
_FLAG = "interrupted"


class Interrupted(BaseException):
    """Ends a read early; its last checkpoint counts. Not an Exception, so that error handlers do not catch it."""

    def __init__(self, why: str) -> None:
        """why: the reason, see `Interruption.why`."""
        super().__init__(why)
        self.why = why


class Interruption:
    """Whether a run should stop reading at its next checkpoints, and why. Safe in any thread and in signal handlers.

    Each process of a run has its own. Processes that share a disk learn of it through a file; others stop only when
    the time of their tasks is up.
    """

    def __init__(self, longest: timedelta | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """longest: how long the run may read from now on; None for no limit."""
        self._clock, self._reading, self._requested = clock, False, ""
        self._end = None if longest is None else clock() + longest.total_seconds()
        self._announced: Path | None = None
        self._followed: Path | None = None

    def announce(self, folder: Path) -> None:
        """Announce an interruption to other processes through a file in `folder`."""
        self._announced = folder / _FLAG

    def follow(self, folder: Path | None) -> None:
        """Watch `folder` for the announcement of another process, unless this process is the one that announces."""
        if folder is not None and self._announced is None:
            self._followed = folder / _FLAG

    @property
    def why(self) -> str:
        """The reason to stop, such as `Ctrl-C` or `max_duration`; empty without one."""
        if self._requested:
            return self._requested
        if self._end is not None and self._clock() >= self._end:
            return MAX_DURATION
        return _FLAG if self._followed is not None and os.path.exists(self._followed) else ""  # noqa: PTH110 - 1 us

    def limited(self, seconds: float) -> float:
        """The given seconds, or the remaining ones if these are fewer."""
        return seconds if self._end is None else max(0.0, min(seconds, self._end - self._clock()))

    def request(self, why: str) -> bool:
        """Request an interruption. False if nothing is being read, or one was requested already: then stop at once."""
        if not self._reading or self.why:
            return False
        self._requested = why
        if self._announced is not None:
            with suppress(OSError):
                self._announced.touch()
        return True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Mark the block as the one to interrupt: it checks `why` and ends on its own."""
        self._reading = True
        try:
            yield
        finally:
            self._reading = False
