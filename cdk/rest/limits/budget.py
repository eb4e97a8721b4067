"""Budget: how often an API may be called."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import timedelta
from functools import partial
from typing import Literal, TypeAlias

from cdk.base.errors import ConfigError, RateLimited
from cdk.base.logs import logger
from cdk.base.times.clock import Clock, Sleep, sleep, system_clock
from cdk.rest.errors.retry_policy import LONGEST_WAIT
from cdk.rest.errors.wait_strategies import as_seconds
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.metrics import current_metrics
from cdk.rest.http.transport import Transport
from cdk.rest.limits.budget_slice import BudgetSlice
from cdk.rest.limits.rate_policies import CallRatePolicy, FixedWindow
from cdk.rest.limits.task_budgets import max_wait_seconds, note_call, task_budgets

ResetUnit: TypeAlias = Literal["epoch", "seconds", "either"]
"""The unit of a header with the time of a reset: seconds since 1970, seconds from now, or either, by the number's size.

The last also accepts milliseconds since 1970.
"""

# Shorter waits are normal for a budget and are not logged; longer ones would look like a read that hangs.
_QUIET_SECONDS = 1
# Numbers below the first are seconds from now, as they are no time of this century; above the second, milliseconds.
_SMALLEST_EPOCH = 1e9
_LARGEST_EPOCH = 1e11


@dataclass(eq=False)
class Budget:
    """Allows at most `calls` calls in any `period`; further calls wait.

    Thread-safe. Its time is that of the clock or the end of its last wait, whichever is later, so a clock that stands
    still while code runs, or is set back, does not make waits longer. The tasks of a sync share a budget
    (`cdk.rest.limits.task_share`); budgets with the same settings count as one there. Any other process has its own.
    """

    calls: int | None = None
    """None if the headers, or `policies`, are sufficient."""
    period: timedelta = timedelta(seconds=1)
    _: KW_ONLY
    policies: Sequence[CallRatePolicy] = ()
    """Limits for some requests each, instead of `calls`: the first that applies to a request is used."""
    remaining_header: str | None = None
    """The header with the number of calls left (`X-RateLimit-Remaining`)."""
    reset_header: str | None = None
    """The header with the time of the reset. If no calls are left, the next call waits until then."""
    reset: ResetUnit = "epoch"
    limit_statuses: Collection[int] = ()
    """Statuses that mean that no calls are left."""
    max_wait: timedelta = timedelta(minutes=10)
    """The longest wait for a reset.

    If a reset takes longer, the read ends with RateLimited, and can be resumed later from its state. A wait for
    `period` may take up to a day.
    """
    clock: Clock = system_clock
    sleep: Sleep = sleep
    _windows: Sequence[BudgetSlice | FixedWindow] = field(init=False, repr=False)
    _lock: threading.Lock = field(init=False, repr=False)
    _reached: float = field(default=0.0, init=False, repr=False)
    _read: float = field(default=0.0, init=False, repr=False)
    _set_back: float = field(default=0.0, init=False, repr=False)

    def __post_init__(self) -> None:
        if (self.remaining_header is None) != (self.reset_header is None):
            raise ConfigError("a budget needs remaining_header and reset_header together")
        rates = () if self.calls is None else ((self.calls, self.period.total_seconds()),)
        self._policies = tuple(self.policies) or (CallRatePolicy(rates),)
        self._windows = [_own_window(policy) for policy in self._policies]
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Callable[[], "Budget"], tuple[()]]:
        """Pickle the settings only: a budget starts unused in another process."""
        return partial(
            Budget, **{setting.name: getattr(self, setting.name) for setting in fields(self) if setting.init}
        ), ()

    def acquire(self, request: Request) -> None:
        """Wait until `request` may be sent, and count it.

        Raises RateLimited: when a reset is further away than `max_wait`, in which case the request is not counted, or
        when the wait is longer than a day. Raises TermEnded: when the wait must be left to another task.
        """
        match = self._find(request)
        if match is None:
            note_call()
            return
        turn, weight = match
        with self._lock:
            now, window = self._now(), self._window(turn)
            if (closed := window.closed - now) > self.max_wait.total_seconds():
                raise self._too_long(request, closed, self.max_wait)
            # A waiting call already occupies its place in the window, so later calls get the next places.
            at = window.reserve(now, weight, max_wait_seconds())
        note_call()
        wait = at - now
        if wait > LONGEST_WAIT.total_seconds():
            raise self._too_long(request, wait, LONGEST_WAIT)
        if wait <= 0:
            return
        if wait > _QUIET_SECONDS:
            logger.info("waiting %.1f s until the budget allows the next call", wait)
        current_metrics().count_budget_wait(wait)
        self.sleep(wait)
        with self._lock:
            self._reached = max(self._reached, at - self._ahead)

    def observe(self, response: Response) -> None:
        """Update the budget from the headers and status of a response."""
        calls_left = self._header(response, self.remaining_header)
        reset = self._header(response, self.reset_header)
        if calls_left is None and response.status in self.limit_statuses:
            calls_left = 0
        if (calls_left is None and reset is None) or (match := self._find(response.request)) is None:
            return
        with self._lock:
            now = self._now()
            resets_at = None if reset is None else self._reset_time(reset, now)
            self._window(match[0]).learn(now, None if calls_left is None else int(calls_left), resets_at)

    def _find(self, request: Request) -> tuple[int, int] | None:
        """Return the index of the policy for a request and the calls that it counts as; None if it is not limited."""
        for turn, policy in enumerate(self._policies):
            if (weight := policy.weight(request)) is not None:
                return None if policy.rates is None else (turn, weight)
        return None

    def _window(self, turn: int) -> BudgetSlice | FixedWindow:
        """Return the window of a policy, or the part of it that the current task holds."""
        shared, policy = task_budgets(), self._policies[turn]
        if shared is None:
            return self._windows[turn]
        # Each process builds its own budget, so equal ones are recognized by their settings.
        alike = ("Budget", turn, policy.rates, policy.fixed_window, self.remaining_header, self.reset_header)
        return shared.slice_of(repr(alike), policy.rates or (), policy.heaviest, fixed_window=policy.fixed_window)

    @property
    def _ahead(self) -> float:
        """Seconds by which its time is ahead of the clock. The times that tasks exchange are those of the clock."""
        return self._set_back if task_budgets() is None else 0.0

    def _now(self) -> float:
        read = self.clock().timestamp()
        if (back := self._read - read) > 0:
            self._set_back, self._reached = self._set_back + back, self._reached - back
        self._read = read
        return max(read, self._reached) + self._ahead

    def _reset_time(self, reset: float, now: float) -> float:
        if self.reset == "seconds" or (self.reset == "either" and reset < _SMALLEST_EPOCH):
            return now + reset
        return self._ahead + (reset / 1000 if self.reset == "either" and reset > _LARGEST_EPOCH else reset)

    def _too_long(self, request: Request, wait: float, longest: timedelta) -> RateLimited:
        header = self.reset_header
        by, check = (
            (f"by the header {header}, ", f", or check that header, read as {self.reset!r}") if header else ("", "")
        )
        return RateLimited(
            f"{request}: {by}the budget allows it in {wait:.0f} s, expected at most {longest.total_seconds():.0f} s "
            f"(`max_wait`); try again later{check}",
            wait=wait,
        )

    @staticmethod
    def _header(response: Response, name: str | None) -> float | None:
        return None if name is None else as_seconds(response.headers.get(name))


def _own_window(policy: CallRatePolicy) -> BudgetSlice | FixedWindow:
    rates = policy.rates or ()
    return FixedWindow(*rates[0]) if policy.fixed_window else BudgetSlice(rates, heaviest=policy.heaviest)


class Budgeted:
    """A transport that takes each call from a budget. For use below a cache, whose hits cost no calls."""

    def __init__(self, transport: Transport, budget: Budget) -> None:
        self._transport, self._budget = transport, budget

    def send(self, request: Request) -> Response:
        self._budget.acquire(request)
        response = self._transport.send(request)
        self._budget.observe(response)
        return response
