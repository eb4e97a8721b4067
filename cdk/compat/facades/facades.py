"""Facades of manifest components, which custom components get as arguments."""

import copy
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Generic, Self, TypeVar, cast

import requests
from msgspec.structs import replace

from cdk.base.errors import CdkError
from cdk.base.values import JsonObject, JsonSchema, JsonValue
from cdk.compat.airbyte.http.auth import DeclarativeAuthenticator
from cdk.compat.airbyte.http.error_handlers import BackoffStrategy, ErrorHandler, ErrorResolution, matched, resolution
from cdk.compat.airbyte.http.pagination import PaginationStrategy
from cdk.compat.airbyte.http.requesters import RequestOptionsProvider
from cdk.compat.airbyte.http.response import ResponseFacade, native_outcome, native_response
from cdk.compat.airbyte.partition_routers import PartitionRouter
from cdk.compat.airbyte.plain_types import Config, Record, StreamSlice, StreamState, Token
from cdk.compat.airbyte.records import Decoder, HttpSelector, RecordExtractor, RecordFilter, RecordTransformation
from cdk.compat.airbyte.schemas import SchemaLoader
from cdk.compat.airbyte.streams import slice_facade
from cdk.compat.facades.slices import blank, names_of, slice_of
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.page_result import PageResult
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.request_plug_points import PageRequests, PageStrategy, Requester, Select, Transform
from cdk.declarative.model.stream_plug_points import Incremental, Router
from cdk.rest import Authenticator, Request, Response, Transport
from cdk.rest import Decoder as NativeDecoder
from cdk.rest import ErrorHandler as NativeHandler
from cdk.rest.errors.http_error_handler import Rule
from cdk.rest.errors.wait_strategies import WaitStrategy
from cdk.rest.records.extractor import Extractor
from cdk.state.slice import Slice
from cdk.streams.checkpoint.parent_state import without_states

_TOKEN = "next_page_token"  # noqa: S105 - the name under which requests know it

N = TypeVar("N")


class Facade(Generic[N]):
    """Wraps an object of the kit in the form that custom code uses."""

    def __init__(self, native: N, fields: tuple[str, str] = ("", "")) -> None:
        """fields: the names of the start and the end of a slice's window; empty for objects that do not use slices."""
        self.native, self._fields = native, fields


def _response(facade: requests.Response) -> Response:
    response = native_response(facade)
    assert response is not None
    return response


class AuthenticatorFacade(Facade[Authenticator], DeclarativeAuthenticator):
    """An authenticator of the manifest."""

    def __init__(self, native: Authenticator, transport: Transport) -> None:
        super().__init__(native)
        self._transport = transport

    def get_auth_header(self) -> Mapping[str, str]:
        bare = Request("GET", "https://localhost/")
        flow = self.native.flow(bare)
        request = next(flow)
        while request.url != bare.url:
            # Requests before the one itself, such as a token request.
            request = flow.send(self._transport.send(replace(request, login=True)))
        flow.close()
        return dict(request.headers)

    @property
    def auth_header(self) -> str:
        return next(iter(self.get_auth_header()), "")

    @property
    def token(self) -> str:
        return next(iter(self.get_auth_header().values()), "")


class ErrorHandlerFacade(Facade[NativeHandler], ErrorHandler):
    """An error handler of the manifest."""

    def interpret_response(self, response_or_exception: object) -> ErrorResolution:
        outcome = native_outcome(response_or_exception)
        return resolution(self.native.judge(outcome, 1), outcome)


class ResponseFilterFacade(Facade[Rule | None]):
    """A response filter of the manifest."""

    def matches(self, response_or_exception: object) -> ErrorResolution | None:
        return matched(self.native, response_or_exception)


class BackoffFacade(Facade[WaitStrategy], BackoffStrategy):
    """A backoff strategy of the manifest."""

    def backoff_time(self, response_or_exception: object, attempt_count: int) -> float | None:
        return self.native(native_outcome(response_or_exception), attempt_count)


class DecoderFacade(Facade[NativeDecoder], Decoder):
    """A decoder of the manifest."""

    def decode(self, response: requests.Response) -> Generator[JsonValue, None, None]:
        yield from list(self.native.items(_response(response))) or [{}]


class ExtractorFacade(Facade[Extractor], RecordExtractor):
    """An extractor of the manifest."""

    def extract_records(self, response: requests.Response) -> Iterable[JsonObject]:
        for page in self.native.pages(_response(response)):
            yield from page


class TransformationFacade(Facade[Transform], RecordTransformation):
    """A transformation of the manifest."""

    def transform(
        self,
        record: JsonObject,
        config: Config | None = None,  # noqa: ARG002
        stream_state: StreamState | None = None,  # noqa: ARG002
        stream_slice: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.native([record], names_of(stream_slice, None, self._fields))


class FilterFacade(Facade[Select], RecordFilter):
    """A record filter of the manifest."""

    def filter_records(
        self,
        records: Iterable[JsonObject],
        stream_state: StreamState | None = None,  # noqa: ARG002
        stream_slice: Mapping[str, JsonValue] | None = None,
        next_page_token: Token | None = None,
    ) -> Iterable[JsonObject]:
        return self.native(list(records), names_of(stream_slice, next_page_token, self._fields))


class RecordSelectorFacade(HttpSelector):
    """A record selector of the manifest."""

    def __init__(
        self,
        extractor: Extractor,
        select: Select | None,
        plain: Select | None,
        transforms: Iterable[Transform],
        ctx: BuildContext,
    ) -> None:
        self.extractor = ExtractorFacade(extractor)
        self.transformations = [TransformationFacade(transform, ctx.window) for transform in transforms]
        """Custom code may clear this list; records are then not transformed."""
        self._select, self._plain, self._stream, self._fields = select, plain, ctx.stream, ctx.window

    def select_records(
        self,
        response: requests.Response,
        stream_state: StreamState | None = None,  # noqa: ARG002
        records_schema: JsonSchema | None = None,  # noqa: ARG002
        stream_slice: StreamSlice | None = None,
        next_page_token: Token | None = None,
    ) -> Iterable[Record]:
        names = names_of(stream_slice, next_page_token, self._fields)
        select = self._select if self.transformations else self._plain
        extracted = 0
        for page in self.extractor.native.pages(_response(response)):
            extracted += len(page)
            if isinstance(response, ResponseFacade):
                response.extracted = extracted
            for record in page if select is None else select(page, names):
                yield Record(record, self._stream, stream_slice)


class PaginationStrategyFacade(Facade[PageStrategy], PaginationStrategy):
    """A pagination strategy of the manifest."""

    @property
    def initial_token(self) -> JsonValue:
        return self.native.first()

    def next_page_token(
        self,
        response: requests.Response,
        last_page_size: int,
        last_record: Mapping[str, JsonValue] | None,
        last_page_token_value: JsonValue = None,
    ) -> JsonValue:
        page = _page(response, last_page_size, last_record, last_page_token_value)
        return self.native.next(page, self.native.size) or None

    def get_page_size(self) -> int | None:
        return self.native.size


def _page(response: requests.Response, size: int, last: Mapping[str, JsonValue] | None, token: JsonValue) -> PageResult:
    """The page as the kit's pagination strategies expect it."""
    native = _response(response)
    try:
        body = native.json()
    except CdkError:
        body = {}
    names = {_TOKEN: None if token is None else {_TOKEN: token}}
    return PageResult(native, body, size, size, () if last is None else (last,), token, names)


class _DraftFacade(RequestOptionsProvider):
    """Returns the parts of a request that an object of the kit puts into a draft."""

    def _draft(self, names: Mapping[str, object]) -> RequestBuilder:
        raise NotImplementedError

    def _part(self, where: str, names: Mapping[str, object]) -> JsonObject:
        draft = self._draft(names)
        form = draft.form if draft.text is None else draft.text
        parts = {"request_parameter": draft.params, "header": draft.headers, "body_data": form, "body_json": draft.json}
        return cast("JsonObject", parts[where])


class PaginatorFacade(Facade[PageRequests], _DraftFacade):
    """A paginator of the manifest."""

    def of_slice(self) -> Self:
        """Return the paginator for one read of a slice; see `PageStrategy.of_slice`."""
        paginator = copy.copy(self)
        paginator.native = replace(self.native, strategy=self.native.strategy.of_slice())
        return paginator

    def get_initial_token(self) -> JsonValue:
        return self.native.strategy.first()

    def next_page_token(
        self,
        response: requests.Response,
        last_page_size: int,
        last_record: Mapping[str, JsonValue] | None = None,
        last_page_token_value: JsonValue = None,
    ) -> Token | None:
        """Return the token of the next page; None if this was the last."""
        page = _page(response, last_page_size, last_record, last_page_token_value)
        token = self.native.next(page, self.native.strategy.size)
        return None if token is None else {_TOKEN: token}

    def path(self, next_page_token: Token | None = None, **names: object) -> str | None:
        """The URL of the page, if the page token is a URL."""
        draft = self._draft({**names, _TOKEN: next_page_token})
        return None if draft.url == blank("").url else draft.url

    def _draft(self, names: Mapping[str, object]) -> RequestBuilder:
        draft, token = blank("PaginatorFacade"), names.get(_TOKEN)
        self.native.apply(draft, token.get(_TOKEN) if isinstance(token, Mapping) else None, self.native.strategy.size)
        return draft


class PartitionRouterFacade(Facade[Router], _DraftFacade, PartitionRouter):
    """A partition router of the manifest."""

    def stream_slices(self) -> Iterator[StreamSlice]:
        for partition in without_states(self.native.partitions({})):
            yield slice_facade(Slice(partition))

    def _draft(self, names: Mapping[str, object]) -> RequestBuilder:
        draft = blank("PartitionRouterFacade")
        self.native.apply(draft, slice_of(names.get("stream_slice"), self._fields))
        return draft


class RequestOptionsFacade(_DraftFacade):
    """Returns the parts of a request that a stream's router and cursor add."""

    def __init__(self, router: Router | None, incremental: Incremental | None, fields: tuple[str, str]) -> None:
        self._parts: list[Router | Incremental] = [part for part in (router, incremental) if part is not None]
        self._fields = fields

    def _draft(self, names: Mapping[str, object]) -> RequestBuilder:
        draft, slice = blank("RequestOptionsFacade"), slice_of(names.get("stream_slice"), self._fields)
        for part in self._parts:
            part.apply(draft, slice)
        return draft


class RequesterFacade(Facade[Requester], _DraftFacade):
    """Returns the parts of a request that a requester of the manifest drafts."""

    def _draft(self, names: Mapping[str, object]) -> RequestBuilder:
        return self.native.draft(names_of(names.get("stream_slice"), names.get(_TOKEN), self._fields))


class SchemaLoaderFacade(Facade[Callable[[], JsonSchema]], SchemaLoader):
    """A schema loader of the manifest."""

    def get_json_schema(self) -> JsonSchema:
        # A copy, because existing code removes fields from it.
        return copy.deepcopy(dict(self.native()))
