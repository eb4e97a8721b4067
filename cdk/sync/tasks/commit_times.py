"""CommitTimes: when rows and state are committed, and how long tasks read until then.

The first commit is due after four seconds, and the gaps between commits double up to most of the checkpoint interval:
the first commit is early, and a long sync commits rarely. All times are in seconds.
"""

from collections.abc import Callable
from datetime import timedelta

_FIRST_GAP_SECONDS = 4.0
"""Time until the first commit is due. A commit takes a tenth of a second, however little it contains."""

_LONGEST_GAP = 0.8
"""The longest gap, as a fraction of the checkpoint interval.

A task ends when the next commit is due, or up to a quarter of a gap later if it starts shortly before. Results are
therefore committed within an interval, and tasks read no longer than that during a commit, however long it takes.
"""

# The following constants are fractions of a gap.
_SHORTEST_TASK = 0.25
_WAIT_FOR_TASKS = 0.25
"""How long a due commit waits for tasks that should have ended by then; usually for a page.

Otherwise their results would wait for the next commit, some of them for longer than an interval.
"""
_INTERIM_RESULT = _WAIT_FOR_TASKS / 8
"""How long after its time a task leaves an interim result, up to twice as long."""
_READ_BESIDE_COMMIT = 0.25
"""Maximum time of reading during a commit that is deducted from the gap before the next one."""


class CommitTimes:
    """When the next commit is due. Belongs to the driver's thread."""

    def __init__(self, checkpoint_interval: timedelta, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._longest_gap = checkpoint_interval.total_seconds() * _LONGEST_GAP
        self._gap = min(_FIRST_GAP_SECONDS, self._longest_gap)
        self.begin()

    def begin(self) -> None:
        """Start the gap at whose end the first commit is due."""
        self._began = self._clock()
        self.due = self._began + self._gap
        """Clock time at which the next commit is due."""

    @property
    def since_begin(self) -> float:
        """Seconds since reading started in this task."""
        return self._clock() - self._began

    @property
    def until_due(self) -> float:
        """Time until the next commit is due; negative once it is overdue."""
        return self.due - self._clock()

    @property
    def for_task(self) -> float:
        """How long a task that starts now may read."""
        return max(self.until_due, self._gap * _SHORTEST_TASK)

    @property
    def until_interim_result(self) -> float:
        """How long after its time a task checks whether to leave an interim result."""
        return max(0.05, self._gap * _INTERIM_RESULT)

    def until_commit(self, *, awaits_task: bool) -> float:
        """Return the time until a commit is to be made; 0 for now. awaits_task: wait for a task that ends with it."""
        return max(0.0, self.until_due + (self._gap * _WAIT_FOR_TASKS if awaits_task else 0.0))

    def committed(self, began: float, *, tasks_run: bool) -> None:
        """Record that a commit was made. began: clock time of its start. tasks_run: tasks were reading meanwhile."""
        self._gap = min(self._gap * 2, self._longest_gap)
        # What tasks read during a commit waits for the next one, which is due earlier for that.
        beside = min(self._clock() - began, self._gap * _READ_BESIDE_COMMIT) if tasks_run else 0.0
        self.due = self._clock() + self._gap - beside
