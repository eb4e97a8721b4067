"""HttpClient: sends the requests that custom code makes itself."""

import logging
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

import requests
from msgspec.structs import replace

from cdk.base.errors import CdkError, TransientError
from cdk.base.values import JsonValue
from cdk.compat.airbyte.custom_object import CustomCodeError, CustomObject, runtime
from cdk.compat.airbyte.http.adapters import authenticator_of, custom_backoff, error_handler_of
from cdk.compat.airbyte.http.call_rate import APIBudget, Limited
from cdk.compat.airbyte.http.response import ResponseFacade, from_prepared, texts
from cdk.compat.airbyte.models import traced
from cdk.rest import Action, ErrorHandler, Response, RetryPolicy, Verdict, fail
from cdk.rest import HttpClient as NativeClient
from cdk.rest.client import Sender
from cdk.rest.errors.outcome import Outcome, final_error

BODY_REQUEST_METHODS = ("POST", "PUT", "PATCH")
_RETRIES = frozenset((Action.RETRY, Action.RATE_LIMITED, Action.REFRESH_TOKEN_THEN_RETRY))


class HttpClient:
    """Sends requests with credentials, and retries them as the error handler and the backoff strategies decide.

    Airbyte's cache of responses is not implemented here: `use_cache` has no effect.
    """

    def __init__(  # noqa: PLR0917 - the signature of airbyte_cdk
        self,
        name: str = "",
        logger: logging.Logger | None = None,
        error_handler: object = None,
        api_budget: APIBudget | None = None,
        session: requests.Session | None = None,
        authenticator: object = None,
        use_cache: bool = False,  # noqa: ARG002, FBT001, FBT002
        backoff_strategy: object = None,
        *,
        disable_retries: bool = False,
        **_: object,
    ) -> None:
        self._name, self._logger = name, logger or logging.getLogger("airbyte")
        self._session = session or requests.Session()
        self._session.trust_env = False
        self._session.headers.clear()
        source = runtime()
        self.client: Sender = NativeClient(
            source.transport if api_budget is None else Limited(source.transport, api_budget),
            authenticator=None if authenticator is None else authenticator_of(CustomObject(authenticator, source)),
            error_handler=None if error_handler is None else error_handler_of(CustomObject(error_handler, source)),
            sleep=source.sleep,
        )
        if backoff_strategy is not None:
            strategies = backoff_strategy if isinstance(backoff_strategy, Sequence) else [backoff_strategy]
            waits = tuple(custom_backoff(CustomObject(strategy, source)) for strategy in strategies)
            self.client.error_handler = _WithWaits(self.client.error_handler, RetryPolicy(waits=waits))
        if disable_retries:
            self.client.error_handler = _Once(self.client.error_handler)

    def _create_prepared_request(  # noqa: PLR0917
        self,
        http_method: str,
        url: str,
        dedupe_query_params: bool = False,  # noqa: FBT001, FBT002
        headers: Mapping[str, JsonValue] | None = None,
        params: Mapping[str, JsonValue] | None = None,
        json: JsonValue = None,
        data: Mapping[str, JsonValue] | str | None = None,
    ) -> requests.PreparedRequest:
        if dedupe_query_params:
            params = self._dedupe_query_params(url, params)
        request = requests.Request(http_method, url, headers=texts(headers), params=params or {})
        if http_method.upper() in BODY_REQUEST_METHODS:
            request.json, request.data = json or None, data or []
        return self._session.prepare_request(request)

    @staticmethod
    def _dedupe_query_params(url: str, params: Mapping[str, JsonValue] | None) -> Mapping[str, JsonValue]:
        """Return the parameters that the URL does not already have, with the same values."""
        known = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
        return {name: value for name, value in (params or {}).items() if known.get(name) != str(value)}

    def send_request(  # noqa: PLR0917
        self,
        http_method: str,
        url: str,
        request_kwargs: Mapping[str, JsonValue] | None = None,  # noqa: ARG002
        headers: Mapping[str, JsonValue] | None = None,
        params: Mapping[str, JsonValue] | None = None,
        json: JsonValue = None,
        data: Mapping[str, JsonValue] | str | None = None,
        dedupe_query_params: bool = False,  # noqa: FBT001, FBT002
        **_: object,
    ) -> tuple[requests.PreparedRequest, requests.Response]:
        """Send a request; return it as it was sent, and the response. Raises CdkErrors: it failed for good."""
        request = self._create_prepared_request(
            http_method=http_method, url=url, dedupe_query_params=dedupe_query_params, headers=headers, params=params,
            json=json, data=data,
        )  # fmt: skip
        try:
            return request, ResponseFacade(self.client.send(from_prepared(request)))
        except CustomCodeError:
            raise
        except CdkError as error:
            raise traced(error) from error


class _WithWaits:
    """Judges as another error handler does, but replaces its waits where a policy has a strategy for them."""

    def __init__(self, handler: ErrorHandler, retry_policy: RetryPolicy) -> None:
        self._handler, self._retry_policy = handler, retry_policy

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:
        verdict = self._handler.judge(outcome, attempt)
        if verdict.action not in _RETRIES:
            return verdict
        try:
            return replace(verdict, wait=self._retry_policy.seconds(outcome, attempt, verdict.wait))
        except TransientError as error:
            return fail(error)


class _Once:
    """Judges as another error handler does, but turns retries into failures."""

    def __init__(self, handler: ErrorHandler) -> None:
        self._handler = handler

    def judge(self, outcome: Response | CdkError, attempt: int) -> Verdict:
        verdict = self._handler.judge(outcome, attempt)
        return fail(final_error(Outcome(verdict.action), outcome)) if verdict.action in _RETRIES else verdict
