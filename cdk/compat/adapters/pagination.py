"""Adapters from custom pagination strategies and requesters to the plug points."""

from copy import copy
from typing import Any, Self

from cdk.compat.airbyte.custom_object import CustomCodeError, CustomObject
from cdk.compat.airbyte.http.response import ResponseFacade, native_response
from cdk.compat.airbyte.plain_types import Record
from cdk.compat.facades.slices import fill, request_arguments, slice_in
from cdk.declarative.components.requests.requesters import join
from cdk.declarative.model.context import Names
from cdk.declarative.model.page_result import PageResult
from cdk.declarative.model.query_properties import Properties
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.request_plug_points import PageStrategy
from cdk.rest import Authenticator, ErrorHandler, Headers, HttpErrorHandler, Request, Response
from cdk.rest.client import Sender

_ARGUMENTS = {"response", "last_page_size", "last_record", "last_page_token_value", "stream_slice"}
"""The arguments of strategies; older ones take `last_records` instead of `last_record`."""

_PLAIN = (type(None), bool, int, float, str, list, dict, set, tuple)


class CustomStrategyAdapter(PageStrategy):
    """Finds pages with a custom strategy."""

    reads_body = True

    def __init__(self, custom: CustomObject) -> None:
        self._custom, self._unchanged = custom, ""
        parameters = custom.parameters("next_page_token")
        self._takes = set(parameters)
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            self._takes |= _ARGUMENTS
        self.size = custom.call("get_page_size") if hasattr(custom.instance, "get_page_size") else None

    def of_slice(self) -> Self:
        # Some strategies count pages in their own attributes: each slice starts with those that they were built with.
        strategy = copy(self)
        strategy._begin()  # noqa: SLF001 - its own copy
        return strategy

    def _begin(self) -> None:
        instance = copy(self._custom.instance)
        own = getattr(instance, "__dict__", {})
        own |= {name: copy(value) for name, value in own.items() if isinstance(value, list | dict | set)}
        self._custom = CustomObject(instance, self._custom.runtime)
        if hasattr(instance, "reset"):
            # Older strategies are reset at the start of a slice.
            self._custom.call("reset")
        self._unchanged = self._values()

    def _values(self) -> str:
        """The values of the strategy's attributes, as text; other objects are assumed not to change."""
        own = getattr(self._custom.instance, "__dict__", {})
        return repr({name: value for name, value in own.items() if isinstance(value, _PLAIN)})

    @property
    def has_counted(self) -> bool:
        return self._values() != self._unchanged

    def first(self) -> Any:  # noqa: ANN401 - the strategy defines the token
        return self._custom.get("initial_token")

    def next(self, page: PageResult, size: int | None) -> Any:  # noqa: ANN401, ARG002 - as above; it has its own size
        last = None if page.last is None else Record(page.last)
        arguments = {
            "response": ResponseFacade(page.response),
            "last_page_size": page.raw,
            "last_record": last,
            "last_page_token_value": page.token,
            "stream_slice": slice_in(page.names),
            "last_records": [] if last is None else [last] * page.selected,
        }
        return self._custom.call(
            "next_page_token", **{name: value for name, value in arguments.items() if name in self._takes}
        )


class CustomRequesterAdapter:
    """Adapts a custom requester, which has a method for each part of a request."""

    properties: Properties | None = None

    def __init__(self, custom: CustomObject, client: Sender | None, where: str) -> None:
        self._custom, self._where = custom, where
        self._sent_by_kit = client is not None
        """Whether the kit sends the requests, not the custom requester itself."""
        self.client: Sender = client or _OwnSender(custom)

    def draft(self, names: Names) -> RequestBuilder:
        arguments, custom = request_arguments(names), self._custom
        method = custom.call("get_method")
        method = str(getattr(method, "value", method)).upper()
        if hasattr(custom.instance, "get_url"):
            url = custom.call("get_url", **arguments)
        else:
            url = join(custom.call("get_url_base", **arguments), custom.call("get_path", **arguments))
        if not self._sent_by_kit:
            # The requester calls its own methods for the parts when it sends.
            return _OwnDraft(method, url, self._where, arguments)
        draft = RequestBuilder(method, url, self._where)
        with custom.calling("get_request_params"):
            fill(draft, custom.instance, arguments)
        return draft


class _OwnDraft(RequestBuilder):
    """A draft that a custom requester sends itself."""

    __slots__ = ("arguments", "original_url")

    def __init__(self, method: str, url: str, where: str, arguments: dict[str, object]) -> None:
        super().__init__(method, url, where)
        self.arguments, self.original_url = arguments, url

    def request(self) -> Request:
        request = super().request()
        return _OwnRequest(request.method, request.url, request.params, request.headers, request.body, draft=self)


class _OwnRequest(Request, frozen=True):
    """A request with a reference to the draft that it was made from."""

    draft: _OwnDraft | None = None


class _OwnSender:
    """Sends requests with a custom requester's `send_request`."""

    authenticator: Authenticator | None = None

    def __init__(self, custom: CustomObject) -> None:
        # The requester has handled errors itself, so no response that it returns may be ignored.
        self._custom = custom
        self.error_handler: ErrorHandler = HttpErrorHandler()

    def send(self, request: Request) -> Response:
        """Return the response; an empty one with status 404 if the requester returned None.

        Raises CustomCodeError: the requester raised an exception, or returned an object of another type.
        """
        draft = request.draft if isinstance(request, _OwnRequest) else None
        assert draft is not None
        answer = self._custom.call(
            "send_request",
            path=None if draft.url == draft.original_url else draft.url,
            request_headers=draft.headers,
            request_params=draft.params,
            request_body_data=draft.form if draft.text is None else draft.text,
            request_body_json=draft.json,
            **draft.arguments,
        )
        if answer is None:
            return Response(404, Headers(), b"", request.url, request)
        response = native_response(answer)
        if response is None:
            why = f"{self._custom.name}.send_request returned {type(answer).__name__}, expected a response"
            raise CustomCodeError(why)
        return response
