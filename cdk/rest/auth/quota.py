"""Quota: how many calls a token has left, as reported by an API."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from cdk.base.errors import ConfigError
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import JsonValue
from cdk.rest.errors.status_errors import RATE_LIMIT_STATUS
from cdk.rest.http.json_path import path
from cdk.rest.http.messages import Request, Response
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
