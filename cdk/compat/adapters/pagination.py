"""Custom pagination strategies and requesters, behind our interfaces."""

import inspect

from cdk.base.values import Json
from cdk.compat.airbyte.guard import CustomCodeError, guard
from cdk.compat.airbyte.http.requesters import HttpRequester
from cdk.compat.airbyte.http.response import SeenResponse, ours
from cdk.compat.airbyte.plain_types import Record
from cdk.compat.facades.slices import fill, request_arguments
from cdk.declarative.components.requests.requesters import join
from cdk.declarative.model.context import Names
from cdk.declarative.model.plug_points import PageResult
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.rest import Headers, HttpClient, Request, Response


class CustomStrategyAdapter:
    """A custom pagination strategy."""

    reads_body = True
    counts: str | None = None

    def __init__(self, custom: Json) -> None:
        self._custom = custom
        self._takes = set(inspect.signature(custom.next_page_token).parameters)
        with guard(custom, "get_page_size"):
            self.size: int | None = custom.get_page_size() if hasattr(custom, "get_page_size") else None

    def first(self) -> Json:
        with guard(self._custom, "initial_token"):
            # Strategies of old count in themselves, and are told when a slice begins.
            if hasattr(self._custom, "reset"):
                self._custom.reset()
            return getattr(self._custom, "initial_token", None)

    def next(self, page: PageResult, size: int | None) -> Json:  # noqa: ARG002 - it knows its own
        last = None if page.last is None else Record(page.last)
        arguments = {
            "response": SeenResponse(page.response),
            "last_page_size": page.raw,
            "last_record": last,
            "last_page_token_value": page.token,
            "last_records": [] if last is None else [last] * page.selected,
        }
        with guard(self._custom, "next_page_token"):
            return self._custom.next_page_token(**{name: arguments[name] for name in self._takes if name in arguments})


class CustomRequesterAdapter:
    """A custom requester: each part of a request is a method of its own."""

    def __init__(self, custom: Json, client: HttpClient, where: str) -> None:
        self._custom, self._where = custom, where
        self._plain = isinstance(custom, HttpRequester) and custom.plain
        self.client = client if self._plain else _Through(custom)

    def draft(self, names: Names) -> RequestBuilder:
        arguments, custom = request_arguments(names), self._custom
        with guard(custom, "get_request_params"):
            method = getattr(custom.get_method(), "value", custom.get_method())
            url = (
                custom.get_url(**arguments)
                if isinstance(custom, HttpRequester)
                else join(custom.get_url_base(**arguments), custom.get_path(**arguments))
            )
            if self._plain:
                draft = RequestBuilder(str(method).upper(), url, self._where)
                fill(draft, custom, arguments)
            else:
                # It asks itself for its parts when it sends.
                draft = _ThroughDraft(str(method).upper(), url, self._where, arguments)
        return draft


class _ThroughDraft(RequestBuilder):
    """A draft that a custom requester sends itself."""

    __slots__ = ("arguments", "was")

    def __init__(self, method: str, url: str, where: str, arguments: dict[str, Json]) -> None:
        super().__init__(method, url, where)
        self.arguments, self.was = arguments, url

    def request(self) -> Request:
        return _ThroughRequest(self, super().request())


class _ThroughRequest(Request):
    """A request that knows the draft it was made of."""

    __slots__ = ("draft",)
    draft: _ThroughDraft

    def __init__(self, draft: _ThroughDraft, request: Request) -> None:
        super().__init__(request.method, request.url, request.params, request.headers, request.body)
        object.__setattr__(self, "draft", draft)


class _Through(HttpClient):
    """Sends with a custom requester's `send_request`."""

    def __init__(self, custom: Json) -> None:
        self._custom = custom

    def send(self, request: Request) -> Response:
        """The answer; one that the requester swallowed is empty."""
        assert isinstance(request, _ThroughRequest)
        draft: _ThroughDraft = request.draft
        with guard(self._custom, "send_request"):
            answer = self._custom.send_request(
                path=None if draft.url == draft.was else draft.url,
                request_headers=draft.headers,
                request_params=draft.params,
                request_body_data=draft.form if draft.text is None else draft.text,
                request_body_json=draft.json,
                **draft.arguments,
            )
        if answer is None:
            return Response(404, Headers(), b"", request.url, request)
        response = ours(answer)
        if not isinstance(response, Response):
            raise CustomCodeError(
                f"{type(self._custom).__name__}.send_request gave {type(answer).__name__}, expected a response"
            )
        return response
