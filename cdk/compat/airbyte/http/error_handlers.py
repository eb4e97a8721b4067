"""The error handlers and backoff strategies that custom ones extend."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import TypeAlias

import requests

from cdk.base.errors import CdkError
from cdk.compat.airbyte.custom_object import runtime
from cdk.compat.airbyte.http.response import native_outcome, native_response
from cdk.compat.airbyte.interpolation import InterpolatedString, Text
from cdk.compat.airbyte.models import FailureType
from cdk.compat.airbyte.plain_types import Config, Parameters, WithParameters
from cdk.declarative.components.requests.error_handlers import RETRIED
from cdk.declarative.components.requests.error_handlers import HttpResponseFilter as OurFilter
from cdk.declarative.model.context import BuildContext
from cdk.declarative.syntax.validation import validated
from cdk.rest import Action, HttpErrorHandler, Response, RetryPolicy, Verdict
from cdk.rest.errors.http_error_handler import OutcomeHandler, Rule
from cdk.rest.errors.outcome import Outcome, final_error
from cdk.rest.errors.wait_strategies import WaitStrategy, constant, exponential, from_header


class ResponseAction(Enum):
    """What happens after a request."""

    SUCCESS = "SUCCESS"
    RETRY = "RETRY"
    FAIL = "FAIL"
    IGNORE = "IGNORE"
    RATE_LIMITED = "RATE_LIMITED"
    RESET_PAGINATION = "RESET_PAGINATION"
    REFRESH_TOKEN_THEN_RETRY = "REFRESH_TOKEN_THEN_RETRY"  # noqa: S105 - an action
    REDUCE_PAGE_SIZE = "REDUCE_PAGE_SIZE"
    SPLIT_REQUEST_WINDOW = "SPLIT_REQUEST_WINDOW"


@dataclass
class ErrorResolution:
    """The meaning of a response. verdict: the kit's own verdict, if one of its handlers judged the response."""

    response_action: ResponseAction | None = None
    failure_type: FailureType | None = None
    error_message: str | None = None
    verdict: Verdict | None = field(default=None, compare=False, repr=False)


ErrorKey: TypeAlias = int | str | type[BaseException]
"""An HTTP status, or an exception class."""

SUCCESS_RESOLUTION = ErrorResolution(ResponseAction.SUCCESS)


class BackoffStrategy(ABC):
    """Determines how long to wait before a retry."""

    @abstractmethod
    def backoff_time(self, response_or_exception: object, attempt_count: int) -> float | None:
        """Return the wait in seconds; None if this strategy does not apply."""


class ErrorHandler(ABC):
    """Determines what a response or an error means."""

    @property
    def max_retries(self) -> int | None:
        return 5

    @property
    def max_time(self) -> int | None:
        """The seconds after which retries end."""
        return 600

    @abstractmethod
    def interpret_response(self, response_or_exception: object) -> ErrorResolution | None: ...


def resolution(verdict: Verdict, outcome: Response | CdkError) -> ErrorResolution:
    """Convert a verdict of one of the kit's handlers to the form that custom code uses."""
    error = verdict.error
    if error is None and verdict.action not in {Action.SUCCESS, Action.IGNORE}:
        error = final_error(Outcome(verdict.action), outcome)
    return ErrorResolution(
        ResponseAction[verdict.action.name],
        None if error is None else FailureType(error.failure_type),
        None if error is None else error.message,
        verdict,
    )


def create_fallback_error_resolution(response_or_exception: object, retries: int = 5) -> ErrorResolution:
    """Return the default resolution for the status of a response or the kind of an error."""
    usual = HttpErrorHandler(RETRIED, retry_policy=RetryPolicy(retries, clock=runtime().clock))
    outcome = native_outcome(response_or_exception)
    return resolution(usual.judge(outcome, 1), outcome)


def matched(rule: Rule | None, response_or_exception: object) -> ErrorResolution | None:
    """Return what a rule of an error handler makes of a response; None if it does not match."""
    response = native_response(response_or_exception)
    meaning = None if response is None or rule is None else rule(response)
    if meaning is None:
        return None
    kind = meaning.failure_type or FailureType.system_error.value
    return ErrorResolution(ResponseAction(meaning.action.name), FailureType(kind), meaning.text or None)


@dataclass
class HttpResponseFilter:
    """Judges responses with the manifest's `HttpResponseFilter`, which it builds from its fields."""

    config: Config
    parameters: InitVar[Parameters]
    action: ResponseAction | str | None = None
    failure_type: FailureType | str | None = None
    http_codes: Collection[int] | None = None
    error_message_contains: str | None = None
    predicate: str = ""
    error_message: str = ""

    def __post_init__(self, parameters: Parameters) -> None:
        fields = {name: getattr(self, name) or None for name in set(OurFilter.__struct_fields__) & self.__dict__.keys()}
        plain = {name: value.value if isinstance(value, Enum) else value for name, value in fields.items()}
        plain["http_codes"] = sorted(self.http_codes or ())
        built = validated(OurFilter, {**plain, "$parameters": dict(parameters)})
        self._rule = built.build(BuildContext(self.config, runtime()))

    def matches(self, response_or_exception: object) -> ErrorResolution | None:
        """Return the meaning of a response that this filter matches; otherwise None."""
        return matched(self._rule, response_or_exception)


class DefaultHttpResponseFilter(HttpResponseFilter):
    """Judges every response by its status, and every error by its kind."""

    def matches(self, response_or_exception: object) -> ErrorResolution:
        return create_fallback_error_resolution(response_or_exception)


@dataclass
class DefaultErrorHandler(WithParameters, ErrorHandler):
    """Judges responses as the manifest's `DefaultErrorHandler` does; subclasses judge some responses themselves."""

    parameters: InitVar[Parameters]
    config: Config
    response_filters: Sequence[object] | None = None
    max_retries: int | None = 5  # a field, unlike in the base class
    max_time: int = 600
    backoff_strategies: Sequence[BackoffStrategy] | None = None

    def interpret_response(self, response_or_exception: object) -> ErrorResolution:
        # Filters of the manifest are part of `manifest_handler`; objects of this class were made by custom code.
        for chosen in self.response_filters or ():
            if isinstance(chosen, HttpResponseFilter) and (match := chosen.matches(response_or_exception)) is not None:
                return match
        if (native := self.manifest_handler) is not None:
            outcome = native_outcome(response_or_exception)
            return resolution(native.judge(outcome, 1), outcome)
        return create_fallback_error_resolution(response_or_exception, self.max_retries or 0)

    @property
    def manifest_handler(self) -> OutcomeHandler | None:
        """The manifest's error handler that this one represents; None if custom code made this one."""
        return self.__dict__.get("_manifest_handler")

    def backoff_time(self, response_or_exception: object, attempt_count: int = 0) -> float | None:
        """Return the wait of the first strategy that applies."""
        for strategy in self.backoff_strategies or ():
            if (wait := strategy.backoff_time(response_or_exception, attempt_count=attempt_count)) is not None:
                return float(wait)
        return None


class HttpStatusErrorHandler(ErrorHandler):
    """Judges by a table from status or exception class to resolution; uses the default resolution for all others."""

    def __init__(
        self,
        logger: object = None,
        error_mapping: Mapping[ErrorKey, ErrorResolution] | None = None,
        max_retries: int = 5,
        max_time: int = 600,
    ) -> None:
        self._mapping, self._logger = error_mapping or {}, logger
        self._max_retries, self._max_time = max_retries, max_time

    @property
    def max_retries(self) -> int | None:
        return self._max_retries

    @property
    def max_time(self) -> int | None:
        return self._max_time

    def interpret_response(self, response_or_exception: object) -> ErrorResolution:
        if (response := native_response(response_or_exception)) is not None:
            mapped = self._mapping.get(response.status)
        else:
            kinds = type(response_or_exception).__mro__
            mapped = next((self._mapping[kind] for kind in kinds if kind in self._mapping), None)
        return mapped or create_fallback_error_resolution(response_or_exception, self._max_retries)


_TRANSIENT = ErrorResolution(ResponseAction.RETRY, FailureType.transient_error)
_REFUSED = ErrorResolution(ResponseAction.FAIL, FailureType.config_error)
_WRONG = ErrorResolution(ResponseAction.FAIL, FailureType.system_error)

DEFAULT_ERROR_MAPPING: dict[ErrorKey, ErrorResolution] = {
    requests.exceptions.InvalidSchema: _REFUSED,
    requests.exceptions.InvalidURL: _TRANSIENT,
    requests.exceptions.RequestException: _TRANSIENT,
    **dict.fromkeys((400, 404, 405), _WRONG),
    **dict.fromkeys((401, 403), _REFUSED),
    **dict.fromkeys((408, 500, 502, 503, 504), _TRANSIENT),
    429: ErrorResolution(ResponseAction.RATE_LIMITED, FailureType.transient_error),
}
"""The default resolutions of statuses and exceptions. They have no message, so that errors get the kit's messages."""


class _KitBackoff(BackoffStrategy):
    """A backoff strategy that delegates to one of the kit."""

    config: Config

    def _strategy(self) -> WaitStrategy:
        raise NotImplementedError

    def backoff_time(self, response_or_exception: object, attempt_count: int) -> float | None:
        return self._strategy()(native_outcome(response_or_exception), attempt_count)


@dataclass
class ConstantBackoffStrategy(_KitBackoff):
    """Waits the same time before each retry."""

    backoff_time_in_seconds: Text
    parameters: InitVar[Parameters]
    config: Config
    jitter_range_in_seconds: float | None = None

    def __post_init__(self, parameters: Parameters) -> None:
        self._seconds = InterpolatedString.create(self.backoff_time_in_seconds, parameters=parameters)

    def _strategy(self) -> WaitStrategy:
        return constant(float(self._seconds.text(self.config)), jitter=self.jitter_range_in_seconds or 0.0)


@dataclass
class ExponentialBackoffStrategy(_KitBackoff):
    """Doubles the wait with each retry."""

    parameters: InitVar[Parameters]
    config: Config
    factor: Text = 5
    jitter_range_in_seconds: float | None = None

    def __post_init__(self, parameters: Parameters) -> None:
        self._factor = InterpolatedString.create(self.factor, parameters=parameters)

    def _strategy(self) -> WaitStrategy:
        return exponential(float(self._factor.text(self.config)), jitter=self.jitter_range_in_seconds or 0.0)


@dataclass
class WaitTimeFromHeaderBackoffStrategy(_KitBackoff):
    """Waits for the seconds that a response header states."""

    header: Text
    parameters: InitVar[Parameters]
    config: Config
    regex: str | None = None
    max_waiting_time_in_seconds: float | None = None

    def __post_init__(self, parameters: Parameters) -> None:
        self._header = InterpolatedString.create(self.header, parameters=parameters)

    def _strategy(self) -> WaitStrategy:
        name = self._header.text(self.config)
        return from_header(name, pattern=self.regex, longest=self.max_waiting_time_in_seconds)
