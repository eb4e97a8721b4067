"""TaskConcurrency: how many tasks a sync reads with at once, and how many slices each begins with.

Each task finds by itself how many slices it had better read at once (`cdk.base.process.concurrency`), within its part
of what the sync may. The next tasks begin where one that has ended got to. There are two tasks at first, and one more
for each that ended and that nothing but its part, or the machine it ran on, kept from reading more.
"""

from dataclasses import dataclass, replace

from cdk.base.process.concurrency import BEGINNING, Learned

_FIRST = 2


@dataclass
class ConcurrencyCount:
    """How many slices were read at once, in all tasks together."""

    limit: int = 0
    """The most that may be."""
    settled: int = 0
    """What tasks came to; 0: none has ended."""
    complaints: int = 0
    """How often the source made tasks read fewer."""


class TaskConcurrency:
    """Belongs to the driver's thread.

    limit: slices read at once, at most, in all tasks together. learned: where a task begins. growing: whether the last
    task that ended is followed by more than one. count: for the report.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.learned, self.growing = limit, BEGINNING, True
        self.count = ConcurrencyCount(limit)
        self._tasks = _FIRST

    def tasks_of(self, count: int) -> int:
        """How many of `count` tasks may run at once."""
        return min(self._tasks, count)

    def ended(self, began: int, learned: Learned, others: int) -> None:
        """Learn from a task that has ended.

        began: how many slices it began with. others: how many those that run began with.
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
