"""ApiBudget: different requests of an API, each within the policy that is about it."""

import threading
from collections.abc import Collection, Sequence
from datetime import timedelta

from cdk.base.errors import RateLimited
from cdk.base.logs import logger
from cdk.base.times.clock import Clock, Sleep, sleep, system_clock
from cdk.rest.errors.wait_strategies import as_seconds
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.metrics import current_metrics
from cdk.rest.limits.rate_policies import CallRatePolicy, heaviest, weight_of
from cdk.rest.limits.task_share import BudgetSlice, ledger

# Shorter waits are how a budget works; longer ones look like a read that hangs.
_QUIET_SECONDS = 1
# Smaller numbers are no moments of this century but seconds from now; larger ones than the second are milliseconds.
_SMALLEST_EPOCH = 1e9
_LARGEST_EPOCH = 1e11


class ApiBudget:
    """Each request is held back as the first policy that is about it says; one that none is about is not.

    remaining_header, reset_header: the headers in which the API says how many calls are left and when there are more:
    an epoch time in seconds or milliseconds, or seconds from now. limit_statuses: answers that mean that none are left.
    longest: the longest wait that is worth it; a longer one ends the read with RateLimited.

    Thread-safe. Time passes by the clock or by the waits, whichever says more, so a clock that stands still while code
    runs, or is set back, does not make waits longer. The tasks of a sync share it (`cdk.rest.limits.task_share`); any
    other process has its own.
    """

    def __init__(
        self,
        policies: Sequence[CallRatePolicy],
        *,
        remaining_header: str = "ratelimit-remaining",
        reset_header: str = "ratelimit-reset",
        limit_statuses: Collection[int] = (429,),
        longest: timedelta = timedelta(days=1),
        clock: Clock = system_clock,
        sleep: Sleep = sleep,
    ) -> None:
        self._policies = tuple(policies)
        self._remaining_header, self._reset_header = remaining_header, reset_header
        self._limit_statuses = frozenset(limit_statuses)
        self._longest, self._clock, self._sleep = longest.total_seconds(), clock, sleep
        self._lock = threading.Lock()
        self._reached = 0.0

    def acquire(self, request: Request) -> None:
        """Wait until `request` may be sent, and count it.

        Raises RateLimited: that is further away than `longest`.
        """
        match = self._find(request)
        if match is None:
            return
        policy, weight = match
        with self._lock:
            now = self._now()
            portion = self._portion(policy)
            at = policy.reserve(now, weight) if portion is None else portion.reserve(now, weight)
        wait = at - now
        if wait <= 0:
            return
        if wait > self._longest:
            raise RateLimited(
                f"{request}: the budget allows it in {wait:.0f} s, expected at most {self._longest:.0f} s; try again "
                f"later, or check `api_budget` and the header {self._reset_header}",
                wait=wait,
            )
        if wait > _QUIET_SECONDS:
            logger.info("waiting %.1f s until the budget allows the next call", wait)
        current_metrics().wait(wait)
        self._sleep(wait)
        with self._lock:
            self._reached = max(self._reached, at)

    def observe(self, response: Response) -> None:
        """Learn from an answer how many calls are left."""
        calls_left = as_seconds(response.headers.get(self._remaining_header))
        reset = as_seconds(response.headers.get(self._reset_header))
        if calls_left is None and response.status in self._limit_statuses:
            calls_left = 0
        if calls_left is None and reset is None:
            return
        match = self._find(response.request)
        if match is not None:
            with self._lock:
                now = self._now()
                moment = None if reset is None else _moment(reset, now)
                self._learn(match[0], now, None if calls_left is None else int(calls_left), moment)

    def _learn(self, policy: CallRatePolicy, now: float, calls_left: int | None, reset: float | None) -> None:
        portion = self._portion(policy)
        if portion is None:
            policy.learn(now, calls_left, reset)
        elif policy.renews:
            portion.learn(now, calls_left, reset)
        elif policy.rates and calls_left is not None and calls_left <= 0:
            portion.close(now + min(period for _, period in policy.rates) if reset is None else reset)

    def _portion(self, policy: CallRatePolicy) -> BudgetSlice | None:
        """The part of a policy that the task has which runs here; None where nobody shares."""
        shared = ledger()
        if shared is None:
            return None
        # Each process builds its own from the manifest, and they are alike.
        alike = ("ApiBudget", self._policies.index(policy), policy.rates, policy.renews)
        return shared.portion(repr(alike), policy.rates, heaviest(policy))

    def _find(self, request: Request) -> tuple[CallRatePolicy, int] | None:
        for policy in self._policies:
            if (weight := weight_of(policy, request)) is not None:
                return policy, weight
        return None

    def _now(self) -> float:
        return max(self._clock().timestamp(), self._reached)


def _moment(number: float, now: float) -> float:
    if number < _SMALLEST_EPOCH:
        return now + number
    return number / 1000 if number > _LARGEST_EPOCH else number
