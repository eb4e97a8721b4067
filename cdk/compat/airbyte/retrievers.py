"""SimpleRetriever: the page loop, whose steps subclasses override."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import partial
from typing import Any, Protocol

import requests

from cdk.base.values import JsonObject, JsonSchema, JsonValue
from cdk.compat.airbyte.http.requesters import Requester
from cdk.compat.airbyte.http.response import ResponseFacade
from cdk.compat.airbyte.partition_routers import SinglePartitionRouter, StreamSlicer
from cdk.compat.airbyte.plain_types import Config, Parameters, Record, StreamData, StreamSlice, StreamState, Token
from cdk.compat.airbyte.records import HttpSelector
from cdk.state.slice import Slice
from cdk.streams.page import Page, records_in
from cdk.streams.paged import read_pages

FULL_REFRESH_SYNC_COMPLETE_KEY = "__ab_full_refresh_sync_complete"

_TOKEN = "next_page_token"  # noqa: S105 - the name under which requests know it


class Paginator(Protocol):
    """What a retriever asks of its paginator."""

    def get_initial_token(self) -> JsonValue: ...

    def next_page_token(self, *, response: requests.Response, **page: Any) -> Token | None: ...  # noqa: ANN401

    def path(self, **names: object) -> str | None: ...


class Retriever:
    """Reads the records of a slice."""

    def read_records(self, records_schema: JsonSchema, stream_slice: StreamSlice | None = None) -> Iterable[StreamData]:
        raise NotImplementedError


@dataclass
class SimpleRetriever(Retriever):
    """Reads a slice page after page."""

    requester: Requester
    record_selector: HttpSelector
    config: Config
    parameters: InitVar[Parameters]
    name: str = ""
    primary_key: JsonValue = None
    paginator: Paginator | None = None
    stream_slicer: StreamSlicer | None = None
    request_option_provider: object = None
    cursor: object = None
    ignore_stream_slicer_parameters_on_paginated_requests: bool = False
    decoder: object = None

    def __post_init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self.stream_slicer = self.stream_slicer or SinglePartitionRouter(parameters={})
        self._last_response: requests.Response | None = None

    def stream_slices(self) -> Iterable[StreamSlice]:
        return () if self.stream_slicer is None else self.stream_slicer.stream_slices()

    # --- a request ---------------------------------------------------------------------------------------------

    def _options(self, method: str, names: Mapping[str, object]) -> tuple[JsonObject, str]:
        """The fields that the method of every provider gives together, and the last text that one gives instead."""
        providers = [self.paginator, self.request_option_provider]
        if names[_TOKEN] and self.ignore_stream_slicer_parameters_on_paginated_requests:
            providers.pop()
        fields: JsonObject = {}
        text = ""
        for provider in filter(None, providers):
            options = getattr(provider, method)(**names)
            if isinstance(options, str):
                text = options or text
            else:
                fields.update(options or {})
        return fields, text

    def _request_headers(
        self, stream_state: object = None, stream_slice: object = None, next_page_token: object = None
    ) -> dict[str, str]:
        headers, _ = self._options("get_request_headers", _names(stream_state, stream_slice, next_page_token))
        return {name: str(value) for name, value in headers.items()}

    def _request_params(
        self, stream_state: object = None, stream_slice: object = None, next_page_token: object = None
    ) -> JsonObject:
        return self._options("get_request_params", _names(stream_state, stream_slice, next_page_token))[0]

    def _request_body_data(
        self, stream_state: object = None, stream_slice: object = None, next_page_token: object = None
    ) -> JsonObject | str:
        fields, text = self._options("get_request_body_data", _names(stream_state, stream_slice, next_page_token))
        return text or fields

    def _request_body_json(
        self, stream_state: object = None, stream_slice: object = None, next_page_token: object = None
    ) -> JsonObject | None:
        return self._options("get_request_body_json", _names(stream_state, stream_slice, next_page_token))[0] or None

    def _paginator_path(
        self, next_page_token: object = None, stream_state: object = None, stream_slice: object = None
    ) -> str | None:
        if self.paginator is None:
            return None
        return self.paginator.path(**_names(stream_state, stream_slice, next_page_token))

    def _fetch_next_page(
        self, stream_state: StreamState, stream_slice: StreamSlice, next_page_token: Token | None = None
    ) -> requests.Response | None:
        names = _names(stream_state, stream_slice, next_page_token)
        return self.requester.send_request(
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
        records_schema: JsonSchema,
        stream_slice: StreamSlice | None = None,
        next_page_token: Token | None = None,
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
        records_schema: JsonSchema,
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
        last_page_token_value: JsonValue = None,
    ) -> Token | None:
        if self.paginator is None:
            return None
        return self.paginator.next_page_token(
            response=response,
            last_page_size=last_page_size,
            last_record=last_record,
            last_page_token_value=last_page_token_value,
        )

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

        yield from records_in(read_pages(Slice(), read_page))

    def read_records(self, records_schema: JsonSchema, stream_slice: StreamSlice | None = None) -> Iterable[StreamData]:
        """The records of a slice."""
        slice = stream_slice or StreamSlice(partition={}, cursor_slice={})
        parse = partial(self._parse_records, stream_slice=slice, stream_state={}, records_schema=records_schema)
        yield from self._read_pages(parse, slice)


def _names(stream_state: object, stream_slice: object, next_page_token: object) -> dict[str, object]:
    return {"stream_state": stream_state, "stream_slice": stream_slice, _TOKEN: next_page_token}
