"""Backoff strategies: how long a request waits before it is retried."""

import re
from collections.abc import Callable
from functools import cache
from typing import Annotated, TypeAlias

from msgspec import Meta

from cdk.base.errors import CdkError, ManifestError
from cdk.declarative.model.component import Adapted
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import AnyBackoffStrategy
from cdk.rest import Response
from cdk.rest.errors.api_message import json_body
from cdk.rest.errors.wait_strategies import (
    WaitStrategy,
    as_seconds,
    bounded,
    constant,
    exponential,
    from_header,
    until_header,
)


def checked_pattern(value: str | None) -> str | None:
    """Return a valid regular expression. Raises ValueError: when it is invalid. A text with `{{` is not checked."""
    if value is not None and "{{" not in value:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"is not a valid regular expression: {error}") from None
    return value


Jitter: TypeAlias = Annotated[
    float | None,
    Meta(ge=0, description="Up to twice as many seconds are added by chance, so that readers do not come at once."),
]
HeaderName: TypeAlias = Annotated[str, Meta(description="Name of the header, as a text or an expression.")]
NumberPattern: TypeAlias = Annotated[
    str | None,
    Adapted(after=checked_pattern),
    Meta(description="What, at the beginning of the header, is the number; all that matches is taken."),
]
LongestWait: TypeAlias = Annotated[
    float | str | None, Meta(description="A wait this long, or longer, ends the read instead.")
]


class ConstantBackoffStrategy(AnyBackoffStrategy):
    """Waits the same time before each retry.

    Example:
        type: ConstantBackoffStrategy
        backoff_time_in_seconds: 30
    """

    backoff_time_in_seconds: float | str
    """The wait in seconds; a number or an expression."""
    jitter_range_in_seconds: Jitter = None

    def build(self, ctx: BuildContext) -> WaitStrategy:
        return _when_used(
            lambda: constant(
                ctx.number(self, "backoff_time_in_seconds", 0.0), jitter=self.jitter_range_in_seconds or 0.0
            )
        )


class ExponentialBackoffStrategy(AnyBackoffStrategy):
    """Waits twice as long each time: `factor` times 2, 4, 8 and so on.

    Example:
        type: ExponentialBackoffStrategy
        factor: 5
    """

    factor: float | str = 5
    """Half of the first wait, in seconds; a number or an expression."""
    jitter_range_in_seconds: Jitter = None

    def build(self, ctx: BuildContext) -> WaitStrategy:
        return _when_used(
            lambda: exponential(ctx.number(self, "factor", 0.0), jitter=self.jitter_range_in_seconds or 0.0)
        )


class WaitTimeFromHeader(AnyBackoffStrategy):
    """Waits for the number of seconds in a header of the response.

    Example:
        type: WaitTimeFromHeader
        header: Retry-After
        max_waiting_time_in_seconds: 600
    """

    header: HeaderName
    regex: NumberPattern = None
    max_waiting_time_in_seconds: LongestWait = None

    def build(self, ctx: BuildContext) -> WaitStrategy:
        return _when_used(
            lambda: from_header(
                ctx.expression(self, "header").text(),
                pattern=_pattern(ctx, self),
                longest=ctx.number(self, "max_waiting_time_in_seconds", None),
            )
        )


class WaitUntilTimeFromHeader(AnyBackoffStrategy):
    """Waits until the time in a header of the response, in seconds since 1970.

    Example:
        type: WaitUntilTimeFromHeader
        header: X-RateLimit-Reset
        min_wait: 5
    """

    header: HeaderName
    min_wait: float | str | None = None
    """The shortest wait in seconds, which also applies if the header is missing."""
    regex: NumberPattern = None
    max_waiting_time_in_seconds: LongestWait = None

    def build(self, ctx: BuildContext) -> WaitStrategy:
        return _when_used(
            lambda: until_header(
                ctx.expression(self, "header").text(),
                pattern=_pattern(ctx, self),
                least=ctx.number(self, "min_wait", None),
                longest=ctx.number(self, "max_waiting_time_in_seconds", None),
                clock=ctx.runtime.clock,
            )
        )


class WaitTimeFromResponse(AnyBackoffStrategy):
    """Waits for the seconds that an expression finds in the response; anything but a number above 0 is ignored.

    Example:
        type: WaitTimeFromResponse
        wait_time_in_seconds: "{{ response['error']['retry_after'] }}"
    """

    wait_time_in_seconds: str
    """An expression; reads `response` and `headers`."""
    max_waiting_time_in_seconds: LongestWait = None

    def build(self, ctx: BuildContext) -> WaitStrategy:
        expression = ctx.expression(self, "wait_time_in_seconds")

        def wait(outcome: Response | CdkError, attempt: int) -> float | None:  # noqa: ARG001 - a WaitStrategy
            longest = ctx.number(self, "max_waiting_time_in_seconds", None)
            match outcome:
                case Response():
                    names = {"response": json_body(outcome, {}), "headers": outcome.headers}
                case _:
                    names = {"response": {}, "headers": {}}
            try:
                seconds = as_seconds(expression.value(names))
            except ManifestError:
                # Only some responses have what the expression looks for.
                return None
            return None if seconds is None or seconds <= 0 else bounded(seconds, longest, outcome)

        return wait


def _when_used(make: Callable[[], WaitStrategy]) -> WaitStrategy:
    """Return the strategy, made on first use: a config may lack what only retries need, and everything else works."""
    strategy = cache(make)

    def wait(outcome: Response | CdkError, attempt: int) -> float | None:
        return strategy()(outcome, attempt)

    return wait


def _pattern(ctx: BuildContext, component: WaitTimeFromHeader | WaitUntilTimeFromHeader) -> str | None:
    return None if component.regex is None else ctx.expression(component, "regex").text()
