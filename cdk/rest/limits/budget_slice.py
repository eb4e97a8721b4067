"""BudgetSlice: what a task may call of one budget, with the lanes that it holds of it."""

import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from cdk.base.process.interruption import Interrupted
from cdk.rest.limits.task_share import NOTHING, UNSHARED, BudgetUsage, Rates, TaskShare


class TermEnded(Interrupted):
    """A task gets no turn before its end: the slice goes on from its last checkpoint in another task."""

    def __init__(self) -> None:
        super().__init__("no turn")


class BudgetSlice:
    """What a task may call of one budget: at most so many calls in any stretch of so long, for each rate. Thread-safe.

    spent: what is known of the share's lanes. heaviest: how many calls a request counts for at most; no limit is below
    it. renews: whether the API counts anew at the time that it announces, and not with each call that is old enough.
    before: the calls on all lanes when these were divided.
    """

    def __init__(
        self,
        rates: Rates,
        share: TaskShare = UNSHARED,
        spent: BudgetUsage = NOTHING,
        heaviest: int = 1,
        *,
        renews: bool = False,
        before: Sequence[float] = (),
    ) -> None:
        self._lock, self._share, self._counts_anew = threading.Lock(), share, renews
        lost = [share.lost] * max((share.part(limit) for limit, _ in rates), default=0) if share.lost else []
        mine = sorted(at for at in (*spent.calls, *lost) if at >= spent.renewed)
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
        fine = [limit // heaviest for limit, period in rates if (limit, period) not in scarce]
        self._known = BudgetUsage(stretch=self._stretch, limit=self._taken.maxlen or 0, lanes=min(fine, default=0))
        self._began, self._count, self._short = math.inf, 0, False

    def reserve(self, now: float, weight: int = 1, longest: float = math.inf) -> float:
        """Count a call of `weight`; the moment, `now` or later, at which it may be sent.

        Raises TermEnded, and counts nothing: that is more than `longest` seconds away.
        """
        with self._lock:
            self._began = min(self._began, now)
            at = self._earliest(now, weight)
            if at >= self._renews or self._left < weight:
                self._renew(self._renews)
                at = self._earliest(max(now, self._renewed), weight)
            if at > now + longest:
                self._short = True
                raise TermEnded
            self._left -= weight
            self._count += weight
            self._taken.extend([at] * weight)
            self._calls.extend([at] * weight)
            if self._turns is not None:
                self._turns.count(at)
            return at

    def close(self, until: float) -> None:
        """Allow no call before a timestamp of the API's."""
        with self._lock:
            self._closed = max(self._closed, until)

    @property
    def closed(self) -> float:
        """Before which moment the API allows no call."""
        return self._closed

    def learn(self, now: float, calls_left: int | None, reset: float | None) -> None:
        """Take over how many calls the API reports as left to all tasks, and when there are more.

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
        """What was spent here, and what the API reported; without the calls that were known at the start."""
        with self._lock:
            calls = tuple(self._calls)
            return replace(self._known, calls=calls, closed=self._closed, renewed=self._renewed, used=self._used(calls))

    def _used(self, calls: Sequence[float]) -> float:
        if self._short or not calls:
            return float(self._short)
        seconds = calls[-1] - self._began
        allowed = [part * max(1.0, seconds / period) for period, part in self._rates]
        if self._turns is not None:
            allowed.append(max(1.0, seconds / self._turns.seconds))
        return self._count / max(1.0, min(allowed, default=math.inf))

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
        self.seconds = self._step * share.of / len(share.lanes)
        """Between two of its moments, on average."""
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
