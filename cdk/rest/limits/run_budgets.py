"""RunBudgets: what the APIs of a sync allow, divided over its tasks and its planning."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from cdk.base.process.request_lease import current_lease
from cdk.rest.limits.budget_lanes import BudgetAllocator
from cdk.rest.limits.task_budgets import TaskBudgets, sharing
from cdk.rest.limits.task_share import UNSHARED, BudgetUsage, TaskShare

_OF_THE_PROCESS = BudgetAllocator()
"""One sync after the other in a session calls the same API."""


class RunBudgets:
    """The budgets of one sync. Belongs to the driver's thread.

    Each task leases lanes (`cdk.rest.limits.budget_lanes`) while it runs. Planning that calls the API holds a lane of
    its own; whether it does shows before the first task begins, or else while no task runs.

    Of the requests that the run may send in all, tasks are lent some for as long as they run: at most half of what is
    left while others could run, so that something is left for planning, which takes from the rest.
    """

    def __init__(self, tasks: int, allocator: BudgetAllocator = _OF_THE_PROCESS) -> None:
        """tasks: how many run at once, at most."""
        self._tasks, self._allocator, self._requests = tasks, allocator, current_lease()
        self._lanes = allocator.divide(tasks)
        self._planning = TaskBudgets(allocator.divide(1).lease(1) or UNSHARED)
        self._reserved: TaskShare | None = None
        self._plans = self._grown = self._divided = False

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

    def lease(self, tasks: int, streams: Iterable[int] = ()) -> TaskShare | None:
        """Lanes for a task that begins; None: others have all of a budget that it needs, until one of them ends.

        tasks: how many are about to begin, with it, as far as is known. streams: those that it reads.
        """
        if self._unleased:
            self._divide()
        share = self._lanes.lease(tasks, streams)
        return share and replace(share, requests=self._requests.lend(1 if tasks == 1 else 2 * tasks))

    def _divide(self) -> None:
        """Divide the lanes anew, where that brings something; no task runs."""
        spent = self._planning.spent()
        plans = self._plans or bool(spent)
        if plans == self._plans and not self._grown and self._divided:
            return
        self._allocator.spent(spent)
        self._plans, self._grown, self._divided = plans, False, True
        self._lanes = self._allocator.divide(self._tasks + plans, self._lanes.lost)
        self._reserved = self._lanes.lease(self._lanes.count) if plans else None
        self._planning = TaskBudgets(self._reserved or self._allocator.divide(1).lease(1) or UNSHARED)

    def release(
        self,
        share: TaskShare,
        usage: Mapping[str, BudgetUsage] | None,
        sent: int | None = None,
        streams: Iterable[int] = (),
    ) -> None:
        """Take back the lanes of a task that has ended, with what it spent. streams: those that it read.

        usage: None: unknown, for it died, or may run twice. sent: its requests; None: the same.
        """
        self._lanes.release(share, usage, streams)
        self._requests.return_unsent(share.requests, sent)
