"""How often a state is said: never more bytes of state than of records, give or take one."""

from datetime import timedelta

from cdk.base.times.clock import Clock, system_clock

LONGEST = timedelta(seconds=30)

_LARGE = 16 * 1024
"""Bytes from which on a state is large: to write it takes about as long as to read a page."""
_LARGE_STATE_FACTOR = 8
"""How many times as much as a large state the records weigh that come before the next one."""


class CheckpointThrottle:
    """Says when the state of a stream may be said in full again.

    That is when the records since the last state weigh as much as that state did, eight times as much if it was a
    large one, or when `longest` has passed. A small state so follows every page, and one that grows with each of ten
    thousand partitions is said ever more rarely: all states together weigh at most what the records weigh, large ones
    an eighth of it, plus one state every `longest`.
    """

    def __init__(self, clock: Clock = system_clock, *, longest: timedelta = LONGEST) -> None:
        self._clock, self._longest = clock, longest
        self._last = clock()
        self._records = 0
        self._state = 0

    def wrote_records(self, size: int) -> None:
        """Count the bytes of a page of records."""
        self._records += size

    def wrote_state(self, size: int) -> None:
        """Count the bytes of a state, and start anew."""
        self._records, self._state = 0, size
        self._last = self._clock()

    def due(self) -> bool:
        """Whether a state may be said now."""
        enough = self._state if self._state < _LARGE else _LARGE_STATE_FACTOR * self._state
        return self._records >= enough or self._clock() - self._last >= self._longest
