"""Authenticators with several tokens, which are sent in rotation, or each as long as its quotas have calls left."""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from cdk.base.errors import ConfigError, RateLimited
from cdk.base.logs import logger
from cdk.base.process.process_lock import ProcessLock
from cdk.base.times.clock import Clock, Sleep, parse_timestamp, sleep, system_clock
from cdk.base.values import JsonValue
from cdk.rest.auth.static import with_header
from cdk.rest.errors.api_message import json_body
from cdk.rest.errors.status_errors import RATE_LIMIT_STATUS, error_for
from cdk.rest.http.authenticator import Setting, text_of
from cdk.rest.http.json_path import path
from cdk.rest.http.messages import Request, Response
from cdk.rest.limits.task_budgets import current_share
from cdk.rest.limits.task_share import TaskShare

_UNKNOWN_RESET = timedelta(minutes=1)


def always(_: Request) -> bool:
    """The `counts` of a quota that counts all requests."""
    return True


class Quota(Struct, frozen=True):
    """One of the quotas that an API has for each token. Response headers update what the quota status reported."""

    name: str
    remaining: Sequence[str]
    """The path, in the body of the quota status, of the number of calls left."""
    reset: Sequence[str]
    """The path of the time of the next reset: seconds since 1970, or ISO 8601."""
    limit: Sequence[str] = ()
    """The path of the total number of calls."""
    remaining_header: str | None = None
    reset_header: str | None = None
    limit_header: str | None = None
    counts: Callable[[Request], bool] = always
    """Whether a request uses up this quota."""
    exhausted_by: Collection[int] = (RATE_LIMIT_STATUS,)
    """Statuses that mean that no calls are left."""


class QuotaLeft(Struct):
    """The remaining calls of a quota for one token. Mutable: updated as the token is used."""

    remaining: int
    reset: datetime
    limit: int | None

    @classmethod
    def of(cls, quota: Quota, status: JsonValue, request: Request) -> "QuotaLeft":
        """Parse a quota status. Raises ConfigError: when it has no usable values at the paths of the quota."""
        remaining = _number(path(*quota.remaining)(status))
        reset = parse_timestamp(path(*quota.reset)(status), ("%s",))
        if remaining is None or reset is None:
            where = " > ".join(quota.remaining if remaining is None else quota.reset)
            raise ConfigError(
                f"{request}: the quota status has no usable value at {where}; check the paths of quota {quota.name!r}"
            )
        return cls(remaining, reset, _number(path(*quota.limit)(status)) if quota.limit else None)

    def observe(self, quota: Quota, response: Response, now: datetime) -> bool:
        """Update from a response. Returns whether another token should be used next."""
        headers = response.headers
        remaining = _number(headers.get(quota.remaining_header or ""))
        reset = parse_timestamp(headers.get(quota.reset_header or ""), ("%s",))
        limit = _number(headers.get(quota.limit_header or ""))
        if limit is not None:
            self.limit = limit
        if remaining is not None:
            # Responses arrive in any order: within one period, the lowest count is the latest.
            later = reset is not None and reset > self.reset
            self.remaining = remaining if later else min(remaining, self.remaining)
        if reset is not None:
            self.reset = max(self.reset, reset)
        exhausted = response.status in quota.exhausted_by
        if exhausted and not remaining:
            self.remaining = 0
            self.reset = self.reset if self.reset > now else now + _UNKNOWN_RESET
        return exhausted

    def part(self, share: TaskShare) -> "QuotaLeft":
        """Return the part that a task with this share may use."""
        return QuotaLeft(share.part(self.remaining), self.reset, None if self.limit is None else share.part(self.limit))

    def renew(self, now: datetime) -> None:
        """Start a new period if the current one is over and the total number of calls is known."""
        if now >= self.reset and self.limit is not None:
            self.remaining = max(self.remaining, self.limit)


def _number(value: JsonValue) -> int | None:
    try:
        return int(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None


@dataclass(eq=False, repr=False)
class TokenRotation:
    """Sends the tokens in rotation, so that the calls are spread over all of them.

    Raises ConfigError: when there are no tokens.
    """

    tokens: Sequence[str]
    _: KW_ONLY
    scheme: str = "Bearer"
    """The word before a token."""
    header: str = "Authorization"
    _turn: int = field(default=0, init=False)
    _lock: ProcessLock = field(default_factory=ProcessLock, init=False)

    def __post_init__(self) -> None:
        if not self.tokens:
            raise ConfigError("there are no tokens to rotate; set at least one")

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        with self._lock:
            token = self.tokens[self._turn]
            self._turn = (self._turn + 1) % len(self.tokens)
        yield with_header(request, self.header, f"{self.scheme} {token}")


_LONGEST_DELAY = 10.0
_SHORTEST_WAIT = 1.0


class QuotaStatus(msgspec.Struct, frozen=True):
    """The endpoint that reports the calls a token has left. unavailable: statuses that mean that it does not."""

    url: Setting
    method: str = "GET"
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    unavailable: Collection[int] = ()


@dataclass(eq=False, repr=False)
class TokenPool:
    """Sends one of `tokens` as long as it has calls left, then the next.

    Thread-safe; each process tracks the quotas itself. The tasks of a sync divide the calls left, unless responses tell
    how many are left (`remaining_header` of the quota). Raises ConfigError: when there are no tokens.
    """

    tokens: Sequence[str]
    status: QuotaStatus
    """Requested once for each token before the first request, and again after each wait for new calls.

    If it is unavailable, the tokens are sent in rotation.
    """
    quotas: Sequence[Quota]
    """A request uses up the first quota that counts it."""
    _: KW_ONLY
    scheme: str = "Bearer"
    """The word before a token."""
    header: str = "Authorization"
    reserve: float = 0.1
    """When this share of all calls or less is left, calls are spread over the time until the quota resets.

    They are then at most 10 s apart.
    """
    min_reserve: int = 50
    """The same as a number of calls. The larger of the two applies."""
    max_wait: timedelta = timedelta(hours=2)
    """The longest wait for a quota to reset. If it takes longer, the read ends with RateLimited."""
    clock: Clock = system_clock
    sleep: Sleep = sleep
    _quotas_left: dict[str, list[QuotaLeft]] | None = field(default=None, init=False)
    _has_status: bool = field(default=True, init=False)
    _current: int = field(default=0, init=False)
    _lock: ProcessLock = field(default_factory=ProcessLock, init=False)

    def __post_init__(self) -> None:
        if not self.tokens:
            raise ConfigError("the pool has no tokens; set at least one in the config")

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Raises RateLimited: when no token will have calls left within `max_wait`."""
        quota = next((quota for quota in self.quotas if quota.counts(request)), None)
        turn = yield from self._turn(quota)
        response = yield self._with(request, turn)
        self._observe(quota, turn, response)

    def _turn(self, quota: Quota | None) -> Generator[Request, Response, int]:
        """Return the index of the token to use now, waiting until it may be used. The call is already counted."""
        waited = 0.0
        while True:
            with self._lock:
                if self._quotas_left is None:
                    yield from self._read_status()
                turn, wait = self._choose(quota, self.clock())
            if turn is None and waited + wait > self.max_wait.total_seconds():
                raise RateLimited(
                    f"none of the {len(self.tokens)} tokens has calls left; the next quota resets in {wait:.0f} s, "
                    f"expected at most {self.max_wait.total_seconds():.0f} s (`max_wait`); try again later",
                    wait=wait,
                )
            if wait:
                self.sleep(wait)
            if turn is not None:
                return turn
            logger.info("waited %.0f s until a quota was reset", wait)
            waited += wait
            with self._lock:
                self._quotas_left = None

    def _choose(self, quota: Quota | None, now: datetime) -> tuple[int | None, float]:
        """Return the token to use and the seconds to wait before that; or None and the seconds until a quota resets."""
        if not self._has_status:
            mine, self._current = self._current, (self._current + 1) % len(self.tokens)
            return mine, 0.0
        if quota is None or self._quotas_left is None:
            return self._current, 0.0
        tokens = self._quotas_left[quota.name]
        for each in tokens:
            each.renew(now)
        order = [(self._current + step) % len(tokens) for step in range(len(tokens))]
        turn = next((i for i in order if tokens[i].remaining > 0), None)
        reset = (min(each.reset for each in tokens) - now).total_seconds()
        if turn is None:
            return None, max(_SHORTEST_WAIT, reset)
        # If responses tell how many calls are left, that number is for all tasks together: each slows down accordingly.
        delay = self._delay(tokens, now, 1 / current_share().fraction if quota.remaining_header else 1)
        tokens[turn].remaining -= 1
        self._current = turn
        return turn, delay

    def _delay(self, tokens: Sequence[QuotaLeft], now: datetime, tasks: float) -> float:
        total = sum(each.remaining for each in tokens)
        limit = sum(each.limit or 0 for each in tokens)
        if total > max(self.reserve * limit, self.min_reserve):
            return 0.0
        seconds = (min(each.reset for each in tokens if each.remaining > 0) - now).total_seconds()
        return min(_LONGEST_DELAY, max(0.0, tasks * seconds / total))

    def _observe(self, quota: Quota | None, turn: int, response: Response) -> None:
        with self._lock:
            if quota is None or self._quotas_left is None or not self._has_status:
                return
            gives_way = self._quotas_left[quota.name][turn].observe(quota, response, self.clock())
            if gives_way and turn == self._current:
                self._current = (turn + 1) % len(self.tokens)

    def _read_status(self) -> Generator[Request, Response, None]:
        """Request the quota status of each token."""
        quotas_left: dict[str, list[QuotaLeft]] = {quota.name: [] for quota in self.quotas}
        has_status = True
        for turn in range(len(self.tokens)):
            request = self._with(
                Request(self.status.method, text_of(self.status.url), headers=self.status.headers), turn
            )
            response = yield request
            if response.status in self.status.unavailable:
                has_status = False
                continue
            if not response.ok:
                raise error_for(response)
            for quota in self.quotas:
                known = QuotaLeft.of(quota, json_body(response), request)
                quotas_left[quota.name].append(known if quota.remaining_header else known.part(current_share()))
        self._quotas_left, self._has_status = quotas_left, has_status

    def _with(self, request: Request, turn: int) -> Request:
        return with_header(request, self.header, f"{self.scheme} {self.tokens[turn]}")
