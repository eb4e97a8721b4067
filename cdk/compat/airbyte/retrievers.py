"""SimpleRetriever: the page loop, whose steps subclasses override."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import partial

import requests

from cdk.base.values import Json
from cdk.compat.airbyte.http.response import ResponseFacade
from cdk.compat.airbyte.partition_routers import SinglePartitionRouter
from cdk.compat.airbyte.plain_types import Config, Record, StreamData, StreamSlice, StreamState
from cdk.state.slice import Slice
from cdk.streams.paged import read_pages
from cdk.streams.stream import Page, Token

FULL_REFRESH_SYNC_COMPLETE_KEY = "__ab_full_refresh_sync_complete"

_TOKEN = "next_page_token"  # noqa: S105 - the name under which requests know it


class Retriever:
    """Reads the records of a slice."""

    def read_records(
        self, records_schema: Mapping[str, Json], stream_slice: StreamSlice | None = None
    ) -> Iterable[StreamData]:
        raise NotImplementedError


@dataclass
class SimpleRetriever(Retriever):
    """Reads a slice page after page."""

    requester: Json
    record_selector: Json
    config: Config
    parameters: InitVar[Mapping[str, Json]]
    name: str = ""
    primary_key: Json = None
    paginator: Json = None
    stream_slicer: Json = None
    request_option_provider: Json = None
    cursor: Json = None
    ignore_stream_slicer_parameters_on_paginated_requests: bool = False
    decoder: Json = None

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._parameters = parameters
        self.stream_slicer = self.stream_slicer or SinglePartitionRouter(parameters={})
        self._last_response: requests.Response | None = None

    def stream_slices(self) -> Iterable[StreamSlice]:
        """The slices of the stream."""
        return self.stream_slicer.stream_slices()  # type: ignore[no-any-return] # what custom code was given

    # --- a request ---------------------------------------------------------------------------------------------

    def _providers(self, next_page_token: Json) -> Iterator[Json]:
        yield self.paginator
        if not (next_page_token and self.ignore_stream_slicer_parameters_on_paginated_requests):
            yield self.request_option_provider

    def _options(self, method: str, names: Mapping[str, Json]) -> Json:
        combined: Json = {}
        for provider in self._providers(names[_TOKEN]):
            if provider is not None:
                options = getattr(provider, method)(**names)
                combined = options if isinstance(options, str) and options else {**combined, **(options or {})}
        return combined

    def _request_headers(
        self, stream_state: Json = None, stream_slice: Json = None, next_page_token: Json = None
    ) -> Json:
        headers = self._options("get_request_headers", _names(stream_state, stream_slice, next_page_token))
        return {name: str(value) for name, value in headers.items()}

    def _request_params(
        self, stream_state: Json = None, stream_slice: Json = None, next_page_token: Json = None
    ) -> Json:
        return self._options("get_request_params", _names(stream_state, stream_slice, next_page_token))

    def _request_body_data(
        self, stream_state: Json = None, stream_slice: Json = None, next_page_token: Json = None
    ) -> Json:
        return self._options("get_request_body_data", _names(stream_state, stream_slice, next_page_token))

    def _request_body_json(
        self, stream_state: Json = None, stream_slice: Json = None, next_page_token: Json = None
    ) -> Json:
        return self._options("get_request_body_json", _names(stream_state, stream_slice, next_page_token)) or None

    def _paginator_path(
        self, next_page_token: Json = None, stream_state: Json = None, stream_slice: Json = None
    ) -> Json:
        if self.paginator is None:
            return None
        return self.paginator.path(
            next_page_token=next_page_token, stream_state=stream_state, stream_slice=stream_slice
        )

    def _fetch_next_page(
        self, stream_state: StreamState, stream_slice: StreamSlice, next_page_token: Json = None
    ) -> requests.Response | None:
        names = _names(stream_state, stream_slice, next_page_token)
        return self.requester.send_request(  # type: ignore[no-any-return] # what custom code was given
            path=self._paginator_path(next_page_token=next_page_token),
            request_headers=self._request_headers(**names),
            request_params=self._request_params(**names),
            request_body_data=self._request_body_data(**names),
            request_body_json=self._request_body_json(**names),
            **names,
        )

    # --- an answer ---------------------------------------------------------------------------------------------

    def _parse_response(
        self,
        response: requests.Response | None,
        stream_state: StreamState,
        records_schema: Mapping[str, Json],
        stream_slice: StreamSlice | None = None,
        next_page_token: Json = None,
    ) -> Iterable[Record]:
        self._last_response = response
        if response is None or not response.ok:
            return
        for record in self.record_selector.select_records(
            response=response,
            stream_state=stream_state,
            records_schema=records_schema,
            stream_slice=stream_slice,
            next_page_token=next_page_token,
        ):
            yield Record(record, self.name, stream_slice)

    def _parse_records(
        self,
        response: requests.Response | None,
        stream_slice: StreamSlice,
        records_schema: Mapping[str, Json],
        stream_state: StreamState | None = None,
    ) -> Iterable[StreamData]:
        yield from self._parse_response(
            response, stream_state=stream_state or {}, records_schema=records_schema, stream_slice=stream_slice
        )

    def _next_page_token(
        self,
        response: requests.Response,
        last_page_size: int = 0,
        last_record: Record | None = None,
        last_page_token_value: Json = None,
    ) -> Mapping[str, Json] | None:
        if self.paginator is None:
            return None
        token: Mapping[str, Json] | None = self.paginator.next_page_token(
            response=response,
            last_page_size=last_page_size,
            last_record=last_record,
            last_page_token_value=last_page_token_value,
        )
        return token

    # --- the loop ----------------------------------------------------------------------------------------------

    def _read_pages(
        self,
        records_generator_fn: Callable[[requests.Response | None], Iterable[StreamData]],
        stream_slice: StreamSlice,
    ) -> Iterable[StreamData]:
        first = None if self.paginator is None else self.paginator.get_initial_token()

        def read_page(_: Slice, token: Token | None) -> Iterator[Page | Sequence[StreamData]]:
            if token is None and first is not None:
                token = {_TOKEN: first}
            response = self._fetch_next_page({}, stream_slice, token)
            size, last = 0, None
            for record in records_generator_fn(response):
                size, last = size + 1, record
                yield (record,)
            if response is None or not response.ok:
                return
            # A strategy counts what the response held, whatever a filter left of it.
            raw = response.extracted if isinstance(response, ResponseFacade) else None
            following = self._next_page_token(
                response,
                last_page_size=size if raw is None else raw,
                last_record=None if last is None else Record(last),
                last_page_token_value=None if token is None else token.get(_TOKEN),
            )
            yield Page((), following or None)

        for item in read_pages(Slice(), read_page):
            if not isinstance(item, Page):
                yield item

    def read_records(
        self, records_schema: Mapping[str, Json], stream_slice: StreamSlice | None = None
    ) -> Iterable[StreamData]:
        """The records of a slice."""
        slice = stream_slice or StreamSlice(partition={}, cursor_slice={})
        parse = partial(self._parse_records, stream_slice=slice, stream_state={}, records_schema=records_schema)
        yield from self._read_pages(parse, slice)


def _names(stream_state: Json, stream_slice: Json, next_page_token: Json) -> dict[str, Json]:
    return {"stream_state": stream_state, "stream_slice": stream_slice, _TOKEN: next_page_token}
