"""Quota: how many calls a token has left, as an API tells it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cdk.base.errors import ConfigError
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import JsonValue
from cdk.rest.errors.status_errors import RATE_LIMIT_STATUS
from cdk.rest.http.json_path import path
from cdk.rest.http.messages import Request, Response
from cdk.rest.limits.task_share import TaskShare

_UNKNOWN_RESET = timedelta(minutes=1)


def always(_: Request) -> bool:
    """Whether a quota counts a request, for one that counts all."""
    return True


@dataclass(frozen=True, slots=True)
class Quota:
    """One of the quotas that an API has for each token. Headers of responses say what its status says at the paths."""

    name: str
    remaining: Sequence[str]
    """Path, in the body of the quota status, to how many calls are left."""
    reset: Sequence[str]
    """Path to when there are new ones: seconds since 1970, or ISO 8601."""
    limit: Sequence[str] = ()
    """Path to how many there are in all."""
    remaining_header: str | None = None
    reset_header: str | None = None
    limit_header: str | None = None
    counts: Callable[[Request], bool] = always
    """Which requests it is about."""
    exhausted_by: Collection[int] = (RATE_LIMIT_STATUS,)
    """Statuses that mean that no call is left."""


@dataclass(slots=True)
class QuotaLeft:
    """What is left of a quota for one token; changes as it is used."""

    remaining: int
    reset: datetime
    limit: int | None

    @classmethod
    def of(cls, quota: Quota, status: JsonValue, request: Request) -> "QuotaLeft":
        """What a quota status says. Raises ConfigError: it does not tell at the paths of the quota."""
        remaining = _number(path(*quota.remaining)(status))
        reset = parse_timestamp(path(*quota.reset)(status), ("%s",))
        if remaining is None or reset is None:
            where = " > ".join(quota.remaining if remaining is None else quota.reset)
            raise ConfigError(
                f"{request}: the quota status has nothing usable at {where}; check the paths of quota {quota.name!r}"
            )
        return cls(remaining, reset, _number(path(*quota.limit)(status)) if quota.limit else None)

    def observe(self, quota: Quota, response: Response, now: datetime) -> bool:
        """Learn from a response. Whether it says that another token should go on."""
        headers = response.headers
        remaining = _number(headers.get(quota.remaining_header or ""))
        reset = parse_timestamp(headers.get(quota.reset_header or ""), ("%s",))
        limit = _number(headers.get(quota.limit_header or ""))
        if limit is not None:
            self.limit = limit
        if remaining is not None:
            # Responses come in any order: within one period only the lowest count is the latest.
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
        """What one of several tasks may use of it."""
        return QuotaLeft(share.part(self.remaining), self.reset, None if self.limit is None else share.part(self.limit))

    def renew(self, now: datetime) -> None:
        """Begin a new period if this one is over and it is known how many calls that brings."""
        if now >= self.reset and self.limit is not None:
            self.remaining = max(self.remaining, self.limit)


def _number(value: JsonValue) -> int | None:
    try:
        return int(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None
