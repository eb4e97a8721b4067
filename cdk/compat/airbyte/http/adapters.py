"""Adapters that give custom authenticators, error handlers and backoff strategies the kit's interfaces."""

import threading
from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from cdk.base.errors import CdkError, ConfigError, FatalError, TransientError
from cdk.compat.airbyte.custom_object import CustomObject
from cdk.compat.airbyte.http.error_handlers import ErrorResolution, ResponseAction, resolution
from cdk.compat.airbyte.http.response import from_prepared, outcome_facade, prepared, texts
from cdk.compat.airbyte.models import FailureType
from cdk.declarative.components.requests.error_handlers import RETRIED
from cdk.rest import (
    Action,
    Authenticator,
    ErrorHandler,
    HttpErrorHandler,
    Request,
    Response,
    RetryPolicy,
    Verdict,
    error_for,
)
from cdk.rest.auth.static import with_json_secret, with_secret
from cdk.rest.auth.token_owner import TokenOwner, recording_used_owners
from cdk.rest.errors.http_error_handler import OutcomeHandler, decide
from cdk.rest.errors.outcome import Outcome
from cdk.rest.errors.wait_strategies import WaitStrategy

_UNAUTHORIZED = 401

_WITH_ERROR = frozenset((Action.FAIL, Action.RETRY, Action.RATE_LIMITED, Action.REFRESH_TOKEN_THEN_RETRY))
"""Actions that may end in an error. Those that change how pages are requested end in a signal to the reader instead."""

_KINDS: Mapping[FailureType | None, type[CdkError]] = {
    FailureType.config_error: ConfigError,
    FailureType.transient_error: TransientError,
}


def authenticator_of(custom: CustomObject) -> Authenticator:
    """Return the kit's authenticator behind a facade, or an adapter for a custom one."""
    native: Authenticator | None = custom.get("native")
    return native or CustomAuthenticatorAdapter(custom)


def error_handler_of(custom: CustomObject) -> ErrorHandler:
    """Return the kit's error handler behind a facade, or an adapter for a custom one."""
    native: ErrorHandler | None = custom.get("native")
    return native or CustomErrorHandlerAdapter(custom)


class CustomAuthenticatorAdapter:
    """Adapts a custom authenticator: calls it with a request of the `requests` library, or gets its headers."""

    def __init__(self, custom: CustomObject) -> None:
        self._custom = custom
        # Existing authenticators store their token in an attribute, without a lock.
        self._lock = threading.Lock()

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        signed, used = self._sign(request)
        response = yield signed
        if response.status != _UNAUTHORIZED:
            for owner in used:
                owner.accepted()
        elif self._refused(used):
            signed, now = self._sign(request)
            if now != used:
                response.close()
                yield signed

    @staticmethod
    def _refused(used: Mapping[TokenOwner, str]) -> bool:
        """Drop the tokens of a request that the API refused. Returns whether better ones may be available."""
        answers = [owner.rejected(token) for owner, token in used.items()]
        return bool(answers) and all(answers)

    def owners(self) -> Sequence[TokenOwner]:
        """Sign a request that is never sent, because only the custom object knows which tokens it uses."""
        with recording_used_owners() as used:
            try:
                with self._lock, self._custom.calling("get_auth_header"):
                    self._signed(Request("GET", "https://localhost/"))
            except CdkError:
                if used:
                    raise
        return list(used)

    def _sign(self, request: Request) -> tuple[Request, Mapping[TokenOwner, str]]:
        """Return the request with credentials, and the tokens in them by their owner."""
        with recording_used_owners() as used, self._lock, self._custom.calling("get_auth_header"):
            return self._signed(request), used

    def _signed(self, request: Request) -> Request:
        if callable(self._custom.instance):
            signed = from_prepared(self._custom.instance(prepared(request)), request)
        else:
            signed = request.with_headers(texts(self._custom.call("get_auth_header")), secret=True)
        if params := self._more("get_request_params"):
            signed = signed.with_params(params, secret=True)
        form = self._more("get_request_body_data") or {}
        if isinstance(form, str):
            return replace(signed, body=b"&".join(filter(None, (signed.body, form.encode()))))
        for name, value in form.items():
            signed = with_secret(signed, "body_data", [name], str(value))
        for name, value in (self._more("get_request_body_json") or {}).items():
            signed = with_json_secret(signed, [name], value)
        return signed

    def _more(self, method: str) -> Any:  # noqa: ANN401 - custom code adds it
        return self._custom.call(method) if hasattr(self._custom.instance, method) else None

    def __repr__(self) -> str:
        return f"CustomAuthenticatorAdapter({self._custom.name})"


class CustomErrorHandlerAdapter:
    """Adapts a custom error handler: applies its decisions and its number of retries."""

    def __init__(self, custom: CustomObject) -> None:
        self._custom = custom
        retries = custom.get("max_retries")
        self._retries = 5 if retries is None else int(retries)
        self._usual = HttpErrorHandler(RETRIED, retry_policy=RetryPolicy(self._retries, clock=custom.runtime.clock))

    @cached_property
    def retry_policy(self) -> RetryPolicy:
        runtime = self._custom.runtime
        strategies = (CustomObject(strategy, runtime) for strategy in self._custom.get("backoff_strategies") or ())
        return RetryPolicy(
            self._retries, tuple(map(custom_backoff, strategies)), caps_retry_after=True, clock=runtime.clock
        )

    def find(self, outcome: Response | CdkError) -> Outcome:
        verdict = self.judge(outcome, 1)
        return Outcome(verdict.action, error=verdict.error, wait=verdict.wait)

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:
        judged = self._custom.call("interpret_response", outcome_facade(outcome))
        if judged is None:
            return self._usual.judge(outcome, attempt)
        native: OutcomeHandler | None = self._custom.get("manifest_handler")
        if native is not None and _is_unchanged(judged, outcome):
            retry_policy = replace(native.retry_policy, retries=self._retries)
            return decide(native.find(outcome), outcome, attempt, retry_policy)
        action = Action[(judged.response_action or ResponseAction.FAIL).name]
        error = _error(judged, outcome) if action in _WITH_ERROR else None
        meaning = Outcome(action, judged.error_message or "", error=error)
        return decide(meaning, outcome, attempt, self.retry_policy)


def _is_unchanged(judged: ErrorResolution, outcome: Response | CdkError) -> bool:
    """Whether the resolution equals the one that the kit produced, as custom code may change it."""
    return judged.verdict is not None and judged == resolution(judged.verdict, outcome)


def _error(judged: ErrorResolution, outcome: Response | CdkError) -> CdkError:
    if judged.verdict is not None and _is_unchanged(judged, outcome) and judged.verdict.error is not None:
        return judged.verdict.error
    message, kind = judged.error_message, _KINDS.get(judged.failure_type, FatalError)
    match outcome:
        case Response() if message:
            return kind(f"{outcome.request} answered {outcome.status}: {outcome.request.hide(message)}")
        case Response():
            return error_for(outcome)
        case CdkError():
            return kind(message) if message else outcome


def custom_backoff(custom: CustomObject) -> WaitStrategy:
    """Return the kit's wait strategy behind a facade, or an adapter for a custom one."""
    native: WaitStrategy | None = custom.get("native")
    if native is not None:
        return native
    parameters = custom.parameters("backoff_time").values()
    by_name = any(each.kind in {each.KEYWORD_ONLY, each.VAR_KEYWORD} for each in parameters)

    def backoff(outcome: Response | CdkError, attempt: int) -> float | None:
        arguments = {"response_or_exception": outcome_facade(outcome), "attempt_count": attempt}
        if by_name:
            wait = custom.call("backoff_time", **arguments)
        else:
            wait = custom.call("backoff_time", *list(arguments.values())[: len(parameters)])
        return None if wait is None else float(wait)

    return backoff
