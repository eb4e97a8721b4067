"""Limits how often a state is emitted: never more bytes of state than of records, give or take one state."""

from datetime import timedelta

from cdk.base.times.clock import Clock, system_clock

MAX_STATE_INTERVAL = timedelta(seconds=30)

_LARGE = 16 * 1024
"""Bytes from which a state counts as large: writing it takes about as long as reading a page."""
_LARGE_STATE_FACTOR = 8
"""After a large state, records must weigh this many times as much as it before the next state."""


class CheckpointThrottle:
    """Decides when the full state of a stream may be emitted again.

    It may when the records since the last state weigh as much as that state, or eight times as much if it was large,
    or when `longest` has passed. So a small state follows every page, and a state that grows with each of ten thousand
    partitions is emitted more and more rarely: all states together weigh at most as much as the records, large ones an
    eighth of that, plus one state every `longest`.
    """

    def __init__(self, clock: Clock = system_clock, *, longest: timedelta = MAX_STATE_INTERVAL) -> None:
        self._clock, self._longest = clock, longest
        self._last = clock()
        self._records, self._state = 0, 0

    def wrote_records(self, size: int) -> None:
        """Count the bytes of a page of records."""
        self._records += size

    def wrote_state(self, size: int) -> None:
        """Record the bytes of a state, and reset the count of records and the time."""
        self._records, self._state = 0, size
        self._last = self._clock()

    def due(self) -> bool:
        """Whether a state may be emitted now."""
        enough = self._state if self._state < _LARGE else _LARGE_STATE_FACTOR * self._state
        return self._records >= enough or self._clock() - self._last >= self._longest
