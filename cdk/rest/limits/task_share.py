"""TaskShare: one task's part of what an API allows, where several tasks of a sync read from it at once.

A limit of `c` calls in any stretch of `p` seconds is `c` places, each free again `p` after it was taken. The places are
dealt out to the tasks in turn; no task takes another's, so all tasks together keep to the limit without a word between
them. Which places are still taken, each task knows from the driver. Where there are more tasks than places, the tasks
take turns: calls are then spread evenly, each at a moment that belongs to one task.

Who ends early does not give its places back; the next epoch deals them out anew. Moments are seconds of the epoch, by
the clocks of the machines: these may differ by little against the stretches of a budget.
"""

import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cdk.base.times.clock import Clock, system_clock

Rates: TypeAlias = Sequence[tuple[int, float]]
"""Limits and their stretches in seconds; all hold at once. None: nothing is limited but by what the API says."""


@dataclass(frozen=True)
class BudgetUsage:
    """What is known of a budget."""

    calls: tuple[float, ...] = ()
    """When calls were allowed, oldest first."""
    closed: float = 0.0
    """The API allows no call before this moment."""
    renewed: float = 0.0
    """Calls before this moment no longer count, for the API began to count anew."""
    stretch: float = 0.0
    """For how many seconds a call counts."""

    def __add__(self, other: "BudgetUsage") -> "BudgetUsage":
        renewed = max(self.renewed, other.renewed)
        calls = tuple(sorted(at for at in (*self.calls, *other.calls) if at >= renewed))
        return BudgetUsage(calls, max(self.closed, other.closed), renewed, max(self.stretch, other.stretch))

    def at(self, now: float) -> "BudgetUsage":
        """What of it still counts at a moment."""
        return replace(self, calls=tuple(at for at in self.calls if at > now - self.stretch))


@dataclass(frozen=True)
class TaskShare:
    """Which of how many tasks this is, and what was used before it."""

    task: int = 0
    tasks: int = 1
    started: float = 0.0
    """When the driver divided the budgets."""
    spent: Mapping[str, BudgetUsage] = field(default_factory=dict)
    """What was known then, by budget."""

    def part(self, total: int) -> int:
        """This task's part of a whole number: all parts together are the whole, and differ by one at most."""
        return total // self.tasks + (self.task < total % self.tasks)


class BudgetSlice:
    """What a task may call of one budget: at most so many calls in any stretch of so long, for each rate. Thread-safe.

    heaviest: how many calls a request counts for at most; no limit is below it. renews: whether the API begins to count
    anew when it says, and not with each call that is old enough.
    """

    def __init__(
        self,
        rates: Rates,
        share: TaskShare = TaskShare(),
        spent: BudgetUsage = BudgetUsage(),
        heaviest: int = 1,
        *,
        renews: bool = False,
    ) -> None:
        self._lock, self._share, self._counts_anew = threading.Lock(), share, renews
        latest = sorted((at for at in spent.calls if at >= spent.renewed), reverse=True)
        scarce = [(limit, period) for limit, period in rates if limit // share.tasks < heaviest]
        self._rates = sorted((period, share.part(limit)) for limit, period in rates if (limit, period) not in scarce)
        self._turns = _Turns(scarce, share, latest, heaviest) if scarce else None
        self._shortest = min((period for _, period in rates), default=0.0)
        self._stretch = max((period for _, period in rates), default=0.0)
        # The latest is the first to be dealt, so that every stretch that reaches back far enough is dealt evenly.
        mine = reversed(latest[share.task :: share.tasks])
        self._taken = deque(mine, maxlen=max((limit for limit, _ in rates), default=0))
        self._calls = deque[float](maxlen=self._taken.maxlen)
        self._closed, self._renewed = spent.closed, spent.renewed
        self._left, self._renews = math.inf, math.inf

    def reserve(self, now: float, weight: int = 1) -> float:
        """Count a call of `weight`; the moment, `now` or later, at which it may be sent."""
        with self._lock:
            at = self._earliest(now, weight)
            if at >= self._renews or self._left < weight:
                self._renew(self._renews)
                at = self._earliest(max(now, self._renewed), weight)
            self._left -= weight
            self._taken.extend([at] * weight)
            self._calls.extend([at] * weight)
            if self._turns is not None:
                self._turns.count(at)
            return at

    def close(self, until: float) -> None:
        """Allow no call before a moment: the API said so."""
        with self._lock:
            self._closed = max(self._closed, until)

    @property
    def closed(self) -> float:
        """Before which moment the API allows no call."""
        return self._closed

    def learn(self, now: float, calls_left: int | None, reset: float | None) -> None:
        """The API says how many calls are left to all tasks, and when there are more.

        Of a moving window only that none are left is of use: until when, or for the shortest stretch.
        """
        if not self._counts_anew:
            if calls_left is not None and calls_left <= 0:
                self.close(now + self._shortest if reset is None else reset)
            return
        with self._lock:
            if reset is not None:
                self._renews = reset
            if calls_left is not None:
                # Other tasks hear the same: what is left is theirs, too.
                self._left = min(self._left, max(0, calls_left) // self._share.tasks)
                self._renews = self._renews if math.isfinite(self._renews) else now + self._shortest

    def spent(self) -> BudgetUsage:
        """What was spent here, and what the API said; without the calls that were told at first."""
        with self._lock:
            return BudgetUsage(tuple(self._calls), self._closed, self._renewed, self._stretch)

    def _earliest(self, now: float, weight: int) -> float:
        taken = self._taken
        at = max(now, self._closed, taken[-1] if taken else now)
        for period, limit in self._rates:
            # This call and the `limit - weight` before it may lie in one stretch, the one before those may not.
            if (before := len(taken) - limit + weight - 1) >= 0:
                at = max(at, taken[before] + period)
        return at if self._turns is None else self._turns.next(at)

    def _renew(self, moment: float) -> None:
        self._renewed, self._left, self._renews = moment, math.inf, math.inf
        for known in (self._taken, self._calls):
            while known and known[0] < moment:
                known.popleft()


class _Turns:
    """Moments that belong to one task, where the tasks are more than the calls: `step` apart over all tasks."""

    def __init__(self, rates: Rates, share: TaskShare, latest: Sequence[float], heaviest: int) -> None:
        self._step = max(period / (limit // heaviest) for limit, period in rates)
        self._tasks, self._next = share.tasks, 0
        start = share.started
        for limit, period in rates:
            for turn in range(limit // heaviest):
                # At this turn so many calls of before may still count; the one before those may not.
                before = limit - heaviest * (turn + 1)
                if before < len(latest):
                    start = max(start, latest[before] + period - turn * self._step)
        self._first = start + share.task * self._step

    def next(self, at: float) -> float:
        """The first moment of this task at `at` or later that is not taken."""
        return self._moment(max(self._next, self._number(at)))

    def count(self, at: float) -> None:
        """Count the moment as taken."""
        self._next = self._number(at) + 1

    def _number(self, at: float) -> int:
        # A moment is itself, whatever the arithmetic of floats makes of it.
        return max(0, math.ceil((at - self._first) / (self._tasks * self._step) - 1e-6))

    def _moment(self, number: int) -> float:
        return self._first + number * self._tasks * self._step


class TaskBudgets:
    """What a task knows of each budget. Budgets that are alike count as one."""

    def __init__(self, share: TaskShare = TaskShare()) -> None:
        self.share = share
        self._lock = threading.Lock()
        self._slices: dict[str, BudgetSlice] = {}

    def slice_of(self, budget: str, rates: Rates, heaviest: int = 1, *, renews: bool = False) -> BudgetSlice:
        """This task's slice of a budget."""
        with self._lock:
            if budget not in self._slices:
                known = self.share.spent.get(budget, BudgetUsage())
                self._slices[budget] = BudgetSlice(rates, self.share, known, heaviest, renews=renews)
            return self._slices[budget]

    def spent(self) -> Mapping[str, BudgetUsage]:
        """What was spent here, by budget."""
        with self._lock:
            return {budget: slice.spent() for budget, slice in self._slices.items()}


class BudgetAllocator:
    """Deals out shares to the tasks of one epoch after the other, and keeps what they spent. Thread-safe."""

    def __init__(self, clock: Clock = system_clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._spent: dict[str, BudgetUsage] = {}

    def shares(self, tasks: int) -> list[TaskShare]:
        """A share for each of the tasks of an epoch that begins now."""
        now = self._clock().timestamp()
        with self._lock:
            self._spent = {budget: spent.at(now) for budget, spent in self._spent.items()}
            return [TaskShare(task, tasks, now, dict(self._spent)) for task in range(tasks)]

    def spent(self, usage: Mapping[str, BudgetUsage]) -> None:
        """Count what a task has spent."""
        with self._lock:
            for budget, spent in usage.items():
                self._spent[budget] = self._spent.get(budget, BudgetUsage()) + spent


_current: ContextVar[TaskBudgets | None] = ContextVar("task_budgets", default=None)


def task_budgets() -> TaskBudgets | None:
    """The budgets of the task that runs here; None where a budget has only itself to ask."""
    return _current.get()


def current_share() -> TaskShare:
    """The share of the task that runs here; the whole where nobody shares."""
    mine = _current.get()
    return TaskShare() if mine is None else mine.share


@contextmanager
def sharing(share: TaskShare) -> Iterator[TaskBudgets]:
    """Let budgets in this block, and in threads that the executors start in it, keep to a share."""
    before, mine = _current.get(), TaskBudgets(share)
    _current.set(mine)
    try:
        yield mine
    finally:
        _current.set(before)
