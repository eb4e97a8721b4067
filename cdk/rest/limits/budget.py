"""Budget: how often an API may be called."""

import math
from datetime import timedelta
from typing import Literal, Protocol, TypedDict

from cdk.base.errors import ConfigError, RateLimited
from cdk.base.logs import logger
from cdk.base.times.clock import Clock, Sleep, sleep, system_clock
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.metrics import current_metrics
from cdk.rest.http.transport import Transport
from cdk.rest.limits.task_share import BudgetSlice, ledger

# Shorter waits are how a budget works; longer ones look like a read that hangs.
_QUIET_SECONDS = 1


class CallBudget(Protocol):
    """Says when a request may be sent.

    Contract: safe to use from several threads; waits with an injected sleep only.
    """

    def acquire(self, request: Request) -> None:
        """Wait until `request` may be sent, and count it. Raises RateLimited: that is too far away."""

    def observe(self, response: Response) -> None:
        """Learn from an answer how many calls are left."""


class _Settings(TypedDict):
    calls: int | None
    period: timedelta
    remaining_header: str | None
    reset_header: str | None
    reset: Literal["seconds", "epoch"]
    max_wait: timedelta
    clock: Clock
    sleep: Sleep


class Budget:
    """At most `calls` calls in any stretch of `period`; who asks for more waits.

    remaining_header, reset_header: the headers in which the API says how many calls are left and when there are more
    (`X-RateLimit-Remaining`, `X-RateLimit-Reset`); when none are left, the next call waits until then. reset: whether
    the latter counts seconds from now or is an epoch time in seconds. `calls` may be None where the headers are enough.
    max_wait: the longest wait for a reset that is worth it; a longer one ends the read with RateLimited, and it goes on
        from its state another time. Waiting for `period` has no limit.

    Thread-safe. The tasks of a sync share it (`cdk.rest.limits.task_share`), where budgets with the same settings count
    as one; any other process has its own.
    """

    def __init__(
        self,
        calls: int | None = None,
        period: timedelta = timedelta(seconds=1),
        *,
        remaining_header: str | None = None,
        reset_header: str | None = None,
        reset: Literal["seconds", "epoch"] = "epoch",
        max_wait: timedelta = timedelta(minutes=10),
        clock: Clock = system_clock,
        sleep: Sleep = sleep,
    ) -> None:
        if calls is not None and calls < 1:
            raise ConfigError(f"a budget of {calls} calls: expected at least 1")
        if (remaining_header is None) != (reset_header is None):
            raise ConfigError("a budget needs remaining_header and reset_header together")
        self._settings: _Settings = {
            "calls": calls,
            "period": period,
            "remaining_header": remaining_header,
            "reset_header": reset_header,
            "reset": reset,
            "max_wait": max_wait,
            "clock": clock,
            "sleep": sleep,
        }
        self._rates = () if calls is None else ((calls, period.total_seconds()),)
        self._alone = BudgetSlice(self._rates)

    def __getstate__(self) -> _Settings:
        return self._settings

    def __setstate__(self, settings: _Settings) -> None:
        self.__init__(**settings)  # type: ignore[misc] # a budget starts fresh in another process

    def acquire(self, request: Request | None = None) -> None:
        """Wait until a call is allowed, and count it. All requests are counted alike.

        Raises RateLimited: the API allows the next one later than `max_wait`; nothing is counted.
        """
        portion, now = self._portion(), self._settings["clock"]().timestamp()
        if (closed := portion.closed() - now) > self._settings["max_wait"].total_seconds():
            raise self._too_long(closed)
        # Whoever waits has its place in the window already, so those behind it wait for the next.
        at = portion.reserve(now)
        if at - now > _QUIET_SECONDS:
            logger.info("waiting %.1f s until the budget allows the next call", at - now)
        if at > now:
            current_metrics().wait(at - now)
            self._settings["sleep"](at - now)

    def observe(self, response: Response) -> None:
        """Learn from an answer's headers whether there are calls left."""
        remaining_header, reset_header = self._settings["remaining_header"], self._settings["reset_header"]
        if remaining_header is None or reset_header is None:
            return
        remaining = _number(response.headers.get(remaining_header))
        reset = _number(response.headers.get(reset_header))
        if remaining is None or reset is None or remaining >= 1:
            return
        until = reset if self._settings["reset"] == "epoch" else self._settings["clock"]().timestamp() + reset
        self._portion().close(until)

    def _portion(self) -> BudgetSlice:
        shared = ledger()
        if shared is None:
            return self._alone
        settings = self._settings
        alike = ("Budget", self._rates, settings["remaining_header"], settings["reset_header"])
        return shared.portion(repr(alike), self._rates)

    def _too_long(self, wait: float) -> RateLimited:
        header, longest = self._settings["reset_header"], self._settings["max_wait"].total_seconds()
        return RateLimited(
            f"no calls are left, and the header {header} allows the next one in {wait:.0f} s, expected at most "
            f"{longest:.0f} s (`max_wait` of the budget); try again later, or set `reset` if the header does not count "
            f"as {self._settings['reset']!r} says",
            wait=wait,
        )


def _number(text: str | None) -> float | None:
    try:
        number = math.nan if text is None else float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class Budgeted:
    """A transport that takes each call from a budget; for caches, whose hits cost none."""

    def __init__(self, transport: Transport, budget: CallBudget) -> None:
        self._transport, self._budget = transport, budget

    def send(self, request: Request) -> Response:
        self._budget.acquire(request)
        response = self._transport.send(request)
        self._budget.observe(response)
        return response
