"""Interruption: a run that a person, a signal or a limit asks to end early ends at its next checkpoints."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

CTRL_C, MAX_DURATION, MAX_REQUESTS = "Ctrl-C", "max_duration", "max_requests"
_FLAG = "interrupted"


class Interrupted(BaseException):
    """Reading ends before its end, and its last checkpoint counts. No Exception: no handler of errors may catch it."""

    def __init__(self, why: str) -> None:
        """why: as an Interruption has it."""
        super().__init__(why)
        self.why = why


class Interruption:
    """Whether the reading of a run is to end at its next checkpoints, and why. For any thread, and signal handlers.

    Each process of a run has its own. Where they see the same disk, a file tells the others; elsewhere the time of
    their tasks is all that ends them.
    """

    def __init__(self, longest: timedelta | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """longest: how long the run may read from now on; None: as long as it takes."""
        self._clock, self._reading, self._requested = clock, False, ""
        self._end = None if longest is None else clock() + longest.total_seconds()
        self._announced: Path | None = None
        self._followed: Path | None = None

    def announce(self, folder: Path) -> None:
        """Tell other processes by a file in a folder."""
        self._announced = folder / _FLAG

    def follow(self, folder: Path | None) -> None:
        """Look at what another process tells in a folder, if this one is not that which tells."""
        if folder is not None and self._announced is None:
            self._followed = folder / _FLAG

    @property
    def why(self) -> str:
        """What asked for it, such as `Ctrl-C` or `max_duration`; empty while nothing has."""
        if self._requested:
            return self._requested
        if self._end is not None and self._clock() >= self._end:
            return MAX_DURATION
        return _FLAG if self._followed is not None and os.path.exists(self._followed) else ""  # noqa: PTH110 - 1 us

    def limited(self, seconds: float) -> float:
        """So many seconds, or as many as are left."""
        return seconds if self._end is None else max(0.0, min(seconds, self._end - self._clock()))

    def request(self, why: str) -> bool:
        """Ask for it. False: nothing is being read, or it was requested before, and can only end at once."""
        if not self._reading or self.why:
            return False
        self._requested = why
        if self._announced is not None:
            with suppress(OSError):
                self._announced.touch()
        return True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let the block be what is interrupted: it looks at `why` and ends by itself."""
        self._reading = True
        try:
            yield
        finally:
            self._reading = False
