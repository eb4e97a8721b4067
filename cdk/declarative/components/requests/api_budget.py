"""The budget of an API: how often it may be called, with a policy for each kind of request."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import ConfigError, ManifestError
from cdk.base.values import JsonObject
from cdk.declarative.components.requests.backoff import checked_pattern
from cdk.declarative.model.component import Adapted, Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.stream_plug_points import AnyCallRatePolicy
from cdk.rest import Budget
from cdk.rest.errors.retry_policy import LONGEST_WAIT
from cdk.rest.errors.status_errors import RATE_LIMIT_STATUS
from cdk.rest.limits.rate_policies import CallRatePolicy, RequestMatcher
from cdk.rest.limits.task_share import Rates


class HttpRequestRegexMatcher(Component):
    """Selects the requests that a policy applies to: those that match all of these parts.

    Example:
        type: HttpRequestRegexMatcher
        method: GET
        url_base: https://api.example.com
        url_path_pattern: /v1/users
    """

    method: str | None = None
    """The HTTP method."""
    url_base: str | None = None
    """The scheme and host: `https://api.example.com`."""
    url_path_pattern: Annotated[str | None, Adapted(after=checked_pattern)] = None
    """A regular expression that matches anywhere in the path."""
    params: JsonObject | None = None
    """Query parameters that the request must have."""
    headers: JsonObject | None = None
    """Headers that the request must have."""
    weight: int | str | None = None
    """How many calls one matching request counts as; a number or an expression."""

    def build(self, ctx: BuildContext) -> RequestMatcher:
        """Build the matcher. Raises ManifestError: when `weight` is not an integer of at least 1."""
        return RequestMatcher(
            self.method or "",
            self.url_base or "",
            Pattern(self.url_path_pattern) if self.url_path_pattern else None,
            {name: str(value) for name, value in (self.params or {}).items()},
            {name: str(value) for name, value in (self.headers or {}).items()},
            ctx.integer(self, "weight", 1, least=1),
        )


Matchers: TypeAlias = Annotated[
    list[HttpRequestRegexMatcher], Meta(description="The requests that the policy applies to; all if empty.")
]


class Rate(Component):
    """A maximum number of calls within an interval.

    Example:
        type: Rate
        limit: 100
        interval: PT1M
    """

    limit: int | str
    """The maximum number of calls; a number or an expression."""
    interval: str
    """Length of the interval, ISO 8601: `PT1S`, `PT1M`, `P1D`."""

    def build(self, ctx: BuildContext) -> tuple[int, float]:
        """Return the number of calls, and the interval in seconds."""
        return ctx.integer(self, "limit", 1, least=1), _period(ctx, self, "interval")


class UnlimitedCallRatePolicy(AnyCallRatePolicy):
    """Sends requests without any limit.

    Example:
        type: UnlimitedCallRatePolicy
        matchers:
          - type: HttpRequestRegexMatcher
            url_path_pattern: /oauth/token
    """

    matchers: Matchers

    def build(self, ctx: BuildContext) -> CallRatePolicy:
        return _policy(ctx, self, "matchers", None, self.matchers)


class FixedWindowCallRatePolicy(AnyCallRatePolicy):
    """Limits the calls in a window; windows follow one another, and the API may say when one ends.

    Example:
        type: FixedWindowCallRatePolicy
        period: PT1M
        call_limit: 100
        matchers:
          - type: HttpRequestRegexMatcher
            method: GET
    """

    period: str
    """Length of a window, ISO 8601: `PT1M`, `P1D`."""
    call_limit: int | str
    """The maximum number of calls in a window; a number or an expression."""
    matchers: Matchers

    def build(self, ctx: BuildContext) -> CallRatePolicy:
        """Build the policy.

        Raises ManifestError: when limit or period is not positive, or the weight of a request exceeds the limit.
        """
        rate = ctx.integer(self, "call_limit", 1, least=1), _period(ctx, self, "period")
        return _policy(ctx, self, "call_limit", (rate,), self.matchers, fixed_window=True)


class MovingWindowCallRatePolicy(AnyCallRatePolicy):
    """Limits the calls in any period of a given length, for each of its rates.

    Example:
        type: MovingWindowCallRatePolicy
        rates:
          - {type: Rate, limit: 10, interval: PT1S}
          - {type: Rate, limit: 100, interval: PT1M}
        matchers: []
    """

    rates: Annotated[list[Rate], Meta(min_length=1)]
    """The rates, all of which apply."""
    matchers: Matchers

    def build(self, ctx: BuildContext) -> CallRatePolicy:
        """Build the policy. Raises ManifestError: when a rate is not positive, or a request's weight exceeds it."""
        return _policy(ctx, self, "rates", tuple(rate.build(ctx) for rate in self.rates), self.matchers)


class HTTPAPIBudget(Component):
    """Limits how often an API may be called. The first policy that matches a request applies to it.

    Example:
        type: HTTPAPIBudget
        policies:
          - type: MovingWindowCallRatePolicy
            rates:
              - {type: Rate, limit: 10, interval: PT1S}
            matchers: []
    """

    policies: list[AnyCallRatePolicy]
    """The policies, each for the requests that it matches."""
    ratelimit_reset_header: str = "ratelimit-reset"
    """Response header with the time at which the rate limit is reset, in seconds."""
    ratelimit_remaining_header: str = "ratelimit-remaining"
    """Response header with the number of remaining calls."""
    status_codes_for_ratelimit_hit: list[int] = msgspec.field(default_factory=lambda: [RATE_LIMIT_STATUS])
    """Statuses that mean that no calls are left."""

    def build(self, ctx: BuildContext) -> Budget:
        """Build the budget, which the streams of a source share."""
        return Budget(
            policies=[policy.build(ctx) for policy in self.policies],
            remaining_header=self.ratelimit_remaining_header,
            reset_header=self.ratelimit_reset_header,
            reset="either",
            limit_statuses=self.status_codes_for_ratelimit_hit,
            max_wait=LONGEST_WAIT,
            clock=ctx.runtime.clock,
            sleep=ctx.runtime.sleep,
        )


def _policy(
    ctx: BuildContext,
    component: Component,
    field: str,
    rates: Rates | None,
    matchers: Sequence[HttpRequestRegexMatcher],
    *,
    fixed_window: bool = False,
) -> CallRatePolicy:
    requests = tuple(matcher.build(ctx) for matcher in matchers)
    try:
        return CallRatePolicy(rates, requests, fixed_window)
    except ConfigError as error:
        raise ManifestError(f"{ctx.where(component, field)}: {error.message}") from None


def _period(ctx: BuildContext, component: Component, field: str) -> float:
    period = ctx.duration_from_now(component, field, timedelta())
    if period <= timedelta():
        text = getattr(component, field)
        raise ManifestError(f"{ctx.where(component, field)}: found {text!r}, expected a duration above 0")
    return period.total_seconds()
