"""Rate limits that custom code makes itself: an `APIBudget` with policies, which its `HttpClient` observes.

Each budget counts the requests of its own process: limits that apply to all tasks of a sync belong in the manifest.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

import requests

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import ManifestError
from cdk.compat.airbyte.custom_object import runtime
from cdk.compat.airbyte.http.response import ResponseFacade, from_prepared, prepared, texts
from cdk.rest import Budget, Request, Response, Transport
from cdk.rest.limits.rate_policies import CallRatePolicy, RequestMatcher


@dataclass
class Rate:
    """A rate limit of `limit` requests for each `interval`."""

    limit: int
    interval: timedelta


class HttpRequestMatcher:
    """Selects the requests that have all of these parts; without parts, every request."""

    def __init__(
        self,
        method: str | None = None,
        url: str | None = None,
        params: Mapping[str, object] | None = None,
        headers: Mapping[str, object] | None = None,
    ) -> None:
        """url: the scheme and host, and a part of the path."""
        parts = urlsplit(url or "")
        self._native = RequestMatcher(
            method or "",
            f"{parts.scheme}://{parts.netloc}" if url else "",
            None if parts.path in {"", "/"} else Pattern(re.escape(parts.path)),
            texts(params),
            texts(headers),
        )

    def __call__(self, request: requests.PreparedRequest) -> bool:
        return self._native.matches(from_prepared(request))


class UnlimitedCallRatePolicy:
    """No limit for the requests that one of `matchers` selects; for all if there are none."""

    def __init__(self, matchers: Sequence[HttpRequestMatcher]) -> None:
        self._matchers = matchers

    def matches(self, request: requests.PreparedRequest) -> bool:
        """Whether the policy applies to a request."""
        return not self._matchers or any(matcher(request) for matcher in self._matchers)

    def acquire(self, request: Request) -> None:
        """Wait until a request may be sent, and count it."""


class MovingWindowCallRatePolicy(UnlimitedCallRatePolicy):
    """The maximum rates of the requests that one of `matchers` selects."""

    def __init__(self, rates: Sequence[Rate], matchers: Sequence[HttpRequestMatcher]) -> None:
        super().__init__(matchers)
        policy = CallRatePolicy(tuple((rate.limit, rate.interval.total_seconds()) for rate in rates))
        self._budget = Budget(policies=[policy], clock=runtime().clock, sleep=runtime().sleep)

    def acquire(self, request: Request) -> None:
        self._budget.acquire(request)


class APIBudget:
    """The limits of an API. The first policy that matches a request applies to it."""

    def __init__(self, policies: Sequence[UnlimitedCallRatePolicy] = (), *_: object, **__: object) -> None:
        self._policies = policies

    def get_matching_policy(self, request: requests.PreparedRequest) -> UnlimitedCallRatePolicy | None:
        """Return the policy that applies to a request, None if no one does."""
        return next((policy for policy in self._policies if policy.matches(request)), None)

    def acquire_call(self, request: requests.PreparedRequest, *_: object, **__: object) -> None:
        """Wait until a request may be sent, and count it."""
        if (policy := self.get_matching_policy(request)) is not None:
            policy.acquire(from_prepared(request))

    def update_from_response(self, request: requests.PreparedRequest, response: requests.Response) -> None:
        """Update the limits from a response. Subclasses override it; this method does nothing."""


class Limited:
    """A transport that takes each request from a budget of custom code."""

    def __init__(self, transport: Transport, budget: APIBudget) -> None:
        self._transport, self._budget = transport, budget

    def send(self, request: Request) -> Response:
        sent = prepared(request)
        self._budget.acquire_call(sent)
        response = self._transport.send(request)
        self._budget.update_from_response(sent, ResponseFacade(response))
        return response


class LimiterMixin:
    """A session with a rate limit. It can be imported, but not instantiated: limits belong in the manifest."""

    def __init__(self, *_: object, **__: object) -> None:
        raise ManifestError(
            f"a custom component creates its own {type(self).__name__}; declare its limits as `api_budget` in the "
            "manifest"
        )
