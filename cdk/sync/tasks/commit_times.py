"""CommitTimes: when rows and state are committed, and how long tasks read until then.

Commits begin after four seconds, and the gaps between them double up to most of the checkpoint interval: the first
comes early, and a long sync commits rarely. All times are seconds.
"""

from collections.abc import Callable
from datetime import timedelta

FIRST_GAP_SECONDS = 4.0
"""Until the first commit is due. A commit takes a tenth of a second, however little is in it."""

_LONGEST_GAP = 0.8
"""Of the checkpoint interval.

A task ends when the next commit is due, or a quarter of a gap later where it begins shortly before: what was read is
committed within an interval, and nothing else is read beside a commit, however long it takes.
"""

# The others are parts of a gap.
_SHORTEST_TASK = 0.25
_WAIT_FOR_TASKS = 0.25
"""How long a commit waits for tasks that were to end when it is due: a page, as a rule.

What they bring would wait for the next commit, for longer than an interval with what they began with.
"""
_INTERIM_RESULT = _WAIT_FOR_TASKS / 8
"""How long after its time a task hands over what it has read; up to twice as long."""
_READ_BESIDE_COMMIT = 0.25
"""The longest time of reading beside a commit that makes the next one come earlier."""


class CommitTimes:
    """When the next commit is due. Belongs to the driver's thread."""

    def __init__(self, checkpoint_interval: timedelta, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._longest_gap = checkpoint_interval.total_seconds() * _LONGEST_GAP
        self._gap = min(FIRST_GAP_SECONDS, self._longest_gap)
        self.begin()

    def begin(self) -> None:
        """Begin the interval at whose end the first commit is due."""
        self._began = self._clock()
        self.due = self._began + self._gap
        """When the next commit is due, on the clock."""

    @property
    def since_begin(self) -> float:
        """How long it has been read."""
        return self._clock() - self._began

    @property
    def until_due(self) -> float:
        """Until the next commit is due; negative once it is."""
        return self.due - self._clock()

    @property
    def for_task(self) -> float:
        """How long a task may read that begins now."""
        return max(self.until_due, self._gap * _SHORTEST_TASK)

    @property
    def until_interim_result(self) -> float:
        """How long after its time a task leaves an interim result."""
        return max(0.05, self._gap * _INTERIM_RESULT)

    def until_commit(self, *, awaits_task: bool) -> float:
        """Until a commit is to be made; 0: now. awaits_task: a task runs that was to end when it is due."""
        return max(0.0, self.until_due + (self._gap * _WAIT_FOR_TASKS if awaits_task else 0.0))

    def committed(self, began: float, *, tasks_run: bool) -> None:
        """Note that a commit was made, which began at `began` on the clock. tasks_run: slices are read beside it."""
        self._gap = min(self._gap * 2, self._longest_gap)
        # What is read beside a commit waits for the next one.
        beside = min(self._clock() - began, self._gap * _READ_BESIDE_COMMIT) if tasks_run else 0.0
        self.due = self._clock() + self._gap - beside
