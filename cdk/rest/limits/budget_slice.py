"""BudgetSlice: how often a task may call within one budget, according to the lanes that it holds."""

import math
import threading
from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from cdk.base.process.interruption import Interrupted
from cdk.rest.limits.task_share import NOTHING, UNSHARED, BudgetUsage, Rates, TaskShare


class TermEnded(Interrupted):
    """A task gets no turn to call before it ends: the slice resumes from its last checkpoint in another task."""

    def __init__(self) -> None:
        super().__init__("no turn")


class BudgetSlice:
    """A task's part of one budget: for each rate, a maximum number of calls in any period. Thread-safe.

    spent: the known usage of the share's lanes. heaviest: the maximum number of calls that a request counts as; no
    limit is lower. fixed_window: whether the API's limit resets at the time that it reports, instead of each call
    expiring on its own. before: the calls on all lanes before these were divided.
    """

    def __init__(
        self,
        rates: Rates,
        share: TaskShare = UNSHARED,
        spent: BudgetUsage = NOTHING,
        heaviest: int = 1,
        *,
        fixed_window: bool = False,
        before: Sequence[float] = (),
    ) -> None:
        self._lock, self._share, self._fixed_window = threading.Lock(), share, fixed_window
        lost = [share.lost] * max((share.part(limit) for limit, _ in rates), default=0) if share.lost else []
        mine = sorted(at for at in (*spent.calls, *lost) if at >= spent.renewed)
        earlier = sorted((at for at in before if at >= spent.renewed), reverse=True)
        # Decided equally in all tasks: the same call must not be a place for one task and a turn for another.
        scarce = [(limit, period) for limit, period in rates if limit // share.lane_count < heaviest]
        self._rates = sorted((period, share.part(limit)) for limit, period in rates if (limit, period) not in scarce)
        self._turns = _Turns(scarce, share, earlier, heaviest, mine) if scarce else None
        self._shortest = min((period for _, period in rates), default=0.0)
        longest = max((period for _, period in rates), default=0.0)
        self._call_times = deque(mine, maxlen=max((limit for limit, _ in rates), default=0))
        self._calls = deque[float](maxlen=self._call_times.maxlen)
        self._closed, self._renewed = spent.closed, spent.renewed
        self._calls_left, self._resets_at = math.inf, math.inf
        fine = [limit // heaviest for limit, period in rates if (limit, period) not in scarce]
        self._known = BudgetUsage(
            period_seconds=longest, limit=self._call_times.maxlen or 0, lanes=min(fine, default=0)
        )
        self._began, self._count, self._turned_away = math.inf, 0, False

    def reserve(self, now: float, weight: int = 1, max_wait_seconds: float = math.inf) -> float:
        """Count a call of `weight`, and return the time, `now` or later, at which it may be sent.

        Raises TermEnded, without counting the call: when that time is more than `max_wait_seconds` away.
        """
        with self._lock:
            self._began = min(self._began, now)
            at = self._earliest(now, weight)
            if at >= self._resets_at or self._calls_left < weight:
                self._renew(self._resets_at)
                at = self._earliest(max(now, self._renewed), weight)
            if at > now + max_wait_seconds:
                self._turned_away = True
                raise TermEnded
            self._calls_left -= weight
            self._count += weight
            self._call_times.extend([at] * weight)
            self._calls.extend([at] * weight)
            if self._turns is not None:
                self._turns.count(at)
            return at

    def close(self, until: float) -> None:
        """Allow no calls before a time that the API reported."""
        with self._lock:
            self._closed = max(self._closed, until)

    @property
    def closed(self) -> float:
        """The time before which the API allows no calls."""
        return self._closed

    def learn(self, now: float, calls_left: int | None, reset: float | None) -> None:
        """Apply how many calls the API reports as left for all tasks, and when its limit resets.

        For a moving window, only a report that no calls are left is used: until `reset`, or for the shortest period.
        """
        if not self._fixed_window:
            if calls_left is not None and calls_left <= 0:
                self.close(now + self._shortest if reset is None else reset)
            return
        with self._lock:
            if reset is not None:
                self._resets_at = reset
            if calls_left is not None:
                # All tasks receive the same number, so each uses only its fraction of the calls left.
                self._calls_left = min(self._calls_left, int(max(0, calls_left) * self._share.fraction))
                self._resets_at = self._resets_at if math.isfinite(self._resets_at) else now + self._shortest

    def usage(self) -> BudgetUsage:
        """Return the usage of this task, with what the API reported, without the calls known at the start."""
        with self._lock:
            calls = tuple(self._calls)
            return replace(self._known, calls=calls, closed=self._closed, renewed=self._renewed, used=self._used(calls))

    def _used(self, calls: Sequence[float]) -> float:
        if self._turned_away or not calls:
            return float(self._turned_away)
        seconds = calls[-1] - self._began
        allowed = [part * max(1.0, seconds / period) for period, part in self._rates]
        if self._turns is not None:
            allowed.append(max(1.0, seconds / self._turns.seconds))
        return self._count / max(1.0, min(allowed, default=math.inf))

    def _earliest(self, now: float, weight: int) -> float:
        taken = self._call_times
        at = max(now, self._closed, taken[-1] if taken else now)
        for period, limit in self._rates:
            # This call and the `limit - weight` calls before it may be in one period; the call before those may not.
            if (before := len(taken) - limit + weight - 1) >= 0:
                at = max(at, taken[before] + period)
        return at if self._turns is None else self._turns.next(at)

    def _renew(self, at: float) -> None:
        self._renewed, self._calls_left, self._resets_at = at, math.inf, math.inf
        for known in (self._call_times, self._calls):
            while known and known[0] < at:
                known.popleft()


class _Turns:
    """Turns of lanes, for limits with fewer calls than lanes: times `step` seconds apart, each belongs to one lane."""

    def __init__(
        self, rates: Rates, share: TaskShare, before: Sequence[float], heaviest: int, mine: Sequence[float]
    ) -> None:
        """before: calls before the first turn, latest first. mine: calls on the share's lanes."""
        self._step = max(period / (limit // heaviest) for limit, period in rates)
        self._lanes, self._lane_count, self._next = frozenset(share.lanes), share.lane_count, 0
        self.seconds = self._step * share.lane_count / len(share.lanes)
        """Seconds between two turns of this task, on average."""
        self._first = share.divided
        for limit, period in rates:
            for turn in range(limit // heaviest):
                # At this turn, at most `counting` earlier calls may still count; the call before those may not.
                counting = limit - heaviest * (turn + 1)
                if counting < len(before):
                    self._first = max(self._first, before[counting] + period - turn * self._step)
        for at in mine:
            if at >= self._first:
                self.count(at)

    def next(self, at: float) -> float:
        """Return the time of this task's first free turn at `at` or later."""
        number = max(self._next, self._number(at))
        while number % self._lane_count not in self._lanes:
            number += 1
        return self._first + number * self._step

    def count(self, at: float) -> None:
        """Mark the turn at a time as taken."""
        self._next = max(self._next, self._number(at) + 1)

    def _number(self, at: float) -> int:
        # The tolerance makes a turn's own time map to its number in spite of float rounding.
        return max(0, math.ceil((at - self._first) / self._step - 1e-6))
