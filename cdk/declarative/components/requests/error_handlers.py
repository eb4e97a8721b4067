"""Error handlers: what responses mean, and how often a request is retried."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from cdk.base.errors import FailureType
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Expression, Names
from cdk.declarative.model.request_plug_points import AnyBackoffStrategy, AnyErrorHandler
from cdk.rest import Action, HttpErrorHandler, Response, RetryPolicy
from cdk.rest.errors.api_message import json_body, message_contains
from cdk.rest.errors.http_error_handler import HandlerChain, OutcomeHandler, Rule
from cdk.rest.errors.outcome import Outcome

ActionName: TypeAlias = Literal[
    "SUCCESS",
    "FAIL",
    "RETRY",
    "IGNORE",
    "RESET_PAGINATION",
    "RATE_LIMITED",
    "REFRESH_TOKEN_THEN_RETRY",
    "REDUCE_PAGE_SIZE",
    "SPLIT_REQUEST_WINDOW",
]

RETRIED = {410: Action.RETRY, 422: Action.RETRY}
"""Statuses that the language retries, while the kit's own table treats them as failures."""


class HttpResponseFilter(Component):
    """Defines what some responses mean: those that have one of the statuses, contain a string, or meet a condition.

    Example:
        type: HttpResponseFilter
        http_codes: [403]
        error_message_contains: plan does not include
        action: IGNORE
    """

    action: ActionName | None = None
    """What to do with a response that matches. Without an action, the filter has no effect."""
    failure_type: FailureType | None = None
    """The type of the failure, for the action FAIL."""
    error_message: str | None = None
    """The error message for users; reads `response`, `headers` and `request_url`."""
    error_message_contains: str | None = None
    """A string that the API's own error message contains."""
    http_codes: list[int] | None = None
    """Statuses that match."""
    predicate: str | bool | None = None
    """A condition; reads `response`, `headers` and `request_url`."""

    def build(self, ctx: BuildContext) -> Rule | None:
        """Build the rule; None if it can never apply."""
        codes, contains = frozenset(self.http_codes or ()), self.error_message_contains
        predicate = ctx.expression(self, "predicate") if self.predicate else None
        if self.action is None or not (codes or contains or predicate):
            return None
        message = ctx.expression(self, "error_message") if self.error_message else None
        action, failure_type = Action[self.action], self.failure_type
        meaning = Outcome(action, "", failure_type)

        def rule(response: Response) -> Outcome | None:
            if not (
                response.status in codes
                or (predicate is not None and predicate.true(_names(response)))
                or (contains and message_contains(response, contains))
            ):
                return None
            return meaning if message is None else Outcome(action, _rendered(message, response), failure_type)

        return rule


class DefaultErrorHandler(AnyErrorHandler):
    """Applies its filters in order; for a response that no filter matches, the status decides.

    Responses below 300, and a 304 to a conditional request, are successes. Other 304s, redirects without a URL, 400,
    401, 403, 404 and 405 fail at once, a rate limit waits, and everything else is retried.

    Example:
        type: DefaultErrorHandler
        max_retries: 3
        response_filters:
          - type: HttpResponseFilter
            http_codes: [404]
            action: IGNORE
        backoff_strategies:
          - type: WaitTimeFromHeader
            header: Retry-After
    """

    response_filters: list[HttpResponseFilter] | None = None
    """Filters that define what responses mean; the first that matches a response applies."""
    max_retries: int | str | None = 5
    """Maximum number of retries; a number or an expression."""
    backoff_strategies: list[AnyBackoffStrategy] | None = None
    """How long to wait before a retry; the first strategy that returns a wait applies."""

    def build(self, ctx: BuildContext) -> OutcomeHandler:
        """Build the handler. Raises ManifestError: when `max_retries` is not an integer."""
        rules = [rule for item in self.response_filters or () if (rule := item.build(ctx)) is not None]
        waits = tuple(strategy.build(ctx) for strategy in self.backoff_strategies or ())
        retries = max(0, ctx.integer(self, "max_retries", RetryPolicy().retries))
        retry_policy = RetryPolicy(retries, waits, caps_retry_after=True, clock=ctx.runtime.clock)
        return HttpErrorHandler(RETRIED, rules=rules, retry_policy=retry_policy)


class CompositeErrorHandler(AnyErrorHandler):
    """Asks several handlers in order; the first conclusive decision counts, otherwise the last one.

    A success, an ignored response, a retry and the actions that change pages are conclusive; failures and rate limits
    are not. The first handler sets the number of retries; waits come from all of them.

    Example:
        type: CompositeErrorHandler
        error_handlers:
          - type: DefaultErrorHandler
            response_filters:
              - type: HttpResponseFilter
                predicate: "{{ response.code == 'BUSY' }}"
                action: RETRY
          - type: DefaultErrorHandler
            response_filters:
              - type: HttpResponseFilter
                http_codes: [404]
                action: IGNORE
    """

    error_handlers: Annotated[list[AnyErrorHandler], Meta(min_length=1)]
    """The handlers, in order."""

    def build(self, ctx: BuildContext) -> OutcomeHandler:
        return HandlerChain([handler.build(ctx) for handler in self.error_handlers])


def _names(response: Response) -> Names:
    return {"response": json_body(response, {}), "headers": response.headers, "request_url": response.request.full_url}


def _rendered(message: Expression, response: Response) -> str:
    try:
        return message.text(_names(response))
    except ExpressionError:
        # A response without the values that the message needs keeps its usual message.
        return ""
