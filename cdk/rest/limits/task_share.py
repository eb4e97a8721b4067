"""TaskShare: one task's part of what an API allows, where several tasks of a sync read from it at once.

A limit of `c` calls in any stretch of `p` seconds is `c` places, each free again `p` after it was taken. The places are
dealt out to lanes in turn, and a task leases some of the lanes for as long as it runs; no task takes a place of
another's lane, so all tasks together keep to the limit without a word between them. Where there are more lanes than
places, the lanes take turns: calls are then spread evenly, each at a moment that belongs to one lane.

A task that ends returns its lanes with the calls that it made, and the next task leases them: who ends early leaves its
part to others. How many lanes there are changes only while no task runs. A lane that nobody leases is unused, which
lasts no longer than the tasks that run then. Moments are seconds since 1970, by the clocks of the machines: these may
differ by little against the stretches of a budget.
"""

import math
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import chain
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
    """Which of how many lanes a task has, and what was used before it."""

    lanes: tuple[int, ...] = (0,)
    """Its lanes, ascending."""
    of: int = 1
    """How many lanes there are."""
    divided: float = 0.0
    """When the lanes were divided; the same for all tasks that run at once."""
    spent: Mapping[str, BudgetUsage] = field(default_factory=dict)
    """What is known of these lanes, by budget."""
    before: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The calls that had been made on any lane when the lanes were divided, by budget."""
    requests: int | None = None
    """How many requests it may send in all; None: any number."""

    def part(self, total: int) -> int:
        """This task's part of a whole number: the parts of all lanes are the whole, and differ by one at most."""
        return sum(total // self.of + (lane < total % self.of) for lane in self.lanes)

    @property
    def fraction(self) -> float:
        """This task's part of everything."""
        return len(self.lanes) / self.of


class BudgetSlice:
    """What a task may call of one budget: at most so many calls in any stretch of so long, for each rate. Thread-safe.

    spent: what is known of the share's lanes. heaviest: how many calls a request counts for at most; no limit is below
    it. renews: whether the API begins to count anew when it says, and not with each call that is old enough.
    before: the calls on all lanes when these were divided.
    """

    def __init__(
        self,
        rates: Rates,
        share: TaskShare = TaskShare(),
        spent: BudgetUsage = BudgetUsage(),
        heaviest: int = 1,
        *,
        renews: bool = False,
        before: Sequence[float] = (),
    ) -> None:
        self._lock, self._share, self._counts_anew = threading.Lock(), share, renews
        mine = sorted(at for at in spent.calls if at >= spent.renewed)
        earlier = sorted((at for at in before if at >= spent.renewed), reverse=True)
        # The same for all tasks: a place must not be one's and a turn another's.
        scarce = [(limit, period) for limit, period in rates if limit // share.of < heaviest]
        self._rates = sorted((period, share.part(limit)) for limit, period in rates if (limit, period) not in scarce)
        self._turns = _Turns(scarce, share, earlier, heaviest, mine) if scarce else None
        self._shortest = min((period for _, period in rates), default=0.0)
        self._stretch = max((period for _, period in rates), default=0.0)
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
                self._left = min(self._left, int(max(0, calls_left) * self._share.fraction))
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
    """Moments that belong to one lane, where the lanes are more than the calls: `step` apart over all lanes."""

    def __init__(
        self, rates: Rates, share: TaskShare, before: Sequence[float], heaviest: int, mine: Sequence[float]
    ) -> None:
        """before: calls before the first of these moments, the latest first. mine: calls on the share's lanes."""
        self._step = max(period / (limit // heaviest) for limit, period in rates)
        self._lanes, self._of, self._next = frozenset(share.lanes), share.of, 0
        self._first = share.divided
        for limit, period in rates:
            for turn in range(limit // heaviest):
                # At this turn so many calls of before may still count; the one before those may not.
                counting = limit - heaviest * (turn + 1)
                if counting < len(before):
                    self._first = max(self._first, before[counting] + period - turn * self._step)
        for at in mine:
            if at >= self._first:
                self.count(at)

    def next(self, at: float) -> float:
        """The first moment of this task at `at` or later that is not taken."""
        number = max(self._next, self._number(at))
        while number % self._of not in self._lanes:
            number += 1
        return self._first + number * self._step

    def count(self, at: float) -> None:
        """Count the moment as taken."""
        self._next = max(self._next, self._number(at) + 1)

    def _number(self, at: float) -> int:
        # A moment is itself, whatever the arithmetic of floats makes of it.
        return max(0, math.ceil((at - self._first) / self._step - 1e-6))


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
                known, before = self.share.spent.get(budget, BudgetUsage()), self.share.before.get(budget, ())
                self._slices[budget] = BudgetSlice(rates, self.share, known, heaviest, renews=renews, before=before)
            return self._slices[budget]

    def spent(self) -> Mapping[str, BudgetUsage]:
        """What was spent here, by budget."""
        with self._lock:
            return {budget: slice.spent() for budget, slice in self._slices.items()}


class BudgetAllocator:
    """What a process knows of each budget, for one sync after the other. Thread-safe."""

    def __init__(self, clock: Clock = system_clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._spent: dict[str, BudgetUsage] = {}

    def now(self) -> float:
        """The present, in seconds since 1970."""
        return self._clock().timestamp()

    def divide(self, lanes: int) -> "BudgetLanes":
        """So many lanes, of which nothing is leased."""
        now = self.now()
        with self._lock:
            self._spent = {budget: spent.at(now) for budget, spent in self._spent.items()}
            return BudgetLanes(self, lanes, now, dict(self._spent))

    def spent(self, usage: Mapping[str, BudgetUsage]) -> None:
        """Count what a task has spent, and forget what no longer counts: a sync may call for days."""
        now = self.now()
        with self._lock:
            for budget, spent in usage.items():
                self._spent[budget] = (self._spent.get(budget, BudgetUsage()) + spent).at(now)


class BudgetLanes:
    """The lanes that the tasks of a sync lease. Belongs to the driver's thread."""

    def __init__(self, allocator: BudgetAllocator, count: int, now: float, spent: Mapping[str, BudgetUsage]) -> None:
        """spent: what is known of all of them together."""
        self.count = count
        self._allocator, self._divided = allocator, now
        self._before = {budget: usage.calls for budget, usage in spent.items()}
        self._free = set(range(count))
        self._known = {budget: replace(usage, calls=()) for budget, usage in spent.items()}
        self._calls: dict[str, list[tuple[float, ...]]] = {}
        for budget, usage in spent.items():
            self._deal(budget, range(count), usage.calls)

    @property
    def free(self) -> int:
        """How many lanes nobody has."""
        return len(self._free)

    def lease(self, count: int) -> TaskShare:
        """Some of the lanes that nobody has, for a task that begins; at least one is left."""
        lanes = tuple(sorted(self._free)[: max(1, count)])
        self._free.difference_update(lanes)
        spent = {}
        for budget, usage in self._known.items():
            of_lane = self._calls.get(budget)
            spent[budget] = usage if of_lane is None else replace(usage, calls=_merged(of_lane[lane] for lane in lanes))
        return TaskShare(lanes, self.count, self._divided, spent, self._before)

    def release(self, share: TaskShare, usage: Mapping[str, BudgetUsage]) -> None:
        """Take lanes back, with what was spent on them."""
        self._free.update(share.lanes)
        self._allocator.spent(usage)
        now = self._allocator.now()
        for budget, spent in usage.items():
            known = self._known[budget] = self._known.get(budget, BudgetUsage()) + replace(spent, calls=())
            before = self._calls.get(budget)
            calls = _merged([spent.calls] if before is None else [spent.calls, *(before[n] for n in share.lanes)])
            counting = [at for at in calls if at > now - known.stretch and at >= known.renewed]
            self._deal(budget, share.lanes, counting)

    def _deal(self, budget: str, lanes: Sequence[int], calls: Sequence[float]) -> None:
        """Say which lane made which call: any stretch that reaches back from now then has no more than its part.

        The latest is dealt first, so the calls of such a stretch are dealt as places are.
        """
        latest = sorted(calls, reverse=True)
        of_lane = self._calls.setdefault(budget, [()] * self.count)
        for n, lane in enumerate(lanes):
            of_lane[lane] = tuple(latest[n :: len(lanes)])


def _merged(calls: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(sorted(chain.from_iterable(calls)))


_current: ContextVar[TaskBudgets | None] = ContextVar("task_budgets", default=None)


def task_budgets() -> TaskBudgets | None:
    """The budgets of the task that runs here; None where a budget has only itself to ask."""
    return _current.get()


def current_share() -> TaskShare:
    """The share of the task that runs here; the whole where nobody shares."""
    mine = _current.get()
    return TaskShare() if mine is None else mine.share


@contextmanager
def sharing(share: TaskShare | TaskBudgets) -> Iterator[TaskBudgets]:
    """Let budgets in this block, and in threads that the executors start in it, keep to a share, or go on with it."""
    before, mine = _current.get(), TaskBudgets(share) if isinstance(share, TaskShare) else share
    _current.set(mine)
    try:
        yield mine
    finally:
        _current.set(before)
