"""TaskConcurrency: how many tasks of a sync run at once, and with how many concurrent slices each starts.

Each task finds the best number of slices to read at once by itself (`cdk.base.process.concurrency`), within its share
of the sync's limit. The next tasks start with the number that an ended task settled on. A sync starts with two tasks;
each ended task that only its share or its machine kept from reading more slices allows one more.
"""

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.process.concurrency import BEGINNING, Learned

_FIRST = 2


class ConcurrencyCount(Struct):
    """How many slices were read at once, in all tasks together."""

    limit: int = 0
    """Maximum number of slices."""
    settled: int = 0
    """The number that tasks settled on; 0 if no task has ended."""
    complaints: int = 0
    """How often the source made tasks read fewer slices at once."""


class TaskConcurrency:
    """Adapts the number of tasks and their concurrency to ended tasks. Belongs to the driver's thread.

    limit: maximum number of slices read at once, in all tasks together. learned: what a task starts with. growing:
    whether the last ended task allowed one more task. count: for the report.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.learned, self.growing = limit, BEGINNING, True
        self.count = ConcurrencyCount(limit)
        self._tasks = _FIRST

    def tasks_of(self, count: int) -> int:
        """Return how many of `count` tasks may run at once."""
        return min(self._tasks, count)

    def ended(self, began: int, learned: Learned, others: int) -> None:
        """Adapt to a task that has ended.

        began: number of slices that it read at once when it started. others: sum of these numbers of the running tasks.
        """
        level = learned.level
        self.learned = replace(learned, level=self.learned.level if level == began else level, complaints=0)
        self.growing = learned.held_back and not learned.complaints
        if learned.complaints and level == 1:
            self._tasks = max(1, self._tasks - 1)
        elif self.growing:
            self._tasks = min(self._tasks + 1, self.limit)
        now, count = level + others, self.count
        count.complaints += learned.complaints
        count.settled = now if learned.complaints else max(count.settled, now)
