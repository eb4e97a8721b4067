"""RateLimitedMultipleTokenAuthenticator: several tokens with quotas."""

from datetime import timedelta
from typing import Literal

from cdk.base.errors import ConfigError
from cdk.base.values import canonical
from cdk.declarative.components.auth.sharing import shared
from cdk.declarative.components.requests.api_budget import HttpRequestRegexMatcher
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import AnyAuthenticator
from cdk.rest import Authenticator, Request
from cdk.rest.auth.token_pool import Quota, QuotaStatus, TokenPool
from cdk.rest.errors.status_errors import RATE_LIMIT_STATUS

_SHORT_WAIT = 10.0


class QuotaStatusSource(Component):
    """The request that returns how many calls a token has left.

    Example:
        type: QuotaStatusSource
        url: https://api.example.com/rate_limit
    """

    url: str
    """The complete URL."""
    http_method: Literal["GET", "POST"] = "GET"
    """The HTTP method."""
    request_headers: dict[str, str] | None = None
    """Headers in addition to the one with the token."""
    unavailable_status_codes: list[int] | None = None
    """Statuses that mean that the API does not report quotas; the tokens then take turns."""

    def build(self, ctx: BuildContext) -> QuotaStatus:
        return QuotaStatus(
            ctx.expression(self, "url").text,
            self.http_method,
            {name: str(value) for name, value in ctx.mapping(self, "request_headers").value().items()},
            tuple(self.unavailable_status_codes or ()),
        )


class TokenQuota(Component):
    """A quota that the API applies to each token.

    Example:
        type: TokenQuota
        name: core
        remaining_path: [resources, core, remaining]
        reset_path: [resources, core, reset]
        limit_path: [resources, core, limit]
        remaining_header: X-RateLimit-Remaining
        reset_header: X-RateLimit-Reset
    """

    name: str
    """Name of the quota."""
    remaining_path: list[str]
    """Path of the number of remaining calls in the quota response."""
    reset_path: list[str]
    """Path of the time at which the quota is renewed: seconds since 1970, or ISO 8601."""
    limit_path: list[str] | None = None
    """Path of the total number of calls of the quota."""
    matchers: list[HttpRequestRegexMatcher] | None = None
    """The requests that count against this quota; all requests by default."""
    remaining_header: str | None = None
    """Response header with the number of remaining calls."""
    reset_header: str | None = None
    """Response header with the time at which the quota is renewed."""
    limit_header: str | None = None
    """Response header with the total number of calls of the quota."""
    exhaustion_status_codes: list[int] | None = None
    """Response statuses that mean that the quota is used up; by default only 429."""

    def build(self, ctx: BuildContext) -> Quota:
        matchers = [matcher.build(ctx) for matcher in self.matchers or ()]

        def counts(request: Request) -> bool:
            return not matchers or any(matcher.matches(request) for matcher in matchers)

        return Quota(
            self.name,
            tuple(self.remaining_path),
            tuple(self.reset_path),
            tuple(self.limit_path or ()),
            self.remaining_header,
            self.reset_header,
            self.limit_header,
            counts,
            tuple((RATE_LIMIT_STATUS,) if self.exhaustion_status_codes is None else self.exhaustion_status_codes),
        )


class RateLimitedMultipleTokenAuthenticator(AnyAuthenticator, kw_only=True):
    """Sends one of several tokens as long as it has calls left, then the next.

    Spreads calls over time when few are left, and waits for new ones when none is left.

    Example:
        type: RateLimitedMultipleTokenAuthenticator
        tokens: "{{ config['tokens'] }}"
        quota_status_source:
          type: QuotaStatusSource
          url: https://api.example.com/rate_limit
        quotas:
          - type: TokenQuota
            name: core
            remaining_path: [resources, core, remaining]
            reset_path: [resources, core, reset]
    """

    secret_fields = frozenset({"tokens"})

    tokens: str | list[str]
    """The tokens: a list, or one string with `token_delimiter` between them."""
    token_delimiter: str = ","
    """What separates the tokens in a string."""
    auth_method: str = "Bearer"
    """The word in front of a token."""
    header: str = "Authorization"
    """Name of the header that carries a token."""
    quota_status_source: QuotaStatusSource
    """The request that returns how many calls a token has left."""
    quotas: list[TokenQuota]
    """The quotas. A request counts against the first quota that matches it."""
    max_wait_time: str = "PT2H"
    """The longest acceptable wait until a quota is renewed, ISO 8601."""
    budget_reserve_fraction: float = 0.1
    """Calls are spread over time once no more than this fraction of a quota is left."""
    budget_min_reserve: int = 50
    """The same threshold as a number of calls; the greater of the two applies."""

    def build(self, ctx: BuildContext) -> Authenticator:
        """Build the authenticator, shared by all streams with these tokens. Raises ConfigError: when there are none."""
        tokens = self._tokens(ctx)
        if not tokens:
            raise ConfigError(
                f"{ctx.where(self, 'tokens')}: the config has no tokens; set one, or several with "
                f"{self.token_delimiter!r} between them"
            )
        key = canonical([tokens, ctx.expression(self.quota_status_source, "url").text(), repr(self.quotas)])
        return shared(ctx.runtime.authenticators, key, lambda: self._pool(ctx, tokens))

    def _tokens(self, ctx: BuildContext) -> list[str]:
        if isinstance(self.tokens, list):
            texts = list(ctx.strings(self, "tokens"))
        else:
            value = ctx.expression(self, "tokens").value(types=(list,))
            texts = [str(item) for item in value] if isinstance(value, list) else str(value).split(self.token_delimiter)
        return [text.strip() for text in texts if text.strip()]

    def _pool(self, ctx: BuildContext, tokens: list[str]) -> TokenPool:
        longest = ctx.duration_from_now(self, "max_wait_time", timedelta())

        def wait(seconds: float) -> None:
            if seconds > _SHORT_WAIT:
                ctx.runtime.on_rate_limited(ctx.stream, seconds)
            ctx.runtime.sleep(seconds)

        return TokenPool(
            tokens,
            self.quota_status_source.build(ctx),
            [quota.build(ctx) for quota in self.quotas],
            scheme=ctx.expression(self, "auth_method").text(),
            header=ctx.expression(self, "header").text(),
            reserve=self.budget_reserve_fraction,
            min_reserve=self.budget_min_reserve,
            max_wait=longest,
            clock=ctx.runtime.clock,
            sleep=wait,
        )
