"""BudgetLanes: what the APIs of a sync allow, leased to its tasks for a term each.

A term lasts as long as its task, because Spark cannot communicate with a running task. What a task does not use is
therefore unused until its term ends, and only then available to others. So each task leases as many lanes of a budget
as its streams have used before, and none if its streams do not call. A term ends at the next commit at the latest, see
`SliceTerm`.

Lanes of a task that died, or was copied, come back as if it had used them completely.
"""

import math
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from cdk.base.times.clock import Clock, system_clock
from cdk.rest.limits.task_share import NOTHING, BudgetUsage, TaskShare

_MAX_LANES_PER_TASK = 16
"""The number of lanes of a budget per task, if it allows as many calls: a task with few calls leases only one."""
_MOSTLY_USED = 0.75
"""A task that used more than this fraction of its lanes could probably use more lanes."""
_LANES_PER_USED = 1.5
"""Lanes leased per lane that was used, if not all were used."""
_KILL_GRACE_SECONDS = 2.0
"""Seconds for which a Python worker may live on after Spark has given up its task."""


class BudgetAllocator:
    """The usage of each budget in a process, across consecutive syncs. Thread-safe."""

    def __init__(self, clock: Clock = system_clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._known: dict[str, BudgetUsage] = {}
        self._calls: dict[str, list[float]] = {}
        self._read = 0.0

    def now(self) -> float:
        """Return the current time in seconds since 1970."""
        return self._clock().timestamp()

    def divide(self, lanes: int, lost: float = 0.0) -> "BudgetLanes":
        """Return new lanes, none of them leased. lost: as in `TaskShare`, for all of them."""
        with self._lock:
            now = self._moved()
            spent = {budget: replace(known, calls=self._counting(budget, now)) for budget, known in self._known.items()}
            return BudgetLanes(self, lanes, now, spent, lost)

    def add_usage(self, usage: Mapping[str, BudgetUsage]) -> None:
        """Add the usage of a task, and drop calls that no longer count, as a sync may run for days."""
        with self._lock:
            now = self._moved()
            for budget, spent in usage.items():
                known = self._known[budget] = self._known.get(budget, NOTHING) + replace(spent, calls=())
                calls = self._calls.setdefault(budget, [])
                calls.extend(spent.calls)
                if len(calls) > 4 * known.limit:
                    self._calls[budget] = list(self._counting(budget, now))

    def _moved(self) -> float:
        """Return the current time. If the clock was set back, date what is known back, too: no wait becomes longer."""
        now = self.now()
        if (back := self._read - now) > 0:
            self._calls = {budget: [at - back for at in calls] for budget, calls in self._calls.items()}
            for budget, known in self._known.items():
                self._known[budget] = replace(known, closed=known.closed - back, renewed=known.renewed - back)
        self._read = now
        return now

    def _counting(self, budget: str, now: float) -> tuple[float, ...]:
        known = self._known[budget]
        after, renewed = now - known.period_seconds, known.renewed
        return tuple(sorted(at for at in self._calls.get(budget, ()) if at > after and at >= renewed))


class _KnownBudget(Struct):
    """The lanes of a known budget.

    parts: how many of its finer lanes make up a common lane. free: those not leased. calls: on each of them.
    """

    parts: int
    usage: BudgetUsage
    free: set[int]
    calls: list[tuple[float, ...]]
    demand: dict[int, int] = field(default_factory=dict)
    """By stream, the number of lanes to lease to a task that reads it; without streams that do not call."""

    def finer(self, lanes: Iterable[int], count: int) -> tuple[int, ...]:
        """Return the finer lanes that make up some of `count` common lanes. They have the same places."""
        return tuple(lane + n * count for lane in lanes for n in range(self.parts))


class BudgetLanes:
    """The lanes that the tasks of a sync lease. Belongs to the driver's thread."""

    def __init__(
        self, allocator: BudgetAllocator, count: int, now: float, spent: Mapping[str, BudgetUsage], lost: float = 0.0
    ) -> None:
        """spent: the known usage of all lanes together."""
        self.count, self._allocator, self._divided = count, allocator, now
        self._before = {budget: usage.calls for budget, usage in spent.items()}
        self._free = set(range(count))
        self._lost = [0.0] * count
        self._read_streams = set[int]()
        self._known = {budget: self._learn(usage) for budget, usage in spent.items()}
        for budget, usage in spent.items():
            self._assign_calls(budget, range(count * self._known[budget].parts), usage.calls)
        # Set only now: the calls of known budgets are already counted.
        self._lost = [lost] * count

    @property
    def free(self) -> int:
        """The number of free lanes."""
        return len(self._free)

    @property
    def lost(self) -> float:
        """The last time at which a task that did not report its usage may have called."""
        return max(self._lost)

    def lease(self, tasks: int, streams: Iterable[int] = ()) -> TaskShare | None:
        """Lease lanes to a new task; None if no lane of a budget that it needs is free.

        tasks: how many tasks are about to start, including this one. streams: those that it reads.
        """
        reads = set(streams)
        unknown = not reads <= self._read_streams or not reads
        named = {}
        for budget, known in self._known.items():
            demand = len(known.calls) if unknown else max(known.demand.get(n, 0) for n in reads)
            most = max(1, len(known.free) // tasks)
            named[budget] = _spread(known.free, min(demand, most))
            if demand and not named[budget]:
                return None
        if not self._free:
            return None
        lanes = tuple(sorted(self._free)[: max(1, len(self._free) // tasks)])
        self._free.difference_update(lanes)
        spent = {}
        for budget, known in self._known.items():
            known.free.difference_update(named[budget])
            spent[budget] = replace(known.usage, calls=_merged(known.calls[lane] for lane in named[budget]))
        lost = max(self._lost[lane] for lane in lanes)
        of = {budget: (mine, self.count * self._known[budget].parts) for budget, mine in named.items()}
        return TaskShare(lanes, self.count, self._divided, spent, self._before, lost=lost, named=of)

    def release(self, share: TaskShare, usage: Mapping[str, BudgetUsage] | None, streams: Iterable[int] = ()) -> None:
        """Take back the lanes of a task. usage: None if unknown. streams: those that it read."""
        self._free.update(share.lanes)
        now, reads = self._allocator.now(), set(streams)
        if usage is None:
            usage = self._full_usage(share, now + _KILL_GRACE_SECONDS)
            for lane in share.lanes:
                self._lost[lane] = now + _KILL_GRACE_SECONDS
        else:
            self._read_streams |= reads
        self._allocator.add_usage(usage)
        for budget, spent in usage.items():
            if budget not in self._known:
                self._known[budget] = self._learn(spent)
        for budget, known in self._known.items():
            mine = share.of_budget(budget).lanes
            mine = mine if budget in share.named else known.finer(mine, self.count)
            known.free.update(mine)
            if budget in usage:
                self._add_calls(budget, mine, usage[budget], now)
                self._update_demand(known, reads, len(mine), usage[budget])
            elif len(reads) == 1:
                known.demand.pop(next(iter(reads)), None)

    def _full_usage(self, share: TaskShare, until: float) -> Mapping[str, BudgetUsage]:
        """Return the maximum that a task that did not report its usage may have used by the time `until`."""
        everything = {}
        for budget, known in self._known.items():
            lanes, of = share.named.get(budget, (known.finer(share.lanes, self.count), self.count * known.parts))
            everything[budget] = replace(known.usage, calls=(until,) * math.ceil(known.usage.limit * len(lanes) / of))
        return everything

    def _learn(self, usage: BudgetUsage) -> _KnownBudget:
        parts = _MAX_LANES_PER_TASK if not usage.lanes else max(1, min(_MAX_LANES_PER_TASK, usage.lanes // self.count))
        known = _KnownBudget(parts, replace(usage, calls=()), set(), [()] * (self.count * parts))
        known.free.update(known.finer(self._free, self.count))
        for lane, lost in enumerate(self._lost):
            if lost:
                for each in known.finer([lane], self.count):
                    places = TaskShare((each,), self.count * parts).part(usage.limit)
                    known.calls[each] = (lost,) * places
        return known

    def _add_calls(self, budget: str, lanes: Sequence[int], spent: BudgetUsage, now: float) -> None:
        known = self._known[budget]
        known.usage += replace(spent, calls=())
        calls = _merged([spent.calls, *(known.calls[lane] for lane in lanes)])
        counting = [at for at in calls if at > now - known.usage.period_seconds and at >= known.usage.renewed]
        self._assign_calls(budget, lanes, counting)

    @staticmethod
    def _update_demand(known: _KnownBudget, streams: Iterable[int], leased: int, spent: BudgetUsage) -> None:
        for n in streams:
            if spent.used > _MOSTLY_USED:
                known.demand[n] = max(known.demand.get(n, 1), 2 * leased)
            elif spent.calls:
                known.demand[n] = max(1, math.ceil(leased * spent.used * _LANES_PER_USED))
            else:
                known.demand.setdefault(n, len(known.calls))

    def _assign_calls(self, budget: str, lanes: Sequence[int], calls: Sequence[float]) -> None:
        """Assign each call to a lane, so that in any period up to now each lane has at most its part of the calls.

        The latest call is dealt first, so the calls of such a period are dealt in the same way as places.
        """
        latest = sorted(calls, reverse=True)
        for n, lane in enumerate(lanes):
            self._known[budget].calls[lane] = tuple(latest[n :: len(lanes)])


def _spread(lanes: Collection[int], count: int) -> tuple[int, ...]:
    """Return `count` of the lanes, as far apart as possible: turns of adjacent lanes are too close for one task."""
    ordered = sorted(lanes)
    count = min(count, len(ordered))
    return tuple(ordered[n * len(ordered) // count] for n in range(count))


def _merged(calls: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(sorted(chain.from_iterable(calls)))
