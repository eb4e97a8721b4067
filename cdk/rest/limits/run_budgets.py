"""RunBudgets: what the APIs of a sync allow, divided among its tasks and its planning."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from cdk.base.process.request_lease import current_lease
from cdk.rest.limits.budget_lanes import BudgetAllocator
from cdk.rest.limits.task_budgets import TaskBudgets, sharing
from cdk.rest.limits.task_share import UNSHARED, BudgetUsage, TaskShare

_OF_THE_PROCESS = BudgetAllocator()
"""Shared by the process, because consecutive syncs of a session call the same APIs."""


class RunBudgets:
    """The budgets of one sync. Belongs to the driver's thread.

    Each task leases lanes (`cdk.rest.limits.budget_lanes`) while it runs. Planning holds a lane of its own if it calls
    the API, which is known before the first task starts, or later while no task runs.

    Tasks borrow requests from the total that the run may send, and return them when they end. While other tasks could
    run, they borrow at most half of what is left, so that planning has some.
    """

    def __init__(self, tasks: int, allocator: BudgetAllocator = _OF_THE_PROCESS) -> None:
        """tasks: the maximum number that runs at the same time."""
        self._tasks, self._allocator, self._requests = tasks, allocator, current_lease()
        self._lanes = allocator.divide(tasks)
        self._planning = TaskBudgets(allocator.divide(1).lease(1) or UNSHARED)
        self._reserved: TaskShare | None = None
        self._plans = self._grown = self._divided = False

    @property
    def exhausted(self) -> bool:
        """Whether no other task can start now, for lack of lanes or requests."""
        return not self._lanes.free or self.requests_spent or (self._grown and not self._unleased)

    @property
    def requests_spent(self) -> bool:
        """Whether no more requests may be sent, unless a running task returns some."""
        return self._requests.unsent == 0

    @property
    def _unleased(self) -> bool:
        return self._lanes.free + (self._reserved is not None) == self._lanes.count

    def grow(self, tasks: int) -> None:
        """Allow more tasks at the same time, each with its own lanes, once the running tasks have ended."""
        if tasks > self._tasks:
            self._tasks, self._grown = tasks, True

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Count the calls of this block, which plans slices, together with those of tasks."""
        with sharing(self._planning):
            yield

    def lease(self, tasks: int, streams: Iterable[int] = ()) -> TaskShare | None:
        """Lease lanes to a new task; None if other tasks hold all lanes of a budget that it needs until one ends.

        tasks: how many tasks are about to start, including this one, as far as is known. streams: those that it reads.
        """
        if self._unleased:
            self._divide()
        share = self._lanes.lease(tasks, streams)
        return share and replace(share, requests=self._requests.lend(1 if tasks == 1 else 2 * tasks))

    def _divide(self) -> None:
        """Divide the lanes again if something has changed. Called only while no task runs."""
        spent = self._planning.usage()
        plans = self._plans or bool(spent)
        if plans == self._plans and not self._grown and self._divided:
            return
        self._allocator.add_usage(spent)
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
        """Take back the lanes of a task that has ended, with its usage. streams: those that it read.

        usage: None if unknown, because the task died or may run twice. sent: the number of its requests; None likewise.
        """
        self._lanes.release(share, usage, streams)
        self._requests.return_unsent(share.requests, sent)
