"""RunBudgets: what the APIs of a sync allow, divided over its tasks and its planning."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from cdk.base.process.request_lease import current_lease
from cdk.rest.limits.task_share import BudgetAllocator, BudgetUsage, TaskBudgets, TaskShare, sharing

_OF_THE_PROCESS = BudgetAllocator()
"""One sync after the other in a session calls the same API."""


class RunBudgets:
    """The budgets of one sync. Belongs to the driver's thread.

    Each task leases lanes (`cdk.rest.limits.task_share`) while it runs. Planning that calls the API has a lane of its
    own; whether it does shows before the first task begins, or else while no task runs.

    Of the requests that the run may send in all, tasks are lent some for as long as they run: at most half of what is
    left while others could run, so that something is left for planning, which takes from the rest.
    """

    def __init__(self, tasks: int, allocator: BudgetAllocator = _OF_THE_PROCESS) -> None:
        """tasks: how many run at once, at most."""
        self._tasks, self._allocator, self._requests = tasks, allocator, current_lease()
        self._lanes = allocator.divide(tasks)
        self._planning = TaskBudgets(allocator.divide(1).lease(1))
        self._reserved: TaskShare | None = None
        self._plans = self._grown = False

    @property
    def exhausted(self) -> bool:
        """Whether there is no lane for another task."""
        return not self._lanes.free or self.requests_spent or (self._grown and not self._unleased)

    @property
    def requests_spent(self) -> bool:
        """Whether no request may be sent, unless a task that runs returns some."""
        return self._requests.unsent == 0

    @property
    def _unleased(self) -> bool:
        return self._lanes.free + (self._reserved is not None) == self._lanes.count

    def grow(self, tasks: int) -> None:
        """Let more tasks run at once, each with lanes of its own. Those that run come to their end first."""
        if tasks > self._tasks:
            self._tasks, self._grown = tasks, True

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Count the calls of this block, which plans, with those of tasks."""
        with sharing(self._planning):
            yield

    def lease(self, idle: int, *, last: bool) -> TaskShare:
        """Lanes for a task that begins. idle: how many could, with it. last: no other will, as far as one knows."""
        if self._unleased:
            self._divide()
        requests = self._requests.lend(1 if last else 2 * idle)
        share = self._lanes.lease(self._lanes.free if last else self._lanes.free // idle)
        return replace(share, requests=requests)

    def _divide(self) -> None:
        """Divide the lanes anew; no task runs."""
        spent = self._planning.spent()
        self._allocator.spent(spent)
        self._plans, self._grown = self._plans or bool(spent), False
        self._lanes = self._allocator.divide(self._tasks + self._plans)
        self._reserved = self._lanes.lease(1) if self._plans else None
        self._planning = TaskBudgets(self._reserved or self._allocator.divide(1).lease(1))

    def release(self, share: TaskShare, usage: Mapping[str, BudgetUsage], sent: int | None = None) -> None:
        """Take back the lanes of a task that has ended, with what it spent.

        sent: its requests; None: nobody knows, for it died.
        """
        self._lanes.release(share, usage)
        self._requests.return_unsent(share.requests, sent)
