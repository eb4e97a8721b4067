"""Parts of a manifest that custom components are given, in the form in which they use them."""

import copy
from collections.abc import Generator, Iterable, Iterator, Mapping

import requests

from cdk.base.errors import CdkError
from cdk.base.values import Json, JsonSchema
from cdk.compat.airbyte.http.auth import DeclarativeAuthenticator
from cdk.compat.airbyte.http.error_handlers import BackoffStrategy, ErrorHandler, ErrorResolution, resolution
from cdk.compat.airbyte.http.pagination import PaginationStrategy
from cdk.compat.airbyte.http.requesters import RequestOptionsProvider
from cdk.compat.airbyte.http.response import SeenResponse
from cdk.compat.airbyte.http.response import ours as ours_of
from cdk.compat.airbyte.partition_routers import PartitionRouter
from cdk.compat.airbyte.plain_types import StreamSlice
from cdk.compat.airbyte.records import Decoder, HttpSelector, RecordExtractor, RecordFilter, RecordTransformation
from cdk.compat.airbyte.schemas import SchemaLoader
from cdk.compat.airbyte.streams import seen_slice
from cdk.compat.facades.slices import blank, names_of, slice_of
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.plug_points import (
    Backoff,
    Incremental,
    PageResult,
    Pages,
    PageStrategy,
    Router,
    Select,
    Transform,
)
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.rest import Authenticator, Request, Response, Transport
from cdk.rest import Decoder as OurDecoder
from cdk.rest import ErrorHandler as OurHandler
from cdk.rest.records.extractor import Extractor
from cdk.state.slice import Partition, Slice

_TOKEN = "next_page_token"  # noqa: S105 - the name under which requests know it


def _response(facade: Json) -> Response:
    response = ours_of(facade)
    assert isinstance(response, Response)
    return response


class AuthenticatorFacade(DeclarativeAuthenticator):
    """An authenticator of the manifest."""

    def __init__(self, ours: Authenticator, transport: Transport) -> None:
        self.ours, self._transport = ours, transport

    def get_auth_header(self) -> Mapping[str, Json]:
        """The headers it adds."""
        bare = Request("GET", "https://localhost/")
        flow = self.ours.flow(bare)
        request = next(flow)
        while request.url != bare.url:
            # What comes before the request itself, such as the exchange for a token.
            request = flow.send(self._transport.send(request))
        flow.close()
        return dict(request.headers)

    @property
    def auth_header(self) -> str:
        return next(iter(self.get_auth_header()), "")

    @property
    def token(self) -> str:
        return str(next(iter(self.get_auth_header().values()), ""))


class ErrorHandlerFacade(ErrorHandler):
    """An error handler of the manifest."""

    def __init__(self, ours: OurHandler) -> None:
        self.ours = ours

    def interpret_response(self, response_or_exception: Json) -> ErrorResolution:
        return resolution(self.ours.judge(ours_of(response_or_exception), 1))


class BackoffFacade(BackoffStrategy):
    """A backoff strategy of the manifest."""

    def __init__(self, ours: Backoff) -> None:
        self.ours = ours

    def backoff_time(self, response_or_exception: Json, attempt_count: int) -> float | None:
        outcome: Response | CdkError = ours_of(response_or_exception)
        return self.ours(outcome, attempt_count)


class DecoderFacade(Decoder):
    """A decoder of the manifest."""

    def __init__(self, ours: OurDecoder) -> None:
        self.ours = ours

    def decode(self, response: requests.Response) -> Generator[Json, None, None]:
        yield from list(self.ours.items(_response(response))) or [{}]


class ExtractorFacade(RecordExtractor):
    """An extractor of the manifest."""

    def __init__(self, ours: Extractor) -> None:
        self.ours = ours

    def extract_records(self, response: requests.Response) -> Iterable[Mapping[str, Json]]:
        for page in self.ours.pages(_response(response)):
            yield from page


class RecordSelectorFacade(HttpSelector):
    """A record selector of the manifest. transformations: emptied, records stay as they are."""

    def __init__(
        self,
        extractor: Extractor,
        select: Select | None,
        plain: Select | None,
        transforms: list[Json],
        ctx: BuildContext,
    ) -> None:
        self.extractor = ExtractorFacade(extractor)
        self.transformations = transforms
        self._select, self._plain, self._fields = select, plain, ctx.window

    def select_records(
        self,
        response: requests.Response,
        stream_state: Mapping[str, Json] | None = None,  # noqa: ARG002
        records_schema: JsonSchema | None = None,  # noqa: ARG002
        stream_slice: StreamSlice | None = None,
        next_page_token: Mapping[str, Json] | None = None,
    ) -> Iterable[Mapping[str, Json]]:
        names = names_of(stream_slice, next_page_token, self._fields)
        select = self._select if self.transformations else self._plain
        extracted = 0
        for page in self.extractor.ours.pages(_response(response)):
            extracted += len(page)
            if isinstance(response, SeenResponse):
                response.extracted = extracted
            yield from page if select is None else select(page, names)


class PaginationStrategyFacade(PaginationStrategy):
    """A pagination strategy of the manifest."""

    def __init__(self, ours: PageStrategy) -> None:
        self.ours = ours

    @property
    def initial_token(self) -> Json:
        return self.ours.first()

    def next_page_token(
        self, response: requests.Response, last_page_size: int, last_record: Json, last_page_token_value: Json = None
    ) -> Json:
        return (
            self.ours.next(turned(response, last_page_size, last_record, last_page_token_value), self.ours.size) or None
        )

    def get_page_size(self) -> int | None:
        return self.ours.size


def turned(response: requests.Response, size: int, last: Json, token: Json) -> PageResult:
    """A page as our strategies look at it."""
    native = _response(response)
    try:
        body = native.json()
    except CdkError:
        body = {}
    names = {_TOKEN: None if token is None else {_TOKEN: token}}
    return PageResult(native, body, size, size, last, token, names)


class _Putting(RequestOptionsProvider):
    """Gives the parts of a request that something of ours puts into one."""

    def _put(self, draft: RequestBuilder, names: Mapping[str, Json]) -> None:
        raise NotImplementedError

    def _drafted(self, names: Mapping[str, Json]) -> RequestBuilder:
        draft = blank(type(self).__name__)
        self._put(draft, names)
        return draft

    def get_request_params(self, **names: Json) -> Json:
        return self._drafted(names).params

    def get_request_headers(self, **names: Json) -> Json:
        return self._drafted(names).headers

    def get_request_body_data(self, **names: Json) -> Json:
        draft = self._drafted(names)
        return draft.form if draft.text is None else draft.text

    def get_request_body_json(self, **names: Json) -> Json:
        return self._drafted(names).json


class PaginatorFacade(_Putting):
    """A paginator of the manifest."""

    def __init__(self, ours: Pages) -> None:
        self.ours = ours

    def get_initial_token(self) -> Json:
        """The token of the first page."""
        return self.ours.first()

    def next_page_token(
        self,
        response: requests.Response,
        last_page_size: int,
        last_record: Json = None,
        last_page_token_value: Json = None,
    ) -> Mapping[str, Json] | None:
        """The token of the page after this one; None when it was the last."""
        page = turned(response, last_page_size, last_record, last_page_token_value)
        token = self.ours.next(page, self.ours.size())
        return None if token is None else {_TOKEN: token}

    def path(self, next_page_token: Json = None, **names: Json) -> str | None:
        """The URL of the page, where the token is one."""
        draft = self._drafted({**names, _TOKEN: next_page_token})
        return None if draft.url == blank("").url else draft.url

    def _put(self, draft: RequestBuilder, names: Mapping[str, Json]) -> None:
        token = (names.get(_TOKEN) or {}).get(_TOKEN)
        self.ours.apply(draft, token, self.ours.size())


class PartitionRouterFacade(_Putting, PartitionRouter):
    """A partition router of the manifest."""

    def __init__(self, ours: Router, fields: tuple[str, str]) -> None:
        self.ours, self._fields = ours, fields

    def stream_slices(self) -> Iterator[StreamSlice]:
        for item in self.ours.partitions({}):
            if isinstance(item, Partition):
                yield seen_slice(Slice(item))

    def _put(self, draft: RequestBuilder, names: Mapping[str, Json]) -> None:
        self.ours.apply(draft, slice_of(names.get("stream_slice"), self._fields))


class RequestOptionsFacade(_Putting):
    """What the router and the cursor of a stream put into requests."""

    def __init__(self, router: Router | None, incremental: Incremental | None, fields: tuple[str, str]) -> None:
        self._router, self._incremental, self._fields = router, incremental, fields

    def _put(self, draft: RequestBuilder, names: Mapping[str, Json]) -> None:
        slice = slice_of(names.get("stream_slice"), self._fields)
        if self._router is not None:
            self._router.apply(draft, slice)
        if self._incremental is not None:
            self._incremental.apply(draft, slice)


class PartsFacade(_Putting):
    """The parts of a request that a requester of the manifest drafts."""

    def __init__(self, requester: Json, fields: tuple[str, str]) -> None:
        self._requester, self._fields = requester, fields

    def _drafted(self, names: Mapping[str, Json]) -> RequestBuilder:
        names_ = names_of(names.get("stream_slice"), names.get(_TOKEN), self._fields)
        drafted: RequestBuilder = self._requester.draft(names_)
        return drafted


class SchemaLoaderFacade(SchemaLoader):
    """A schema loader of the manifest."""

    def __init__(self, ours: Json) -> None:
        self.ours = ours

    def get_json_schema(self) -> Mapping[str, Json]:
        """See SchemaLoader. A copy: existing code takes fields out of it."""
        return copy.deepcopy(dict(self.ours()))


class TransformationFacade(RecordTransformation):
    """A transformation of the manifest."""

    def __init__(self, ours: Transform, fields: tuple[str, str] = ("start_time", "end_time")) -> None:
        self.ours, self._fields = ours, fields

    def transform(
        self,
        record: dict[str, Json],
        config: Json = None,  # noqa: ARG002
        stream_state: Json = None,  # noqa: ARG002
        stream_slice: Json = None,
    ) -> None:
        self.ours([record], names_of(stream_slice, None, self._fields))


class FilterFacade(RecordFilter):
    """A record filter of the manifest."""

    def __init__(self, ours: Select, fields: tuple[str, str]) -> None:
        self.ours, self._fields = ours, fields

    def filter_records(
        self,
        records: Json,
        stream_state: Json = None,  # noqa: ARG002
        stream_slice: Json = None,
        next_page_token: Json = None,
    ) -> Iterable[Mapping[str, Json]]:
        return self.ours(list(records), names_of(stream_slice, next_page_token, self._fields))
